"""Sums of integers and decimals over the rows of groups: Σ coefficient · Π factors, exact in 128 bits.

An accumulator is three words of a group's record: rows where no factor is NULL, and the sum of the polynomial over
them. A polynomial is a list: the number of monomials, then of each its coefficient (two lanes), the number of its
factors and two columns each: the factor's, and that of the lower part of a wide decimal or -1.

What most sums add fits 63 bits in every row. That is known from the largest number in each column, so the polynomial is
then evaluated column by column without a look at the single value; else row by row, with every step checked.
"""

import numpy as np

from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import OK, OVERFLOW, T_ROWS, T_STRIDE, Int, Words
from dynq_cli.engine.kernels.int128_signed import add, joined, product
from dynq_cli.engine.kernels.table import record

# Sums: rows of a matrix.
(
    E_PLACE,  # word of the group's record: the accumulator's first
    E_POLYNOMIAL,  # where in the list of numbers it begins
    E_COLUMNS,  # where in it the columns begin that may not be NULL
    E_MANY,  # how many they are
    E_FIELDS,
) = range(5)

_NARROW = 4.6e18  # a little less than 2^62
_HAS_NULL = -1


@bare(inline="always")
def no_null(codes: Words, columns: Words, i: Int) -> Int:
    """Whether a row is NULL in none of the columns."""
    for j in range(len(columns)):
        if codes[columns[j], i] == NULL:
            return False
    return True


@bare
def _largest(column: Words, start: Int, stop: Int) -> Int:
    """The largest absolute value among some codes; _HAS_NULL if one of them is NULL."""
    least, greatest = np.int64(0), np.int64(0)
    for i in range(start, stop):
        least = min(least, column[i])
        greatest = max(greatest, column[i])
    if least == NULL:
        return np.int64(_HAS_NULL)
    return max(-least, greatest)


@bare
def _is_narrow(polynomial: Words, largest: Words, copies: Int) -> Int:
    """Whether no value can leave 63 bits; `largest` are the numbers of `_largest`, by column."""
    total, place = 0.0, 1
    for _ in range(polynomial[0]):
        lo, many = polynomial[place], polynomial[place + 2]
        if polynomial[place + 1] != lo >> 63:
            return False
        size = abs(float(lo)) * float(copies)
        place += 3
        for _ in range(many):
            column = largest[polynomial[place]]
            if polynomial[place + 1] >= 0 or column == _HAS_NULL:
                return False
            size *= float(column)
            place += 2
        total += size
    return total < _NARROW


@bare
def _evaluate(codes: Words, polynomial: Words, start: Int, stop: Int, values: Words, work: Words) -> None:
    """The values of a polynomial, none of which leaves 63 bits. What a step on the way wraps round comes back."""
    many = stop - start
    for i in range(many):
        values[i] = 0
    place = 1
    for _ in range(polynomial[0]):
        coefficient, factors = polynomial[place], polynomial[place + 2]
        place += 3
        for i in range(many):
            work[i] = coefficient
        for _ in range(factors):
            column = codes[polynomial[place]]
            for i in range(many):
                work[i] *= column[start + i]
            place += 2
        for i in range(many):
            values[i] += work[i]


@bare
def _add_narrow(
    a64: Words, T: Words, t: Int, place: Int, copies: Words, start: Int, stop: Int, groups: Words, values: Words
) -> Int:
    """Add values to the accumulators of their groups."""
    first, stride = T[t, T_ROWS] + place, T[t, T_STRIDE]
    for i in range(start, stop):
        at = first + groups[i - start] * stride
        value = values[i - start] * copies[i]
        a64[at] += copies[i]
        a64[at + 1], a64[at + 2], fits = add(a64[at + 1], a64[at + 2], value, value >> 63)
        if not fits:
            return OVERFLOW
    return OK


@bare
def _value(codes: Words, polynomial: Words, i: Int) -> tuple[Int, Int, Int]:
    """What a polynomial is in a row where no factor is NULL, and whether it fits."""
    total_lo, total_hi, place = np.int64(0), np.int64(0), 1
    for _ in range(polynomial[0]):
        lo, hi = polynomial[place], polynomial[place + 1]
        many = polynomial[place + 2]
        place += 3
        for _ in range(many):
            own_lo = codes[polynomial[place], i]
            own_hi = own_lo >> 63
            if polynomial[place + 1] >= 0:
                own_lo, own_hi = joined(own_lo, codes[polynomial[place + 1], i])
            lo, hi, fits = product(lo, hi, own_lo, own_hi)
            if not fits:
                return lo, hi, False
            place += 2
        total_lo, total_hi, fits = add(total_lo, total_hi, lo, hi)
        if not fits:
            return lo, hi, False
    return total_lo, total_hi, True


@bare
def _add_wide(
    a64: Words,
    T: Words,
    t: Int,
    place: Int,
    columns: Words,
    polynomial: Words,
    codes: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
) -> Int:
    """Add up a polynomial over the rows where none of its columns is NULL."""
    for i in range(start, stop):
        if not no_null(codes, columns, i):
            continue
        lo, hi, fits = _value(codes, polynomial, i)
        if not fits:
            return OVERFLOW
        lo, hi, fits = product(lo, hi, copies[i], copies[i] >> 63)
        if not fits:
            return OVERFLOW
        at = record(T, t, groups[i - start]) + place
        a64[at] += copies[i]
        a64[at + 1], a64[at + 2], fits = add(a64[at + 1], a64[at + 2], lo, hi)
        if not fits:
            return OVERFLOW
    return OK


@bare
def add_exact(
    a64: Words,
    T: Words,
    t: Int,
    sums: Words,
    numbers: Words,
    codes: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
    largest: Words,
    values: Words,
    work: Words,
) -> tuple[Int, Int]:
    """Add rows start … stop to all sums: OK, or OVERFLOW and which does not fit.

    `largest` has a word per column of `codes` to work in, `values` and `work` one per row.
    """
    most = _largest(copies, start, stop)
    for k in range(len(sums)):
        for j in range(sums[k, E_MANY]):
            column = numbers[sums[k, E_COLUMNS] + j]
            largest[column] = _largest(codes[column], start, stop)
    for k in range(len(sums)):
        polynomial = numbers[sums[k, E_POLYNOMIAL] :]
        if most != _HAS_NULL and _is_narrow(polynomial, largest, most):
            _evaluate(codes, polynomial, start, stop, values, work)
            done = _add_narrow(a64, T, t, sums[k, E_PLACE], copies, start, stop, groups, values)
        else:
            columns = numbers[sums[k, E_COLUMNS] : sums[k, E_COLUMNS] + sums[k, E_MANY]]
            done = _add_wide(a64, T, t, sums[k, E_PLACE], columns, polynomial, codes, copies, start, stop, groups)
        if done != OK:
            return done, k
    return OK, -1
