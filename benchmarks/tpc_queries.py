"""Groups `tpch` and `tpcds`: the papers' queries on a stream of their relations, beside DuckDB computing them anew."""

from __future__ import annotations

from dataclasses import dataclass

from processes import HERE, Numbers, interleaved, script
from report import Section, many, rate, times
from settings import Settings

SCALE, QUICK_SCALE, QUICK_RUNS, MOST_RUNS, CHUNKS = 0.1, 0.01, 1, 3, 100
_HEAD = ("", "changes", "per CPU second", "DuckDB", "dynq ÷ DuckDB", "rows", "enumerated in", "peak", "state")


@dataclass(frozen=True)
class Queries:
    """The specs of one benchmark: their directory, what runs the stream of one, and what is said besides."""

    title: str
    specs: str
    script: str
    says: str = ""


def measure(queries: Queries, settings: Settings) -> Section:
    scale, rows = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE, []
    runs = min(settings.runs, MOST_RUNS)
    for spec in sorted((HERE.parent / "specs" / queries.specs).glob("*.yaml")):
        run = script(queries.script, spec, settings.data, "--scale", scale, "--chunks", CHUNKS)
        jobs = {f"{spec.stem}: dynq": run}
        # The full joins are larger than their relations: DuckDB would write them down a hundred times.
        if not spec.stem.startswith("fq"):
            jobs[f"{spec.stem}: DuckDB"] = [*run, "--duckdb"]
        ours, *theirs = interleaved(jobs, runs).values()
        rows.append((spec.stem, *_cells(ours, theirs[0]["changes_per_s"] if theirs else None)))
    return Section(queries.title, _says(scale, runs) + queries.says, _HEAD, rows)


def _cells(ours: Numbers, theirs: float | None) -> tuple[str, ...]:
    speed = ours["changes_per_s"]
    rates = (rate(speed), rate(ours["changes_per_cpu_s"]), rate(theirs), times(speed, theirs))
    result = (many(ours["rows"]), f"{1000 * ours['enum_seconds']:,.0f} ms")
    return (*rates, *result, f"{ours['peak_mb']:,.0f} MB", f"{ours['state_mb']:,.0f} MB")


def _says(scale: float, runs: int) -> str:
    return (
        f"The relations of each query at scale {scale:g}: random inserts in {CHUNKS} commits, then deletes and\n"
        "updates of a fifth of the rows, Arrow tables in, one core; CPU seconds tell what a busy machine took away.\n"
        "DuckDB, on one thread, takes the same changes and computes the result after every commit, each a hundredth\n"
        "of the rows, but for the full joins (fq), of which up to a million rows are enumerated. The peak is that of\n"
        f"the process, which begins as a command does and holds the whole stream. Median of {runs}."
    )
