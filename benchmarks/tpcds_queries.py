"""Group `tpcds`: the papers' TPC-DS queries on a stream of their relations, beside DuckDB computing them anew."""

from __future__ import annotations

from environments import CannotInstallError, install
from processes import HERE, BenchmarkError, interleaved, script
from report import Section, many, rate, times
from settings import Settings

TITLE = "TPC-DS"
SCALE, QUICK_SCALE, QUICK_RUNS, CHUNKS = 0.1, 0.01, 1, 100
SPECS = sorted((HERE.parent / "specs" / "tpcds").glob("*.yaml"))


def measure(settings: Settings) -> Section:
    scale = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE
    try:
        install("tpcds")
    except CannotInstallError as error:
        raise BenchmarkError(f"no TPC-DS without its generator: {error}") from error
    rows = []
    for spec in SPECS:
        run = script("run_tpcds.py", spec, settings.data, "--scale", scale, "--chunks", CHUNKS)
        jobs = {f"{spec.stem}: dynq": run}
        # The full join is wider than its relations: DuckDB would write it down a hundred times.
        if not spec.stem.startswith("fq"):
            jobs[f"{spec.stem}: DuckDB"] = [*run, "--duckdb"]
        ours, *theirs = interleaved(jobs, 1).values()
        speed, other = ours["changes_per_s"], theirs[0]["changes_per_s"] if theirs else None
        memory = (f"{ours['peak_mb']:,.0f} MB", f"{ours['state_mb']:,.0f} MB")
        enumerated = f"{1000 * ours['enum_seconds']:,.0f} ms"
        rows.append((spec.stem, rate(speed), rate(other), times(speed, other), many(ours["rows"]), enumerated, *memory))
    header = ("", "changes", "DuckDB", "dynq ÷ DuckDB", "rows", "enumerated in", "peak", "state")
    return Section(TITLE, _says(scale), header, rows)


def _says(scale: float) -> str:
    return (
        f"The relations of each query at scale {scale:g}: random inserts in {CHUNKS} commits, then deletes and\n"
        "updates of a fifth of the rows, Arrow tables in, one core. DuckDB, on one thread, takes the same changes and\n"
        "computes the result after every commit, but for the full join fq5. One run."
    )
