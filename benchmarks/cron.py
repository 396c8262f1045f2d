"""Group `cron`: many small applies in a row, each a command of its own, on a small and on a large state."""

from __future__ import annotations

import statistics

from commands import dynq, wall
from processes import output_of, printed, say, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Small applies in a row"
CHANGES = 1000
SMALL, LARGE = 0.05, 5
APPLIES = 120


def measure(settings: Settings) -> Section:
    applies = APPLIES * settings.runs
    taken = {}
    for scale in (SMALL, LARGE):
        rows = max(10_000, int(settings.rows * scale))
        taken[rows] = _applies(settings, rows, applies)
    small, large = taken.values()
    rows_ = [
        (what, *(seconds(f(several)) for several in (small, large)), times(f(large), f(small)))
        for what, f in (
            ("median", statistics.median),
            ("99 of 100 within", lambda several: sorted(several)[int(len(several) * 0.99) - 1]),
            ("longest", max),
        )
    ]
    says = (
        f"`dynq apply` of a Parquet file with {many(CHANGES)} changes, process start included, {many(applies)} times\n"
        "in a row, snapshots included."
    )
    head = ("", *(f"star, {many(rows)} rows" for rows in taken), "large ÷ small")
    return Section(TITLE, says, head, rows_)


def _applies(settings: Settings, rows: int, applies: int) -> list[float]:
    logs = settings.logs("star", rows)
    state, cut = settings.data / f"cron-{rows}", settings.data / f"cron-logs-{rows}"
    say(f"  loading {logs.name}")
    output_of(dynq("init", logs / "spec.yaml", "--state", state))
    output_of(dynq("apply", logs, "--state", state))
    printed(script("run_cut.py", logs, cut, CHANGES, applies))
    taken = []
    for i, path in enumerate(sorted(cut.glob("*.parquet"))):
        taken.append(wall(dynq("apply", path, "--state", state)))
        if i % 50 == 0:
            say(f"  {i}/{applies} applies on {many(rows)} rows")
    return taken
