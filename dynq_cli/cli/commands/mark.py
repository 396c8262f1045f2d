"""`dynq mark`: a name for a version, which keeps it."""

from __future__ import annotations

from dynq_cli.cli import options, output


def mark(name: options.MarkName, at: options.At = None, state: options.State = ".dynq") -> None:
    """Name a version, so that it is kept and can be read and compared with; a mark that is there moves.

    What a mark costs is the log of the changes since: see dynq status. dynq unmark gives it up.
    """
    from dynq_cli.storage.state import open

    with open(state) as view:
        version = view.mark(name, at)
    output.note(f"{name} is version {version:,}")
