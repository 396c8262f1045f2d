"""`dynq page`: a stretch of a result."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.rows import asked_form, show_rows, write_rows
from dynq_cli.errors import UsageError


def page(
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Skip N rows; none where it is not given.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="M", min=0, help="At most M rows.")] = 100,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="ROW", help="The rows behind this one, greater in the query's order."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="ROW", help="The last rows up to this one, with it if it is there."),
    ] = None,
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    at: options.At = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print the rows N + 1 … N + M of `dynq enum --expand`, or those after or up to a row; fewer at the end.

    Of a bag, N and M count copies, of a set distinct rows. An offset past the end is exit code 3. ROW is a JSON object,
    its values as in change logs. If the query has an order (order_by), ROW need not be in the result, and may have the
    first columns of the order alone; otherwise it has all columns, and one that is not in the result is exit code 3.
    """
    form = asked_form(as_json, out)
    if sum(given is not None for given in (offset, after, before)) > 1:
        raise UsageError("a page has one place: give only one of --offset, --after and --before")
    from dynq_cli.io.results.multiplicity import expanded_schema
    from dynq_cli.io.results.row import row_of
    from dynq_cli.storage.state import open

    with open(state) as view:
        schema = view.schema(query, at)
        is_whole = not view.is_ordered(query)
        batches = view.page(
            query,
            offset=offset,
            after=None if after is None else row_of(after, schema, is_whole=is_whole),
            before=None if before is None else row_of(before, schema, is_whole=is_whole),
            limit=limit,
            at=at,
        )
        if form is None:
            show_rows(batches, expanded_schema(schema), limit)
        else:
            write_rows(batches, expanded_schema(schema), out, form)
