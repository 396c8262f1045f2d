"""`dynq prune`: what a state does not need any more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynq_cli.cli import options, output
from dynq_cli.cli.progress import Progress

if TYPE_CHECKING:
    from dynq_cli.storage.prune import Pruned


def prune(
    state: options.State = ".dynq",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was removed as JSON.")] = False,
) -> None:
    """Drop the versions that no mark keeps, the generation before, and what killed processes left.

    The version in force, the one before the last apply, those of marks and the ledger stay as they are.
    """
    from dynq_cli.storage.prune import prune as prune_state

    with Progress("removing files", "files"):
        pruned = prune_state(Path(state))
    for name in pruned.removed:
        output.detail(f"removed {name}")
    if as_json:
        import json

        output.result(
            json.dumps(
                {"state": state, "removed": pruned.removed, "bytes": pruned.length, "kept_since": pruned.kept_since}
            )
        )
        return
    number = len(pruned.removed)
    removed = f"removed {number:,} file{'' if number == 1 else 's'} from {state}, {pruned.length:,} bytes"
    if not number:
        removed = f"there is {'no file' if pruned.given_up else 'nothing'} to remove from {state}"
    output.note(f"{removed}; {_given_up(pruned)}versions since {pruned.kept_since} are kept")


def _given_up(pruned: Pruned) -> str:
    if not pruned.given_up:
        return ""
    first, last = pruned.given_up[0], pruned.given_up[-1]
    named = f"version {first:,} is" if first == last else f"versions {first:,} to {last:,} are"
    return f"{named} no longer kept, "
