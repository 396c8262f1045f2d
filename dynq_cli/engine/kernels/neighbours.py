"""Rows of partitions that stand near changed ones, in order, before and after a commit.

A function of the `reach` rows on either side of a row has another value only near a row that came, went, or has another
number of copies. During a commit the trees have the rows of before and of after. The rows of a partition that are
listed make *segments*, runs without a gap: an *affected* row has at most `reach` - 1 unchanged rows between itself and
a changed one, and the rows of its *context*, from which its value is computed, are in the same segment.

`partitions` describes the records; `SHOWN` has the copies of before, and `OFFERED` a row's mark.
"""

from typing import NamedTuple

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import NEGATIVE, OK, Int, Store, Words
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, row_at
from dynq_cli.engine.kernels.order_statistic_search import aim, following, preceding, seek
from dynq_cli.engine.kernels.order_statistic_tree import change, delete, insert
from dynq_cli.engine.kernels.partitions import COUNTED, OFFERED, ROOT, SHOWN
from dynq_cli.engine.kernels.table import dequeue, record, remove

# Marks of rows. Those that are listed have them with a minus.
CONTEXT, AFFECTED = 1, 2


class Near(NamedTuple):
    """The tables of partitions, and how far their functions look."""

    tree: Int
    partitions: Int
    rows: Int
    place: Int  # the word of a partition's record that counts its rows
    reach: Int


class Segments(NamedTuple):
    """Listed rows, to be filled."""

    rows: Words
    numbers: Words  # of their segments


@kernel
def drain(store: Store, table_id: Int, rows: Words) -> Int:
    """Empty the queue of touched rows into an array, as far as it has room; return how many."""
    n = 0
    while n < len(rows):
        row = dequeue(store, table_id)
        if row < 0:
            break
        rows[n] = row
        n += 1
    return n


@kernel
def _root_at(store: Store, near: Near, at: Int) -> Int:
    """Where the root of a row's tree stands."""
    return 2 * (record(store.tables[near.partitions], store.words[at]) + near.place + ROOT)


@kernel
def enter(store: Store, near: Near, rows: Words) -> Int:
    """Insert the touched rows that were not there into the trees; return OK or NEGATIVE. O(log n) per row."""
    words = store.words
    table = store.tables[near.rows]
    for i in range(len(rows)):
        at = record(table, rows[i])
        here = at + table.mult
        if words[here] < 0:
            return NEGATIVE
        if words[here + COUNTED] == 0 and words[here] > 0:
            words[here + COUNTED] = words[here]
            insert(store, near.tree, _root_at(store, near, at), rows[i])
    return OK


@kernel
def _cursor(store: Store, near: Near, row: Int) -> tuple[Int, Int]:
    """A cursor at a row of a tree."""
    at = record(store.tables[near.rows], row)
    aim(store, near.tree, row)
    keys = store.trees.forest[near.tree].keys
    return seek(store, near.tree, keys, row, store.halves[_root_at(store, near, at)])


@kernel
def _step(store: Store, near: Near, code: Int, entry: Int, forward: Int) -> tuple[Int, Int]:
    if forward:
        return following(store, near.tree, code, entry)
    return preceding(store, near.tree, code, entry)


@kernel
def mark(store: Store, near: Near, rows: Words) -> Int:
    """Mark the changed rows among the touched ones, the rows that they affect, and their context.

    Return how many rows have a mark. O(reach + log n) per changed row.
    """
    words = store.words
    table = store.tables[near.rows]
    marked = 0
    for i in range(len(rows)):
        here = record(table, rows[i]) + table.mult
        if words[here] == words[here + SHOWN]:
            continue
        marked += words[here + OFFERED] == 0
        words[here + OFFERED] = AFFECTED
        at, at_entry = _cursor(store, near, rows[i])
        for forward in range(2):
            unchanged = 0
            code, entry = _step(store, near, at, at_entry, forward)
            while code != NONE and unchanged < 2 * near.reach:
                here = record(table, row_at(store, near.tree, code, entry)) + table.mult
                if words[here] != words[here + SHOWN]:
                    # What lies beyond is near this changed row, too.
                    break
                marked += words[here + OFFERED] == 0
                words[here + OFFERED] = max(words[here + OFFERED], AFFECTED if unchanged < near.reach else CONTEXT)
                unchanged += 1
                code, entry = _step(store, near, code, entry, forward)
    return marked


@kernel
def list_segments(store: Store, near: Near, rows: Words, segments: Segments) -> Int:
    """List the rows with a mark, for which there is room, segment by segment; return how many. O(rows + log n)."""
    words = store.words
    table = store.tables[near.rows]
    n, number = 0, 0
    for i in range(len(rows)):
        if words[record(table, rows[i]) + table.mult + OFFERED] <= 0:
            continue
        code, entry = _cursor(store, near, rows[i])
        first, first_entry = code, entry
        while code != NONE:
            here = record(table, row_at(store, near.tree, code, entry)) + table.mult
            if words[here + OFFERED] == 0:
                break
            first, first_entry = code, entry
            code, entry = preceding(store, near.tree, code, entry)
        code, entry = first, first_entry
        while code != NONE:
            row = row_at(store, near.tree, code, entry)
            here = record(table, row) + table.mult
            if words[here + OFFERED] == 0:
                break
            words[here + OFFERED] = -words[here + OFFERED]
            segments.rows[n], segments.numbers[n] = row, number
            n += 1
            code, entry = following(store, near.tree, code, entry)
        number += 1
    return n


@kernel
def unmark(store: Store, rows_id: Int, rows: Words) -> None:
    """Take the marks off rows."""
    table = store.tables[rows_id]
    for i in range(len(rows)):
        store.words[record(table, rows[i]) + table.mult + OFFERED] = 0


@kernel
def leave(store: Store, near: Near, rows: Words, lanes: Words) -> None:
    """Make the trees count the copies of after, and free touched rows that are gone. `lanes`: four words of scratch.

    O(log n) per row.
    """
    words = store.words
    table = store.tables[near.rows]
    for i in range(len(rows)):
        at = record(table, rows[i])
        here, root_at = at + table.mult, _root_at(store, near, at)
        now, before = words[here], words[here + COUNTED]
        if now == 0 and before > 0:
            delete(store, near.tree, root_at, rows[i])
        elif now != before:
            lanes[0], lanes[1], lanes[2], lanes[3] = before, 0, now, 0
            change(store, near.tree, root_at, rows[i], lanes[:2], lanes[2:])
        words[here + COUNTED] = words[here + SHOWN] = now
        if now == 0:
            remove(store, near.rows, rows[i])


@kernel
def free_partitions(store: Store, near: Near, partitions: Words) -> None:
    """Free the partitions among some that have no rows."""
    for i in range(len(partitions)):
        at = record(store.tables[near.partitions], partitions[i]) + near.place
        if store.words[at] == 0:
            remove(store, near.partitions, partitions[i])
