"""The groups of an aggregate query over a sequence of commits: rows are taken in, then the touched groups are settled.

As `aggregates`, `exact_sums` and `aggregate_rows` for one commit; the result rows of all commits stand one after the
other.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.aggregate_rows import Given, Reading, Summed, settle_groups, settle_values
from dynq_cli.engine.kernels.aggregates import add_bits, add_counts, add_doubles, add_values, find_groups
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.exact_sums import Sums, Taken, add_exact
from dynq_cli.engine.kernels.fields import OK, OVERFLOW, Int, Rows, Store, Words, row_type

# The groups' table, where their records count rows, the values that follow the keys, the table of spills.
SHAPE = row_type("table", "rows", "width", "one_row", "spills")
# Columns that may not be NULL: where the counts stand, and where in the list of numbers the columns begin and end.
COUNTED = row_type("place", "first", "stop")
# A table of values: the words that they take in groups, their tree or -1 and its order, their columns and those that
# may not be NULL, and where the groups sum them (`aggregate_rows.Summed`).
VALUES = row_type("table", "place", "tree", "order", "first", "stop", "first_required", "stop_required", "first_summed")
# Which aggregate does not fit: the first are sums, by their numbers.
A_COUNT, DISTINCT_VALUES = -1, -2


class Accumulators(NamedTuple):
    """What the groups of a query keep; see `aggregates`."""

    shape: Rows  # SHAPE: one row
    measures: Rows  # aggregate_rows.MEASURE
    roots: Words
    counts: Rows  # COUNTED
    values: Rows  # VALUES
    columns: Words  # of the counts and of values, and what sums of values need: two places, a width, and two for spills
    sums: Sums
    doubles: Words  # a row each: place and number
    bits: Words  # a row each: place, column, and how many
    spills: Words  # the table of spills and the places of accumulators that may have one


class Inflow(NamedTuple):
    """The rows of a sequence of commits."""

    taken: Taken
    ends: Words  # the k-th commit ends before this row
    doubles: Words  # a row per sum of doubles: the codes of what the rows add to it


@kernel
def run(
    store: Store,
    groups: Accumulators,
    inflow: Inflow,
    most: Int,
    given: Given,
    ends: Words,
    reading: Reading,
) -> tuple[Int, Int]:
    """Take the rows of each commit into the groups, up to `most` at a time, and write down how result rows change.

    The caller has made room for all rows. `ends` get the number of result rows up to each commit. Returns OK, or
    OVERFLOW and A_COUNT, DISTINCT_VALUES, the number of the sum; or of the measure, counted from that of the sums.
    """
    taken, start, n = inflow.taken, np.int64(0), np.int64(0)
    shape = groups.shape[0]
    for commit in range(len(inflow.ends)):
        while start < inflow.ends[commit]:
            stop = min(start + most, inflow.ends[commit])
            status, which = _take(store, groups, inflow, start, stop)
            if status != OK:
                return status, which
            start = stop
        if store.tables[shape.table].queue_head >= 0:
            if not _settle_values(store, groups, taken.key, most):
                return OVERFLOW, np.int64(DISTINCT_VALUES)
            status, n, which = settle_groups(
                store,
                groups.measures,
                shape.table,
                shape.rows,
                shape.width,
                shape.one_row,
                groups.spills,
                given,
                n,
                reading,
            )
            if status != OK:
                return status, which + len(groups.sums.each)
        ends[commit] = n
    return OK, np.int64(len(taken.copies))


@kernel(inline="always")
def _take(store: Store, groups: Accumulators, inflow: Inflow, start: Int, stop: Int) -> tuple[Int, Int]:
    """Take some rows into their groups."""
    shape, taken = groups.shape[0], inflow.taken
    if find_groups(store, shape.table, shape.rows, groups.roots, taken, start, stop) != OK:
        return OVERFLOW, np.int64(A_COUNT)
    for k in range(len(groups.counts)):
        one = groups.counts[k]
        add_counts(store, shape.table, one.place, groups.columns[one.first : one.stop], taken, start, stop)
    if len(groups.sums.each) > 0:
        status, which = add_exact(store, shape.table, groups.sums, taken, start, stop)
        if status != OK:
            return status, np.int64(which)
    for k in range(len(groups.doubles)):
        place, number = groups.doubles[k, 0], groups.doubles[k, 1]
        values = inflow.doubles[k][start:]
        add_doubles(store, shape.table, place, shape.spills, number, values, taken, start, stop)
    for k in range(len(groups.bits)):
        add_bits(store, shape.table, groups.bits[k], taken, start, stop)
    for k in range(len(groups.values)):
        each = groups.values[k]
        columns = groups.columns[each.first : each.stop]
        required = groups.columns[each.first_required : each.stop_required]
        add_values(store, each.table, columns, required, taken, start, stop)
    return OK, np.int64(0)


@kernel(inline="always")
def _settle_values(store: Store, groups: Accumulators, key: Words, most: Int) -> Int:
    """Settle the touched values of all tables; False if a sum of them does not fit."""
    for k in range(len(groups.values)):
        each = groups.values[k]
        sums = groups.columns[each.first_summed : each.first_summed + 5]
        summed, n = Summed(sums[:2], sums[2:3], sums[3:5], key), most
        while n == most:
            status, n = settle_values(
                store, each.tree, groups.shape[0].table, each.table, each.place, each.order, summed, most
            )
            if status != OK:
                return False
    return True
