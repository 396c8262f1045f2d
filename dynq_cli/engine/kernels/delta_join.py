"""Compute the delta of a tree's result within the commit that changes it, starting at the changed rows.

For trees without ranges; `delta_join_ranges` is for the others.

The delta is read in two parts: the deletes from the old state, the inserts from the new one (see `delta`). For each,
every changed frontier row with a larger multiplicity in that state than in the minimum of both states is joined with
the rest of the tree: upwards to its ancestors, which have to be live, then downwards into the lists below them.
Frontier levels before its own are read in the minimum, levels behind it in the state:

    Π state - Π minimum = Σᵢ  Π_{j<i} minimumⱼ · (stateᵢ - minimumᵢ) · Π_{j>i} stateⱼ

So nothing is marked and nothing has to be undone. A combination of several changed rows may come out once for each of
them, with its share of the copies; combinations without copies are skipped, as another row has given them. The work is
proportional to the changed rows and the delta.

A *route* says, for the level of the changed row, in which order the other levels are joined and from which level each
is found: OWN is the parent row that a guard's row belongs to, READERS are the parent rows that read a group, DOWN is
the list below a row.

Changed rows are processed in batches; stage 0 is one batch. An entry of stage s extends an entry of stage s - 1, its
*origin*, by a row of the level that step s joins. All lists of a stage are followed side by side, one row of each at a
time, so that records are prefetched long before they are read. A full stage is consumed before its lists are followed
further: the origins of an entry stay as long as the entry.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.delta_log import Block, forget, in_turn, many_changed, relink, take_changed
from dynq_cli.engine.kernels.dirty import Marks, first_of, group_below
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import BEFORE, LEAST, NOW, Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.multiplicity import value_at, value_before, value_now
from dynq_cli.engine.kernels.prefetch import prefetch, prefetch_all
from dynq_cli.engine.kernels.table import record

OWN, READERS, DOWN = range(3)
# What is asked of a row of a step: nothing, since lists have live rows alone; to be live on the side; on both.
NOTHING, ON_SIDE, ON_BOTH = range(3)
# A step of a route: its kind, the level that it sets, the one that this is found from or -1, the stage of that one, and
# what is asked.
STEP = row_type("kind", "level", "origin", "stage", "asked")
# Of the state of `fill`: 0 and 1 are the old side, not begun and begun, 2 and 3 the new one; the level that is gone
# out from, and how many of its rows were taken.
PHASE, AT_LEVEL, TAKEN, STATE = range(4)
DONE = 4
# Copies that are more than 63 bits hold.
_TOO_MANY = np.int64(-1)


class Stages(NamedTuple):
    """Combinations that are being joined, by stage."""

    rows: Words  # per entry: its row of the level that the step sets
    origins: Words  # the entry of the stage before that it extends
    shares: Words  # its copies so far
    walkers: Words  # per list that is followed: its next row
    entries: Words  # the entry of the stage before that it belongs to
    filled: Words  # how many entries there are
    walking: Words  # how many lists


@kernel(inline="always")
def _times(x: Int, y: Int) -> Int:
    """Multiply two multiplicities; -1 if the product, or one of them, passes 63 bits."""
    if y == 1:
        return x
    return _TOO_MANY if x < 0 or y < 0 or np.float64(x) * np.float64(y) > LARGEST else x * y


@kernel
def _set_out(store: Store, marks: Marks, level: Int, first: Int, room: Int, stages: Stages, side: Int) -> Int:
    """Fill stage 0 with rows of a level that have more copies in this state, from number `first` on; return how
    many."""
    rows, shares, node_id = stages.rows[0, :room], stages.shares[0], marks.levels[level].node
    many = take_changed(store, marks, level, side == BEFORE, first, rows)
    for k in range(many):
        at = record(store.tables[store.nodes[node_id].table], rows[k])
        was, was_hi = value_before(store, node_id, at)
        now, now_hi = value_now(store, node_id, at)
        more, hi, least = (was, was_hi, now) if side == BEFORE else (now, now_hi, was)
        shares[k] = _TOO_MANY if hi != 0 or more < 0 else more - least
    return many


@kernel(inline="always")
def _entry_at(stages: Stages, s: Int, at: Int, e: Int) -> Int:
    """Return the entry of stage `at` that is an ancestor of entry e of stage s."""
    for k in range(s - at):
        e = stages.origins[s - k, e]
    return e


@kernel
def _begin(store: Store, marks: Marks, route: Rows, s: Int, stages: Stages) -> None:
    """Begin stage s: find for each entry of the stage before the first row that it may be joined with."""
    words, halves = store.words, store.halves
    step = route[s - 1]
    kind, here, below, at = step.kind, marks.levels[step.level], step.origin, step.stage
    walkers, entries, filled = stages.walkers[s], stages.entries[s], stages.filled[s - 1]
    node_id = here.node
    node = store.nodes[node_id]
    table, many = store.tables[node.table], 0
    start, stride = table.rows, table.stride
    if below < 0:
        # The list below the root is the same for all of them.
        head = first_of(store, node_id, group_below(store, node_id, store.nodes[marks.root[0].node].table, np.int64(0)))
        for e in range(filled):
            walkers[e], entries[e] = head, e
        stages.walking[s] = filled if head >= 0 else 0
        return
    origin = store.nodes[marks.levels[below].node]
    origin_table, rows = store.tables[origin.table], stages.rows[at]
    begin, length = origin_table.rows, origin_table.stride
    # Where a row says which row or group it leads to; a list below a guard begins in the row itself.
    is_itself, field = kind == DOWN and node.own, node.reads if kind == DOWN else origin.gid
    for e in range(filled):
        row = rows[_entry_at(stages, s - 1, at, np.int64(e))]
        walkers[e] = row if is_itself else np.int64(halves[2 * (begin + row * length) + field])
        entries[e] = e
        if kind == OWN:
            prefetch_all(words, start + walkers[e] * stride, stride)
    if kind == OWN:
        stages.walking[s] = filled
        return
    lists = store.tables[node.list_table if kind == DOWN else origin.group]
    place = node.begin if kind == DOWN else origin.reader_head
    begin, length = lists.rows, lists.stride
    if not is_itself:
        for e in range(filled):
            prefetch(halves, 2 * (begin + walkers[e] * length) + place)
    for e in range(filled):
        head = np.int64(halves[2 * (begin + walkers[e] * length) + place])
        if head >= 0:
            prefetch_all(words, start + head * stride, stride)
            walkers[many], entries[many] = head, e
            many += 1
    stages.walking[s] = many


@kernel
def _go_on(store: Store, marks: Marks, route: Rows, s: Int, room: Int, stages: Stages, side: Int) -> None:
    """Fill stage s with up to `room` entries, following the lists of the stage side by side."""
    step = route[s - 1]
    kind, here, asked = step.kind, marks.levels[step.level], step.asked
    rows, origins, shares = stages.rows[s], stages.origins[s], stages.shares[s]
    walkers, entries, before = stages.walkers[s], stages.entries[s], stages.shares[s - 1]
    node_id = here.node
    node = store.nodes[node_id]
    table = store.tables[node.table]
    start, stride = table.rows, table.stride
    counted, on = here.frontier, side if asked == ON_SIDE else np.int64(LEAST)
    link = node.next if kind == DOWN else store.nodes[marks.levels[step.origin].node].reader_next
    filled = 0
    many: Int = stages.walking[s]
    while many > 0 and filled < room:
        left = 0
        for k in range(many):
            row, e = walkers[k], entries[k]
            if filled < room:
                share, at = before[e], start + row * stride
                if asked != NOTHING:
                    lo, hi = value_at(store, node_id, at, on)
                    if lo == 0 and hi == 0:
                        share = np.int64(0)
                    elif counted:
                        share = _times(share, _TOO_MANY if hi != 0 else lo)
                if share != 0:
                    rows[filled], origins[filled], shares[filled] = row, e, share
                    filled += 1
                row = np.int64(-1) if kind == OWN else np.int64(store.halves[2 * at + link])
                if row >= 0:
                    prefetch_all(store.words, start + row * stride, stride)
            if row >= 0:
                walkers[left], entries[left] = row, e
                left += 1
        many = left
    stages.filled[s], stages.walking[s] = filled, many


@kernel
def _give(
    store: Store, marks: Marks, route: Rows, stages: Stages, many: Int, out: Block, filled: Int, sign: Int
) -> Int:
    """Write the entries of the last stage to the block; False if one has too many copies."""
    last = len(route)
    for e in range(many):
        share = stages.shares[last, e]
        if share < 0:
            return False
        out.copies[filled + e] = sign * share
    for c in range(len(out.columns)):
        level = out.columns[c, 0]
        at: Int = 0
        for k in range(last):
            if route[k].level == level:
                at = k + 1
        table, rows = store.tables[store.nodes[marks.levels[level].node].table], stages.rows[at]
        start, stride, codes = table.rows + out.columns[c, 1], table.stride, out.codes[c, filled:]
        for e in range(many):
            codes[e] = store.words[start + rows[_entry_at(stages, last, at, np.int64(e))] * stride]
    return True


@kernel
def _read(
    store: Store, marks: Marks, routes: Rows, stages: Stages, out: Block, filled: Int, side: Int, state: Words
) -> Int:
    """Fill a block from one state; return how many rows, or -1 if one has too many copies.

    All rows have been read if state[AT_LEVEL] is len(levels).
    """
    last, wide, sign = len(marks.levels) - 1, stages.rows.shape[1], np.int64(-1 if side == BEFORE else 1)
    while state[AT_LEVEL] < len(marks.levels) and filled < len(out.copies):
        level = state[AT_LEVEL]
        route = routes[level * last : (level + 1) * last]
        room, s = min(wide, len(out.copies) - filled), last
        while s > 0 and stages.walking[s] == 0:
            s -= 1
        if s > 0:
            _go_on(store, marks, route, s, room if s == last else wide, stages, side)
        elif marks.levels[level].frontier and state[TAKEN] < many_changed(marks, level, side == BEFORE):
            most = room if last == 0 else wide
            many = _set_out(store, marks, level, state[TAKEN], most, stages, side)
            stages.filled[0] = many
            state[TAKEN] += many
        else:
            state[AT_LEVEL], state[TAKEN] = level + 1, 0
            continue
        while s < last and stages.filled[s] > 0:
            s += 1
            _begin(store, marks, route, s, stages)
            _go_on(store, marks, route, s, room if s == last else wide, stages, side)
        if s == last:
            if not _give(store, marks, route, stages, stages.filled[s], out, filled, sign):
                return _TOO_MANY
            filled += stages.filled[s]
    return filled


@kernel
def fill(
    store: Store, marks: Marks, routes: Rows, stages: Stages, out: Block, had_rows: Int, has_rows: Int, state: Words
) -> Int:
    """Fill a block with deleted (copies < 0) or inserted rows; return how many, or -1 if one has too many copies.

    `routes` has a step (STEP) for each other level, level by level. `had_rows` and `has_rows` say whether the result
    had any row, and has one. `state` and the numbers of `stages` are zeros at first, and state[PHASE] is DONE after the
    last call; they stay between calls.
    """
    filled = np.int64(0)
    while state[PHASE] != DONE:
        if state[PHASE] == 0:
            in_turn(store, marks)
            state[PHASE] = 1
        elif state[PHASE] == 2:
            for level in range(len(marks.levels)):
                relink(store, marks, level)
            state[PHASE] = 3
        is_old = state[PHASE] == 1
        if had_rows if is_old else has_rows:
            filled = _read(
                store, marks, routes, stages, out, filled, np.int64(BEFORE) if is_old else np.int64(NOW), state
            )
            if filled < 0 or state[AT_LEVEL] < len(marks.levels):
                return filled
        state[PHASE] += 1
        state[AT_LEVEL] = 0
    for level in range(len(marks.levels)):
        forget(store, marks, level)
    return filled
