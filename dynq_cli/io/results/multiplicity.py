"""Repeat the rows of a result by their multiplicity, up to a limit.

    expand: (row, _count = n) ↦ row, row, … n times        limit: the first n rows

Both are streams of batches of at most a block; a row with 10^12 copies costs no more memory than one with two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

COUNT = "_count"
_BLOCK = 65536


def has_counts(schema: pa.Schema) -> bool:
    """Whether rows say how often they are there."""
    return bool(schema.names) and schema.names[-1] == COUNT


def expanded_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the rows that `expand` gives."""
    return schema.remove(len(schema) - 1) if has_counts(schema) else schema


def expand(batches: Iterator[pa.RecordBatch], schema: pa.Schema, block: int = _BLOCK) -> Iterator[pa.RecordBatch]:
    """Rows `_count` times, without that column; rows of a set as they are. O(rows given)."""
    if not has_counts(schema):
        yield from batches
        return
    for batch in batches:
        rows = batch.select(batch.schema.names[:-1])
        yield from _repeated(rows, np.asarray(batch.column(batch.num_columns - 1)), block)


def _repeated(rows: pa.RecordBatch, counts: NDArray[np.int64], block: int) -> Iterator[pa.RecordBatch]:
    # Clipped, so that the sum cannot overflow; rows with more copies than a block are cut up by themselves.
    ends = np.cumsum(np.minimum(counts, block + 1))
    is_large = np.append(np.flatnonzero(counts > block), len(counts))
    start = 0
    while start < len(counts):
        if counts[start] > block:
            yield from _one_repeated(rows, start, int(counts[start]), block)
            start += 1
            continue
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + block, side="right"))
        stop = min(stop, int(is_large[np.searchsorted(is_large, start)]))
        yield _taken(rows, np.repeat(np.arange(start, stop), counts[start:stop]))
        start = stop


def _one_repeated(rows: pa.RecordBatch, row: int, many: int, block: int) -> Iterator[pa.RecordBatch]:
    full = _taken(rows, np.full(block, row))
    for _ in range(many // block):
        yield full
    if many % block:
        yield full.slice(0, many % block)


def _taken(rows: pa.RecordBatch, at: NDArray[np.int64]) -> pa.RecordBatch:
    if rows.num_columns:
        return rows.take(pa.array(at))
    return pa.RecordBatch.from_struct_array(pa.array([{}] * len(at), pa.struct([])))


def limit(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows, all where `most` is None; no more batches are asked for than hold them."""
    if most is None:
        yield from batches
        return
    while most > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, most)
        most -= batch.num_rows
