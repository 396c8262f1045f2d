"""Rows taken into the groups of an aggregate query: each accumulator of a group adds up its part of every row.

A group is a row of a table keyed by the codes it groups by. Behind them its record has, in words:

    its rows | whether it gave a row of the result | the values of that row | accumulators

A row comes with a number of copies, negative where it goes. Within a commit anything may be negative for a while: what
comes of the touched groups, which stand in their table's queue, is looked at when all rows are in (`aggregate_rows`).

The accumulators:

    counts   rows where some columns are not NULL: one word
    exact    rows where Σ coefficient · Π factors is not NULL, and its sum: a word and 128 bits (`exact_sums`)
    doubles  the same of doubles (`superaccumulator`)
    bits     rows where an integer is not NULL, and for each of its bits the rows that have it: a word each
    product  the product of numbers, and how many of them are 0 (`products`)
    values   how many distinct values of a column there are, and the root of the tree that has them in order, if it is
             asked for the least or greatest: a word each. The values are rows of a table of their own, keyed by
             (group, value), with their copies. Their sum is an accumulator as above
"""

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.exact_sums import Taken, no_null
from dynq_cli.engine.kernels.fields import OK, OVERFLOW, ROW_OF_SLOT, Int, Store, Words
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.superaccumulator import add_double
from dynq_cli.engine.kernels.table import enqueue, find_or_insert_tagged, record, tag_of

NO_ROOT = -1


@kernel(inline="always")
def _ask(store: Store, table_id: Int, tags: Words, n: Int) -> None:
    """Prefetch the records of the next n rows; their slots have been prefetched."""
    words = store.words
    table = store.tables[table_id]
    for k in range(n):
        slot = words[table.slots + (tags[k] & table.mask)]
        if slot != 0:
            prefetch(words, record(table, (slot & ROW_OF_SLOT) - 1))


@kernel(inline="always")
def _sum_fits(a: Int, b: Int) -> Int:
    return ((a ^ (a + b)) & (b ^ (a + b))) >= 0


@kernel
def find_groups(store: Store, table_id: Int, rows: Int, roots: Words, taken: Taken, start: Int, stop: Int) -> Int:
    """Find the group of each row, made if needed; queue it and count its rows. The caller has made room.

    `roots` are the half words where a group's record has the roots of trees.
    """
    key, tags = taken.key, taken.tags
    words = store.words
    table = store.tables[table_id]
    arity = table.arity
    for first in range(start, stop, AHEAD):
        end = min(first + AHEAD, stop)
        for i in range(first, end):
            for j in range(arity):
                key[j] = taken.codes[j, i]
            tags[i - first] = tag_of(key, arity)
            prefetch(words, table.slots + (tags[i - first] & table.mask))
        _ask(store, table_id, tags, end - first)
        for i in range(first, end):
            for j in range(arity):
                key[j] = taken.codes[j, i]
            g, is_new = find_or_insert_tagged(store, table_id, key, tags[i - first])
            at = record(table, g)
            if is_new:
                start_group(store, table_id, at, rows, roots)
            taken.groups[i - start] = g
            enqueue(store, table_id, g)
            if not _sum_fits(words[at + rows], taken.copies[i]):
                return OVERFLOW
            words[at + rows] += taken.copies[i]
    return OK


@kernel
def start_group(store: Store, table_id: Int, at: Int, rows: Int, roots: Words) -> None:
    """Make a new group, without rows."""
    for i in range(rows, store.tables[table_id].stride - 1):
        store.words[at + i] = 0
    for i in range(len(roots)):
        store.halves[2 * at + roots[i]] = NO_ROOT


@kernel
def touch(store: Store, table_id: Int, group: Int) -> None:
    """Queue a group although no row was taken into it."""
    enqueue(store, table_id, group)


@kernel
def add_counts(store: Store, table_id: Int, place: Int, columns: Words, taken: Taken, start: Int, stop: Int) -> None:
    """Count the rows that are NULL in none of the columns; they are rows of the group, whose number fits."""
    for i in range(start, stop):
        if no_null(taken.codes, columns, i):
            store.words[record(store.tables[table_id], taken.groups[i - start]) + place] += taken.copies[i]


@kernel
def add_doubles(
    store: Store,
    table_id: Int,
    place: Int,
    spills: Int,
    number: Int,
    values: Words,
    taken: Taken,
    start: Int,
    stop: Int,
) -> None:
    """Add up doubles, given by their codes, without NULLs; the caller has made room for as many spills."""
    for i in range(start, stop):
        code = values[i - start]
        if code != NULL:
            g = taken.groups[i - start]
            add_double(
                store, spills, record(store.tables[table_id], g) + place, g, number, code, taken.copies[i], taken.key
            )


@kernel
def add_bits(store: Store, table_id: Int, bits: Words, taken: Taken, start: Int, stop: Int) -> None:
    """Count the rows that are not NULL, and for each bit the rows that have it; `bits` are place, column, and how
    many."""
    place, column, many = bits[0], bits[1], bits[2]
    for i in range(start, stop):
        code = taken.codes[column, i]
        if code != NULL:
            at = record(store.tables[table_id], taken.groups[i - start]) + place
            store.words[at] += taken.copies[i]
            for bit in range(many):
                store.words[at + 1 + bit] += ((code >> bit) & 1) * taken.copies[i]


@kernel
def add_values(
    store: Store, table_id: Int, columns: Words, required: Words, taken: Taken, start: Int, stop: Int
) -> None:
    """Add to the copies of each group's values; the caller has made room.

    Rows with NULL in one of the columns `required` are left out.
    """
    key, tags = taken.key, taken.tags
    words = store.words
    values_table = store.tables[table_id]
    width, mult = len(columns), values_table.mult
    for first in range(start, stop, AHEAD):
        end = min(first + AHEAD, stop)
        for i in range(first, end):
            key[0] = taken.groups[i - start]
            for j in range(width):
                key[j + 1] = taken.codes[columns[j], i]
            tags[i - first] = tag_of(key, width + 1)
            prefetch(words, values_table.slots + (tags[i - first] & values_table.mask))
        _ask(store, table_id, tags, end - first)
        for i in range(first, end):
            if not no_null(taken.codes, required, i):
                continue
            key[0] = taken.groups[i - start]
            for j in range(width):
                key[j + 1] = taken.codes[columns[j], i]
            row, is_new = find_or_insert_tagged(store, table_id, key, tags[i - first])
            at = record(values_table, row)
            if is_new:
                for j in range(mult + 1, values_table.stride - 1):
                    words[at + j] = 0
            words[at + mult] += taken.copies[i]
            enqueue(store, table_id, row)
