"""Ranges: parent rows, the *readers*, that read the rows of a child's group between two bounds (`bounds`).

A reader keeps the sum over its range, and the first and the last row of it, in its own record. The list of the group is
linked in the order of the range's variable, so reading begins at the first row and leaves the list at the last. Changes
of the group within a commit are noted (`pending_updates`), and update the readers' sums (`range_sums`). Rows that begin
to read look their ranges up after that, also in order: O(log n).
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import key_at, range_of
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, image, image_of_key, length, row_at
from dynq_cli.engine.kernels.order_statistic_search import AFTER_EQUAL, BEFORE_EQUAL, following, preceding
from dynq_cli.engine.kernels.order_statistic_tree import insert_from
from dynq_cli.engine.kernels.pending_updates import SCRATCH as NOTES_SCRATCH
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, ROW, sort_notes
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.tree_cursor import FINGER, lift, point, sum_between_fingers

_AHEAD, _LINE = 8, 8
# What is at the end of the scratch array of trees: a finger at each end of a range, and what `pending_updates` needs.
SCRATCH = 2 * FINGER + NOTES_SCRATCH


@kernel
def begin_reading(store: Store, child_id: Int) -> None:
    """Insert the new readers of a child into the trees of readers, and look their ranges up.

    In the order of these trees, so that the places of one are near those of the one before. O(log n) each.
    """
    words, halves = store.words, store.halves
    child = store.nodes[child_id]
    work, notes = store.trees.path, store.trees.notes
    fingers = work[len(work) - SCRATCH :]
    head, tail = fingers[:FINGER], fingers[FINGER : 2 * FINGER]
    lift(head)
    lift(tail)
    r, above_table, n, depth = child.readers, store.tables[store.nodes[child.parent].table], np.int64(0), np.int64(NONE)
    row = child.fresh
    child.fresh = -1
    while row >= 0:
        at = record(above_table, row)
        # The last one came first, and ids were given out one after the other.
        prefetch(words, at - _AHEAD * above_table.stride)
        prefetch(words, at - _AHEAD * above_table.stride + (child.end >> 1))
        notes[GROUP, n] = halves[2 * at + child.reads]
        notes[IMAGE, n] = image(store, r, 0, words[at + store.trees.orders[r, 0].position])
        notes[ROW, n] = row
        row = np.int64(halves[2 * at + child.end])
        n += 1
    sort_notes(notes, n)
    for i in range(n):
        row = notes[ROW, i]
        if i + _AHEAD < n:
            at = record(above_table, notes[ROW, i + _AHEAD])
            for line in range(at, at + above_table.stride, _LINE):
                prefetch(words, line)
        group = record(store.tables[child.group], notes[GROUP, i])
        _, depth = insert_from(store, r, 2 * group + child.readers_root, row, depth)
        at = record(above_table, row)
        total = words[at + child.total : at + child.total + child.width]
        halves[2 * at + child.begin], halves[2 * at + child.end] = look_up(store, child_id, at, group, fingers, total)


@kernel
def look_up(store: Store, child_id: Int, at: Int, group: Int, fingers: Words, total: Words) -> tuple[Int, Int]:
    """Return the first and last row of the range of the reader whose record is at `at`; set `total` to its sum.

    Both rows are -1 if it is empty, and `total` is left as it is. `fingers` are two, at the ends of the last range.
    O(log n), and less where the reader before it reads the same group.
    """
    head, tail = fingers[:FINGER], fingers[FINGER : 2 * FINGER]
    child = store.nodes[child_id]
    tree, root = child.tree, np.int64(store.halves[2 * group + child.root])
    none = np.int64(-1)
    lo, hi = range_of(store, child.readers, at)
    if lo > hi or root == NONE:
        return none, none
    code, entry = point(store, tree, head, BEFORE_EQUAL, root, lo)
    if entry == length(store, tree, code):
        code, entry = following(store, tree, code, entry - 1)
    if code == NONE or image_of_key(store, tree, key_at(store, tree, code, entry)) > hi:
        return none, none
    first = row_at(store, tree, code, entry)
    code, entry = point(store, tree, tail, AFTER_EQUAL, root, hi)
    # There is a row in the range, and the tail points behind the last.
    code, entry = preceding(store, tree, code, entry)
    sum_between_fingers(store, tree, head, tail, total)
    return first, row_at(store, tree, code, entry)
