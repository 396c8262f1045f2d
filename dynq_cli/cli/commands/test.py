"""`dynq test`: whether a row is in a result, and how often."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output


def test(
    row: options.Row,
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    count: Annotated[bool, typer.Option("--count", help="Print how often the row is there.")] = False,
) -> None:
    """Print whether a row is in a result: true or false.

    Values are as in change logs: numbers or strings for int64 and decimal, ISO dates and times, base64 for binary.
    """
    from dynq_cli.io.results.row import row_of
    from dynq_cli.storage.state import open

    with open(state) as view:
        copies = view.test(row_of(row, view.schema(query)), query)
    output.result(str(copies) if count else str(copies > 0).lower())
