"""Run the peers' stream through dynq, or through DuckDB that computes the result again after every commit.

    python benchmarks/run_peer.py FOLDER groups|join [--duckdb]

Prints one JSON object: changes a second, the sum and number of the sales as a check, and how long the whole result
takes to be read once at the end.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import as_command  # noqa: F401  before Arrow
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from peer_stream import SPECS
from run_tpch import opened, warm
from stream import Commit

from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Spec


def commits_in(folder: Path, spec: Spec) -> list[Commit]:
    """The stream, a table of changes for every relation of a commit."""
    found: list[Commit] = []
    for relation in spec.relations:
        log = pq.read_table(folder / f"{relation.name}.parquet")
        for number in pc.unique(log["commit"]).to_pylist():
            found += [{} for _ in range(number + 1 - len(found))]
            part = log.filter(pc.equal(log["commit"], number)).drop_columns(["commit"])
            found[number][relation.name] = part.combine_chunks()
    return found


def kept(spec: Spec, commits: list[Commit]) -> tuple[float, pa.Table, float]:
    """By dynq: the seconds it took, the result, and the seconds to read that."""
    warm(spec, commits)
    live = opened(spec)
    (query,) = live.queries
    start = time.perf_counter()
    for commit in commits:
        live.apply(commit)
    taken = time.perf_counter() - start
    start = time.perf_counter()
    result = pa.Table.from_batches(live.enum(query), live.schema(query))
    return taken, result, time.perf_counter() - start


def recomputed(spec: Spec, commits: list[Commit]) -> tuple[float, pa.Table, float]:
    """By DuckDB, on all cores: the same."""
    text = spec.queries[0].texts[0].value
    with duckdb.connect() as connection:
        for r in spec.relations:
            connection.execute(f"CREATE TABLE {r.name} ({', '.join(f'{c.name} BIGINT' for c in r.columns)})")
        start = time.perf_counter()
        for commit in commits:
            for name, table in commit.items():
                _follow(connection, spec, name, table)
            connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {text}")
        taken = time.perf_counter() - start
        start = time.perf_counter()
        result = connection.sql("FROM result").to_arrow_table()
        return taken, result, time.perf_counter() - start


def _follow(connection: duckdb.DuckDBPyConnection, spec: Spec, name: str, table: pa.Table) -> None:
    """A table brought up to date, its rows found by their key; deletes come before the inserts that replace them."""
    relation = spec.relation(name)
    assert relation is not None
    names, key = ", ".join(c.name for c in relation.columns), ", ".join(relation.key)
    connection.register("given", table)
    gone = f"SELECT {key} FROM given WHERE _change_type = 'delete'"
    connection.execute(f"DELETE FROM {name} WHERE ({key}) IN ({gone})")
    connection.execute(f"INSERT INTO {name} SELECT {names} FROM given WHERE _change_type = 'insert'")
    connection.unregister("given")


def check_of(result: pa.Table) -> dict[str, int]:
    """Number and sum of all sales, from groups or from single ones."""
    sales = pc.sum(result["sales"]).as_py() if "sales" in result.column_names else len(result)
    return {"rows": int(sales), "cents": int(pc.sum(result["cents"]).as_py())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("task", choices=SPECS)
    parser.add_argument("--duckdb", action="store_true")
    asked = parser.parse_args()
    spec = load_spec(SPECS[asked.task])
    commits = commits_in(asked.folder, spec)
    changes = sum(len(table) for commit in commits for table in commit.values())
    taken, result, read = (recomputed if asked.duckdb else kept)(spec, commits)
    said: dict[str, Any] = {"changes": changes, "seconds": taken, "changes_per_s": changes / taken}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({**said, **check_of(result), "enum_s": read, "peak_mb": peak}))


if __name__ == "__main__":
    main()
