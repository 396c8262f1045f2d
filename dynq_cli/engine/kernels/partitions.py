"""Rows in partitions, each in an order: which rows a partition shows, and what came and went since the last commit.

A partition is a row of one table, keyed by the codes that identify it. Behind these its record has, in words:

    its rows | root of the tree that has them in order | first row shown | first row offered

A row is a row of another table, keyed by (partition, codes) and ordered by a tree. Behind the key, in words:

    copies | those that the tree counts | those shown | those offered | next row shown | next row offered

Links are 0, or a row + 1. Rows that are shown may stand in a table of their own, with the same words: the results of
functions over a partition. Between commits nothing is offered, and the tree counts the copies that are there.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.exact_sums import Taken
from dynq_cli.engine.kernels.fields import NEGATIVE, OK, Int, Store, Words
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, row_at
from dynq_cli.engine.kernels.order_statistic_search import first, following, select
from dynq_cli.engine.kernels.order_statistic_tree import change, delete, insert
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import dequeue, enqueue, find_or_insert_tagged, record, remove, tag_of

# Words of a row behind its key, and of a partition behind its number of rows.
COPIES, COUNTED, SHOWN, OFFERED, NEXT_SHOWN, NEXT_OFFERED, ROW_WORDS = range(7)
ROWS, ROOT, FIRST_SHOWN, FIRST_OFFERED, PARTITION_WORDS = range(5)


class Given(NamedTuple):
    """Deleted and inserted rows, to be filled."""

    rows: Words  # a row per column
    copies: Words  # signed


class Listing(NamedTuple):
    """Rows of partitions in order, to be filled."""

    partitions: Words
    rows: Words
    state: Words  # the partition in turn, and a cursor in it: its block, -2^62 before the first; its entry


_NOT_BEGUN = -(2**62)


@kernel
def add_rows(store: Store, rows_id: Int, taken: Taken, width: Int, start: Int, stop: Int) -> None:
    """Add to the copies of rows of partitions; the caller has made room."""
    key, tags = taken.key, taken.tags
    words = store.words
    table = store.tables[rows_id]
    mult = table.mult
    for begin in range(start, stop, AHEAD):
        end = min(begin + AHEAD, stop)
        for i in range(begin, end):
            key[0] = taken.groups[i - start]
            for j in range(width):
                key[j + 1] = taken.codes[j, i]
            tags[i - begin] = tag_of(key, width + 1)
            prefetch(words, table.slots + (tags[i - begin] & table.mask))
        for i in range(begin, end):
            key[0] = taken.groups[i - start]
            for j in range(width):
                key[j + 1] = taken.codes[j, i]
            row, is_new = find_or_insert_tagged(store, rows_id, key, tags[i - begin])
            at = record(table, row) + mult
            if is_new:
                for j in range(1, ROW_WORDS):
                    words[at + j] = 0
            words[at] += taken.copies[i]
            enqueue(store, rows_id, row)


@kernel
def settle_rows(
    store: Store, tree_id: Int, partitions_id: Int, rows_id: Int, place: Int, lanes: Words, most: Int
) -> tuple[Int, Int]:
    """Update the trees by up to `most` touched rows; return OK or NEGATIVE, and how many there were.

    `place` is where a partition's record counts its rows, `lanes` four words of scratch.
    """
    words = store.words
    table = store.tables[rows_id]
    n = 0
    while n < most:
        row = dequeue(store, rows_id)
        if row < 0:
            break
        n += 1
        at = record(table, row)
        root_at = 2 * (record(store.tables[partitions_id], words[at]) + place + ROOT)
        at += table.mult
        now, before = words[at], words[at + COUNTED]
        if now < 0:
            return NEGATIVE, n
        if before == 0 and now > 0:
            words[at + COUNTED] = now
            insert(store, tree_id, root_at, row)
        elif before > 0 and now == 0:
            delete(store, tree_id, root_at, row)
            words[at + COUNTED] = 0
        elif before != now:
            lanes[0], lanes[1], lanes[2], lanes[3] = before, 0, now, 0
            change(store, tree_id, root_at, row, lanes[:2], lanes[2:])
            words[at + COUNTED] = now
        if now == 0 and words[at + SHOWN] == 0:
            remove(store, rows_id, row)
    return OK, n


@kernel
def _offer_prefix(store: Store, tree_id: Int, rows_id: Int, root: Int, offset: Int, limit: Int) -> Int:
    """Offer the rows behind the first `offset` copies of a partition, `limit` copies; the link to the first."""
    words = store.words
    table = store.tables[rows_id]
    code, entry, skipped, _ = select(store, tree_id, root, np.int64(0), np.int64(offset), np.int64(0))
    head, tail, left = np.int64(0), np.int64(-1), np.int64(limit)
    while code != NONE and left > 0:
        row = np.int64(row_at(store, tree_id, code, entry))
        at = record(table, row) + table.mult
        many = min(words[at + COUNTED] - skipped, left)
        skipped = np.int64(0)
        left -= many
        words[at + OFFERED], words[at + NEXT_OFFERED] = many, 0
        if tail < 0:
            head = row + 1
        else:
            words[tail + NEXT_OFFERED] = row + 1
        tail = at
        code, entry = following(store, tree_id, code, entry)
    return head


@kernel
def _show(store: Store, table_id: Int, at: Int, given: Given, n: Int) -> Int:
    """Show what a partition offers instead of what it showed; return the number of rows given so far, and these."""
    words, rows, copies = store.words, given.rows, given.copies
    table = store.tables[table_id]
    link = words[at + FIRST_SHOWN]
    while link > 0:
        row = link - 1
        key = record(table, row)
        here = key + table.mult
        link = words[here + NEXT_SHOWN]
        delta = words[here + OFFERED] - words[here + SHOWN]
        if delta != 0:
            for j in range(len(rows)):
                rows[j, n] = words[key + 1 + j]
            copies[n] = delta
            n += 1
        words[here + SHOWN] = words[here + OFFERED]
        if words[here + OFFERED] == 0 and words[here + COUNTED] == 0:
            remove(store, table_id, row)
    words[at + FIRST_SHOWN] = link = words[at + FIRST_OFFERED]
    words[at + FIRST_OFFERED] = 0
    while link > 0:
        key = record(table, link - 1)
        here = key + table.mult
        if words[here + SHOWN] == 0:
            for j in range(len(rows)):
                rows[j, n] = words[key + 1 + j]
            copies[n] = words[here + SHOWN] = words[here + OFFERED]
            n += 1
        words[here + OFFERED] = 0
        words[here + NEXT_SHOWN] = link = words[here + NEXT_OFFERED]
    return n


@kernel
def settle_prefixes(
    store: Store,
    tree_id: Int,
    partitions_id: Int,
    rows_id: Int,
    place: Int,
    offset: Int,
    limit: Int,
    most: Int,
    given: Given,
) -> Int:
    """Show the prefix of each touched partition, while `most` rows fit, as many as one may give; return how many.

    O(limit + log n) per partition.
    """
    words = store.words
    table = store.tables[partitions_id]
    n = 0
    while n + most <= len(given.copies):
        partition = dequeue(store, partitions_id)
        if partition < 0:
            break
        at = record(table, partition) + place
        root = np.int64(store.halves[2 * (at + ROOT)])
        words[at + FIRST_OFFERED] = _offer_prefix(store, tree_id, rows_id, root, offset, limit)
        n = _show(store, rows_id, at, given, n)
        if words[at] == 0:
            remove(store, partitions_id, partition)
    return n


@kernel
def touched(store: Store, partitions_id: Int, partitions: Words) -> Int:
    """Empty the queue of touched partitions into an array that has room for all."""
    n = 0
    while True:
        partition = dequeue(store, partitions_id)
        if partition < 0:
            return n
        partitions[n] = partition
        n += 1


@kernel
def list_rows(store: Store, tree_id: Int, partitions_id: Int, place: Int, partitions: Words, listing: Listing) -> Int:
    """List the rows of partitions in order until the listing is full; return how many. Begin with a state of 0, -2^62,
    0."""
    state = listing.state
    n = 0
    while state[0] < len(partitions) and n < len(listing.rows):
        partition = partitions[state[0]]
        if state[1] == _NOT_BEGUN:
            root = np.int64(store.halves[2 * (record(store.tables[partitions_id], partition) + place + ROOT)])
            state[1], state[2] = first(store, tree_id, root)
        code, entry = state[1], state[2]
        while code != NONE and n < len(listing.rows):
            listing.rows[n] = row_at(store, tree_id, code, entry)
            listing.partitions[n] = partition
            n += 1
            code, entry = following(store, tree_id, code, entry)
        state[1], state[2] = code, entry
        if code == NONE:
            state[0] += 1
            state[1] = _NOT_BEGUN
    return n


@kernel
def offer(
    store: Store, partitions_id: Int, table_id: Int, place: Int, partitions: Words, codes: Words, key: Words
) -> None:
    """Offer a row for each row of `codes`; the caller has made room."""
    words = store.words
    table = store.tables[table_id]
    width = table.arity
    for i in range(len(partitions)):
        key[0] = partitions[i]
        for j in range(width - 1):
            key[j + 1] = codes[i, j]
        row, is_new = find_or_insert_tagged(store, table_id, key, tag_of(key, width))
        here = record(table, row) + table.mult
        if is_new:
            for j in range(ROW_WORDS):
                words[here + j] = 0
        if words[here + OFFERED] == 0:
            at = record(store.tables[partitions_id], partitions[i]) + place
            words[here + NEXT_OFFERED] = words[at + FIRST_OFFERED]
            words[at + FIRST_OFFERED] = row + 1
        words[here + OFFERED] += 1


@kernel
def show_offered(store: Store, partitions_id: Int, table_id: Int, place: Int, partitions: Words, given: Given) -> Int:
    """Show what each partition offers, for which there is room; free partitions without rows. Return how many rows are
    given."""
    n = 0
    for i in range(len(partitions)):
        at = record(store.tables[partitions_id], partitions[i]) + place
        n = _show(store, table_id, at, given, n)
        if store.words[at] == 0:
            remove(store, partitions_id, partitions[i])
    return n
