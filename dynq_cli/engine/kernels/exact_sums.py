"""Sums of integers and decimals over the rows of groups: Σ coefficient · Π factors, exact in 128 bits.

An accumulator is three words of a group's record: rows where no factor is NULL, and the sum of the polynomial over
them. A polynomial is a list: the number of monomials, then of each its coefficient (two lanes), the number of its
factors and two columns each: the factor's, and that of the lower part of a wide decimal or -1.

What most sums add fits 63 bits in every row. That is known from the largest number in each column, so the polynomial is
then evaluated column by column without a look at the single value; else row by row, with every step checked.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import OK, OVERFLOW, Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.int128_signed import add, joined, product
from dynq_cli.engine.kernels.table import record

# A sum: the first word of its accumulator in a group's record, where in the list of numbers its polynomial begins and
# where the columns that may not be NULL, and how many these are.
SUM = row_type("place", "polynomial", "columns", "many")


class Sums(NamedTuple):
    """All sums of an aggregate query, and the scratch for adding to them."""

    each: Rows  # SUM
    numbers: Words  # polynomials and columns
    largest: Words  # scratch: a word per column of the rows taken in
    values: Words  # scratch: a word per row
    products: Words  # scratch: likewise


class Taken(NamedTuple):
    """Rows that are taken into groups."""

    codes: Words  # a row per column, keys first
    copies: Words  # how often each came, or went (< 0)
    groups: Words  # the group of each, counted from the first of those in turn
    key: Words  # scratch: a key
    tags: Words  # scratch: AHEAD words


_NARROW = 4.6e18  # a little less than 2^62
_HAS_NULL = -1


@kernel(inline="always")
def no_null(codes: Words, columns: Words, i: Int) -> Int:
    """Whether a row is NULL in none of the columns."""
    for j in range(len(columns)):
        if codes[columns[j], i] == NULL:
            return False
    return True


@kernel
def _largest(column: Words, start: Int, stop: Int) -> Int:
    """Return the largest absolute value among some codes; _HAS_NULL if one of them is NULL."""
    least, greatest = np.int64(0), np.int64(0)
    for i in range(start, stop):
        least = min(least, column[i])
        greatest = max(greatest, column[i])
    if least == NULL:
        return np.int64(_HAS_NULL)
    return max(-least, greatest)


@kernel
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


@kernel
def _evaluate(codes: Words, polynomial: Words, start: Int, stop: Int, values: Words, work: Words) -> None:
    """Compute the values of a polynomial, none of which leaves 63 bits; intermediate results may wrap round and come
    back."""
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


@kernel
def _add_narrow(store: Store, table_id: Int, place: Int, taken: Taken, start: Int, stop: Int, values: Words) -> Int:
    """Add values to the accumulators of their groups."""
    words = store.words
    table = store.tables[table_id]
    first, stride = table.rows + place, table.stride
    for i in range(start, stop):
        at = first + taken.groups[i - start] * stride
        value = values[i - start] * taken.copies[i]
        words[at] += taken.copies[i]
        words[at + 1], words[at + 2], fits = add(words[at + 1], words[at + 2], value, value >> 63)
        if not fits:
            return OVERFLOW
    return OK


@kernel
def _value(codes: Words, polynomial: Words, i: Int) -> tuple[Int, Int, Int]:
    """Return the value of a polynomial in a row where no factor is NULL, and whether it fits."""
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


@kernel
def _add_wide(
    store: Store, table_id: Int, place: Int, columns: Words, polynomial: Words, taken: Taken, start: Int, stop: Int
) -> Int:
    """Add up a polynomial over the rows where none of its columns is NULL."""
    words = store.words
    for i in range(start, stop):
        if not no_null(taken.codes, columns, i):
            continue
        lo, hi, fits = _value(taken.codes, polynomial, i)
        if not fits:
            return OVERFLOW
        lo, hi, fits = product(lo, hi, taken.copies[i], taken.copies[i] >> 63)
        if not fits:
            return OVERFLOW
        at = record(store.tables[table_id], taken.groups[i - start]) + place
        words[at] += taken.copies[i]
        words[at + 1], words[at + 2], fits = add(words[at + 1], words[at + 2], lo, hi)
        if not fits:
            return OVERFLOW
    return OK


@kernel
def add_exact(store: Store, table_id: Int, sums: Sums, taken: Taken, start: Int, stop: Int) -> tuple[Int, Int]:
    """Add rows start … stop to all sums; return OK, or OVERFLOW and which does not fit."""
    numbers, largest, values = sums.numbers, sums.largest, sums.values
    most = _largest(taken.copies, start, stop)
    for k in range(len(sums.each)):
        one = sums.each[k]
        for j in range(one.many):
            column = numbers[one.columns + j]
            largest[column] = _largest(taken.codes[column], start, stop)
    for k in range(len(sums.each)):
        one = sums.each[k]
        polynomial = numbers[one.polynomial :]
        if most != _HAS_NULL and _is_narrow(polynomial, largest, most):
            _evaluate(taken.codes, polynomial, start, stop, values, sums.products)
            done = _add_narrow(store, table_id, one.place, taken, start, stop, values)
        else:
            columns = numbers[one.columns : one.columns + one.many]
            done = _add_wide(store, table_id, one.place, columns, polynomial, taken, start, stop)
        if done != OK:
            return done, k
    return OK, -1
