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
        rates = (rate(speed), rate(mine["changes_per_cpu_s"]), rate(other), times(speed, other))
        rows.append((spec.stem, *rates, *facts, f"{mine['state_mb']:,.0f} MB"))
    header = ("", "changes", "per CPU second", "DuckDB", "dynq ÷ DuckDB", "rows", "enumerated in", "peak", "state")
    return Section(TITLE, _says(scale), header, rows)


def _says(scale: float) -> str:
    return (
        f"The relations of each query at scale {scale:g}: random inserts in {CHUNKS} commits, then deletes and\n"
        "updates of a fifth of the rows, Arrow tables in, one core; CPU seconds tell what a busy machine took away.\n"
        "DuckDB, on one thread, takes the same changes and computes the result after every commit, each a hundredth\n"
        "of the rows, but for the full joins fq1 to fq4, of which up to a million rows are enumerated. The peak is\n"
        "that of the process, which holds the whole stream. One run.\n\n"
        "For orientation, the paper's engine (SIGMOD 2017, section 5.3; Scala, one insert at a time, a Core i7 at\n"
        "3.07 GHz): FQ1 to FQ5 took 29.85 s and 2.74 GB on average, for 4.24 million tuples on average (its Table\n"
        "1), which is 0.14 M/s. Of other queries it gives a chart relative to DBToaster, and no numbers."
    )
