"""`dynq unmark`: give up the name of a version."""

from __future__ import annotations

from dynq_cli.cli import options, output


def unmark(name: options.MarkName, state: options.State = ".dynq") -> None:
    """Forget a mark. The version that it named may then be dropped, unless another mark needs it."""
    from dynq_cli.storage.state import open

    with open(state) as view:
        version = view.unmark(name)
    output.note(f"{name} is no mark any more; it was version {version:,}")
