"""The product of the numbers of a group, from which numbers are taken away as they are added.

A number is ±odd · 2^e · 10^-digits. Of those that are not 0, an accumulator has the sum of e, how many are negative,
and the product of the odd parts modulo 2^128, where every odd number has an inverse: what comes and goes commutes, and
the order of changes does not matter. The sum of the logarithms of the odd parts says whether their product is below
2^128; then it is exact. Otherwise it is a double computed from the logarithms, in fixed point.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.exact_sums import Taken
from dynq_cli.engine.kernels.fields import OK, OVERFLOW, Int, Store, Words
from dynq_cli.engine.kernels.int128_signed import add, as_double, has_38_digits, joined, negated, product
from dynq_cli.engine.kernels.table import record

# The words of an accumulator: how many values are not NULL, 0, negative, NaN, infinite; the sum of the exponents of
# two; two lanes of the odd product, 1 stored as 0; the sum of the whole parts of logarithms, and two lanes of their
# fractions.
MANY, ZEROS, NEGATIVES, NANS, INFINITIES, EXPONENT, ODD_LO, ODD_HI, WHOLE, PART_LO, PART_HI, PRODUCT_WORDS = range(12)

# What the column of a number holds.
INTEGERS, PAIRS, DOUBLES = range(3)

# More copies than these could make the sum of exponents leave a word.
_MOST = 1 << 51
_FRACTION_BITS = 62
_UNIT = 1 << _FRACTION_BITS
# log2(10) in units of 2^-62.
_LOG_TEN_WHOLE, _LOG_TEN_PART = 3, 1484631294131014398
_LN_2 = 0.6931471805599453
_HALF = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ONE, _TOP = np.uint64(1), np.uint64(63)
_FRACTION = (1 << 52) - 1
_SPECIAL = 2047


@kernel(inline="always")
def _high(a: Int, b: Int) -> Int:
    """The upper 64 bits of a product of two words without a sign."""
    a0, a1, b0, b1 = a & _HALF, a >> _SHIFT, b & _HALF, b >> _SHIFT
    low = a0 * b0
    middle = a1 * b0 + (low >> _SHIFT)
    other = a0 * b1 + (middle & _HALF)
    return a1 * b1 + (middle >> _SHIFT) + (other >> _SHIFT)


@kernel(inline="always")
def _times(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int]:
    """a · b modulo 2^128, of lanes without a sign."""
    return alo * blo, _high(alo, blo) + alo * bhi + ahi * blo


@kernel
def _power(lo: Int, hi: Int, times: Int) -> tuple[Int, Int]:
    """An odd number to a power modulo 2^128; to one below 0 by its inverse."""
    if times < 0:
        # Each step doubles the bits that are right, of which an odd number has three.
        xlo, xhi = lo, hi
        for _ in range(6):
            plo, phi = _times(lo, hi, xlo, xhi)
            # 2 - p
            rlo = np.uint64(2) - plo
            rhi = np.uint64(0) - phi - np.uint64(plo > np.uint64(2))
            xlo, xhi = _times(xlo, xhi, rlo, rhi)
        lo, hi, times = xlo, xhi, -times
    rlo, rhi = np.uint64(1), np.uint64(0)
    while times > 0:
        if times & 1:
            rlo, rhi = _times(rlo, rhi, lo, hi)
        times >>= 1
        if times > 0:
            lo, hi = _times(lo, hi, lo, hi)
    return rlo, rhi


@kernel
def _logarithm(mantissa: Int) -> Int:
    """log2 of a number from 1 to 2, given in units of 2^-63, in units of 2^-62."""
    found, m = np.int64(0), mantissa
    for _ in range(_FRACTION_BITS):
        if m == _ONE << _TOP:
            # What is left is 0.
            found <<= 1
            continue
        hi, lo = _high(m, m), m * m
        if hi >> _TOP:
            found, m = found << 1 | 1, hi
        else:
            found, m = found << 1, hi << _ONE | lo >> _TOP
    return found


@kernel
def _add_number(words: Words, at: Int, lo: Int, hi: Int, exponent: Int, copies: Int) -> None:
    """Multiply by a number of two lanes without a sign, and by a power of two, so many times."""
    if lo == np.uint64(0):
        lo, hi, exponent = hi, np.uint64(0), exponent + 64
    while (lo & np.uint64(0xFF)) == np.uint64(0):
        lo, hi, exponent = lo >> np.uint64(8) | hi << np.uint64(56), hi >> np.uint64(8), exponent + 8
    while (lo & _ONE) == np.uint64(0):
        lo, hi, exponent = lo >> _ONE | hi << _TOP, hi >> _ONE, exponent + 1
    words[at + EXPONENT] += exponent * copies
    if lo == _ONE and hi == np.uint64(0):
        return
    plo, phi = _power(lo, hi, copies)
    odd = np.uint64(words[at + ODD_LO]) ^ _ONE
    plo, phi = _times(odd, np.uint64(words[at + ODD_HI]), plo, phi)
    words[at + ODD_LO], words[at + ODD_HI] = np.int64(plo ^ _ONE), np.int64(phi)
    whole = np.int64(127)
    while not hi >> _TOP:
        lo, hi, whole = lo << _ONE, hi << _ONE | lo >> _TOP, whole - 1
    words[at + WHOLE] += whole * copies
    part = _logarithm(hi)
    tlo, thi, _ = product(part, np.int64(0), copies, copies >> 63)
    words[at + PART_LO], words[at + PART_HI], _ = add(words[at + PART_LO], words[at + PART_HI], tlo, thi)


@kernel
def _add_double(words: Words, at: Int, code: Int, copies: Int) -> None:
    """Multiply by a double, given by its code, so many times."""
    negative = code < 0
    bits = ~code if negative else code
    exponent, fraction = bits >> 52, bits & _FRACTION
    if exponent == _SPECIAL:
        if fraction:
            words[at + NANS] += copies
            return
        words[at + INFINITIES] += copies
    if negative:
        words[at + NEGATIVES] += copies
    if exponent == _SPECIAL:
        return
    if exponent:
        fraction |= 1 << 52
        exponent -= 1
    if fraction == 0:
        words[at + ZEROS] += copies
        return
    _add_number(words, at, np.uint64(fraction), np.uint64(0), exponent - 1074, copies)


@kernel
def add_products(store: Store, table_id: Int, given: Words, taken: Taken, start: Int, stop: Int) -> Int:
    """Multiply the products of groups by the numbers of rows that are not NULL. O(1) per row, O(log copies) of them.

    `given` are the place, what the column holds, and its one or two columns. OK, or OVERFLOW of copies.
    """
    words = store.words
    place, holds, column = given[0], given[1], given[2]
    for i in range(start, stop):
        code, copies = taken.codes[column, i], taken.copies[i]
        if code == NULL:
            continue
        at = record(store.tables[table_id], taken.groups[i - start]) + place
        words[at + MANY] += copies
        if abs(copies) > _MOST or abs(words[at + MANY]) > _MOST:
            return OVERFLOW
        if holds == DOUBLES:
            _add_double(words, at, code, copies)
            continue
        lo, hi = code, code >> 63
        if holds == PAIRS:
            lo, hi = joined(code, taken.codes[given[3], i])
        if hi < 0:
            words[at + NEGATIVES] += copies
            lo, hi = negated(lo, hi)
        if lo == 0 and hi == 0:
            words[at + ZEROS] += copies
        else:
            _add_number(words, at, np.uint64(lo), np.uint64(hi), np.int64(0), copies)
    return OK


@kernel
def _is_exact(words: Words, at: Int) -> Int:
    """Whether the product of the odd parts is below 2^127, so that its lanes are the number itself."""
    whole = words[at + WHOLE]
    if whole < 0 or whole > 127:
        return False
    # Logarithms are rounded down by less than 2^-61 each.
    return float(whole) + as_double(words[at + PART_LO], words[at + PART_HI]) / float(_UNIT) < 126.9


@kernel
def exact_product(words: Words, at: Int) -> tuple[Int, Int, Int]:
    """A product of integers, and whether it has 38 digits at most."""
    if words[at + ZEROS] > 0:
        return np.int64(0), np.int64(0), True
    lo, hi = words[at + ODD_LO] ^ 1, words[at + ODD_HI]
    exponent = words[at + EXPONENT]
    if not _is_exact(words, at) or exponent > 126:
        return lo, hi, False
    for _ in range(exponent):
        if hi >> 62:
            return lo, hi, False
        lo, hi = lo << 1, hi << 1 | np.int64(np.uint64(lo) >> _TOP)
    if words[at + NEGATIVES] & 1:
        lo, hi = negated(lo, hi)
    return lo, hi, has_38_digits(lo, hi)


@kernel
def _scaled(value: float, exponent: Int) -> float:
    """value · 2^exponent, of a value near 1."""
    if exponent > 1100 or exponent < -1200:
        return value * np.inf if exponent > 0 else value * 0.0
    up, step = 2.0, exponent
    if exponent < 0:
        up, step = 0.5, -exponent
    half = step >> 1
    first, second = 1.0, 1.0
    # Two factors, as neither of them may leave the range by itself, and a small result is rounded once.
    for _ in range(half):
        first *= up
    for _ in range(step - half):
        second *= up
    return value * first * second


@kernel
def _from_logarithms(words: Words, at: Int, digits: Int) -> float:
    """The product from logarithms: right to about 15 digits."""
    many = words[at + MANY] * digits
    lo, hi, _ = product(np.int64(_LOG_TEN_PART), np.int64(0), many, many >> 63)
    lo, hi = negated(lo, hi)
    lo, hi, _ = add(lo, hi, words[at + PART_LO], words[at + PART_HI])
    carried = hi << 2 | np.int64(np.uint64(lo) >> np.uint64(_FRACTION_BITS))
    part = float(lo & (_UNIT - 1)) / float(_UNIT) * _LN_2
    exponent = words[at + WHOLE] + words[at + EXPONENT] + carried - _LOG_TEN_WHOLE * many
    value = 1.0
    for k in range(24, 0, -1):
        value = 1.0 + value * part / float(k)
    return _scaled(value, exponent)


@kernel(error_model="numpy")
def product_as_double(words: Words, at: Int, digits: Int) -> float:
    """The product of numbers with so many digits behind the point."""
    if words[at + NANS] > 0 or (words[at + INFINITIES] > 0 and words[at + ZEROS] > 0):
        return np.nan
    sign = -1.0 if words[at + NEGATIVES] & 1 else 1.0
    if words[at + INFINITIES] > 0:
        return sign * np.inf
    if words[at + ZEROS] > 0:
        return 0.0
    exponent, shifted = words[at + EXPONENT], digits * words[at + MANY]
    if not _is_exact(words, at) or abs(exponent) > 900 or shifted > 22:
        return sign * _from_logarithms(words, at, digits)
    ten = 1.0
    for _ in range(shifted):
        ten *= 10.0
    value = as_double(words[at + ODD_LO] ^ 1, words[at + ODD_HI])
    return sign * _scaled(value, exponent) / ten
