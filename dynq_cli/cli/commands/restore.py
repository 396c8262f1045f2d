"""`dynq restore`: a state from its copy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import options
from dynq_cli.cli.commands.backup import show
from dynq_cli.cli.progress import Progress


def restore(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A directory made by dynq backup.", show_default=False)],
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print version, files and bytes as JSON.")] = False,
) -> None:
    """Make a state from a copy that dynq backup made; the copy is read, checked, and stays.

    A state that is there already is not touched: move it away first. Logs that were applied after the backup are not
    known to the restored state, so dynq run takes them from the inbox again.
    """
    from dynq_cli.storage.backup import backup as back_up

    with Progress("copying", "bytes"):
        copied = back_up(Path(source), Path(state))
    show(copied, source, state, as_json=as_json)
