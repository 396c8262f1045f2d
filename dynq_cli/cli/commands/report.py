"""`dynq report`: a state as one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress
from dynq_cli.errors import UsageError


def report(
    out: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to FILE.html, whole or not at all; - is stdout.",
            show_default=False,
        ),
    ],
    state: options.State = ".dynq",
    versions: Annotated[
        int, typer.Option("--versions", metavar="N", min=1, help="Show the counts of at most N kept versions.")
    ] = 12,
) -> None:
    """Write a page about a state: queries with counts over the versions, what they store and cost, sizes, logs.

    The page is one file without scripts and without anything from a network, readable on a phone, in light and dark.
    Counting an earlier version goes back to it, which takes as long as opening the state; --versions 1 leaves that out.
    """
    if out != "-" and not out.lower().endswith((".html", ".htm")):
        raise UsageError(f"the extension of {out} says no form that report writes: use .html")
    from dynq_cli.session.report import report as report_of
    from dynq_cli.storage.state import open

    with open(state) as view, Progress("writing the report", "versions"):
        page = report_of(view, Path(state), versions)
    output.deliver(page, out)
    if out != "-":
        output.note(f"wrote {out} ({len(page.encode()):,} bytes)")
