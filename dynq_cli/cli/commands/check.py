"""`dynq check`: whether every file of a state is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress


def check(
    state: options.State = ".dynq",
    read_data: Annotated[
        bool, typer.Option("--read-data", help="Read every byte, and look at all that the engine holds.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look for damage: every file of the state against what the manifest says about it.

    A line per file; damage is exit code 12 and names every damaged file. Nothing is changed.
    """
    from dynq_cli.storage.integrity import check as check_state

    with Progress("checking", "files"):
        findings = check_state(Path(state), read_data=read_data)
    if as_json:
        import json
        from dataclasses import asdict

        output.result(json.dumps({"state": state, "findings": [asdict(found) for found in findings]}))
        return
    output.result("\n".join(f"{found.level:<4}  {found.file}: {found.what}" for found in findings))
