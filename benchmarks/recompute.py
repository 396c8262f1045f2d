"""Group `recompute`: bringing the count up to date against DuckDB computing it again, for scale."""

from __future__ import annotations

from processes import interleaved, same_result, script
from report import Section, many, seconds, times
from settings import CHUNKS, Settings

TITLE = "Beside recomputation"
MOST_RUNS = 3  # it is here for scale


def measure(settings: Settings) -> Section:
    runs = min(settings.runs, MOST_RUNS)
    rows = []
    for shape in ("star", "chain"):
        folder = settings.logs(shape, settings.rows)
        jobs = {
            f"{shape}: dynq, commits as generated": script("run_engine.py", folder),
            f"{shape}: dynq, commits of 1,000": script("run_engine.py", folder, "--batch", 1000),
            f"{shape}: DuckDB": script("run_duckdb.py", folder),
        }
        measured = interleaved(jobs, runs)
        same_result(shape, measured)
        whole, thousand, duckdb = measured.values()
        for size, numbers in ((whole["changes"] / CHUNKS, whole), (1000, thousand)):
            mine, other = size / numbers["changes_per_s"], duckdb["count_s"]
            rows.append((f"{shape}: {many(size)} changes", seconds(mine), seconds(other), times(other, mine)))
    says = (
        f"{many(settings.rows)} inserts and 10 % deletes: dynq applies a chunk, a tenth of them, or 1,000 changes,\n"
        "and has the count; DuckDB, its tables brought up to date untimed, counts the join again after each chunk.\n"
        f"Median of {runs}."
    )
    return Section(TITLE, says, ("", "dynq: apply", "DuckDB: count", "DuckDB ÷ dynq"), rows)
