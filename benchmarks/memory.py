"""Group `memory`: peak memory of the whole process, against the dicts, and bytes of state per base row."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, times
from settings import Settings

TITLE = "Memory"
FACTOR = 5


def measure(settings: Settings) -> Section:
    size = FACTOR * settings.rows
    rows = []
    for shape in ("star", "chain"):
        folder = settings.logs(shape, size)
        jobs = {f"{shape}: dynq": script("run_engine.py", folder, "--enum")}
        if settings.yardsticks:
            jobs[f"{shape}: dicts"] = settings.yardsticks.triggers(shape, folder)
        measured = interleaved(jobs, 1)
        same_result(shape, measured)
        mine, *others = measured.values()
        other = others[0]["peak_mb"] if others else None
        shown = f"{many(other)} MB" if other else "–"
        ratio, state = times(mine["peak_mb"], other), f"{mine['bytes_per_row']:.0f}"
        rows.append((shape, f"{many(mine['peak_mb'])} MB", shown, ratio, state))
    says = (
        f"{many(size)} inserts and 10 % deletes, then enumeration: the peak of the whole process, libraries and the\n"
        "log being applied included. State: all tables, views and indexes with their room to grow, per base row left."
    )
    return Section(TITLE, says, ("", "dynq, peak", "dicts, peak", "dynq ÷ dicts", "state, bytes per row"), rows)
