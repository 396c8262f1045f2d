"""`dynq jth`: the rows at given positions of a result."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.rows import asked_form, show_rows, write_rows


def jth(
    positions: Annotated[
        list[int], typer.Argument(metavar="J", help="Positions in the result, from 1.", show_default=False)
    ],
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print the rows at these positions of a result, in the order asked.

    Positions are those of `dynq enum --expand`: of a bag they count copies, of a set distinct rows. One that the
    result does not have is exit code 3, and nothing is written.
    """
    form = asked_form(as_json, out)
    from dynq_cli.io.results.multiplicity import expanded_schema
    from dynq_cli.storage.state import open

    with open(state) as view:
        batches, schema = view.jth(positions, query), expanded_schema(view.schema(query))
        if form is None:
            show_rows(batches, schema, len(positions))
        else:
            write_rows(batches, schema, out, form, len(positions))
