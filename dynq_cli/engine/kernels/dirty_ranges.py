"""Climbing from dirty rows of a compared node to the rows whose ranges have them; see `dirty` and `ranges`.

The dirty rows of a group are linked in order. Of each reader that has some in its range, the first and the last are
kept with the marks: ranges share the list, and each goes through its part of it.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.dirty import (
    L_ABOVE,
    L_GROUPS,
    L_NODE,
    L_QUEUE,
    L_ROWS,
    NEXT,
    climb_from,
    is_live,
    is_reached,
    mark,
    queued,
)
from dynq_cli.engine.kernels.fields import (
    N_GID,
    N_GROUP,
    N_READERS,
    N_RROOT,
    N_TABLE,
    N_TREE,
    Bytes,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.order_statistic_blocks import C_ORDER, O_POSITION, image
from dynq_cli.engine.kernels.range_sums import CODE, ENTRY, FROM, STATE, TO, ask_ahead, begin_group, next_concerned
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, ROW, sort_notes
from dynq_cli.engine.kernels.table import record


@bare
def climb(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    L: Words,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    work: Words,
) -> None:
    """Mark every row above marked ones that is live and reached; `work` is AHEAD words."""
    for down in range(len(L)):
        level = len(L) - 1 - down
        if N[L[level, L_NODE], N_READERS] < 0:
            climb_from(a64, a32, T, N, L, level, marks, links, heads, work)
        else:
            _climb_from_ranges(a64, a32, T, N, trees, L, level, marks, links, heads)


@bare
def _climb_from_ranges(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    L: Words,
    level: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
) -> None:
    """Mark the live rows above marked ones of a level whose node is compared."""
    notes = trees.notes
    n = _collect(a64, a32, T, N, trees, L, level, links)
    sort_notes(notes, n)
    start = np.int64(0)
    while start < n:
        stop = start + 1
        while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
            links[L[level, L_ROWS] + notes[ROW, stop - 1], NEXT] = notes[ROW, stop] + 1
            stop += 1
        links[L[level, L_ROWS] + notes[ROW, stop - 1], NEXT] = 0
        _mark_readers(a64, a32, T, N, trees, L, level, start, stop, marks, links, heads)
        start = stop


@bare
def _collect(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, L: Words, level: Int, links: Halves) -> Int:
    """Make notes of the dirty rows of a level, but for those that are in no range; how many."""
    C, labels, notes = trees.C, trees.labels, trees.notes
    v, n = L[level, L_NODE], np.int64(0)
    for back in range(L[level, L_QUEUE]):
        row = queued(L, level, links, L[level, L_QUEUE] - 1 - back)
        at = record(T, N[v, N_TABLE], row)
        code = a64[at + C[N[v, N_TREE], C_ORDER + O_POSITION]]
        if code != NULL:
            notes[GROUP, n] = a32[2 * at + N[v, N_GID]]
            notes[IMAGE, n] = image(C, N[v, N_TREE], labels, 0, code)
            notes[ROW, n] = row
            n += 1
    return n


@bare
def _mark_readers(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    L: Words,
    level: Int,
    start: Int,
    stop: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
) -> None:
    """Mark the live rows above that see some of the dirty rows of a group, those of notes start … stop."""
    notes, v, up = trees.notes, L[level, L_NODE], L[level, L_ABOVE]
    r, parent = N[v, N_READERS], L[up, L_NODE]
    readers = np.int64(a32[2 * record(T, N[v, N_GROUP], notes[GROUP, start]) + N[v, N_RROOT]])
    state = trees.work[len(trees.work) - STATE :]
    begin_group(a64, a32, T, trees, r, readers, start, stop, state)
    while True:
        row, _lo, _hi = next_concerned(a64, a32, T, trees, r, readers, state)
        if row < 0:
            return
        ask_ahead(a64, a32, T, trees.C, r, state[CODE], state[ENTRY])
        if is_live(a64, a32, T, N, parent, row) and is_reached(a64, a32, T, N, L, up, row):
            g = L[level, L_GROUPS] + row
            heads[g, 0], heads[g, 3] = notes[ROW, state[FROM]] + 1, notes[ROW, state[TO] - 1] + 1
            mark(a32, T, N, L, up, row, marks, links, heads)
