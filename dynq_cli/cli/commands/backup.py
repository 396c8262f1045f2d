"""`dynq backup`: a checked copy of a state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress

if TYPE_CHECKING:
    from dynq_cli.storage.backup import Copied


def backup(
    target: Annotated[
        str,
        typer.Argument(metavar="DEST", help="A directory that is not there yet, or is empty.", show_default=False),
    ],
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print version, files and bytes as JSON.")] = False,
) -> None:
    """Copy a state, whole, and check the copy; the state may be written to meanwhile.

    The copy has the version in force, with its marks and the older versions that are kept. It appears under its name
    when it is durable and every byte of it was read back. It is a state itself: dynq count -s DEST reads it.
    """
    from dynq_cli.storage.backup import backup as back_up

    with Progress("copying", "bytes"):
        copied = back_up(Path(state), Path(target))
    show(copied, state, target, as_json=as_json)


def show(copied: Copied, source: str, target: str, *, as_json: bool) -> None:
    """Say what was copied."""
    if as_json:
        import json

        said = {"from": source, "to": target, "version": copied.version, "files": copied.files, "bytes": copied.length}
        output.result(json.dumps(said))
        return
    output.note(
        f"copied {source} at version {copied.version} to {target}, and checked it: "
        f"{copied.files} files, {copied.length:,} bytes"
    )
