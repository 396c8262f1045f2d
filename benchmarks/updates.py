"""Group `updates`: changes a second by size of commit, and rows a second of enumeration, against the dicts."""

from __future__ import annotations

from processes import Numbers, interleaved, same_result, script
from report import Section, many, rate, times
from settings import Settings

TITLE = "Updates and enumeration"
SINGLE = 20_000
WHOLE, THOUSAND, DICTS = "dynq, commits as generated", "dynq, commits of 1,000", "dicts"
SINGLY, ONE = "dynq, commits of 1 in a log", "dynq, commits of 1 in a table each"


def measure(settings: Settings) -> Section:
    rows = []
    for shape in ("star", "chain"):
        folder = settings.logs(shape, settings.rows)
        jobs = {
            WHOLE: script("run_engine.py", folder, "--enum"),
            THOUSAND: script("run_engine.py", folder, "--batch", 1000),
            SINGLY: script("run_engine.py", folder, "--singly"),
            ONE: script("run_engine.py", folder, "--batch", 1, "--tail", SINGLE),
        }
        if settings.yardsticks:
            jobs[DICTS] = settings.yardsticks.triggers(shape, folder)
        measured = interleaved({f"{shape}: {name}": command for name, command in jobs.items()}, settings.runs)
        same_result(shape, measured)
        rows += _rows(shape, {name: measured[f"{shape}: {name}"] for name in jobs})
    return Section(TITLE, _says(settings), ("", "dynq", "dicts", "dynq ÷ dicts"), rows)


def _says(settings: Settings) -> str:
    return (
        f"{many(settings.rows)} inserts and 10 % deletes, Arrow tables in, state updated; enumeration into Arrow\n"
        "record batches. Commits as generated are a tenth of a relation's changes each. An Arrow table for every\n"
        f"single change: {many(SINGLE)} of them after the rest is loaded. Median of {settings.runs}."
    )


def _rows(shape: str, measured: dict[str, Numbers]) -> list[tuple[str, ...]]:
    dicts = measured.get(DICTS, {})
    lines = [
        ("changes, commits as generated", WHOLE, "changes_per_s"),
        ("changes, commits of 1,000", THOUSAND, "changes_per_s"),
        ("changes, commits of 1, many in a log", SINGLY, "changes_per_s"),
        ("changes, commits of 1, an Arrow table each", ONE, "changes_per_s"),
        ("rows enumerated", WHOLE, "enum_rows_per_s"),
    ]
    made: list[tuple[str, ...]] = []
    for label, job, key in lines:
        mine, other = measured[job][key], dicts.get(key)
        made.append((f"{shape}: {label}", rate(mine), rate(other), times(mine, other)))
    return made
