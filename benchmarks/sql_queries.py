"""Group `sql`: queries of the kits with subqueries, outer joins, windows and set operations, beside recomputation."""

from __future__ import annotations

from processes import interleaved, script
from report import Section, many, rate, times
from settings import Settings

TITLE = "SQL of the kits"
SCALE, QUICK_SCALE, QUICK_RUNS, MOST_RUNS, CHUNKS = 0.1, 0.01, 1, 3, 100
TPCH = ("q02", "q07", "q11", "q13", "q15", "q17", "q19", "q20", "q21", "q22")
# Shares of a whole, ranks within groups, EXISTS under OR, INTERSECT, FULL JOIN, ROLLUP, subqueries as values.
TPCDS = ("q01", "q06", "q10", "q12", "q20", "q32", "q38", "q42", "q53", "q98")
_HEAD = ("", "changes", "per CPU second", "DuckDB", "dynq ÷ DuckDB", "rows", "peak", "state")


def measure(settings: Settings) -> Section:
    scale, rows = QUICK_SCALE if settings.runs == QUICK_RUNS else SCALE, []
    runs = min(settings.runs, MOST_RUNS)
    for benchmark, query in [*(("tpch", q) for q in TPCH), *(("tpcds", q) for q in TPCDS)]:
        name = f"{benchmark} {query}"
        run = script("run_sql.py", benchmark, query, settings.data, "--scale", scale, "--chunks", CHUNKS)
        ours, theirs = interleaved({f"{name}: dynq": run, f"{name}: DuckDB": [*run, "--duckdb"]}, runs).values()
        speed, other = ours["changes_per_s"], theirs["changes_per_s"]
        rates = (rate(speed), rate(ours["changes_per_cpu_s"]), rate(other), times(speed, other))
        sizes = (many(ours["rows"]), f"{ours['peak_mb']:,.0f} MB", f"{ours['state_mb']:,.0f} MB")
        rows.append((name, *rates, *sizes))
    return Section(TITLE, _says(scale, runs), _HEAD, rows)


def _says(scale: float, runs: int) -> str:
    return (
        f"The relations that each query reads, at scale {scale:g}: random inserts in {CHUNKS} commits, then\n"
        "deletes and updates of a fifth of the rows, Arrow tables in, one core. DuckDB, on one thread, takes the same\n"
        f"changes and computes the result after every commit. Queries as DuckDB's kits have them. Median of {runs}."
    )
