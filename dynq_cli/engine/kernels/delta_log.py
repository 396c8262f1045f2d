"""What a commit changes in the rows of output nodes, of trees whose result is the change of other relations.

Such a tree runs in one arena from its old to its new state, and what came and went is read in between:

- while it is updated, `remember` keeps what the multiplicity of a row was before its first change, and lists the row;
  lists of live rows stay as they were, and so do the ends of ranges (`remember_range`);
- `in_turn` puts the rows of that list into an array, those that became fewer and those that became more apart, so
  that they can be asked for ahead and each side of the commit looks at its own alone;
- `relink` puts lists and ranges into the new state;
- `forget` ends it: between commits no row is listed.

A row is in the list of its node exactly if its field CHANGED is not 0. The list is RING lists in turn, and the node has
the first row of each: to go through it, as many rows are waited for at a time instead of one after the other.
Nothing is allocated and nothing overflows.
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
    """Rows of a result that came or went, to be filled."""

    columns: Words  # per variable: the level and the position in its key where it is read
    codes: Words  # a row per variable
    copies: Words


@kernel(inline="always")
def remember(store: Store, v: Int, row: Int, old: Words) -> None:
    """The payload of a row of node v changes from `old`, maybe not for the first time in this commit."""
    node = store.nodes[v]
    at = record(store.tables[node.table], row)
    if store.halves[2 * at + node.changed] == 0:
        keep(store, v, at, old)
        _list(store, v, row, at)


@kernel(inline="always")
def keep(store: Store, v: Int, at: Int, old: Words) -> None:
    """What the multiplicity of a row of node v was; that of a leaf fits a lane."""
    words = store.words
    node = store.nodes[v]
    words[at + node.old] = old[0]
    if node.degree > 0:
        words[at + node.old + 1] = old[1]


@kernel(inline="always")
def _list(store: Store, v: Int, row: Int, at: Int) -> None:
    """A row of node v, whose record is at `at`, is the first of those that changed."""
    node = store.nodes[v]
    place = node.listed & RING - 1
    store.halves[2 * at + node.changed] = node.ring[place] + 2
    node.ring[place] = row
    node.listed += 1


@kernel
def remember_in_order(store: Store, v: Int, rows: Words, many: Int) -> None:
    """Rows of compared node v have changed; they are listed in the order given, that of their groups' lists."""
    for back in range(many):
        row = rows[many - 1 - back]
        _list(store, v, row, record(store.tables[store.nodes[v].table], row))


@kernel
def remember_range(store: Store, c: Int, row: Int, at: Int, first: Int, last: Int) -> None:
    """The range of a reader of node c, whose record is at `at`, goes from `first` to `last` once lists are relinked."""
    halves = store.halves
    child = store.nodes[c]
    halves[2 * at + child.new_begin], halves[2 * at + child.new_end] = first, last
    halves[2 * at + child.told] = child.first_told
    child.first_told = row


@kernel
def _move_ranges(store: Store, c: Int) -> None:
    """Readers of node c begin and end where they do in the new state."""
    halves = store.halves
    child = store.nodes[c]
    above, row = store.tables[store.nodes[child.parent].table], child.first_told
    while row >= 0:
        at = 2 * record(above, row)
        halves[at + child.begin], halves[at + child.end] = halves[at + child.new_begin], halves[at + child.new_end]
        row = np.int64(halves[at + child.told])
    child.first_told = -1


@kernel
def in_turn(store: Store, marks: Marks) -> None:
    """The rows that changed, of every level in the order of its list, into `changed`: those that became fewer from the
    beginning of the level's part on, those that became more from its end on, backwards; ~row for one that died or came
    to life. Those that are what they were are not listed any more."""
    words, halves = store.words, store.halves
    for level in range(len(marks.levels)):
        here = marks.levels[level]
        v, fewer, more = here.node, np.int64(0), np.int64(0)
        node = store.nodes[v]
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
            was_lo, was_hi = value_before(store, v, at)
            lo, hi = value_now(store, v, at)
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
    """Number k of the rows of a level that became fewer, if `is_old`, or more; ~row if it died or came to life."""
    here = marks.levels[level]
    if is_old:
        return np.int64(marks.changed[here.rows + k])
    return np.int64(marks.changed[here.rows + store.tables[store.nodes[here.node].table].capacity - 1 - k])


@kernel(inline="always")
def many_changed(marks: Marks, level: Int, is_old: Int) -> Int:
    """How many rows of a level have more copies on a side than on the other."""
    here = marks.levels[level]
    return here.fewer if is_old else here.more


@kernel
def take_changed(store: Store, marks: Marks, level: Int, is_old: Int, first: Int, rows: Words) -> Int:
    """Rows of a level that have more copies on a side than on the other, from number `first` on, as many as `rows` has
    room for, and all that says how they changed asked for, and their groups: how many."""
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
    """Rows of a level that died leave the lists of live rows, and those that came to life join them.

    Of a compared node the row that one is to be linked behind came before it, or was there.
    """
    v = marks.levels[level].node
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
            _move_rows(store, v, marks.work, taken, is_old)
    if store.nodes[v].readers >= 0:
        _move_ranges(store, v)


@kernel
def _move_rows(store: Store, v: Int, work: Words, many: Int, is_old: Int) -> None:
    """The first `many` rows in `work` leave the lists of their groups, or join them."""
    words, halves = store.words, store.halves
    node = store.nodes[v]
    t, group_table, head, places = node.table, store.tables[node.group], node.head, work[AHEAD:]
    table = store.tables[t]
    for k in range(many):
        at = record(table, work[k])
        prefetch(words, at + (node.gid >> 1))
        prefetch(words, at + (node.prev >> 1))
    for k in range(many):
        places[k] = record(group_table, np.int64(halves[2 * record(table, work[k]) + node.gid]))
        prefetch(words, places[k] + (head >> 1))
    for k in range(many):
        ask_for_neighbours(store, v, work[k], places[k], is_old, not is_old)
    for k in range(many):
        head_at = 2 * places[k] + head
        if is_old:
            unlink(store, t, work[k], head_at, node.next, node.prev)
        elif node.readers >= 0:
            before = np.int64(halves[2 * record(table, work[k]) + node.prev])
            link_behind(store, v, work[k], before, head_at)
        else:
            link(store, t, work[k], head_at, node.next, node.prev)


@kernel
def forget(store: Store, marks: Marks, level: Int) -> None:
    """No row of a level has changed."""
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
