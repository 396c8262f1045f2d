"""Move the clock of views: one row of a hidden relation, deleted and inserted like any other."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.engine.engine import Changes
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.spec.clock import CLOCK_RELATION, NOW, shown, system_time
from dynq_cli.spec.model import CLOCK
from dynq_cli.values.convert import arrow_type


def clock_of(views: Views) -> int | None:
    """The time on the clock, in microseconds since 1970; None if it was never set, or there is none. O(1)."""
    if views.spec.relation(CLOCK) is None:
        return None
    rows = [time for batch in base_rows(views, CLOCK) for time in batch[NOW].cast(pa.int64()).to_pylist()]
    return max(rows, default=None)


def refuse_past(views: Views, now: int | None) -> None:
    """RejectedError if a given time is before that of the clock."""
    before = None if now is None else clock_of(views)
    if before is not None and now is not None and now < before:
        raise RejectedError(
            f"--now {shown(now)} is before the clock of the state, {shown(before)}, and it never goes back"
        )


def clock_changes(views: Views, now: int | None) -> Mapping[str, Changes]:
    """The changes that set the clock to a time, by default that of the system; none if it shows it, or a later one.

    RejectedError if the time is given, and before that of the clock.
    """
    if views.spec.relation(CLOCK) is None:
        return {}
    refuse_past(views, now)
    before, after = clock_of(views), system_time() if now is None else now
    if before is not None and after <= before:
        return {}
    rows = [after] if before is None else [before, after]
    kinds = ["delete", "insert"][-len(rows) :]
    times = pa.array(rows, pa.int64()).cast(arrow_type(CLOCK_RELATION.columns[0].type))
    return views.changes({CLOCK: pa.table({"_change_type": kinds, NOW: times})})
