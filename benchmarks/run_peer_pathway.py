"""Run the peers' stream through Pathway, with its own interpreter, and print what it took as one JSON object.

    python benchmarks/run_peer_pathway.py FOLDER groups|join

Rows come from Python, each relation from a connector of its own, as dicts that are there before the time begins.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pathway as pw
import pyarrow.parquet as pq


class Customer(pw.Schema):
    c_custkey: int = pw.column_definition(primary_key=True)
    c_nationkey: int


class Orders(pw.Schema):
    o_orderkey: int = pw.column_definition(primary_key=True)
    o_custkey: int


class Lineitem(pw.Schema):
    l_orderkey: int = pw.column_definition(primary_key=True)
    ln: int = pw.column_definition(primary_key=True)
    cents: int


class Log(pw.io.python.ConnectorSubject):
    """The changes of a relation; those of a commit belong together."""

    # Otherwise deletes are refused.
    _deletions_enabled = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        table = pq.read_table(path)
        self.came = [kind == "insert" for kind in table["_change_type"].to_pylist()]
        self.commits = table["commit"].to_pylist()
        self.rows: list[dict[str, int]] = table.drop_columns(["_change_type", "commit"]).to_pylist()

    def run(self) -> None:
        before = 0
        for came, number, row in zip(self.came, self.commits, self.rows, strict=True):
            if number != before:
                self.commit()
                before = number
            if came:
                self.next(**row)
            else:
                self.delete(**row)
        self.commit()


def main() -> None:
    folder, task = Path(sys.argv[1]), sys.argv[2]
    logs = [Log(folder / f"{name}.parquet") for name in ("customer", "orders", "lineitem")]
    customer, orders, lineitem = (
        pw.io.python.read(log, schema=schema, autocommit_duration_ms=None)
        for log, schema in zip(logs, (Customer, Orders, Lineitem), strict=True)
    )
    placed = customer.join(orders, customer.c_custkey == orders.o_custkey).select(
        customer.c_nationkey, orders.o_custkey, orders.o_orderkey
    )
    sales = placed.join(lineitem, placed.o_orderkey == lineitem.l_orderkey).select(
        placed.c_nationkey, placed.o_custkey, placed.o_orderkey, lineitem.ln, lineitem.cents
    )
    if task == "groups":
        sums = sales.groupby(sales.c_nationkey).reduce(
            sales.c_nationkey, sales=pw.reducers.count(), cents=pw.reducers.sum(sales.cents)
        )
    else:
        pw.io.null.write(sales)
        sums = sales.reduce(sales=pw.reducers.count(), cents=pw.reducers.sum(sales.cents))
    held: dict[Any, dict[str, int]] = {}

    def follow(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        if is_addition:
            held[key] = row
        elif held.get(key) == row:
            del held[key]

    pw.io.subscribe(sums, follow)
    changes = sum(len(log.rows) for log in logs)
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    taken = time.perf_counter() - start
    check = {"rows": sum(row["sales"] for row in held.values()), "cents": sum(row["cents"] for row in held.values())}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    said = {"changes": changes, "seconds": taken, "changes_per_s": changes / taken, "peak_mb": peak}
    print(json.dumps({**said, **check}))


if __name__ == "__main__":
    main()
