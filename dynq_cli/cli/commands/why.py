"""`dynq why`: the base rows behind a row of a result, or what keeps a row out."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.cli.rows import SHOWN, asked_form, show_rows, write_rows


def why(
    row: options.Row,
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    at: options.At = None,
    out_of: Annotated[
        bool, typer.Option("--not", help="Of a row that is not in the result: the atoms that keep it out.")
    ] = False,
    most: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most N derivations.")] = 100,
    offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, help="Without the first N derivations.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print the base rows that make a row of a result: a line per derivation, atom and row.

    A derivation is one way in which the row comes about; of a group, every row that was aggregated is in one. The
    columns are _derivation (a number from 1), _atom, _relation, and row: the base row as JSON.

    With --not, the row is not in the result: each line is an atom that keeps it out, with the values that no row of it
    has, or a row that forbids it, and _reason. The base tables are read whole.
    """
    form = asked_form(as_json, out)
    from dynq_cli.io.results.row import row_of
    from dynq_cli.session import why as reasons
    from dynq_cli.storage.state import open

    with open(state) as view, Progress("looking for the base rows"):
        given = row_of(row, view.schema(query, at))
        if out_of:
            found = reasons.why_not(view, given, query, at, most)
        else:
            found = reasons.why(view, given, query, at, most, offset)
    last = found["_derivation"][-1].as_py() if len(found) else 0
    if last == offset + most:
        output.note(f"there may be more than {last:,} derivations: --offset {last} has those after them")
    if form is None:
        show_rows(iter(found.to_batches()), found.schema, SHOWN, len(found))
        return
    write_rows(iter(found.to_batches()), found.schema, out, form, len(found))
