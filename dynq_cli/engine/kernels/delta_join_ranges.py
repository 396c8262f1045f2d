"""Compute the delta of the result of a tree with ranges, within the commit that changes it.

`delta_log` has the changed rows. `fill` reads the deletes from the old state, then the inserts from the new one, a
block per call. In each state:

    _begin   choose the state; mark the rows with fewer copies in the other state
    _read    enumerate the combinations with a marked row, and their additional copies
    clean    clear the marks, so that the next commit finds zeros; O(marks)

The marks are those of `dirty`, in arrays that stay allocated from commit to commit.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.delta_log import Block, forget, in_turn, many_changed, relink, take_changed
from dynq_cli.engine.kernels.dirty import (
    NEXT,
    Marks,
    Odometer,
    ask,
    ask_for_groups,
    group_below,
    group_of,
    is_reached,
    judge,
    list_clean,
    mark,
    queued,
)
from dynq_cli.engine.kernels.dirty_ranges import climb
from dynq_cli.engine.kernels.dirty_walk import expand, walk
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import BEFORE, LEAST, NOW, Int, Store, Words
from dynq_cli.engine.kernels.multiplicity import value_on
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.table import record

# Of the state of `fill`: 0 and 1 are the old side, not begun and begun, 2 and 3 the new one; how many rows have to be
# listed; whether the walk has started.
PHASE, LISTED, STARTED, STATE = range(4)
DONE = 4


@kernel
def _start(store: Store, marks: Marks, level: Int) -> None:
    """Mark the changed rows of a frontier level that have fewer copies in the other state.

    Most of them may be in no combination: where few rows of another relation pass a filter.
    """
    is_old, rows = store.nodes[marks.levels[level].node].side == BEFORE, marks.work[:AHEAD]
    for first in range(0, many_changed(marks, level, is_old), AHEAD):
        many = take_changed(store, marks, level, is_old, first, rows)
        for k in range(many):
            if is_reached(store, marks, level, rows[k]):
                mark(store, marks, level, rows[k])


@kernel
def _begin(store: Store, marks: Marks, is_old: Int, has_rows: Int) -> Int:
    """Choose a state; return how many clean rows `_read` has to list, or -1 if nothing is marked.

    `has_rows` says whether the result has any row in this state; if not, there is nothing to mark.
    """
    if is_old:
        in_turn(store, marks)
    for level in range(len(marks.levels)):
        node = store.nodes[marks.levels[level].node]
        if not is_old:
            relink(store, marks, level)
        node.side = BEFORE if is_old else NOW
    if not has_rows:
        return np.int64(-1)
    is_any = False
    for level in range(len(marks.levels)):
        if marks.levels[level].frontier:
            _start(store, marks, level)
            is_any = is_any or marks.levels[level].queued > 0
    if not is_any:
        return np.int64(-1)
    climb(store, marks)
    judge(store, marks)
    return ask(store, marks)


@kernel
def _more(store: Store, marks: Marks, rows: Words, i: Int) -> Int:
    """Return how many more copies combination i has in this state than if each row had the minimum of its two
    multiplicities; -1 if that passes 63 bits."""
    here, least, size = np.int64(1), np.int64(1), 1.0
    for level in range(len(marks.levels)):
        this = marks.levels[level]
        if this.frontier:
            node_id, row = this.node, rows[level, i]
            lo, hi = value_on(store, node_id, row, store.nodes[node_id].side)
            if hi != 0 or lo < 0:
                return np.int64(-1)
            here *= lo
            size *= float(lo)
            least *= value_on(store, node_id, row, LEAST)[0]
    return np.int64(-1) if size > LARGEST else here - least


@kernel
def _read(
    store: Store, marks: Marks, wheels: Odometer, started: Int, rows: Words, out: Block, begin: Int
) -> tuple[Int, Int]:
    """Fill a block from a row on: (how many, whether more follow), or (-1, …) if a row has too many copies."""
    if not started:
        list_clean(store, marks, wheels)
    filled, runs, more = walk(store, marks, wheels, started, rows)
    expand(rows, filled, runs)
    for i in range(filled):
        out.copies[begin + i] = _more(store, marks, rows, i)
        if out.copies[begin + i] < 0:
            return np.int64(-1), more
    for c in range(len(out.columns)):
        level, position = out.columns[c, 0], out.columns[c, 1]
        table = store.tables[store.nodes[marks.levels[level].node].table]
        for i in range(filled):
            out.codes[c, begin + i] = store.words[record(table, rows[level, i]) + position]
    return filled, more


@kernel
def clean(store: Store, marks: Marks) -> None:
    """Clear the marks of rows and groups. Groups are marked only where one of their rows, or a row above, is."""
    heads = marks.heads
    root = marks.root[0]
    for k in range(root.children):
        child = marks.levels[marks.below[k]]
        g = child.groups + group_below(store, child.node, store.nodes[root.node].table, np.int64(0))
        heads[g, 0], heads[g, 1], heads[g, 2], marks.groups[g] = 0, 0, 0, 0
    for level in range(len(marks.levels)):
        here = marks.levels[level]
        node_id = here.node
        node = store.nodes[node_id]
        last = here.queued - 1
        for back in range(last + 1):
            if back % AHEAD == 0:
                ask_for_groups(store, marks, level, last - back)
            row = queued(marks, level, last - back)
            at = here.rows + row
            for k in range(here.children):
                child = marks.levels[marks.below[here.below + k]]
                g = child.groups + group_below(store, child.node, node.table, row)
                heads[g, 0], heads[g, 1], heads[g, 2], marks.groups[g] = 0, 0, 0, 0
            # The marks of ranges are those of their readers, which are marked themselves.
            if node.readers < 0:
                g = here.groups + group_of(store, node_id, row)
                heads[g, 0], heads[g, 1], heads[g, 2], marks.groups[g] = 0, 0, 0, 0
            marks.links[at, NEXT], marks.flags[at] = 0, 0
        here.queued, here.asked = 0, 0


@kernel
def _end(store: Store, marks: Marks) -> None:
    """End the commit for this tree: no row of it has changed."""
    for level in range(len(marks.levels)):
        forget(store, marks, level)


@kernel
def fill(
    store: Store, marks: Marks, wheels: Odometer, rows: Words, out: Block, had_rows: Int, has_rows: Int, state: Words
) -> Int:
    """Fill a block with deleted (copies < 0) or inserted rows; return how many, or -1 if one has too many copies.

    `rows` has room for the combinations, as `walk` gives them. `had_rows` and `has_rows` say whether the result had any
    row, and has one. `state` is zeros at first. After a call state[PHASE] is DONE at the end; otherwise either the
    block is full, or the lists of `wheels` are shorter than state[LISTED].
    """
    filled, size = np.int64(0), len(out.copies)
    while state[PHASE] != DONE:
        is_old = state[PHASE] == 0 or state[PHASE] == 1
        if state[PHASE] == 0 or state[PHASE] == 2:
            listed = _begin(store, marks, is_old, had_rows if is_old else has_rows)
            state[PHASE] += 1 if listed >= 0 else 2
            state[LISTED], state[STARTED] = listed, 0
            continue
        if filled == size or state[LISTED] > len(wheels.lists):
            return filled
        many, more = _read(store, marks, wheels, state[STARTED], rows[:, filled:], out, filled)
        if many < 0:
            return many
        if is_old:
            for i in range(filled, filled + many):
                out.copies[i] = -out.copies[i]
        filled += many
        state[STARTED] = 1
        if not more:
            clean(store, marks)
            state[PHASE] += 1
    _end(store, marks)
    return filled
