"""`dynq dump`: the rows of a base relation."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.rows import SHOWN, asked_form, show_rows, write_rows

_BLOCK = 65536


def dump(
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="A relation of the spec.", show_default=False)],
    state: options.State = ".dynq",
    at: options.At = None,
    most: Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="At most N rows.")] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Repeat rows as often as they are there, instead of a column _count.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print the rows of a base relation, with all columns that the spec declares.

    A relation without a key has a last column _count with the copies of each row. The order of rows is not promised.
    dynq init --load takes what it writes.

    On a terminal the first rows are shown as a table; a pipe and -o - get CSV.
    """
    form = asked_form(as_json, out)
    from dynq_cli.io.results import multiplicity
    from dynq_cli.storage.state import open

    with open(state) as view:
        schema = view.relation_schema(relation, at)
        batches = view.dump(relation, _BLOCK if most is None else min(max(most, 1), _BLOCK), at)
        if expand:
            batches, schema = multiplicity.expand(batches, schema), multiplicity.expanded_schema(schema)
        batches = multiplicity.limit(batches, most)
        if form is None:
            show_rows(batches, schema, SHOWN if most is None else most, hint="use -o FILE or --limit N")
            return
        write_rows(batches, schema, out, form)
