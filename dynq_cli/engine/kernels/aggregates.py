"""Rows taken into the groups of an aggregate query: each accumulator of a group adds up its part of every row.

A group is a row of a table keyed by the codes it groups by. Behind them its record has, in words:

    its rows | whether it gave a row of the result | the values of that row | accumulators

A row comes with a number of copies, negative where it goes. Within a commit anything may be negative for a while: what
comes of the touched groups, which stand in their table's queue, is looked at when all rows are in (`aggregate_rows`).

The accumulators:

    counts   rows where some columns are not NULL: one word
    exact    rows where Σ coefficient · Π factors is not NULL, and its sum: a word and 128 bits (`exact_sums`)
    doubles  the same of doubles (`superaccumulator`)
    values   how many distinct values of a column there are, and the root of the tree that has them in order, if it is
             asked for the least or greatest: a word each. The values are rows of a table of their own, keyed by
             (group, value), with their copies
"""

from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.exact_sums import no_null
from dynq_cli.engine.kernels.fields import (
    OK,
    OVERFLOW,
    ROW_OF_SLOT,
    T_ARITY,
    T_MASK,
    T_MULT,
    T_SLOTS,
    T_STRIDE,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.superaccumulator import add_double
from dynq_cli.engine.kernels.table import enqueue, find_or_insert_tagged, record, tag_of

NO_ROOT = -1


@bare(inline="always")
def _ask(a64: Words, T: Words, t: Int, tags: Words, n: Int) -> None:
    """The records of the next n rows are needed soon; their slots have been asked for."""
    for k in range(n):
        slot = a64[T[t, T_SLOTS] + (tags[k] & T[t, T_MASK])]
        if slot != 0:
            prefetch(a64, record(T, t, (slot & ROW_OF_SLOT) - 1))


@bare(inline="always")
def _sum_fits(a: Int, b: Int) -> Int:
    return ((a ^ (a + b)) & (b ^ (a + b))) >= 0


@bare
def find_groups(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    rows: Int,
    roots: Words,
    codes: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
    key: Words,
    tags: Words,
) -> Int:
    """The group of each row, made if need be, queued and its rows counted; the caller has made room.

    `roots` are the half words where a group's record has the roots of trees.
    """
    arity = T[t, T_ARITY]
    for first in range(start, stop, AHEAD):
        end = min(first + AHEAD, stop)
        for i in range(first, end):
            for j in range(arity):
                key[j] = codes[j, i]
            tags[i - first] = tag_of(key, arity)
            prefetch(a64, T[t, T_SLOTS] + (tags[i - first] & T[t, T_MASK]))
        _ask(a64, T, t, tags, end - first)
        for i in range(first, end):
            for j in range(arity):
                key[j] = codes[j, i]
            g, is_new = find_or_insert_tagged(a64, a32, T, t, key, tags[i - first])
            at = record(T, t, g)
            if is_new:
                start_group(a64, a32, T, t, at, rows, roots)
            groups[i - start] = g
            enqueue(a32, T, t, g)
            if not _sum_fits(a64[at + rows], copies[i]):
                return OVERFLOW
            a64[at + rows] += copies[i]
    return OK


@bare
def start_group(a64: Words, a32: Halves, T: Words, t: Int, at: Int, rows: Int, roots: Words) -> None:
    """A new group has no rows."""
    for i in range(rows, T[t, T_STRIDE] - 1):
        a64[at + i] = 0
    for i in range(len(roots)):
        a32[2 * at + roots[i]] = NO_ROOT


@bare
def touch(a32: Halves, T: Words, t: Int, group: Int) -> None:
    """Have a group looked at although no row was taken into it."""
    enqueue(a32, T, t, group)


@bare
def add_counts(
    a64: Words,
    T: Words,
    t: Int,
    place: Int,
    columns: Words,
    codes: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
) -> None:
    """Count the rows that are NULL in none of the columns. They are rows of the group, whose number fits."""
    for i in range(start, stop):
        if no_null(codes, columns, i):
            a64[record(T, t, groups[i - start]) + place] += copies[i]


@bare
def add_doubles(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    place: Int,
    spills: Int,
    number: Int,
    values: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
    key: Words,
) -> None:
    """Add up doubles, given by their codes, NULL left out; the caller has made room for as many spills."""
    for i in range(start, stop):
        code = values[i - start]
        if code != NULL:
            g = groups[i - start]
            add_double(a64, a32, T, spills, record(T, t, g) + place, g, number, code, copies[i], key)


@bare
def add_values(
    a64: Words,
    a32: Halves,
    T: Words,
    v: Int,
    columns: Words,
    codes: Words,
    copies: Words,
    start: Int,
    stop: Int,
    groups: Words,
    key: Words,
    tags: Words,
) -> None:
    """Add to the copies of each group's values in table v, NULL left out; the caller has made room."""
    width, mult = len(columns), T[v, T_MULT]
    for first in range(start, stop, AHEAD):
        end = min(first + AHEAD, stop)
        for i in range(first, end):
            key[0] = groups[i - start]
            for j in range(width):
                key[j + 1] = codes[columns[j], i]
            tags[i - first] = tag_of(key, width + 1)
            prefetch(a64, T[v, T_SLOTS] + (tags[i - first] & T[v, T_MASK]))
        _ask(a64, T, v, tags, end - first)
        for i in range(first, end):
            if codes[columns[0], i] == NULL:
                continue
            key[0] = groups[i - start]
            for j in range(width):
                key[j + 1] = codes[columns[j], i]
            row, is_new = find_or_insert_tagged(a64, a32, T, v, key, tags[i - first])
            at = record(T, v, row)
            if is_new:
                a64[at + mult + 1] = 0
            a64[at + mult] += copies[i]
            enqueue(a32, T, v, row)
