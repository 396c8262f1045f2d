"""`dynq prune`: what a state does not need any more."""

from __future__ import annotations

from pathlib import Path

from dynq_cli.cli import options, output


def prune(state: options.State = ".dynq") -> None:
    """Remove what the version in force does not need: the generation before, and what killed processes left.

    Results, the ledger and the version in force stay as they are.
    """
    from dynq_cli.storage.prune import prune as prune_state

    pruned = prune_state(Path(state))
    for name in pruned.removed:
        output.detail(f"removed {name}")
    number = len(pruned.removed)
    if not number:
        output.note(f"there is nothing to remove from {state}")
        return
    output.note(f"removed {number:,} file{'' if number == 1 else 's'} from {state}, {pruned.length:,} bytes")
