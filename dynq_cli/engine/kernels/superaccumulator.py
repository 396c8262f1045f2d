"""Sums of doubles without rounding: what was added and taken away again leaves no trace.

A finite double is an integer times 2^-1074, and so is every sum of doubles: it is kept as an integer, in two's
complement, and rounded once when it is read (Kulisch's long accumulator). The whole range takes `FULL` words, but the
values of a group are rarely far from each other, so a group has a *window*: `WINDOW` words from word `base` on, chosen
at its first value so that values 2^64 times smaller and 2^74 times larger fit. What does not fit, and NaN and
the infinities, which are counted, go to a *spill*, a row of another table; few groups have one. A sum is window plus
spill, so it does not matter which of them a value was added to.

An integer has 53 bits of a value and 64 of its copies, and the copies of all values of a group fit 64 bits: with one
more for the sign, a value `place` bits above the window's end needs place + 118 of its bits.

    window:  count of values | base + 1, or 0 | spill's row + 1, or 0 | WINDOW words
    spill:   key: group, accumulator | NaN | +∞ | -∞ | FULL words
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import multiply
from dynq_cli.engine.kernels.table import find_or_insert, record

WINDOW, FULL = 5, 36
D_COUNT, D_BASE, D_SPILL, D_WORDS = range(4)
WINDOW_WORDS = D_WORDS + WINDOW
S_KEY = 2
S_NAN, S_PLUS, S_MINUS, S_WORDS = range(S_KEY, S_KEY + 4)
SPILL_WORDS = S_WORDS + FULL

_HIGHEST = 64 * WINDOW - 118
_FRACTION = (1 << 52) - 1
_SPECIAL = 0x7FF
INFINITY = _SPECIAL << 52
# The one NaN, as `engine.codes` has it.
NAN = INFINITY | 1 << 51
_WORD = np.uint64(64)


@kernel
def _add_at(words: Words, at: Int, many: Int, place: Int, lo: Int, hi: Int, negative: Int) -> None:
    """Add a number of 117 bits, or subtract it, `place` bits above the end of an integer of so many words."""
    w, shift = place >> 6, np.uint64(place & 63)
    ulo, uhi = np.uint64(lo), np.uint64(hi)
    back = (_WORD - shift) & np.uint64(63)
    over, top = np.uint64(0), np.uint64(0)
    if shift:
        over, top = ulo >> back, uhi >> back
    carry = np.uint64(0)
    k = 0
    while w < many and (k < 3 or carry):
        part = np.uint64(0)
        if k == 0:
            part = ulo << shift
        elif k == 1:
            part = uhi << shift | over
        elif k == 2:
            part = top
        had = np.uint64(words[at + w])
        if negative:
            less = had - part
            now = less - carry
            carry = np.uint64(had < part) + np.uint64(less < carry)
        else:
            more = had + part
            now = more + carry
            carry = np.uint64(more < had) + np.uint64(now < more)
        words[at + w] = np.int64(now)
        w += 1
        k += 1


@kernel
def _spill(store: Store, table_id: Int, at: Int, group: Int, number: Int, key: Words) -> Int:
    """Return where the record of a window's spill is, made if needed."""
    words = store.words
    spill_table = store.tables[table_id]
    if words[at + D_SPILL] == 0:
        key[0], key[1] = group, number
        row, _ = find_or_insert(store, table_id, key)
        place = record(spill_table, row)
        for i in range(S_KEY, SPILL_WORDS):
            words[place + i] = 0
        words[at + D_SPILL] = row + 1
    return record(spill_table, words[at + D_SPILL] - 1)


@kernel
def add_double(
    store: Store, table_id: Int, at: Int, group: Int, number: Int, code: Int, copies: Int, key: Words
) -> None:
    """Add a value, given by its code, so many times to the window at `at`; the caller has made room for a spill."""
    words = store.words
    words[at + D_COUNT] += copies
    negative = code < 0
    bits = ~code if negative else code
    exponent, fraction = bits >> 52, bits & _FRACTION
    if exponent == _SPECIAL:
        place = _spill(store, table_id, at, group, number, key)
        which = S_NAN if fraction else S_MINUS if negative else S_PLUS
        words[place + which] += copies
        return
    place = np.int64(0)
    if exponent:
        fraction |= 1 << 52
        place = exponent - 1
    if fraction == 0:
        return
    if copies < 0:
        negative = not negative
    lo, hi = multiply(fraction, np.int64(0), abs(copies), np.int64(0))
    if words[at + D_BASE] == 0:
        words[at + D_BASE] = max(place >> 6, 1)
    within = place - 64 * (words[at + D_BASE] - 1)
    if 0 <= within <= _HIGHEST:
        _add_at(words, at + D_WORDS, WINDOW, within, lo, hi, negative)
    else:
        other = _spill(store, table_id, at, group, number, key)
        _add_at(words, other + S_WORDS, FULL, place, lo, hi, negative)


@kernel
def _highest_bit(word: Int) -> Int:
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step):
            word >>= np.uint64(step)
            n += step
    return n


@kernel
def _rounded(work: Words, words: Int, base: Int) -> Int:
    """Return the code of the double nearest to an integer in the scratch array; of two equally near ones the even."""
    negative = work[words - 1] < 0
    if negative:
        carry = np.uint64(1)
        for i in range(words):
            flipped = np.uint64(~work[i]) + carry
            carry = np.uint64(1) if carry and flipped == 0 else np.uint64(0)
            work[i] = np.int64(flipped)
    top = words - 1
    while top >= 0 and work[top] == 0:
        top -= 1
    if top < 0:
        return np.int64(0)
    highest = 64 * top + _highest_bit(np.uint64(work[top]))
    exponent = highest + 64 * base - 52
    bits = np.int64(INFINITY)
    if exponent <= 0:
        # Below the smallest normal number the bits of a double are the integer itself.
        bits = work[0]
    elif exponent < _SPECIAL:
        bits = min((exponent << 52) + _mantissa(work, highest - 52), bits)
    return ~bits if negative else bits


@kernel
def _mantissa(work: Words, lowest: Int) -> Int:
    """Return 53 bits from bit `lowest` on, rounded by those below."""
    if lowest <= 0:
        return work[0] << -lowest
    w, shift = lowest >> 6, np.uint64(lowest & 63)
    bits = np.uint64(work[w]) >> shift
    if shift > np.uint64(11):
        bits |= np.uint64(work[w + 1]) << (_WORD - shift)
    mantissa = np.int64(bits & np.uint64((1 << 53) - 1))
    below = lowest - 1
    last = np.uint64(work[below >> 6])
    half = (last >> np.uint64(below & 63)) & np.uint64(1)
    if half:
        rest = last & ((np.uint64(1) << np.uint64(below & 63)) - np.uint64(1))
        i = 0
        while rest == 0 and i < below >> 6:
            rest |= np.uint64(work[i])
            i += 1
        if rest or mantissa & 1:
            mantissa += 1
    return mantissa


@kernel
def sum_of_doubles(store: Store, table_id: Int, at: Int, work: Words) -> Int:
    """Return the code of the sum of a window and its spill; `work` has room for FULL + 1 words. O(FULL)."""
    words = store.words
    base = max(words[at + D_BASE] - 1, np.int64(0))
    if words[at + D_SPILL] == 0:
        for i in range(WINDOW):
            work[i] = words[at + D_WORDS + i]
        work[WINDOW] = 0
        return _rounded(work, np.int64(WINDOW), base)
    place = record(store.tables[table_id], words[at + D_SPILL] - 1)
    plus, minus = words[place + S_PLUS] > 0, words[place + S_MINUS] > 0
    if words[place + S_NAN] > 0 or (plus and minus):
        return np.int64(NAN)
    if plus or minus:
        return np.int64(INFINITY) if plus else ~np.int64(INFINITY)
    for i in range(FULL):
        work[i] = words[place + S_WORDS + i]
    work[FULL] = 0
    carry, sign = np.uint64(0), np.int64(words[at + D_WORDS + WINDOW - 1] >> 63)
    for i in range(base, FULL):
        part = np.uint64(words[at + D_WORDS + i - base] if i - base < WINDOW else sign)
        more = np.uint64(work[i]) + part
        now = more + carry
        carry = np.uint64(more < part) + np.uint64(now < more)
        work[i] = np.int64(now)
    return _rounded(work, np.int64(FULL), np.int64(0))
