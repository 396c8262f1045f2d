"""Group `commands`: whole commands, process start included, on states on disk."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from processes import BenchmarkError, output_of, printed, say, script
from report import Section, many, seconds, times
from settings import Settings

TITLE = "Whole commands"
LARGE = 5
RESULT_ROWS = 10


def measure(settings: Settings) -> Section:
    rows = [*_apply_stream(settings), *_count(settings), *_enum(settings)]
    says = (
        "Process start, reading, work and commit. `dynq apply` of the whole star in one command, against the loop of\n"
        "the dicts alone, which reads nothing and keeps nothing. `dynq count` against `dynq --help`. `dynq enum -o`\n"
        f"against pyarrow writing the same rows from memory, in row groups of the same size. Median of {settings.runs}."
    )
    return Section(TITLE, says, ("", "dynq", "yardstick", "dynq ÷ yardstick"), rows)


def dynq(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dynq_cli", *map(str, arguments)]


def wall(command: Sequence[str]) -> float:
    start = time.perf_counter()
    output_of(command)
    return time.perf_counter() - start


def _apply_stream(settings: Settings) -> list[tuple[str, ...]]:
    logs = settings.logs("star", settings.rows)
    taken, loops = [], []
    for turn in range(settings.runs):
        say(f"  {turn + 1}/{settings.runs} apply {logs.name}")
        state = settings.data / f"applied-{turn}"
        output_of(dynq("init", logs / "spec.yaml", "--state", state))
        taken.append(wall(dynq("apply", logs, "--state", state)))
        if settings.yardsticks:
            numbers = printed(settings.yardsticks.triggers("star", logs))
            loops.append(numbers["changes"] / numbers["changes_per_s"])
    loop = statistics.median(loops) if loops else None
    mine = statistics.median(taken)
    shown = seconds(loop) if loop else "–"
    # A ratio of rates: the loop's time over ours.
    return [
        (f"apply: star, {many(settings.rows)} rows", seconds(mine), shown, times(loop or 0.0, mine) if loop else "–")
    ]


def _loaded(settings: Settings, rows: int) -> Path:
    logs = settings.logs("star", rows)
    state = settings.data / f"loaded-{rows}"
    if not state.exists():
        say(f"  loading {logs.name}")
        output_of(dynq("init", logs / "spec.yaml", "--state", state))
        output_of(dynq("apply", logs, "--state", state))
    return state


def _count(settings: Settings) -> list[tuple[str, ...]]:
    rows = settings.rows * LARGE
    state = _loaded(settings, rows)
    counts, helps = [], []
    for _ in range(settings.startup_runs):
        counts.append(wall(dynq("count", "--state", state)))
        helps.append(wall(dynq("--help")))
    count, help_ = statistics.median(counts), statistics.median(helps)
    return [(f"count: star, {many(rows)} rows", seconds(count), seconds(help_), times(count, help_))]


def _enum(settings: Settings) -> list[tuple[str, ...]]:
    state = _loaded(settings, settings.rows)
    wanted = settings.rows * RESULT_ROWS
    held = json.loads(output_of(dynq("count", "--json", "--state", state)))["distinct"]
    if held < wanted:
        raise BenchmarkError(f"the star has {held} result rows, and {wanted} are to be written")
    mine, theirs = [], []
    for turn in range(settings.runs):
        say(f"  {turn + 1}/{settings.runs} enum -o")
        mine.append(wall(dynq("enum", "--limit", wanted, "-o", settings.data / "rows.parquet", "--state", state)))
        theirs.append(printed(script("run_write.py", settings.data / "rows.parquet"))["seconds"])
    dynq_, pyarrow = statistics.median(mine), statistics.median(theirs)
    return [(f"enum -o: {many(wanted)} rows to Parquet", seconds(dynq_), seconds(pyarrow), times(dynq_, pyarrow))]
