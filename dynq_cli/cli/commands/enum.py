"""`dynq enum`: the rows of a result."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.rows import SHOWN, asked_form, show_rows, write_rows

_BLOCK = 65536


def enum(
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    at: options.At = None,
    most: Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most N rows.")] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="CONDITION", help="Rows with these values: \"x = 5 AND city = 'Lyon'\"."),
    ] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Repeat rows as often as they are there, instead of a column _count.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print every distinct row of a result once, that of a bag with its copies in a last column _count.

    --where gives columns and constants, joined by AND. It takes O(log n) per row if the columns are the first ones of
    the query's order_by, O(1) if they are all columns, and reads all rows else; explain --json says it under lookup.

    On a terminal the first rows are shown as a table; a pipe and -o - get CSV.
    """
    form = asked_form(as_json, out)
    from dynq_cli.io.results import multiplicity
    from dynq_cli.storage.state import open

    with open(state) as view:
        schema = view.schema(query, at)
        block = _BLOCK if most is None else min(max(most, 1), _BLOCK)
        if where is None:
            batches = view.enum(query, block, at)
        else:
            from dynq_cli.io.results.row import row_of
            from dynq_cli.io.results.where import equalities

            batches = view.where(row_of(equalities(where), schema, is_whole=False), query, block, at)
        total = None
        if at is None and where is None:  # to count the rows of another version would be to go back to it once more
            counts = view.kept_counts(query)
            total = None if counts is None else counts.rows if expand else counts.distinct
        if expand:
            batches, schema = multiplicity.expand(batches, schema), multiplicity.expanded_schema(schema)
        batches = multiplicity.limit(batches, most)
        if form is None:
            show_rows(batches, schema, SHOWN if most is None else most, total, "use -o FILE or --limit N")
            return
        write_rows(batches, schema, out, form, total if most is None or total is None else min(most, total))
