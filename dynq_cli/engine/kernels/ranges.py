"""Ranges: rows of a node that read, of a group of a child's rows, those between two bounds (`bounds`).

A reader keeps the sum over its range, and the first and the last row of it, in its own record; the list of the group
is linked in the order of the range's variable, so whatever walks lists begins at the first row and leaves the list at
the last. What a commit changes in the group is noted (`pending_updates`), and readers follow it (`range_sums`). Rows
that begin to read look their ranges up after that, in order, too: O(log n).
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import key_at, range_of
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_END,
    N_FRESH,
    N_GROUP,
    N_PARENT,
    N_READERS,
    N_ROOT,
    N_RROOT,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_VGID,
    N_WIDTH,
    T_STRIDE,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_ORDER,
    NONE,
    O_POSITION,
    image,
    image_of_key,
    length,
    row_at,
)
from dynq_cli.engine.kernels.order_statistic_search import (
    AFTER_EQUAL,
    BEFORE_EQUAL,
    following,
    preceding,
)
from dynq_cli.engine.kernels.order_statistic_tree import insert_from
from dynq_cli.engine.kernels.pending_updates import SCRATCH as NOTES_SCRATCH
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, ROW, sort_notes
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.tree_cursor import FINGER, lift, point, sum_between_fingers

_AHEAD, _LINE = 8, 8
# What is at the end of the scratch array of trees: a finger at each end of a range, and what `pending_updates` needs.
SCRATCH = 2 * FINGER + NOTES_SCRATCH


@bare
def begin_reading(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> None:
    """Rows of the parent that are about to read child c come into the trees of readers, and look their ranges up.

    In the order of these trees, so that what one looks at is near what the one before did. O(log n) each.
    """
    C, labels, work, notes = trees.C, trees.labels, trees.work, trees.notes
    fingers = work[len(work) - SCRATCH :]
    head, tail = fingers[:FINGER], fingers[FINGER : 2 * FINGER]
    lift(head)
    lift(tail)
    r, above, n, depth = N[c, N_READERS], N[N[c, N_PARENT], N_TABLE], np.int64(0), np.int64(NONE)
    row = N[c, N_FRESH]
    N[c, N_FRESH] = -1
    while row >= 0:
        at = record(T, above, row)
        # The last one came first, and ids were given out one after the other.
        prefetch(a64, at - _AHEAD * T[above, T_STRIDE])
        prefetch(a64, at - _AHEAD * T[above, T_STRIDE] + (N[c, N_END] >> 1))
        notes[GROUP, n] = a32[2 * at + N[c, N_VGID]]
        notes[IMAGE, n] = image(C, r, labels, 0, a64[at + C[r, C_ORDER + O_POSITION]])
        notes[ROW, n] = row
        row = np.int64(a32[2 * at + N[c, N_END]])
        n += 1
    sort_notes(notes, n)
    for i in range(n):
        row = notes[ROW, i]
        if i + _AHEAD < n:
            at = record(T, above, notes[ROW, i + _AHEAD])
            for line in range(at, at + T[above, T_STRIDE], _LINE):
                prefetch(a64, line)
        group = record(T, N[c, N_GROUP], notes[GROUP, i])
        _, depth = insert_from(a64, a32, T, C, r, labels, work, 2 * group + N[c, N_RROOT], row, depth)
        _look_up(a64, a32, T, N, trees, c, record(T, above, row), group, head, tail)


@bare
def _look_up(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    c: Int,
    at: Int,
    group: Int,
    head: Words,
    tail: Words,
) -> None:
    """What the reader whose record is at `at` sees of a group of child c, from its ends as fingers show them. O(log n),
    less where the reader before it read the same group."""
    C, labels = trees.C, trees.labels
    tree, root = N[c, N_TREE], np.int64(a32[2 * group + N[c, N_ROOT]])
    a32[2 * at + N[c, N_BEGIN]] = a32[2 * at + N[c, N_END]] = -1
    lo, hi = range_of(a64, C, N[c, N_READERS], labels, at)
    if lo > hi or root == NONE:
        return
    code, entry = point(a64, a32, T, C, tree, labels, head, BEFORE_EQUAL, root, lo)
    if entry == length(a32, T, C, tree, code):
        code, entry = following(a32, T, C, tree, code, entry - 1)
    if code == NONE or image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, code, entry)) > hi:
        return
    a32[2 * at + N[c, N_BEGIN]] = row_at(a32, T, C, tree, code, entry)
    code, entry = point(a64, a32, T, C, tree, labels, tail, AFTER_EQUAL, root, hi)
    # There is a row in the range, and the tail points behind the last.
    code, entry = preceding(a32, T, C, tree, code, entry)
    a32[2 * at + N[c, N_END]] = row_at(a32, T, C, tree, code, entry)
    place = at + N[c, N_TOTAL]
    sum_between_fingers(a64, a32, T, C, tree, head, tail, a64[place : place + N[c, N_WIDTH]])
