"""Encode decimals of more than 18 digits as two codes, for arithmetic and order, without a dictionary.

    digits = high · 3·2^62 + low + 3·2^61        high = ⌊digits / 3·2^62⌋

The pairs (high, low) have the order of the decimals. `digits` is the decimal without its point. A power of two would be
simpler, but then 38 digits do not fit two int64 without their smallest value, which is NULL. Here both codes stay
within ±7.3·10^18; both are NULL if the decimal is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dynq_cli.engine.codes import NULL, Codes, arrow_type
from dynq_cli.engine.dictionary import valid_rows, validity
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import convert, fixed_width

BITS = 62
SHIFT = 3 << 61
_REST = np.uint64((1 << BITS) - 1)
_WHOLE = np.uint64(BITS)


def split(values: pa.Array | pa.ChunkedArray, kind: Type) -> tuple[Codes, Codes]:
    """Return the high and low codes of decimals. CodeError for a value that the type does not hold. O(rows)."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    values = convert(values, kind)
    lanes = fixed_width(values, np.int64, lanes=2).reshape(-1, 2)
    high, low = split_lanes(lanes[:, 0], lanes[:, 1])
    valid = valid_rows(values)
    if len(valid):
        return np.where(valid, high, NULL), np.where(valid, low, NULL)
    return high, low


def joined(high: Codes, low: Codes, kind: Type) -> pa.Array:
    """Decode two columns of codes to decimals. O(rows)."""
    valid = high != NULL
    bitmap = validity(valid)
    if bitmap is not None:
        high, low = np.where(valid, high, 0), np.where(valid, low, -SHIFT)
    content = np.stack(join_lanes(high, low), axis=1)
    return pa.Array.from_buffers(arrow_type(kind), len(high), [bitmap, pa.py_buffer(content)])


def split_lanes(lo: Codes, hi: Codes) -> tuple[Codes, Codes]:
    """Return the pairs for 128-bit numbers, given by their lower and upper 64 bits."""
    # ⌊digits / 2^62⌋ = 4·hi + top, and a third of that is hi + (hi + top) / 3.
    unsigned = lo.view(np.uint64)
    top = hi + (unsigned >> _WHOLE).view(np.int64)
    third = top // 3
    rest = (top - 3 * third) << BITS
    low = rest.view(np.uint64) + (unsigned & _REST) - np.uint64(SHIFT)
    return hi + third, low.view(np.int64)


def split_number(digits: int) -> tuple[int, int]:
    """Return the pair for one number."""
    high, rest = divmod(digits, 3 << BITS)
    return high, rest - SHIFT


def join_lanes(high: Codes, low: Codes) -> tuple[Codes, Codes]:
    """Return the lower and upper 64 bits of the numbers that pairs encode."""
    unsigned = low.view(np.uint64) + np.uint64(SHIFT)
    top = (unsigned >> _WHOLE).view(np.int64) - high
    lo = ((top & 3) << BITS).view(np.uint64) | (unsigned & _REST)
    return lo.view(np.int64), high + (top >> 2)
