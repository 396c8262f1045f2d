"""The changed rows of output nodes within a commit, in trees that feed relations.

Such a tree goes from its old to its new state in one arena, and its delta is read in between:

- during the update, `remember` keeps a row's multiplicity before its first change, and lists the row. The lists of live
  rows stay in the old state, and so do the ends of ranges (`remember_range`);
- `in_turn` copies the listed rows to an array, rows with fewer copies apart from rows with more. So they can be
  prefetched, and each part of the delta reads its own rows alone;
- `relink` brings lists and ranges to the new state;
- `forget` ends it: between commits no row is listed.

A row is listed exactly if its field `changed` is not 0. The list of a node is RING lists, and the node has the first
row of each: following them side by side overlaps the cache misses of as many rows. Nothing is allocated and nothing
overflows.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.dirty import Marks
from dynq_cli.engine.kernels.fields import RING, Int, Store, Words
from dynq_cli.engine.kernels.group_prefetch import ask_for_neighbours
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.int128 import is_less
from dynq_cli.engine.kernels.multiplicity import value_before, value_now
from dynq_cli.engine.kernels.ordered import link_behind
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch, prefetch_all
from dynq_cli.engine.kernels.table import record


class Block(NamedTuple):
    """Deleted or inserted rows of a result, to be filled."""

    columns: Words  # per variable: the level and the position in its key where it is read
    codes: Words  # a row per variable
    copies: Words


@kernel(inline="always")
def remember(store: Store, node_id: Int, row: Int, old: Words) -> None:
    """Note that the payload of a row changes from `old`, maybe not for the first time in this commit."""
    node = store.nodes[node_id]
    at = record(store.tables[node.table], row)
    if store.halves[2 * at + node.changed] == 0:
        keep(store, node_id, at, old)
        _list(store, node_id, row, at)


@kernel(inline="always")
def keep(store: Store, node_id: Int, at: Int, old: Words) -> None:
    """Keep the multiplicity that a row had; that of a leaf fits one lane."""
    words = store.words
    node = store.nodes[node_id]
    words[at + node.old] = old[0]
    if node.degree > 0:
        words[at + node.old + 1] = old[1]


@kernel(inline="always")
def _list(store: Store, node_id: Int, row: Int, at: Int) -> None:
    """List a row, whose record is at `at`, as changed."""
    node = store.nodes[node_id]
    place = node.listed & RING - 1
    store.halves[2 * at + node.changed] = node.ring[place] + 2
    node.ring[place] = row
    node.listed += 1


@kernel
def remember_in_order(store: Store, node_id: Int, rows: Words, many: Int) -> None:
    """List changed rows of a compared node in the given order, which is that of their groups' lists."""
    for back in range(many):
        row = rows[many - 1 - back]
        _list(store, node_id, row, record(store.tables[store.nodes[node_id].table], row))


@kernel
def remember_range(store: Store, child_id: Int, row: Int, at: Int, first: Int, last: Int) -> None:
    """Note that the range of a reader, whose record is at `at`, becomes `first` … `last` when lists are relinked."""
    halves = store.halves
    child = store.nodes[child_id]
    halves[2 * at + child.new_begin], halves[2 * at + child.new_end] = first, last
    halves[2 * at + child.told] = child.first_told
    child.first_told = row


@kernel
def _move_ranges(store: Store, child_id: Int) -> None:
    """Set the ends of the readers' ranges to those of the new state."""
    halves = store.halves
    child = store.nodes[child_id]
    above, row = store.tables[store.nodes[child.parent].table], child.first_told
    while row >= 0:
        at = 2 * record(above, row)
        halves[at + child.begin], halves[at + child.end] = halves[at + child.new_begin], halves[at + child.new_end]
        row = np.int64(halves[at + child.told])
    child.first_told = -1


@kernel
def in_turn(store: Store, marks: Marks) -> None:
    """Copy the changed rows of every level, in the order of its list, to `changed`.

    Rows with fewer copies stand from the beginning of the level's part on, rows with more from its end on, backwards;
    ~row for a row that died or came to life. Rows that are what they were are not listed any more.
    """
    words, halves = store.words, store.halves
    for level in range(len(marks.levels)):
        here = marks.levels[level]
        node_id, fewer, more = here.node, np.int64(0), np.int64(0)
        node = store.nodes[node_id]
        table, old, link_ = store.tables[node.table], node.old, node.changed
        value = node.value if node.degree > 0 else table.mult
        for back in range(node.listed):
            place = node.listed - 1 - back & RING - 1
            row = node.ring[place]
            at = record(table, row)
            following = np.int64(halves[2 * at + link_]) - 2
            node.ring[place] = following
            if following >= 0:
                there = record(table, following)
                prefetch(words, there + (link_ >> 1))
                prefetch(words, there + old)
                prefetch(words, there + value)
            was_lo, was_hi = value_before(store, node_id, at)
            lo, hi = value_now(store, node_id, at)
            entry = row if (lo != 0 or hi != 0) == (was_lo != 0 or was_hi != 0) else ~row
            if is_less(lo, hi, was_lo, was_hi):
                marks.changed[here.rows + fewer] = entry
                fewer += 1
            elif lo != was_lo or hi != was_hi:
                marks.changed[here.rows + table.capacity - 1 - more] = entry
                more += 1
            else:
                halves[2 * at + link_] = 0
        node.listed = 0
        here.fewer, here.more = fewer, more


@kernel(inline="always")
def _entry(store: Store, marks: Marks, level: Int, is_old: Int, k: Int) -> Int:
    """Return changed row number k of a level: of those with fewer copies if `is_old`, else more; ~row if it died or
    came to life."""
    here = marks.levels[level]
    if is_old:
        return np.int64(marks.changed[here.rows + k])
    return np.int64(marks.changed[here.rows + store.tables[store.nodes[here.node].table].capacity - 1 - k])


@kernel(inline="always")
def many_changed(marks: Marks, level: Int, is_old: Int) -> Int:
    """Count the rows of a level with more copies in one state than in the other."""
    here = marks.levels[level]
    return here.fewer if is_old else here.more


@kernel
def take_changed(store: Store, marks: Marks, level: Int, is_old: Int, first: Int, rows: Words) -> Int:
    """Copy rows of a level with more copies in one state than in the other, from number `first` on, and prefetch
    their records and groups. Return how many; `rows` may be shorter than there are."""
    words = store.words
    node = store.nodes[marks.levels[level].node]
    table, group_table = store.tables[node.table], store.tables[node.group]
    many = min(np.int64(len(rows)), many_changed(marks, level, is_old) - first)
    start, stride = table.rows, table.stride
    for k in range(many):
        entry = _entry(store, marks, level, is_old, first + k)
        rows[k] = max(entry, ~entry)
        prefetch_all(words, start + rows[k] * stride, stride)
    for k in range(many):
        there = record(group_table, np.int64(store.halves[2 * (start + rows[k] * stride) + node.gid]))
        prefetch(words, there)
        prefetch(words, there + (node.head >> 1))
    return many


@kernel
def relink(store: Store, marks: Marks, level: Int) -> None:
    """Remove the rows of a level that died from the lists of live rows, and insert those that came to life.

    In a compared node, the row before an inserted one was inserted earlier, or was there.
    """
    node_id = marks.levels[level].node
    for is_old in (True, False):
        first, many = np.int64(0), many_changed(marks, level, is_old)
        while first < many:
            taken = 0
            while taken < AHEAD and first < many:
                entry = _entry(store, marks, level, is_old, first)
                first += 1
                if entry < 0:
                    marks.work[taken] = ~entry
                    taken += 1
            _move_rows(store, node_id, marks.work, taken, is_old)
    if store.nodes[node_id].readers >= 0:
        _move_ranges(store, node_id)


@kernel
def _move_rows(store: Store, node_id: Int, work: Words, many: Int, is_old: Int) -> None:
    """Remove the first `many` rows of `work` from the lists of their groups, or insert them."""
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    table_id, group_table, head, places = node.table, store.tables[node.group], node.head, work[AHEAD:]
    table = store.tables[table_id]
    for k in range(many):
        at = record(table, work[k])
        prefetch(words, at + (node.gid >> 1))
        prefetch(words, at + (node.prev >> 1))
    for k in range(many):
        places[k] = record(group_table, np.int64(halves[2 * record(table, work[k]) + node.gid]))
        prefetch(words, places[k] + (head >> 1))
    for k in range(many):
        ask_for_neighbours(store, node_id, work[k], places[k], is_old, not is_old)
    for k in range(many):
        head_at = 2 * places[k] + head
        if is_old:
            unlink(store, table_id, work[k], head_at, node.next, node.prev)
        elif node.readers >= 0:
            before = np.int64(halves[2 * record(table, work[k]) + node.prev])
            link_behind(store, node_id, work[k], before, head_at)
        else:
            link(store, table_id, work[k], head_at, node.next, node.prev)


@kernel
def forget(store: Store, marks: Marks, level: Int) -> None:
    """Clear the list of changed rows of a level."""
    halves = store.halves
    here = marks.levels[level]
    node = store.nodes[here.node]
    table = store.tables[node.table]
    for is_old in (True, False):
        many = many_changed(marks, level, is_old)
        for k in range(many):
            if k + AHEAD < many:
                ahead = _entry(store, marks, level, is_old, k + AHEAD)
                prefetch(halves, 2 * record(table, max(ahead, ~ahead)) + node.changed)
            entry = _entry(store, marks, level, is_old, np.int64(k))
            halves[2 * record(table, max(entry, ~entry)) + node.changed] = 0
    here.fewer, here.more = 0, 0
