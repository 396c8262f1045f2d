"""Group `skeleton`: commits to a state on disk, each by a command of its own and many in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from processes import Numbers, printed, say, script
from report import Section, many, rate, seconds, times
from settings import Settings

TITLE = "Commits to a state on disk"
SIZES = (1, 1000, 100_000)
SMALL, LARGE = 0.05, 5


def measure(settings: Settings) -> Section:
    rows = []
    for shape in ("star", "chain"):
        for scale in (SMALL, LARGE):
            rows += _rows(settings, shape, max(1000, int(settings.rows * scale)))
    head = ("", "whole command", "of it opening", "one process", "without the disk", "dicts", "÷ dicts")
    says = (
        "A state with nine tenths of the rows on disk; then commits of changes, each of one relation, in turn. Whole\n"
        "command: start Python, read the log, open and check the state, apply, close. One process: many commits in\n"
        "turn, after up to 30,000 changes, each durable when it returns; and the same without the time spent waiting\n"
        "for fsync and rename. The last column is that against the dicts, which keep nothing on disk. Median of up to\n"
        "3 commands."
    )
    return Section(TITLE, says, head, rows)


def _rows(settings: Settings, shape: str, size: int) -> list[tuple[str, ...]]:
    logs = settings.logs(shape, size)
    state, cut = settings.data / f"state-{logs.name}", settings.data / f"cut-{logs.name}"
    for step in (("load", logs, state), ("cut", logs, cut)):
        say(f"  {step[0]} {logs.name}")
        printed(script("run_skeleton.py", *step))
    cold = {f"{many(n)} change{'s' * (n > 1)}": _commands(state, sorted((cut / f"cold-{n}").glob("*"))) for n in SIZES}
    printed(script("run_skeleton.py", "fill", state, cut))
    cold["1,000 changes, snapshot almost due"] = _commands(state, [cut / "due-1000" / "0000"])
    say(f"  warm {logs.name}")
    warm = printed(script("run_skeleton.py", "warm", state, cut))
    dicts = None
    if settings.yardsticks:
        say(f"  dicts {logs.name}")
        dicts = printed(settings.yardsticks.triggers(shape, logs))["changes_per_s"]
    label = f"{shape}, {many(size)} rows"
    return [
        _row(f"{label}: {name}", found, warm, n, dicts)
        for n, (name, found) in zip((*SIZES, 0), cold.items(), strict=True)
        if found
    ]


def _commands(state: Path, commits: list[Path]) -> Numbers:
    """Median wall time of commands that apply one commit each, and of opening within them."""
    whole, opening = [], []
    for commit in commits:
        if commit.is_dir():
            say(f"  apply {commit.parent.name}")
            start = time.perf_counter()
            opening.append(printed(script("run_skeleton.py", "apply", state, commit))["open"])
            whole.append(time.perf_counter() - start)
    return {"whole": statistics.median(whole), "open": statistics.median(opening)} if whole else {}


def _row(label: str, cold: Numbers, warm: Mapping[str, float], size: int, dicts: float | None) -> tuple[str, ...]:
    durable, inside = warm.get(f"durable-{size}"), warm.get(f"inside-{size}")
    ratio = times(inside, dicts) if inside else "–"
    shown = rate(dicts) if inside else "–"
    return label, seconds(cold["whole"]), seconds(cold["open"]), rate(durable), rate(inside), shown, ratio
