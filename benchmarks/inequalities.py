"""Group `inequalities`: joins by comparisons against the sorted lists of the yardstick, and as the data grow."""

from __future__ import annotations

from processes import Numbers, interleaved, same_result, script
from report import Section, many, rate, times
from settings import Settings

TITLE = "Inequality joins"
FEW = 200
WHOLE, THOUSAND, ONE, DICTS = "as generated", "1,000", "1", "sorted lists"
DOUBLE = "twice the rows"


def measure(settings: Settings) -> Section:
    rows: list[tuple[str, ...]] = []
    for shape in ("ineq", "window"):
        folder = settings.logs(shape, settings.rows)
        jobs = {
            WHOLE: script("run_engine.py", folder, "--enum"),
            THOUSAND: script("run_engine.py", folder, "--batch", 1000, "--tail", settings.rows // 50),
            ONE: script("run_engine.py", folder, "--batch", 1, "--tail", FEW),
        }
        if shape == "window":
            jobs[DOUBLE] = script("run_engine.py", settings.logs(shape, 2 * settings.rows), "--batch", 100_000)
            jobs[WHOLE] = script("run_engine.py", folder, "--enum", "--batch", 100_000)
        elif settings.yardsticks:
            jobs[DICTS] = settings.yardsticks.triggers(shape, folder)
        measured = interleaved({f"{shape}: {name}": command for name, command in jobs.items()}, settings.runs)
        if shape == "ineq":
            same_result(shape, measured)
        rows += _rows(shape, {name: measured[f"{shape}: {name}"] for name in jobs})
    return Section(TITLE, _says(settings), ("", "dynq", "sorted lists", "dynq ÷ sorted lists"), rows)


def _says(settings: Settings) -> str:
    return (
        f"{many(settings.rows)} inserts and 10 % deletes. `ineq` joins two relations by a < d alone; `window` joins\n"
        "two by an account, and times within an hour. Commits as generated are a tenth of a relation's changes each,\n"
        "of `window` 100,000 changes at most; those of 1,000 and of 1 come after nine tenths are loaded, relations\n"
        "mixed. The result of `window` is small, and each of its rows is of records that lie apart in memory. The\n"
        "yardstick keeps nothing by row and only bisects: a single change of `ineq` costs dynq as much as the rows it\n"
        f"concerns, half of all. Median of {settings.runs}."
    )


def _rows(shape: str, measured: dict[str, Numbers]) -> list[tuple[str, ...]]:
    lists = measured.get(DICTS, {})
    lines = [
        (f"changes, commits {WHOLE}", WHOLE, "changes_per_s"),
        (f"changes, commits of {THOUSAND}", THOUSAND, "changes_per_s"),
        (f"changes, commits of {ONE}", ONE, "changes_per_s"),
        (f"{many(measured[WHOLE]['enum_rows'])} rows enumerated", WHOLE, "enum_rows_per_s"),
    ]
    made: list[tuple[str, ...]] = []
    for label, job, key in lines:
        mine, other = measured[job][key], lists.get(key)
        made.append((f"{shape}: {label}", rate(mine), rate(other), times(mine, other)))
    peak, other = measured[WHOLE]["peak_mb"], lists.get("peak_mb")
    shown = f"{other:.0f} MB" if other else "–"
    made.append((f"{shape}: peak memory", f"{peak:.0f} MB", shown, times(peak, other)))
    if DOUBLE in measured:
        spent = {job: measured[job]["changes"] / measured[job]["changes_per_s"] for job in (WHOLE, DOUBLE)}
        made.append((f"{shape}: time for {DOUBLE}", f"×{spent[DOUBLE] / spent[WHOLE]:.2f}", "", ""))
    return made
