"""`dynq test`: whether rows are in a result, and how often."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.errors import UsageError


def test(
    row: Annotated[
        str | None,
        typer.Option("--row", metavar="JSON", help="The row: an object with all columns of the result."),
    ] = None,
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    count: Annotated[bool, typer.Option("--count", help="Print how often the row is there.")] = False,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="FILE", help="Test the rows of FILE, and write them with a column _count."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Of --rows: print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print whether a row is in a result: true or false.

    Values are as in change logs: numbers or strings for int64 and decimal, ISO dates and times, base64 for binary.

    --rows FILE tests many rows at once. FILE is Parquet, CSV, Arrow or JSON lines with the columns of the result, and
    may have others. Its rows are written in their order, with a last column _count: how often the row is in the result.
    """
    if (row is None) == (rows is None):
        raise UsageError("give either --row JSON or --rows FILE")
    if rows is None and (out is not None or as_json):
        raise UsageError("-o and --json are for the rows of --rows FILE")
    if rows is not None and count:
        raise UsageError("--count is for --row; the rows of --rows FILE always have a column _count")
    from dynq_cli.storage.state import open

    if rows is not None:
        _test_rows(rows, query, state, as_json, out)
        return
    from dynq_cli.io.results.row import row_of

    with open(state) as view:
        assert row is not None
        copies = view.test(row_of(row, view.schema(query)), query)
    output.result(str(copies) if count else str(copies > 0).lower())


def _test_rows(file: str, query: str | None, state: str, as_json: bool, out: str | None) -> None:
    from dynq_cli.cli.rows import asked_form, show_rows, write_rows
    from dynq_cli.session.row_tests import tested_file
    from dynq_cli.storage.state import open

    form = asked_form(as_json, out)
    with open(state) as view:
        tested = tested_file(view, file, query)
        if form is None:
            show_rows(tested.batches, tested.schema)
        else:
            write_rows(tested.batches, tested.schema, out, form)
