"""Compute the result rows of touched groups, before and after a commit.

First `settle_values` for each table of values: values that now have copies and had none join their group, and values
without copies leave it. Then `settle_groups`, which reads each touched group's result row from its accumulators and
compares it with the one before. Both take up to so many from the queue at a time, so that the caller can make room.
Nothing is negative any more: a negative count is an error of the feeds.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import NEGATIVE, OK, OVERFLOW, Int, Row, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.int128_signed import add, as_double, has_38_digits, joined, negated, split, without_digits
from dynq_cli.engine.kernels.order_statistic_blocks import row_at
from dynq_cli.engine.kernels.order_statistic_search import first, last, select, total
from dynq_cli.engine.kernels.order_statistic_tree import change, delete, insert
from dynq_cli.engine.kernels.products import exact_product, product_as_double
from dynq_cli.engine.kernels.superaccumulator import D_COUNT, D_SPILL, INFINITY, NAN, add_double, sum_of_doubles
from dynq_cli.engine.kernels.table import dequeue, record, remove

MEASURE = row_type(
    "kind",  # a `Kind`
    "place",  # word of the group's record: the accumulator's first
    "table",  # of values, or of spills; of an average the place of the sum that counts its values, or -1; bits
    "tree",  # of values: a row of the forest, or -1; of an average of doubles as `table` is of another
    "digits",  # digits behind the point that the accumulator has and the measure does not; all of them, for averages;
    # of a time between two, what it is multiplied by
    "value",  # the word of a value's record that is read
    "fraction",  # of a quantile, in units of 1 / UNITS
    "column",  # the first of its columns in the result, the keys not counted
    "width",  # how many columns it has
)


class Kind(IntEnum):
    """How a measure is read from its accumulator."""

    COUNT = 0
    SUM = 1
    AVG = 2
    SUM_OF_DOUBLES = 3
    AVG_OF_DOUBLES = 4
    LEAST = 5
    GREATEST = 6
    SUM_OR_ZERO = 7
    BITS_OF_ALL = 8
    BITS_OF_ANY = 9
    BITS_ODD = 10
    AT = 11
    BETWEEN_NUMBERS = 12
    BETWEEN_DOUBLES = 13
    BETWEEN_FLOATS = 14
    BETWEEN_INTEGERS = 15
    PRODUCT = 16
    PRODUCT_AS_DOUBLE = 17


COUNT, SUM, AVG, SUM_OF_DOUBLES, AVG_OF_DOUBLES, LEAST, GREATEST, SUM_OR_ZERO, *_MORE = (int(kind) for kind in Kind)
BITS_OF_ALL, BITS_OF_ANY, BITS_ODD, AT, BETWEEN_NUMBERS, BETWEEN_DOUBLES, BETWEEN_FLOATS, *_PRODUCTS = _MORE
BETWEEN_INTEGERS, PRODUCT, PRODUCT_AS_DOUBLE = _PRODUCTS

# What a tree does with the copies of a value: nothing, count them, or order by them.
BY_VALUE, WITH_COPIES, BY_COPIES = range(3)
UNITS = 10**9

Doubles = NDArray[np.float64]
_LOWEST = -(2**63)


class Given(NamedTuple):
    """The result rows of groups, to be filled."""

    rows: Words  # a row per column, keys first
    copies: Words  # -1 for a row that a group had, 1 for one that it has


class Summed(NamedTuple):
    """Where a group adds up its distinct values, if it does."""

    places: Words  # words of its record: of an exact sum and of one of doubles; or -1
    width: Words  # the columns of a value
    spills: Words  # the table of spills, and the number of the sum of doubles
    key: Words  # scratch: a key, or four words


class Reading(NamedTuple):
    """The scratch for reading a group."""

    row: Words  # the values of a group
    words: Words  # those of a sum of doubles
    bits: Words  # one word,
    doubles: Doubles  # seen as a double


@kernel
def _add_value(store: Store, summed: Summed, group: Int, at: Int, value: Int, sign: Int) -> Int:
    """Add a distinct value to the sum of its group, or subtract it; return whether it fits."""
    words, exact, doubles = store.words, summed.places[0], summed.places[1]
    if doubles >= 0:
        spills, number = summed.spills[0], summed.spills[1]
        add_double(store, spills, at + doubles, group, number, words[value + 1], sign, summed.key)
    if exact < 0:
        return True
    lo, hi = words[value + 1], words[value + 1] >> 63
    if summed.width[0] == 2:
        lo, hi = joined(words[value + 1], words[value + 2])
    if sign < 0:
        lo, hi = negated(lo, hi)
    place = at + exact
    words[place] += sign
    words[place + 1], words[place + 2], fits = add(words[place + 1], words[place + 2], lo, hi)
    return fits


@kernel
def settle_values(
    store: Store, tree_id: Int, table_id: Int, values_id: Int, place: Int, order: Int, summed: Summed, most: Int
) -> tuple[Int, Int]:
    """Settle up to `most` touched values of the groups' table of values; return a status and how many there were.

    `tree_id` is the tree of their order, or -1. Behind its copies a value has what the tree knows of them: whether
    there are any, or how many if that matters to the tree (`order`). The tree reads nothing else of a value that
    changes, so a commit may change many. The status is OK, NEGATIVE, or OVERFLOW of a sum of values.
    """
    words = store.words
    values_table = store.tables[values_id]
    mult, n = values_table.mult, 0
    while n < most:
        row = dequeue(store, values_id)
        if row < 0:
            break
        n += 1
        at = record(values_table, row)
        first = record(store.tables[table_id], words[at])
        group = first + place
        if words[at + mult] < 0:
            return NEGATIVE, n
        is_there, was_there = words[at + mult] > 0, words[at + mult + 1] != 0
        if is_there and not was_there:
            words[at + mult + 1] = 1 if order == BY_VALUE else words[at + mult]
            words[group] += 1
            if tree_id >= 0:
                insert(store, tree_id, 2 * group + 2, row)
            if not _add_value(store, summed, words[at], first, at, np.int64(1)):
                return OVERFLOW, n
        elif was_there and not is_there:
            words[group] -= 1
            if tree_id >= 0:
                delete(store, tree_id, 2 * group + 2, row)
            if not _add_value(store, summed, words[at], first, at, np.int64(-1)):
                return OVERFLOW, n
        elif is_there and order == WITH_COPIES and words[at + mult] != words[at + mult + 1]:
            summed.key[0], summed.key[1] = words[at + mult + 1], np.int64(0)
            summed.key[2], summed.key[3] = words[at + mult], np.int64(0)
            change(store, tree_id, 2 * group + 2, row, summed.key[:2], summed.key[2:4])
            words[at + mult + 1] = words[at + mult]
        elif is_there and order == BY_COPIES and words[at + mult] != words[at + mult + 1]:
            delete(store, tree_id, 2 * group + 2, row)
            words[at + mult + 1] = words[at + mult]
            insert(store, tree_id, 2 * group + 2, row)
        if not is_there:
            remove(store, values_id, row)
    return OK, n


@kernel(inline="always")
def _code(value: float, reading: Reading) -> Int:
    """Return the code of a double."""
    if value != value:
        return np.int64(NAN)
    reading.doubles[0] = value + 0.0
    bits = reading.bits[0]
    return bits if bits >= 0 else ~(bits ^ _LOWEST)


@kernel(inline="always")
def _double(code: Int, reading: Reading) -> Any:
    reading.bits[0] = code if code >= 0 else ~code ^ _LOWEST
    return reading.doubles[0]


@kernel(error_model="numpy")
def _average(lo: Int, hi: Int, count: float, digits: Int) -> float:
    unit = 1.0
    for _ in range(digits):
        unit *= 10.0
    return as_double(lo, hi) / (count * unit)


@kernel(error_model="numpy")
def _of_doubles(kind: Int, total: Int, count: float, reading: Reading) -> Int:
    if kind == SUM_OF_DOUBLES or total == NAN or total == INFINITY or total == ~INFINITY:
        return total
    return _code(_double(total, reading) / count, reading)


@kernel
def _extreme(store: Store, measure: Row, at: Int, out: Words) -> None:
    """Return the least or the greatest value of a group."""
    words = store.words
    tree_id, column, root = measure.tree, measure.column, np.int64(store.halves[2 * at + 2])
    if words[at] == 0:
        for j in range(measure.width):
            out[column + j] = NULL
        return
    if measure.kind == LEAST:
        code, entry = first(store, tree_id, root)
    else:
        code, entry = last(store, tree_id, root)
    found = record(store.tables[measure.table], row_at(store, tree_id, code, entry))
    for j in range(measure.width):
        out[column + j] = words[found + measure.value + j]


@kernel
def _value_at(store: Store, measure: Row, root: Int, place: Int) -> Int:
    """Return the record of the value at a place among the copies of all values, counted from 0."""
    code, entry, _, _ = select(store, measure.tree, root, np.int64(0), place, np.int64(0))
    return record(store.tables[measure.table], row_at(store, measure.tree, code, entry))


@kernel
def _quantile(store: Store, measure: Row, at: Int, reading: Reading) -> None:
    """Return the value at a fraction of a group's values, as DuckDB takes it; if needed, one between two of them."""
    words, out, column = store.words, reading.row, measure.column
    if words[at] == 0:
        for j in range(measure.width):
            out[column + j] = NULL
        return
    root = np.int64(store.halves[2 * at + 2])
    total(store, measure.tree, root, reading.words)
    many = reading.words[0]
    if measure.kind == AT:
        # In two parts, so that no product leaves 63 bits.
        rest = UNITS - measure.fraction
        behind = many // UNITS * rest + many % UNITS * rest // UNITS
        found = _value_at(store, measure, root, max(many - behind, np.int64(1)) - 1)
        for j in range(measure.width):
            out[column + j] = words[found + 1 + j]
        return
    place = float(many - 1) * (float(measure.fraction) / float(UNITS))
    below = np.int64(np.floor(place))
    share = place - float(below)
    low = words[_value_at(store, measure, root, below) + 1]
    high = low
    if share > 0.0:
        high = words[_value_at(store, measure, root, below + 1) + 1]
    out[column] = _between(measure, low, high, share, reading)


@kernel
def _between(measure: Row, low: Int, high: Int, share: float, reading: Reading) -> Int:
    """Return the code of a value between two others: a decimal is cut off, a time rounded, as DuckDB does."""
    kind = measure.kind
    if kind == BETWEEN_INTEGERS and measure.digits == 0:
        return np.int64(float(low) + float(high - low) * share) if share > 0.0 else low
    if kind == BETWEEN_INTEGERS:
        low, high = low * measure.digits, high * measure.digits
        value = float(low) * (1.0 - share) + float(high) * share
        rounded = np.int64(np.floor(abs(value) + 0.5))
        return low if share == 0.0 else rounded if value >= 0.0 else -rounded
    if low == high or share == 0.0:
        return _code(float(low), reading) if kind == BETWEEN_NUMBERS else low
    if kind == BETWEEN_NUMBERS:
        return _code(float(low) * (1.0 - share) + float(high) * share, reading)
    value = _double(low, reading) * (1.0 - share)
    value += _double(high, reading) * share
    if kind == BETWEEN_FLOATS:
        value = float(np.float32(value))
    return _code(value, reading)


@kernel
def _sum(words: Words, measure: Row, at: Int, out: Words) -> Int:
    """Write an exact sum, in one column or two."""
    column = measure.column
    lo, hi = without_digits(words[at + 1], words[at + 2], measure.digits)
    if measure.width == 2:
        if not has_38_digits(lo, hi):
            return OVERFLOW
        out[column], out[column + 1] = split(lo, hi)
        return OK
    if hi != lo >> 63 or lo == NULL:
        return OVERFLOW
    out[column] = lo
    return OK


@kernel
def _bits(words: Words, measure: Row, at: Int) -> Int:
    """Return the integer with the bits that all rows have, or any, or an odd number of them."""
    made, rows, many = np.int64(0), words[at], measure.table
    for bit in range(many):
        having = words[at + 1 + bit]
        if measure.kind == BITS_OF_ALL:
            is_set = having == rows
        elif measure.kind == BITS_OF_ANY:
            is_set = having > 0
        else:
            is_set = (having & 1) == 1
        if is_set:
            made |= np.int64(1) << bit
    # The highest bit is the sign.
    lost = 64 - many
    return (made << lost) >> lost


@kernel
def _read(store: Store, measures: Rows, group: Int, reading: Reading) -> tuple[Int, Int]:
    """Read a group's row of the result, without the keys; return OK or OVERFLOW, and the measure that overflowed."""
    words, out = store.words, reading.row
    for m in range(len(measures)):
        measure = measures[m]
        kind, at, column = measure.kind, group + measure.place, measure.column
        if kind == COUNT:
            out[column] = words[at]
        elif kind == SUM_OR_ZERO:
            if _sum(words, measure, at, out) != OK:
                return OVERFLOW, m
        elif kind == LEAST or kind == GREATEST:
            _extreme(store, measure, at, out)
        elif words[at] == 0:
            for j in range(measure.width):
                out[column + j] = NULL
        elif kind == SUM:
            if _sum(words, measure, at, out) != OK:
                return OVERFLOW, m
        elif kind == PRODUCT:
            lo, hi, fits = exact_product(words, at)
            if not fits:
                return OVERFLOW, m
            out[column], out[column + 1] = split(lo, hi)
        elif kind == PRODUCT_AS_DOUBLE:
            out[column] = _code(product_as_double(words, at, measure.digits), reading)
        elif kind >= AT:
            _quantile(store, measure, at, reading)
        elif kind >= BITS_OF_ALL:
            out[column] = _bits(words, measure, at)
            if out[column] == NULL:
                return OVERFLOW, m
        elif kind == AVG:
            count, counted = float(words[at]), group + measure.table
            if measure.table >= 0:
                count = as_double(words[counted + 1], words[counted + 2])
            out[column] = _code(_average(words[at + 1], words[at + 2], count, measure.digits), reading)
        else:
            total = sum_of_doubles(store, measure.table, at, reading.words)
            count, counted = float(words[at + D_COUNT]), group + measure.tree
            if measure.tree >= 0:
                count = as_double(words[counted + 1], words[counted + 2])
            out[column] = _of_doubles(kind, total, count, reading)
    return OK, np.int64(-1)


@kernel
def _give(words: Words, at: Int, arity: Int, values: Words, start: Int, width: Int, rows: Words, n: Int) -> None:
    for j in range(arity):
        rows[j, n] = words[at + j]
    for j in range(width):
        rows[arity + j, n] = values[start + j]


@kernel
def settle_groups(
    store: Store,
    measures: Rows,
    table_id: Int,
    place: Int,
    width: Int,
    one_row: Int,
    spills: Words,
    given: Given,
    filled: Int,
    reading: Reading,
) -> tuple[Int, Int, Int]:
    """Write for touched groups the old result row with -1 and the new one with 1, if they differ, behind those that are
    filled; stop when two more rows would not fit.

    `place` is where a group's record counts its rows, `width` how many values follow the keys, `spills` the table of
    spills and the places of the accumulators that may have one. Returns OK, NEGATIVE or OVERFLOW; the rows filled; and
    how many groups were looked at, or the measure that overflowed. A group without rows is freed, with all it has.
    """
    words, out, rows, copies = store.words, reading.row, given.rows, given.copies
    table = store.tables[table_id]
    n, seen, arity = filled, 0, table.arity
    while n + 2 <= len(copies):
        g = dequeue(store, table_id)
        if g < 0:
            break
        seen += 1
        at = record(table, g)
        kept = at + place + 2
        if words[at + place] < 0:
            return NEGATIVE, n, seen
        is_there, was_there = one_row or words[at + place] > 0, words[at + place + 1] != 0
        same = is_there and was_there
        if is_there:
            done, which = _read(store, measures, at, reading)
            if done != OK:
                return done, n, which
            for j in range(width):
                same = same and out[j] == words[kept + j]
        if was_there and not same:
            _give(words, at, arity, words, kept, width, rows, n)
            copies[n] = -1
            n += 1
        if is_there and not same:
            _give(words, at, arity, out, np.int64(0), width, rows, n)
            copies[n] = 1
            n += 1
            for j in range(width):
                words[kept + j] = out[j]
        words[at + place + 1] = is_there
        if words[at + place] == 0:
            _drop_spills(store, spills, at)
            if not is_there:
                remove(store, table_id, g)
    return OK, n, seen


@kernel
def _drop_spills(store: Store, spills: Words, at: Int) -> None:
    """Reset a group without rows: its sums of doubles are 0, and their windows may be anywhere."""
    words = store.words
    for i in range(1, len(spills)):
        place = at + spills[i]
        if words[place + D_SPILL]:
            remove(store, spills[0], words[place + D_SPILL] - 1)
        words[place + D_SPILL] = 0
        words[place + D_SPILL - 1] = 0
