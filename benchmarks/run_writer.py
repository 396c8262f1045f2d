"""Write rows to a Parquet file, by dynq's writer, by pyarrow or by DuckDB, and print the seconds as one JSON object.

    python benchmarks/run_writer.py dynq|pyarrow|tuned|duckdb numbers|mixed ROWS DIR

All get the same Arrow batches, from memory, as a stream; row groups have 262,144 rows, compressed by LZ4. pyarrow has
one `ParquetWriter` with its other defaults, or `tuned` with the options that dynq chooses. DuckDB copies the stream
with all cores. fsync is included. Printed too: processor time, the bytes of the file, and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

BATCH, GROUP, DISTINCT = 1 << 16, 1 << 18, 16


def batches_of(kind: str, rows: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows as the engine gives them: blocks that repeat some values and not others."""
    chance = np.random.default_rng(7)
    made = [_batch(kind, chance, i) for i in range(DISTINCT)]

    def stream() -> Iterator[pa.RecordBatch]:
        for i in range(0, rows, BATCH):
            yield made[i // BATCH % DISTINCT].slice(0, min(BATCH, rows - i))

    return made[0].schema, stream()


def _batch(kind: str, chance: np.random.Generator, number: int) -> pa.RecordBatch:
    key = np.repeat(np.arange(BATCH // 8) + number * BATCH // 8, 8)
    columns: dict[str, object] = {"x": key, "y": chance.integers(0, 1 << 40, BATCH), "z": chance.zipf(1.3, BATCH)}
    if kind == "mixed":
        cents = chance.integers(0, 10**9, BATCH)
        columns["price"] = pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
        columns["day"] = pa.array(chance.integers(8000, 10500, BATCH).astype(np.int32)).cast(pa.date32())
        columns["city"] = pa.array([f"city {c}" for c in chance.integers(0, 500, BATCH)])
    return pa.record_batch(columns)


def by_dynq(schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: Path) -> None:
    from dynq_cli.io.results.write import write

    with path.open("wb") as file:
        write(batches, schema, file, "parquet")


def by_pyarrow(schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: Path, *, is_tuned: bool = False) -> None:
    import pyarrow.parquet as pq

    from dynq_cli.io.results.parquet_groups import options_for

    groups = _groups(schema, batches)
    first = next(groups)
    options = options_for(first) if is_tuned else {"compression": "lz4"}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=GROUP)


def _groups(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    while held := list(islice(batches, GROUP // BATCH)):
        yield pa.Table.from_batches(held, schema)


def by_duckdb(schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: Path) -> None:
    import duckdb

    given = pa.RecordBatchReader.from_batches(schema, batches)
    options = f"FORMAT parquet, COMPRESSION lz4_raw, ROW_GROUP_SIZE {GROUP}"
    duckdb.connect(":memory:").register("given", given).execute(f"COPY given TO '{path}' ({options})")


WRITERS: dict[str, Callable[[pa.Schema, Iterator[pa.RecordBatch], Path], None]] = {
    "dynq": by_dynq,
    "pyarrow": by_pyarrow,
    "tuned": partial(by_pyarrow, is_tuned=True),
    "duckdb": by_duckdb,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("writer", choices=tuple(WRITERS))
    parser.add_argument("kind", choices=("numbers", "mixed"))
    parser.add_argument("rows", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    write = WRITERS[given.writer]
    path = given.folder / f"{given.writer}-{given.kind}.parquet"
    write(*batches_of(given.kind, 1000), path)  # so that what is loaded late is there
    schema, batches = batches_of(given.kind, given.rows)
    start, used = time.perf_counter(), time.process_time()
    write(schema, batches, path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    spent, used = time.perf_counter() - start, time.process_time() - used
    size = path.stat().st_size
    path.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"rows": given.rows, "seconds": spent, "cpu": used, "bytes": size, "peak": peak}))


if __name__ == "__main__":
    main()
