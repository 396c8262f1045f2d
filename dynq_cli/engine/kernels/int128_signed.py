"""Signed 128-bit numbers in two lanes, in which integers and decimals are added up exactly.

Lanes are those of `int128`: the lower 64 bits and the upper ones, both as int64; here the number may be negative. What
does not fit is said, never wrapped.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int
from dynq_cli.engine.kernels.int128 import multiply

_SMALL = 1 << 31
_HALF = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_TEN = np.uint64(10)
_TWO_64 = 18446744073709551616.0
# 10^38, the first number of more than 38 digits.
_TOO_HIGH, _TOO_LOW = 5421010862427522170, np.uint64(687399551400673280)
# Pairs, as `engine.pairs` has them.
_WHOLE = np.uint64(62)
_REST = np.uint64((1 << 62) - 1)
_PAIR_SHIFT = np.uint64(3 << 61)


@kernel(inline="always")
def add(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int, Int]:
    """a + b, and whether it fits."""
    lo = np.uint64(alo) + np.uint64(blo)
    hi = ahi + bhi + np.int64(lo < np.uint64(blo))
    return np.int64(lo), hi, ((ahi ^ hi) & (bhi ^ hi)) >= 0


@kernel(inline="always")
def negated(lo: Int, hi: Int) -> tuple[Int, Int]:
    return -lo, ~hi + np.int64(lo == 0)


@kernel
def product(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int, Int]:
    """a × b, and whether it fits."""
    if ahi == alo >> 63 and bhi == blo >> 63 and -_SMALL < alo < _SMALL and -_SMALL < blo < _SMALL:
        return alo * blo, (alo * blo) >> 63, True
    negative = (ahi < 0) != (bhi < 0)
    if ahi < 0:
        alo, ahi = negated(alo, ahi)
    if bhi < 0:
        blo, bhi = negated(blo, bhi)
    lo, hi = multiply(alo, ahi, blo, bhi)
    fits = hi >= 0
    if negative:
        lo, hi = negated(lo, hi)
    return lo, hi, fits


@kernel
def has_38_digits(lo: Int, hi: Int) -> Int:
    """Whether a number has 38 digits at most."""
    if hi < 0:
        lo, hi = negated(lo, hi)
    return 0 <= hi < _TOO_HIGH or (hi == _TOO_HIGH and np.uint64(lo) < _TOO_LOW)


@kernel
def as_double(lo: Int, hi: Int) -> float:
    """The number to a unit in the last place."""
    if hi < 0:
        lo, hi = negated(lo, hi)
        return -(float(hi) * _TWO_64 + float(np.uint64(lo)))
    return float(hi) * _TWO_64 + float(np.uint64(lo))


@kernel
def _tenth(lo: Int, hi: Int) -> tuple[Int, Int, Int]:
    """A tenth of a number that is not negative, rounded down, and the digit that is lost."""
    rest, upper, lower = np.uint64(0), np.uint64(hi), np.uint64(lo)
    piece = upper >> _SHIFT
    a = piece // _TEN
    rest = (piece - a * _TEN) << _SHIFT | upper & _HALF
    b = rest // _TEN
    rest = (rest - b * _TEN) << _SHIFT | lower >> _SHIFT
    c = rest // _TEN
    rest = (rest - c * _TEN) << _SHIFT | lower & _HALF
    d = rest // _TEN
    return np.int64(c << _SHIFT | d), np.int64(a << _SHIFT | b), np.int64(rest - d * _TEN)


@kernel
def without_digits(lo: Int, hi: Int, digits: Int) -> tuple[Int, Int]:
    """A number without its last digits, rounded half away from zero as SQL casts decimals."""
    negative, lost = hi < 0, np.int64(0)
    if negative:
        lo, hi = negated(lo, hi)
    for _ in range(digits):
        lo, hi, lost = _tenth(lo, hi)
    if lost >= 5:
        lo, hi, _ = add(lo, hi, np.int64(1), np.int64(0))
    return negated(lo, hi) if negative else (lo, hi)


@kernel(inline="always")
def split(lo: Int, hi: Int) -> tuple[Int, Int]:
    """The two codes of a number, as `engine.pairs.split_lanes` has them."""
    top = hi + np.int64(np.uint64(lo) >> _WHOLE)
    third = top // 3
    low = np.uint64((top - 3 * third) << 62) + (np.uint64(lo) & _REST) - _PAIR_SHIFT
    return hi + third, np.int64(low)


@kernel(inline="always")
def joined(high: Int, low: Int) -> tuple[Int, Int]:
    """The number of two codes, as `engine.pairs.join_lanes` has it."""
    unsigned = np.uint64(low) + _PAIR_SHIFT
    top = np.int64(unsigned >> _WHOLE) - high
    return np.int64(np.uint64((top & 3) << 62) | (unsigned & _REST)), high + (top >> 2)
