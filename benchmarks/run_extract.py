"""The difference of two snapshots by `extract snapshot`, and the least that any difference has to do, taking turns.

    python benchmarks/run_extract.py FOLDER ROWS TURNS CORES

Writes the snapshots once. Prints the median seconds of each job as one JSON object; the first turn does not count.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from dynq_cli.spark.session import get_session
from dynq_cli.spark.snapshot import SnapshotJob, extract_snapshot
from dynq_cli.spec.load import parse_spec

SPEC = """\
version: 1
relations:
  orders:
    columns: {o_orderkey: int64, o_custkey: int32, o_totalprice: 'decimal(15,2)', o_orderstatus: string,
              o_orderdate: date, o_comment: string}
    key: [o_orderkey]
queries: {q: {sql: "SELECT o_orderkey FROM orders"}}
"""
PARTS = 4
MEMORY = "3g"
STATUS = pa.array(["open", "paid", "shipped", "returned"])


def orders(keys: np.ndarray, is_changed: np.ndarray) -> pa.Table:
    price = keys * 104729 % 1_000_000 + is_changed
    words = pc.cast(pa.array(keys * 2654435761 % (1 << 32)), pa.string())
    return pa.table(
        {
            "o_orderkey": keys,
            "o_custkey": (keys * 7919 % 100_003).astype(np.int32),
            "o_totalprice": pa.array(price).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2)),
            "o_orderstatus": STATUS.take(pa.array(keys % 4)),
            "o_orderdate": pa.array((keys % 2500 + 18_000).astype(np.int32)).cast(pa.date32()),
            "o_comment": pc.binary_join_element_wise(pa.scalar("order"), words, " "),
        }
    )


def write(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    step = -(-len(table) // PARTS)
    for part in range(PARTS):
        pq.write_table(table.slice(part * step, step), folder / f"part-{part}.parquet")


def snapshots(folder: Path, rows: int) -> tuple[str, str]:
    """Two snapshots: 1/2 % of the rows change, 1/4 % go, as many come, and the second is in another order."""
    before, after = folder / "before", folder / "after"
    if not folder.exists():
        shuffled = np.random.default_rng(1).permutation(rows)
        gone, changed = shuffled[: rows // 400], shuffled[rows // 400 : 3 * rows // 400]
        is_changed = np.zeros(rows + rows // 400, np.int64)
        is_changed[changed] = 1
        keys = np.random.default_rng(2).permutation(np.setdiff1d(np.arange(len(is_changed)), gone))
        write(before, orders(np.arange(rows), np.zeros(rows, np.int64)))
        write(after, orders(keys, is_changed[keys]))
    return str(before), str(after)


def jobs(spark: SparkSession, folder: Path, before: str, after: str) -> dict[str, Callable[[], object]]:
    relation = parse_spec(SPEC, "spec.yaml").relation("orders")
    assert relation is not None
    names = [column.name for column in relation.columns]

    def extract() -> object:
        shutil.rmtree(folder / "out", ignore_errors=True)
        return extract_snapshot(
            spark, SnapshotJob(before=before, after=after, out=str(folder / "out"), relation=relation)
        )

    def join() -> object:
        return spark.read.parquet(before).join(spark.read.parquet(after), relation.key[0]).count()

    def compare() -> object:
        old, new = (spark.read.parquet(path).alias(side) for path, side in ((before, "a"), (after, "b")))
        met = old.join(new, f.expr(f"a.{relation.key[0]} = b.{relation.key[0]}"), "full")
        differ = " OR ".join(f"NOT a.{name} <=> b.{name}" for name in names)
        return met.filter(differ).count()

    return {"extract_s": extract, "join_s": join, "compare_s": compare}


def main() -> None:
    folder, rows, turns, cores = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    before, after = snapshots(folder, rows)
    spark = get_session({"spark.master": f"local[{cores}]", "spark.driver.memory": MEMORY})
    taken: dict[str, list[float]] = {}
    for turn in range(turns + 1):
        for name, job in jobs(spark, folder, before, after).items():
            start = time.perf_counter()
            job()
            if turn:
                taken.setdefault(name, []).append(time.perf_counter() - start)
    spark.stop()
    print(json.dumps({name: statistics.median(several) for name, several in taken.items()} | {"snapshot_rows": rows}))


if __name__ == "__main__":
    main()
