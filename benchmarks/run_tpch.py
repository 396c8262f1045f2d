"""Run the TPC-H stream of one spec through the engine, and print what it took as one JSON object.

    python benchmarks/run_tpch.py SPEC FOLDER [--scale S] [--chunks N] [--check | --duckdb]

Changes are Arrow tables in memory; a commit has a chunk of every relation. With `--check` the result is compared with
DuckDB's after every commit (`compare`). With `--duckdb` DuckDB takes the same changes instead and computes the result
after each. The process begins as a command does.
`run_tpcds.py` does the same with TPC-DS.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import as_command  # noqa: F401  before Arrow
import duckdb
import pyarrow as pa
import tpch
from compare import compared
from state_size import state_bytes
from stream import Commit, Stream, stream

from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Spec

ENUM_CAP = 1_000_000
_TINY, _MORE_THAN_A_CHUNK = 200, 10_000


def opened(spec: Spec) -> Views:
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def warm(spec: Spec, commits: list[Commit]) -> None:
    """Meet every kernel once, in small and in large commits, and all that is imported when it is first needed."""
    live = opened(spec)
    for many in (_TINY, _MORE_THAN_A_CHUNK):
        rows = {name: pa.concat_tables(c[name] for c in commits[:2] if name in c).slice(0, many) for name in commits[0]}
        live.apply({name: _as("insert", table) for name, table in rows.items()})
        images = ("update_preimage", "update_postimage")
        live.apply({name: pa.concat_tables(_as(kind, table) for kind in images) for name, table in rows.items()})
        live.apply({name: _as("delete", table) for name, table in rows.items()})
    for query in live.queries:
        for _ in live.enum(query):
            pass


def _as(kind: str, table: pa.Table) -> pa.Table:
    return table.set_column(0, "_change_type", pa.repeat(kind, len(table)))


def run(spec: Spec, given: Stream, *, check: bool) -> dict[str, Any]:
    live, taken, worked, whole = opened(spec), 0.0, 0.0, 0
    (query,) = live.queries
    for k, commit in enumerate(given.commits):
        start, working = time.perf_counter(), time.process_time()
        live.apply(commit)
        taken += time.perf_counter() - start
        worked += time.process_time() - working
        if check:
            whole += compared(live, spec, given, k + 1)
    start = time.perf_counter()
    rows = 0
    for batch in live.enum(query):
        rows += len(batch)
        if rows > ENUM_CAP:
            break
    enumerated = time.perf_counter() - start
    return {
        "changes": given.changes,
        "commits": len(given.commits),
        "compared": whole,
        "seconds": taken,
        "changes_per_s": given.changes / taken,
        "changes_per_cpu_s": given.changes / worked,
        "rows": rows,
        "enum_seconds": enumerated,
        "state_mb": state_bytes(live) / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def recomputed(spec: Spec, given: Stream) -> dict[str, Any]:
    """DuckDB with the same changes: rows by key, then the query from its text."""
    text = spec.queries[0].texts[0].value
    taken, asked = 0.0, 0.0
    with duckdb.connect(config={"threads": 1}) as connection:
        for r in spec.relations:
            columns = ", ".join(f"{c.name} {c.type.sql}" for c in r.columns)
            connection.execute(f"CREATE TABLE {r.name} ({columns})")
        for commit in given.commits:
            start = time.perf_counter()
            for name, table in commit.items():
                relation = spec.relation(name)
                assert relation is not None
                names, key = ", ".join(c.name for c in relation.columns), ", ".join(relation.key)
                connection.register("given", table)
                gone = f"SELECT {key} FROM given WHERE _change_type IN ('delete', 'update_preimage')"
                connection.execute(f"DELETE FROM {name} WHERE ({key}) IN ({gone})")
                came = "_change_type IN ('insert', 'update_postimage')"
                connection.execute(f"INSERT INTO {name} SELECT {names} FROM given WHERE {came}")
                connection.unregister("given")
            taken += time.perf_counter() - start
            start = time.perf_counter()
            connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {text}")
            asked += time.perf_counter() - start
    return {"changes": given.changes, "seconds": taken + asked, "changes_per_s": given.changes / (taken + asked)}


def main(tables: ModuleType = tpch) -> None:
    """`tables` generates the data and reads it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--duckdb", action="store_true")
    asked = parser.parse_args()
    spec = load_spec(asked.spec)
    data = tables.generated(asked.folder, asked.scale)
    given = stream(spec, lambda relation: tables.table_of(relation, data), asked.chunks)
    if asked.duckdb:
        print(json.dumps(recomputed(spec, given)))
        return
    warm(spec, given.commits)
    print(json.dumps(run(spec, given, check=asked.check)))


if __name__ == "__main__":
    main()
