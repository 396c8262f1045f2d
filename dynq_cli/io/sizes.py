"""Compute how many bytes columns take when every value is spelled out; cut batches by that size.

A dictionary or a run can stand for gigabytes; what reads the column later spells it out, so that is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

MOST_ROWS = 1 << 18
MOST_BYTES = 32 << 20


def cut(batch: pa.RecordBatch, rows: int = MOST_ROWS, size: int = MOST_BYTES) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most so many rows and bytes, or of one row; nothing is copied.

    Columns must be valid. O(rows) for columns of texts, times the halvings that are needed.
    """
    for start in range(0, batch.num_rows, rows):
        yield from _halve(batch.slice(start, rows), size)


def _halve(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or sum(map(spelled_out, batch.columns)) <= size:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _halve(batch.slice(0, middle), size)
    yield from _halve(batch.slice(middle), size)


def spelled_out(array: pa.Array) -> int:
    """An upper bound of the bytes of all values; close to them except for runs."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return spelled_out(array.storage)
    if pt.is_dictionary(kind):
        widths = _widths(array.dictionary)
        return widths * len(array) if isinstance(widths, int) else _total(widths.take(array.indices))
    if pt.is_run_end_encoded(kind):
        widths = _widths(array.values)
        return len(array) * (widths if isinstance(widths, int) else pc.max(widths).as_py() or 0)
    if pt.is_struct(kind):
        return sum(map(spelled_out, array.flatten()))
    widths = _widths(array)
    return widths * len(array) if isinstance(widths, int) else _total(widths)


def _widths(array: pa.Array) -> int | pa.Array:
    """The bytes of each value: one number where all are alike."""
    kind = array.type
    if pt.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif pt.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        return pc.binary_length(array)
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        return pc.binary_length(array)
    if pt.is_primitive(kind) or pt.is_fixed_size_binary(kind):
        return max(int(kind.bit_width) // 8, 1)
    return max(array.nbytes, 1) if len(array) else 1


def _total(widths: pa.Array) -> int:
    return pc.sum(widths.cast(pa.int64())).as_py() or 0
