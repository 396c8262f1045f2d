"""Change one row on which all others depend, and print the seconds as one JSON object.

    python benchmarks/run_dependants.py engine|duckdb DIR [--times N]

The row R(0,0) is deleted (no result is left), inserted again (the whole result comes back), and replaced by
R(1,0) in one commit. For DuckDB: the count, recomputed after each of these. Medians of N.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from logs import logs_in
from run_duckdb import counted, follow, made
from run_engine import QUERY, opened, warm

Change = tuple[str, int]
STEPS: dict[str, list[Change]] = {
    "delete_s": [("delete", 0)],
    "insert_s": [("insert", 0)],
    "replace_s": [("delete", 0), ("insert", 1)],
    "": [("delete", 1), ("insert", 0)],
}


def commit(changes: list[Change]) -> pa.Table:
    kinds, values = zip(*changes, strict=True)
    return pa.table({"_change_type": pa.array(kinds), "x": pa.array(values, pa.int64()), "y": [0] * len(values)})


def medians(step: Callable[[pa.Table], tuple[int, float]], times: int) -> dict[str, float]:
    """Medians per step; the last result of the step that inserts, to be compared."""
    taken: dict[str, list[float]] = {name: [] for name in STEPS}
    rows = 0
    for _ in range(times):
        for name, changes in STEPS.items():
            count, spent = step(commit(changes))
            taken[name].append(spent)
            rows = count if name == "insert_s" else rows
    return {"rows": rows, **{name: statistics.median(spent) for name, spent in taken.items() if name}}


def by_engine(folder: Path) -> Callable[[pa.Table], tuple[int, float]]:
    warm(folder)
    live = opened(folder)
    for log in logs_in(folder):
        live.apply({log.relation: log.table()})

    def step(table: pa.Table) -> tuple[int, float]:
        start = time.perf_counter()
        live.apply({"R": table})
        count = live.count(QUERY)[0]
        return count, time.perf_counter() - start

    return step


def by_duckdb(folder: Path) -> Callable[[pa.Table], tuple[int, float]]:
    con, query = made(folder)
    for log in logs_in(folder):
        follow(con, log.relation, log.table())

    def step(table: pa.Table) -> tuple[int, float]:
        follow(con, "R", table)
        return counted(con, query)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=("engine", "duckdb"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    system = by_engine if given.system == "engine" else by_duckdb
    print(json.dumps(medians(system(given.folder), given.times)))


if __name__ == "__main__":
    main()
