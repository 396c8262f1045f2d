"""Mark the rows whose ranges have dirty rows of a compared node; see `dirty` and `ranges`.

The dirty rows of a group are linked in order. Each reader with dirty rows in its range has the first and the last of
them with its marks: readers share the list, and each reads its part.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.dirty import NEXT, Marks, climb_from, is_live, is_reached, mark, queued
from dynq_cli.engine.kernels.fields import Int, Store
from dynq_cli.engine.kernels.order_statistic_blocks import image
from dynq_cli.engine.kernels.range_ends import root_of_readers
from dynq_cli.engine.kernels.range_sums import CODE, ENTRY, FROM, STATE, TO, ask_ahead, begin_group, next_concerned
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, ROW, sort_notes
from dynq_cli.engine.kernels.table import record


@kernel
def climb(store: Store, marks: Marks) -> None:
    """Mark every row above marked ones that is live and reached."""
    for down in range(len(marks.levels)):
        level = len(marks.levels) - 1 - down
        if store.nodes[marks.levels[level].node].readers < 0:
            climb_from(store, marks, level)
        else:
            _climb_from_ranges(store, marks, level)


@kernel
def _climb_from_ranges(store: Store, marks: Marks, level: Int) -> None:
    """Mark the live rows above marked ones of a level whose node is compared."""
    here = marks.levels[level]
    notes = store.trees.notes
    n = _collect(store, marks, level)
    sort_notes(notes, n)
    start = np.int64(0)
    while start < n:
        stop = start + 1
        while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
            marks.links[here.rows + notes[ROW, stop - 1], NEXT] = notes[ROW, stop] + 1
            stop += 1
        marks.links[here.rows + notes[ROW, stop - 1], NEXT] = 0
        _mark_readers(store, marks, level, start, stop)
        start = stop


@kernel
def _collect(store: Store, marks: Marks, level: Int) -> Int:
    """Collect the dirty rows of a level as notes, without those that are in no range; return how many."""
    here = marks.levels[level]
    notes = store.trees.notes
    node, n = store.nodes[here.node], np.int64(0)
    for back in range(here.queued):
        row = queued(marks, level, here.queued - 1 - back)
        at = record(store.tables[node.table], row)
        code = store.words[at + store.trees.orders[node.tree, 0].position]
        if code != NULL:
            notes[GROUP, n] = store.halves[2 * at + node.gid]
            notes[IMAGE, n] = image(store, node.tree, 0, code)
            notes[ROW, n] = row
            n += 1
    return n


@kernel
def _mark_readers(store: Store, marks: Marks, level: Int, start: Int, stop: Int) -> None:
    """Mark the live readers whose ranges have some of the dirty rows of a group: those of notes start … stop."""
    path, heads = store.trees.path, marks.heads
    here = marks.levels[level]
    notes, node, up = store.trees.notes, store.nodes[here.node], here.above
    r, parent = node.readers, marks.levels[up].node
    readers = root_of_readers(store, here.node, record(store.tables[node.group], notes[GROUP, start]))
    state = path[len(path) - STATE :]
    begin_group(store, r, readers, start, stop, state)
    while True:
        row, _lo, _hi = next_concerned(store, r, readers, state)
        if row < 0:
            return
        ask_ahead(store, r, state[CODE], state[ENTRY])
        if is_live(store, parent, row) and is_reached(store, marks, up, row):
            g = here.groups + row
            heads[g, 0], heads[g, 3] = notes[ROW, state[FROM]] + 1, notes[ROW, state[TO] - 1] + 1
            mark(store, marks, up, row)
