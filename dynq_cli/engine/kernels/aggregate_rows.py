"""What became of the groups that rows were taken into: their rows of the result, before and after.

First `settle_values` for each table of values: values that have copies now and had none become members of their
group, and the other way round. Then `settle_groups`, which reads each touched group's row of the result off its
accumulators and compares it with the one it gave before. Both take up to so many from the queue at a time, so
that the caller can make room. Nothing is negative any more: less than nothing of something is an error of the feeds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    NEGATIVE,
    OK,
    OVERFLOW,
    T_ARITY,
    T_MULT,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.int128_signed import as_double, has_38_digits, split, without_digits
from dynq_cli.engine.kernels.order_statistic_blocks import row_at
from dynq_cli.engine.kernels.order_statistic_search import first, last
from dynq_cli.engine.kernels.order_statistic_tree import delete, insert
from dynq_cli.engine.kernels.superaccumulator import D_COUNT, D_SPILL, INFINITY, NAN, sum_of_doubles
from dynq_cli.engine.kernels.table import dequeue, record, remove

# Measures: rows of a matrix.
(
    M_KIND,
    M_PLACE,  # word of the group's record: the accumulator's first
    M_TABLE,  # of values, or of spills; of an average the place of the sum that counts its values, or -1
    M_TREE,  # row of C
    M_DIGITS,  # digits behind the point that the accumulator has and the measure does not; all of them, for averages
    M_COLUMN,  # the first of its columns in the result, the keys not counted
    M_WIDTH,  # how many columns it has
    M_FIELDS,
) = range(8)
COUNT, SUM, AVG, SUM_OF_DOUBLES, AVG_OF_DOUBLES, LEAST, GREATEST, SUM_OR_ZERO = range(8)

Doubles = NDArray[np.float64]
_LOWEST = -(2**63)


@bare
def settle_values(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    t: Int,
    v: Int,
    place: Int,
    most: Int,
) -> tuple[Int, Int]:
    """Up to `most` touched values of table v; how many there were. `c` is the tree of their order, or -1."""
    mult, n = T[v, T_MULT], 0
    while n < most:
        row = dequeue(a32, T, v)
        if row < 0:
            break
        n += 1
        at = record(T, v, row)
        group = record(T, t, a64[at]) + place
        if a64[at + mult] < 0:
            return NEGATIVE, n
        is_there, was_there = a64[at + mult] > 0, a64[at + mult + 1] != 0
        if is_there and not was_there:
            a64[at + mult + 1] = 1
            a64[group] += 1
            if c >= 0:
                insert(a64, a32, T, C, c, labels, work, 2 * group + 2, row)
        elif was_there and not is_there:
            a64[group] -= 1
            if c >= 0:
                delete(a64, a32, T, C, c, labels, work, 2 * group + 2, row)
        if not is_there:
            remove(a64, T, v, row)
    return OK, n


@bare(inline="always")
def _code(value: float, bits: Words, doubles: Doubles) -> Int:
    """The code of a double; `bits` and `doubles` are one word, seen both ways."""
    if value != value:
        return np.int64(NAN)
    doubles[0] = value + 0.0
    return bits[0] if bits[0] >= 0 else ~(bits[0] ^ _LOWEST)


@bare(inline="always")
def _double(code: Int, bits: Words, doubles: Doubles) -> Any:
    bits[0] = code if code >= 0 else ~code ^ _LOWEST
    return doubles[0]


@bare(error_model="numpy")
def _average(lo: Int, hi: Int, count: float, digits: Int) -> float:
    unit = 1.0
    for _ in range(digits):
        unit *= 10.0
    return as_double(lo, hi) / (count * unit)


@bare(error_model="numpy")
def _of_doubles(kind: Int, total: Int, count: Int, bits: Words, doubles: Doubles) -> Int:
    if kind == SUM_OF_DOUBLES or total == NAN or total == INFINITY or total == ~INFINITY:
        return total
    return _code(_double(total, bits, doubles) / float(count), bits, doubles)


@bare
def _extreme(a64: Words, a32: Halves, T: Words, C: Words, M: Words, m: Int, at: Int, out: Words, column: Int) -> None:
    """The least or the greatest value of a group."""
    c, v, root = M[m, M_TREE], M[m, M_TABLE], np.int64(a32[2 * at + 2])
    if a64[at] == 0:
        for j in range(M[m, M_WIDTH]):
            out[column + j] = NULL
        return
    if M[m, M_KIND] == LEAST:
        code, entry = first(a32, T, C, c, root)
    else:
        code, entry = last(a32, T, C, c, root)
    found = record(T, v, row_at(a32, T, C, c, code, entry))
    for j in range(M[m, M_WIDTH]):
        out[column + j] = a64[found + 1 + j]


@bare
def _sum(a64: Words, M: Words, m: Int, at: Int, out: Words, column: Int) -> Int:
    """An exact sum, in one column or two."""
    lo, hi = without_digits(a64[at + 1], a64[at + 2], M[m, M_DIGITS])
    if M[m, M_WIDTH] == 2:
        if not has_38_digits(lo, hi):
            return OVERFLOW
        out[column], out[column + 1] = split(lo, hi)
        return OK
    if hi != lo >> 63 or lo == NULL:
        return OVERFLOW
    out[column] = lo
    return OK


@bare
def _read(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    M: Words,
    group: Int,
    out: Words,
    work: Words,
    bits: Words,
    doubles: Doubles,
) -> tuple[Int, Int]:
    """A group's row of the result, the keys left out; OK or OVERFLOW, and the measure that overflowed."""
    for m in range(len(M)):
        kind, at, column = M[m, M_KIND], group + M[m, M_PLACE], M[m, M_COLUMN]
        if kind == COUNT:
            out[column] = a64[at]
        elif kind == SUM_OR_ZERO:
            if _sum(a64, M, m, at, out, column) != OK:
                return OVERFLOW, m
        elif kind == LEAST or kind == GREATEST:
            _extreme(a64, a32, T, C, M, m, at, out, column)
        elif a64[at] == 0:
            for j in range(M[m, M_WIDTH]):
                out[column + j] = NULL
        elif kind == SUM:
            if _sum(a64, M, m, at, out, column) != OK:
                return OVERFLOW, m
        elif kind == AVG:
            count, counted = float(a64[at]), group + M[m, M_TABLE]
            if M[m, M_TABLE] >= 0:
                count = as_double(a64[counted + 1], a64[counted + 2])
            out[column] = _code(_average(a64[at + 1], a64[at + 2], count, M[m, M_DIGITS]), bits, doubles)
        else:
            total = sum_of_doubles(a64, T, M[m, M_TABLE], at, work)
            out[column] = _of_doubles(kind, total, a64[at + D_COUNT], bits, doubles)
    return OK, np.int64(-1)


@bare
def _give(a64: Words, at: Int, arity: Int, values: Words, start: Int, width: Int, rows: Words, n: Int) -> None:
    for j in range(arity):
        rows[j, n] = a64[at + j]
    for j in range(width):
        rows[arity + j, n] = values[start + j]


@bare
def settle_groups(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    M: Words,
    t: Int,
    place: Int,
    width: Int,
    one_row: Int,
    spills: Words,
    rows: Words,
    copies: Words,
    out: Words,
    work: Words,
    bits: Words,
    doubles: Doubles,
) -> tuple[Int, Int, Int]:
    """Touched groups, as long as two rows fit: the row a group had with -1, the one it has with 1, if they differ.

    `place` is where a group's record counts its rows, `width` how many values follow the keys, `spills` the table of
    spills and the places of the accumulators that may have one. OK, NEGATIVE or OVERFLOW; the rows given; and how many
    groups were looked at, or the measure that overflowed. A group without rows goes, and what it still had with it.
    """
    n, seen, arity = 0, 0, T[t, T_ARITY]
    while n + 2 <= len(copies):
        g = dequeue(a32, T, t)
        if g < 0:
            break
        seen += 1
        at = record(T, t, g)
        kept = at + place + 2
        if a64[at + place] < 0:
            return NEGATIVE, n, seen
        is_there, was_there = one_row or a64[at + place] > 0, a64[at + place + 1] != 0
        same = is_there and was_there
        if is_there:
            done, which = _read(a64, a32, T, C, M, at, out, work, bits, doubles)
            if done != OK:
                return done, n, which
            for j in range(width):
                same = same and out[j] == a64[kept + j]
        if was_there and not same:
            _give(a64, at, arity, a64, kept, width, rows, n)
            copies[n] = -1
            n += 1
        if is_there and not same:
            _give(a64, at, arity, out, np.int64(0), width, rows, n)
            copies[n] = 1
            n += 1
            for j in range(width):
                a64[kept + j] = out[j]
        a64[at + place + 1] = is_there
        if a64[at + place] == 0:
            _drop_spills(a64, T, spills, at)
            if not is_there:
                remove(a64, T, t, g)
    return OK, n, seen


@bare
def _drop_spills(a64: Words, T: Words, spills: Words, at: Int) -> None:
    """A group has no rows: its sums of doubles are 0, and their windows may be anywhere."""
    for i in range(1, len(spills)):
        place = at + spills[i]
        if a64[place + D_SPILL]:
            remove(a64, T, spills[0], a64[place + D_SPILL] - 1)
        a64[place + D_SPILL] = 0
        a64[place + D_SPILL - 1] = 0
