"""Hash Arrow columns by value: the same on every machine, for every version of Python, Arrow and dynq.

Equal values of one type have equal hashes, and so have equal integers of any width, −0.0 and 0.0, and all NaN.
The numbers are part of the format of states of shards: where a row lies follows from them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_NULL = np.uint64(0x9E3779B97F4A7C15)


def hashes_of(values: pa.Array) -> Hashes:
    """Return a hash per value. O(rows); of texts O(bytes)."""
    found = _mixed(_texts(values) if _is_text(values.type) else _words(values))
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return found


def coordinates(hashes: Hashes, dimension: int, share: int) -> NDArray[np.int64]:
    """Return which of `share` shards along a dimension each hash falls to; dimensions are independent."""
    return (_mixed(hashes + np.uint64(dimension)) % np.uint64(share)).astype(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_string_view(kind)
        or pt.is_binary_view(kind)
    )


def _texts(values: pa.Array) -> Hashes:
    if pt.is_string_view(values.type) or pt.is_string(values.type):
        values = values.cast(pa.large_string()).cast(pa.large_binary())
    coded = values.cast(pa.large_binary()).dictionary_encode()
    words = np.array([xxhash.xxh3_64_intdigest(w) for w in coded.dictionary.to_pylist()] or [0], np.uint64)
    found: Hashes = words[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return found


def _words(values: pa.Array) -> Hashes:
    """Return each value as 64 bits; those of NULL are any."""
    kind = values.type
    if pt.is_decimal(kind):
        halves = np.frombuffer(values.buffers()[1], np.uint64)
        start = 2 * values.offset
        pairs = halves[start : start + 2 * len(values)].reshape(-1, 2)
        # The upper half repeats the sign of what fits into the lower one.
        return pairs[:, 0] + _mixed(pairs[:, 1] + np.uint64(1))
    if pt.is_floating(kind):
        doubles = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return np.ascontiguousarray(doubles).view(np.uint64)
    if pt.is_date32(kind):
        values = values.cast(pa.int32())
    whole = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(whole).view(np.uint64)


def _mixed(words: Hashes) -> Hashes:
    """The finaliser of splitmix64: a bijection in which every bit depends on all."""
    with np.errstate(over="ignore"):
        z = words + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Hashes = z ^ (z >> np.uint64(31))
    return mixed
