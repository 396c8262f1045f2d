"""`dynq sample`: rows drawn at random from a result."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.rows import asked_form, show_rows, write_rows


def sample(
    many: Annotated[int, typer.Argument(metavar="N", min=0, help="How many rows.", show_default=False)],
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="S", help="Draw the same rows as every time with this number.")
    ] = None,
    query: options.OneQuery = None,
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    out: options.RowsFile = None,
) -> None:
    """Print N rows of a result, drawn at random without replacement, in the order in which they were drawn.

    Every position of `dynq enum --expand` is equally likely: of a bag that is every copy, of a set every distinct row.
    A result with fewer than N rows is exit code 3. With a seed, a smaller sample is the beginning of a larger one.
    """
    form = asked_form(as_json, out)
    from dynq_cli.io.results.multiplicity import expanded_schema
    from dynq_cli.storage.state import open

    with open(state) as view:
        batches, schema = view.sample(many, query, seed), expanded_schema(view.schema(query))
        if form is None:
            show_rows(batches, schema, many)
        else:
            write_rows(batches, schema, out, form, many)
