"""128-bit counts in two lanes: lo holds the lower 64 bits, hi the upper, both as int64.

Counts are never negative, so a result with hi < 0 has overflowed; `multiply` answers hi = -1 then.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int

_SMALL = 1 << 31
_HALF = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_LARGEST = 1.6e38
_TWO_64 = 18446744073709551616.0


@kernel
def multiply(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int]:
    """a × b; (0, -1) if it does not fit 127 bits."""
    if ahi == 0 and bhi == 0 and 0 <= alo < _SMALL and 0 <= blo < _SMALL:
        return alo * blo, np.int64(0)
    ua, ub = np.uint64(alo), np.uint64(blo)
    size = (float(ahi) * _TWO_64 + float(ua)) * (float(bhi) * _TWO_64 + float(ub))
    if size > _LARGEST:
        return np.int64(0), np.int64(-1)
    a0, a1, b0, b1 = ua & _HALF, ua >> _SHIFT, ub & _HALF, ub >> _SHIFT
    low = a0 * b0
    middle = a1 * b0 + (low >> _SHIFT)
    other = a0 * b1 + (middle & _HALF)
    high = a1 * b1 + (middle >> _SHIFT) + (other >> _SHIFT)
    high += np.uint64(ahi) * ub + ua * np.uint64(bhi)
    return np.int64(ua * ub), np.int64(high)


@kernel(inline="always")
def replace(lo: Int, hi: Int, old_lo: Int, old_hi: Int, new_lo: Int, new_hi: Int) -> tuple[Int, Int]:
    """sum − old + new."""
    u = np.uint64(lo)
    less = u - np.uint64(old_lo)
    hi = hi - old_hi - np.int64(less > u)
    more = less + np.uint64(new_lo)
    hi = hi + new_hi + np.int64(more < less)
    return np.int64(more), hi


@kernel(inline="always")
def is_less(alo: Int, ahi: Int, blo: Int, bhi: Int) -> Int:
    """a < b."""
    return ahi < bhi or (ahi == bhi and np.uint64(alo) < np.uint64(blo))
