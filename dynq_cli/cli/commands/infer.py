"""`dynq infer`: a spec skeleton read off data files."""

from __future__ import annotations

from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress


def infer(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Parquet, CSV, Arrow or JSON-lines files, or directories of them.",
            show_default=False,
        ),
    ],
    rows: Annotated[
        int,
        typer.Option("--rows", metavar="N", min=1, help="Look for keys and joins in the first N rows of a relation."),
    ] = 1_000_000,
    out: options.OutFile = None,
) -> None:
    """Print a spec skeleton read off data files: relations, types, candidate keys, joins.

    Files whose names agree up to the first dot are one relation.
    """
    from dynq_cli.io.infer import infer_spec

    with Progress("reading files and looking for keys and joins"):
        skeleton = infer_spec(files, key_rows=rows)
    output.deliver(skeleton.text, out)
    for warning in skeleton.warnings:
        output.warn(warning)
    output.note(skeleton.summary)
