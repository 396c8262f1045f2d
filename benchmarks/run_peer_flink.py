"""Run the peers' stream through PyFlink, with its own interpreter, and print what it took as one JSON object.

    python benchmarks/run_peer_flink.py FOLDER groups|join

Flink's tables read Debezium's format from files, since no other source there has deletes. Everything is SQL and runs in
the JVM; groups are collected in mini-batches, the join goes into a sink that drops it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

TABLES = {
    "customer": "c_custkey BIGINT, c_nationkey BIGINT",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT",
    # LN is a function to Flink.
    "lineitem": "l_orderkey BIGINT, `ln` BIGINT, cents BIGINT",
}
BODY = "FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey"
GROUPS = f"SELECT c_nationkey, COUNT(*), SUM(cents) {BODY} GROUP BY c_nationkey"
JOIN = f"SELECT c_nationkey, o_custkey, o_orderkey, `ln`, cents {BODY}"
OPTIONS = {
    "parallelism.default": "1",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "10000",
}


def opened(folder: Path) -> TableEnvironment:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in OPTIONS.items():
        tables.get_config().set(name, value)
    for name, columns in TABLES.items():
        path = (folder / f"{name}.json").resolve().as_uri()
        source = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'debezium-json'"
        tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({source})")
    columns = "c_nationkey BIGINT, o_custkey BIGINT, o_orderkey BIGINT, `ln` BIGINT, cents BIGINT"
    tables.execute_sql(f"CREATE TABLE dropped ({columns}) WITH ('connector' = 'blackhole')")
    return tables


def groups(tables: TableEnvironment) -> dict[str, int]:
    """The groups at the end of the stream, added up as a check."""
    held: dict[int, tuple[int, int]] = {}
    with tables.sql_query(GROUPS).execute().collect() as rows:
        for nation, sales, cents in rows:
            held[nation] = (sales, cents)
    return {"rows": sum(s for s, _ in held.values()), "cents": sum(c for _, c in held.values())}


def main() -> None:
    folder, task = Path(sys.argv[1]), sys.argv[2]
    changes = sum(sum(1 for _ in (folder / f"{name}.json").open("rb")) for name in TABLES)
    tables = opened(folder)
    check: dict[str, int] = {}
    start = time.perf_counter()
    if task == "groups":
        check = groups(tables)
    else:
        tables.execute_sql(f"INSERT INTO dropped {JOIN}").wait()
    taken = time.perf_counter() - start
    print(json.dumps({"changes": changes, "seconds": taken, "changes_per_s": changes / taken, **check}))


if __name__ == "__main__":
    main()
