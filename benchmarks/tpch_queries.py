"""Group `tpch`: the papers' TPC-H queries on a stream of their relations, beside DuckDB computing them anew."""

from __future__ import annotations

from processes import HERE, interleaved, script
from report import Section, many, rate, times
from settings import Settings
from tpch import generated

TITLE = "TPC-H"
SCALE, QUICK_SCALE, QUICK_RUNS, CHUNKS = 0.1, 0.01, 1, 100
SPECS = sorted((HERE.parent / "specs" / "tpch").glob("*.yaml"))
_OURS, _THEIRS = "dynq", "DuckDB"


def measure(settings: Settings) -> Section:
    scale = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE
    generated(settings.data, scale)
    rows = []
    for spec in SPECS:
        run = script("run_tpch.py", spec, settings.data, "--scale", scale, "--chunks", CHUNKS)
        jobs = {f"{spec.stem}: {_OURS}": run}
        # The full joins are far larger than their relations: DuckDB would write them down a hundred times.
        if not spec.stem.startswith("fq"):
            jobs[f"{spec.stem}: {_THEIRS}"] = [*run, "--duckdb"]
        measured = interleaved(jobs, 1)
        mine, theirs = measured[f"{spec.stem}: {_OURS}"], measured.get(f"{spec.stem}: {_THEIRS}", {})
        speed, other = mine["changes_per_s"], theirs.get("changes_per_s")
        facts = (many(int(mine["rows"])), f"{1000 * mine['enum_seconds']:,.0f} ms", f"{mine['peak_mb']:,.0f} MB")
        rows.append((spec.stem, rate(speed), rate(other), times(speed, other), *facts, f"{mine['state_mb']:,.0f} MB"))
    header = ("", "changes", "DuckDB", "dynq ÷ DuckDB", "rows", "enumerated in", "peak", "state")
    return Section(TITLE, _says(scale), header, rows)


def _says(scale: float) -> str:
    return (
        f"The relations of each query at scale {scale:g}: random inserts in {CHUNKS} commits, then deletes and\n"
        "updates of a fifth of the rows, Arrow tables in, one core. DuckDB, on one thread, takes the same changes and\n"
        "computes the result after every commit, but for the full joins fq1 to fq4, of which some rows only are\n"
        "enumerated. One run."
    )
