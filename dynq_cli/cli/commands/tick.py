"""`dynq tick`: a version with a new clock and no change."""

from __future__ import annotations

from dynq_cli.cli import options, output


def tick(state: options.State = ".dynq", now: options.Now = None) -> None:
    """Move the clock of the state: a version without a change, for queries with now() and current_date.

    What leaves a sliding window leaves it, and `dynq diff` shows it. The clock never goes back.
    """
    from dynq_cli.spec.clock import moment
    from dynq_cli.storage.state import open

    with open(state) as view:
        view.now = None if now is None else moment(now)
        version = view.tick()
    output.note(f"version {version:,}")
