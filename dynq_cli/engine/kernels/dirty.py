"""Mark the part of a result that has changed, in the old or in the new state.

A frontier row is *dirty* if it is live in this state and has another payload, or none, in the other. A result row has
changed only if one of its frontier rows is dirty; `dirty_walk` enumerates those combinations and no others, each once.

Within a commit (see `delta_log`) both states are in one arena: the lists are those of the state that is read, and
`multiplicity` gives the multiplicities of the state that is set for each node.

- `climb_from`, and `dirty_ranges` where ranges share rows, mark the rows above dirty ones: a row is *dirty below* if a
  combination below it has a dirty row. Each group lists its rows that are.
- `judge` finds the rows without a *clean* combination below them: one in which no row is dirty.
- `ask` finds the groups whose clean rows the walk will enumerate; `list_clean` lists these rows, without the unclean.

All marks are in side arrays of zeros, by row or by group of each level, so that untouched rows cost nothing: links are
a row + 1, or 0. The marked rows of a level stand in an array, too, in the order of marking: entry k of `links` has
number k of the queue in its second column. The work is proportional to the marks and the rows enumerated.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Bytes, Halves, Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.multiplicity import value_of
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.range_ends import range_ends
from dynq_cli.engine.kernels.table import record

# Marks of a row, and of a group.
IS_DIRTY, NO_CLEAN = 1, 2
WITHOUT, WITH, ASKED = 1, 2, 4
ANY, CLEAN, DIRTY = 0, 1, 2
# A node of the output set, parents first; in what follows, its *level*.
LEVEL = row_type(
    "node",
    "rows",  # where its marks by row begin
    "groups",  # where its marks by group begin
    "above",  # the level of its parent, or -1 for the root
    "frontier",
    "below",  # its first child in `Marks.below`
    "children",
    "queued",  # how many of its rows are dirty below
    "asked",  # the first group that was asked for + 1, or 0
    "fewer",  # how many rows became fewer
    "more",
)
NEXT, QUEUED, LINKS = range(3)
# Of a group: its first row that is dirty below + 1; how many such rows have no clean combination; the next group that
# was asked for + 1, later the place of its list of clean rows + 1; of a range, its last dirty row + 1.
HEADS = 4
# A wheel of the odometer: the rows of a level, or, if it chooses, the first of its children with a dirty row.
WHEEL = row_type("level", "chooses")


class Marks(NamedTuple):
    """The dirty rows of a tree. Between two uses all marks are zeros."""

    levels: Rows  # LEVEL
    root: Rows  # LEVEL: the root, whose one row is 0
    below: Words  # the children of all levels, first those of the root
    flags: Bytes  # by row: IS_DIRTY, NO_CLEAN
    links: Halves  # by row: the next row of its group that is dirty below + 1; by number in the queue: a row
    heads: Halves  # by group: HEADS numbers
    groups: Bytes  # by group: WITHOUT, WITH, ASKED
    changed: Halves  # by level: the rows that changed, see `delta_log.in_turn`
    work: Words  # scratch: AHEAD words per level, two times that at least


class Odometer(NamedTuple):
    """The position of the walk through the dirty combinations."""

    order: Words  # per level: its place among its siblings
    slots: Rows  # WHEEL: from the slowest to the fastest
    lists: Words  # clean rows of the groups that were asked for, one group after the other
    ends: Words  # where the list of each ends
    current: Words  # per level: its row
    modes: Words  # per level, the root first: whether ANY, CLEAN or DIRTY combinations are gone through below its row
    choices: Words  # likewise: the child that is the first with a dirty row
    cursor: Words  # per level: its place in the list of clean rows or in the queue, or -1


@kernel
def is_live(store: Store, node_id: Int, row: Int) -> Int:
    """Whether a row is in the result of its subtree, in the state that is set for its node."""
    lo, hi = value_of(store, node_id, row)
    return lo != 0 or hi != 0


@kernel(inline="always")
def group_of(store: Store, node_id: Int, row: Int) -> Int:
    """Return the group of a row."""
    node = store.nodes[node_id]
    return np.int64(store.halves[2 * record(store.tables[node.table], row) + node.gid])


@kernel(inline="always")
def group_below(store: Store, child_id: Int, table_id: Int, row: Int) -> Int:
    """Return the group of a child that a row of the parent reads; of a range, the row itself."""
    child = store.nodes[child_id]
    if child.own:
        return row
    return np.int64(store.halves[2 * record(store.tables[table_id], row) + child.reads])


@kernel
def is_reached(store: Store, marks: Marks, level: Int, row: Int) -> Int:
    """Whether the rows that a row guards, one above the other, are all live; if not, it is in no combination."""
    while True:
        node_id, up = marks.levels[level].node, marks.levels[level].above
        if up < 0 or not store.nodes[node_id].guard:
            return True
        row = group_of(store, node_id, row)
        if not is_live(store, marks.levels[up].node, row):
            return False
        level = up


@kernel
def mark(store: Store, marks: Marks, level: Int, row: Int) -> None:
    """Mark a row as dirty below: it joins the list of its group, and the queue of its level."""
    heads = marks.heads
    here = marks.levels[level]
    at = here.rows + row
    if marks.flags[at] & IS_DIRTY:
        return
    marks.flags[at] |= IS_DIRTY
    # Rows that ranges share are listed later, in order.
    if store.nodes[here.node].readers < 0:
        g = here.groups + group_of(store, here.node, row)
        marks.links[at, NEXT] = heads[g, 0]
        heads[g, 0] = row + 1
    marks.links[here.rows + here.queued, QUEUED] = row
    here.queued += 1


@kernel(inline="always")
def queued(marks: Marks, level: Int, k: Int) -> Int:
    """Return the row of a level that was marked as number k."""
    return np.int64(marks.links[marks.levels[level].rows + k, QUEUED])


@kernel
def ask_for_groups(store: Store, marks: Marks, level: Int, k: Int) -> None:
    """Prefetch the marks of the groups that row number k of a queue, and the rows marked just before it, belong to or
    read."""
    heads = marks.heads
    here = marks.levels[level]
    node_id, first = here.node, max(k - AHEAD + 1, 0)
    node = store.nodes[node_id]
    table_id = node.table
    for c in range(here.children):
        place = max(store.nodes[marks.levels[marks.below[here.below + c]].node].reads, np.int64(0))
        for i in range(first, k + 1):
            prefetch(store.halves, 2 * record(store.tables[table_id], queued(marks, level, i)) + place)
    for i in range(first, k + 1):
        row = queued(marks, level, i)
        prefetch(marks.links, here.rows + row)
        if node.readers < 0:
            prefetch(heads, here.groups + group_of(store, node_id, row))
        for c in range(here.children):
            child_level = marks.levels[marks.below[here.below + c]]
            prefetch(heads, child_level.groups + group_below(store, child_level.node, table_id, row))


@kernel
def start(store: Store, marks: Marks, level: Int, rows: Words) -> None:
    """Mark rows of a frontier level that are live in this state."""
    for row in rows:
        if is_live(store, marks.levels[level].node, row):
            mark(store, marks, level, row)


@kernel
def climb_from(store: Store, marks: Marks, level: Int) -> None:
    """Mark the rows above marked ones of a level without a range, if they are live and reached; levels below are
    marked."""
    here = marks.levels[level]
    up = here.above
    if up < 0:
        return
    if store.nodes[here.node].guard:
        _climb_to_own(store, marks, level)
    else:
        _climb_to_readers(store, marks, level)


@kernel(inline="always")
def _mark_above(store: Store, marks: Marks, up: Int, row: Int) -> None:
    if is_live(store, marks.levels[up].node, row) and is_reached(store, marks, up, row):
        mark(store, marks, up, row)


@kernel
def _climb_to_own(store: Store, marks: Marks, level: Int) -> None:
    """Mark the parent rows that the rows of a guard belong to."""
    here = marks.levels[level]
    up, node_id = here.above, here.node
    above_level = marks.levels[up]
    table, value = store.tables[store.nodes[above_level.node].table], store.nodes[above_level.node].value
    left = here.queued
    while left > 0:
        many = min(left, np.int64(AHEAD))
        for k in range(many):
            marks.work[k] = group_of(store, node_id, queued(marks, level, left - 1 - k))
            prefetch(store.words, record(table, marks.work[k]) + value)
        left -= many
        for k in range(many):
            _mark_above(store, marks, up, marks.work[k])


@kernel
def _climb_to_readers(store: Store, marks: Marks, level: Int) -> None:
    """Mark the parent rows that read the groups of a child that is no guard; lists of several groups are followed side
    by side."""
    words, halves = store.words, store.halves
    here = marks.levels[level]
    up, node_id = here.above, here.node
    node = store.nodes[node_id]
    above_level = marks.levels[up]
    table, value = store.tables[store.nodes[above_level.node].table], store.nodes[above_level.node].value
    more, many = here.queued, 0
    while True:
        while more > 0 and many < AHEAD:
            more -= 1
            g = group_of(store, node_id, queued(marks, level, more))
            reader = np.int64(halves[2 * record(store.tables[node.group], g) + node.reader_head])
            if reader >= 0:
                prefetch(words, record(table, reader) + value)
                prefetch(words, record(table, reader) + (node.reader_next >> 1))
                marks.work[many] = reader
                many += 1
        if many == 0:
            return
        left = 0
        for k in range(many):
            _mark_above(store, marks, up, marks.work[k])
            reader = np.int64(halves[2 * record(table, marks.work[k]) + node.reader_next])
            if reader >= 0:
                prefetch(words, record(table, reader) + value)
                prefetch(words, record(table, reader) + (node.reader_next >> 1))
                marks.work[left] = reader
                left += 1
        many = left


@kernel
def first_of(store: Store, node_id: Int, g: Int) -> Int:
    """Return the first row of a list."""
    node = store.nodes[node_id]
    at = record(store.tables[node.list_table], g)
    return range_ends(store, node_id, at)[0] if node.waits >= 0 else np.int64(store.halves[2 * at + node.begin])


@kernel
def next_of(store: Store, node_id: Int, g: Int, row: Int) -> Int:
    """Return the row behind another in a list, or -1."""
    halves = store.halves
    node = store.nodes[node_id]
    if node.waits >= 0:
        following = np.int64(halves[2 * record(store.tables[node.table], row) + node.next])
        if following < 0:
            return following
        reader, at = record(store.tables[node.list_table], g), record(store.tables[node.table], following)
        return following if is_in_range(store, node.readers, reader, node.tree, at) else np.int64(-1)
    if node.end >= 0 and halves[2 * record(store.tables[node.list_table], g) + node.end] == row:
        return np.int64(-1)
    return np.int64(halves[2 * record(store.tables[node.table], row) + node.next])


@kernel
def _count_unclean(marks: Marks, child: Int, g: Int) -> None:
    """Count the dirty rows of a range that have no clean combination."""
    heads = marks.heads
    child_level = marks.levels[child]
    at, many = child_level.groups + g, 0
    row = np.int64(heads[at, 0]) - 1
    while row >= 0:
        place = child_level.rows + row
        many += marks.flags[place] & NO_CLEAN != 0
        row = np.int64(-1) if row == heads[at, 3] - 1 else np.int64(marks.links[place, NEXT]) - 1
    heads[at, 1] = many


@kernel
def has_clean(store: Store, marks: Marks, level: Int, g: Int) -> Int:
    """Whether a group has a row with a clean combination; computed once."""
    here = marks.levels[level]
    at = here.groups + g
    if marks.groups[at] & (WITHOUT | WITH) == 0:
        node_id = here.node
        row = first_of(store, node_id, g)
        while row >= 0 and marks.flags[here.rows + row] & NO_CLEAN:
            row = next_of(store, node_id, g, row)
        marks.groups[at] |= WITH if row >= 0 else WITHOUT
    return marks.groups[at] & WITH != 0


@kernel
def judge(store: Store, marks: Marks) -> None:
    """Find the rows that have no clean combination, and count them by group."""
    heads = marks.heads
    for down in range(len(marks.levels)):
        level = len(marks.levels) - 1 - down
        here = marks.levels[level]
        node_id = here.node
        node = store.nodes[node_id]
        last = here.queued - 1
        for back in range(last + 1):
            if back % AHEAD == 0:
                ask_for_groups(store, marks, level, last - back)
            row = queued(marks, level, last - back)
            unclean = here.frontier != 0
            for k in range(here.children):
                child = marks.below[here.below + k]
                child_level = marks.levels[child]
                g = group_below(store, child_level.node, node.table, row)
                if store.nodes[child_level.node].readers >= 0:
                    _count_unclean(marks, child, g)
                if heads[child_level.groups + g, 1] > 0 and not has_clean(store, marks, child, g):
                    unclean = True
            if unclean:
                marks.flags[here.rows + row] |= NO_CLEAN
                if node.readers < 0:
                    heads[here.groups + group_of(store, node_id, row), 1] += 1


@kernel
def _ask(store: Store, marks: Marks, child: Int, g: Int) -> Int:
    """Request the clean rows of a group; return how many have to be listed because it has unclean ones, too."""
    heads = marks.heads
    child_level = marks.levels[child]
    at = child_level.groups + g
    if marks.groups[at] & ASKED:
        return np.int64(0)
    marks.groups[at] |= ASKED
    if heads[at, 1] == 0 or not has_clean(store, marks, child, g):
        return np.int64(0)
    if store.nodes[child_level.node].readers >= 0:
        return np.int64(0)
    heads[at, 2] = child_level.asked
    child_level.asked = g + 1
    node_id = child_level.node
    many = np.int64(0)
    row = first_of(store, node_id, g)
    while row >= 0:
        many += marks.flags[child_level.rows + row] & NO_CLEAN == 0
        row = next_of(store, node_id, g, row)
    return many


@kernel
def ask(store: Store, marks: Marks) -> Int:
    """Request the clean rows of all groups that the walk enumerates; return how many rows have to be listed."""
    many = _ask_below(store, marks, np.int64(-1), np.int64(0))
    for level in range(len(marks.levels)):
        rows = marks.levels[level].queued
        for back in range(rows):
            if back % AHEAD == 0:
                ask_for_groups(store, marks, np.int64(level), rows - 1 - back)
            many += _ask_below(store, marks, np.int64(level), queued(marks, np.int64(level), rows - 1 - back))
    return many


@kernel
def _ask_below(store: Store, marks: Marks, level: Int, row: Int) -> Int:
    """Request the clean rows of the groups below a row; return how many rows have to be listed."""
    here = marks.levels[level] if level >= 0 else marks.root[0]
    table_id, last, many = store.nodes[here.node].table, np.int64(-1), np.int64(0)
    for k in range(here.children):
        child = marks.levels[marks.below[here.below + k]]
        if marks.heads[child.groups + group_below(store, child.node, table_id, row), 0] > 0:
            last = np.int64(k)
    if level >= 0 and marks.flags[here.rows + row] & NO_CLEAN == 0:
        # Which ranges ask for a row is not known here; that one might is reason enough.
        is_asked = store.nodes[here.node].readers >= 0
        if not is_asked:
            is_asked = marks.groups[here.groups + group_of(store, here.node, row)] & ASKED != 0
        if is_asked:
            last = here.children
    for k in range(min(last, here.children)):
        c = marks.below[here.below + k]
        many += _ask(store, marks, c, group_below(store, marks.levels[c].node, table_id, row))
    return many


@kernel
def list_clean(store: Store, marks: Marks, wheels: Odometer) -> None:
    """List the clean rows of each requested group; each list begins at the end of the one before.

    From here on heads[group, 2] is the place of the group's list + 1.
    """
    heads = marks.heads
    filled = n = 0
    for level in range(len(marks.levels)):
        here = marks.levels[level]
        node_id = here.node
        asked = here.asked
        while asked > 0:
            g = asked - 1
            at = here.groups + g
            asked = np.int64(heads[at, 2])
            row = first_of(store, node_id, g)
            while row >= 0:
                if marks.flags[here.rows + row] & NO_CLEAN == 0:
                    wheels.lists[filled] = row
                    filled += 1
                row = next_of(store, node_id, g, row)
            wheels.ends[n] = filled
            n += 1
            heads[at, 2] = n
