"""Waiting sums: what a group of readers counts, kept without touching the readers.

Readers s with values v(s), without the compared child, read ranges of the child's rows r with values w(r). If all
readers of a child's group are one group themselves, that group counts

    P = Σ v(s) · F(s) = Σ w(r) · V(r),    F(s) = Σ w over the range of s,    V(r) = Σ v over the readers that have r

A change of w(r) changes P by Δw · V(r), a partial sum in the tree of the readers; a change of v(s) by Δv · F(s), one in
the tree of the child. Both are O(log n). Pending updates of both sides are taken in their order, so that each place is
found from the one before.

Live readers, those with rows in their range, are one end of the ordered list of the group, if ranges are open at one
end: the group has where they begin and end.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import key_at, readers_of
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import multiply, replace
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, TARGET, image_of_key
from dynq_cli.engine.kernels.order_statistic_search import AFTER_EQUAL, BEFORE_EQUAL, last, seek
from dynq_cli.engine.kernels.pending_updates import take_notes
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.range_ends import ends, group_of_readers
from dynq_cli.engine.kernels.ranges import SCRATCH, look_up
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX, ROW
from dynq_cli.engine.kernels.table import enqueue, record
from dynq_cli.engine.kernels.tree_cursor import FINGER, lift, point, sum_between_fingers

# Records of readers that are asked for before they are needed.
_AHEAD = 8


@kernel
def settle(store: Store, node_id: Int) -> Int:
    """Update the groups of a node of waiting readers by the pending updates of the child and of its own rows.

    False if a count does not fit. O(log n) per pending update.
    """
    child_id = store.nodes[node_id].waiting
    fits = _add_rows(store, node_id, child_id, take_notes(store, child_id))
    store.nodes[child_id].pending = 0
    fits = _add_readers(store, node_id, child_id, take_notes(store, node_id)) and fits
    store.nodes[node_id].pending = 0
    return fits


@kernel(inline="always")
def _fingers(store: Store) -> tuple[Words, Words]:
    """Return two fingers and room for a sum; trees may have changed since they were used."""
    path = store.trees.path
    work = path[len(path) - SCRATCH :]
    fingers = work[: 2 * FINGER]
    lift(fingers[:FINGER])
    lift(fingers[FINGER:])
    return fingers, work[2 * FINGER :]


@kernel
def _stop_of(notes: Words, start: Int, n: Int) -> Int:
    """Return where the notes end that are of one group with the first."""
    stop = start + 1
    while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
        stop += 1
    return stop


@kernel
def _add_rows(store: Store, node_id: Int, child_id: Int, n: Int) -> Int:
    """Add what n notes of the child change, for the readers as they were; False if a count does not fit."""
    fingers, total = _fingers(store)
    head, tail = fingers[:FINGER], fingers[FINGER:]
    node, child, notes = store.nodes[node_id], store.nodes[child_id], store.trees.notes
    r, total, start = node.tree, total[: node.width], np.int64(0)
    while start < n:
        stop = _stop_of(notes, start, n)
        group = record(store.tables[child.group], notes[GROUP, start])
        above, root = group_of_readers(store, child_id, group), np.int64(NONE)
        if above >= 0:
            at = record(store.tables[node.group], above)
            root = np.int64(store.halves[2 * at + node.root])
        if root != NONE:
            for i in range(start, stop):
                lo, hi = readers_of(store, r, notes[IMAGE, i])
                if notes[IMAGE, i] == NULL or lo > hi:
                    continue
                point(store, r, head, BEFORE_EQUAL, root, lo)
                point(store, r, tail, AFTER_EQUAL, root, hi)
                sum_between_fingers(store, r, head, tail, total)
                if not _add_change(store, i, total, at + node.sums):
                    return False
            _finish(store, node_id, child_id, above, group)
        start = stop
    return True


@kernel
def _add_readers(store: Store, node_id: Int, child_id: Int, n: Int) -> Int:
    """Add what n notes of readers change, for the child as it is; False if a count does not fit."""
    fingers, total = _fingers(store)
    node, child, notes = store.nodes[node_id], store.nodes[child_id], store.trees.notes
    table, total, start = store.tables[node.table], total[: node.width], np.int64(0)
    while start < n:
        stop = _stop_of(notes, start, n)
        above = notes[GROUP, start]
        place = record(store.tables[node.group], above) + node.sums
        reads = store.halves[2 * record(table, notes[ROW, start]) + child.reads]
        group = record(store.tables[child.group], np.int64(reads))
        for i in range(start, stop):
            if i + _AHEAD < n:
                prefetch(store.words, record(table, notes[ROW, i + _AHEAD]))
            at = record(table, notes[ROW, i])
            first, _ = look_up(store, child_id, at, group, fingers, total)
            if first >= 0 and not _add_change(store, i, total, place):
                return False
        _finish(store, node_id, child_id, above, group)
        start = stop
    return True


@kernel
def _add_change(store: Store, i: Int, total: Words, place: Int) -> Int:
    """Add to the sum at `place` what note i changes, times `total`; False if it does not fit."""
    words, notes, zero = store.words, store.trees.notes, np.int64(0)
    for lane in range(0, len(total), 2):
        was_lo, was_hi = notes[PREFIX + lane, i], notes[PREFIX + lane + 1, i]
        is_lo, is_hi = notes[PREFIX + lane, i + 1], notes[PREFIX + lane + 1, i + 1]
        lo, hi = replace(is_lo, is_hi, was_lo, was_hi, zero, zero)
        is_less = hi < 0
        if is_less:
            lo, hi = replace(zero, zero, lo, hi, zero, zero)
        lo, hi = multiply(lo, hi, total[lane], total[lane + 1])
        if hi < 0:
            return False
        if is_less:
            lo, hi = replace(words[place + lane], words[place + lane + 1], lo, hi, zero, zero)
        else:
            lo, hi = replace(words[place + lane], words[place + lane + 1], zero, zero, lo, hi)
        if hi < 0:
            return False
        words[place + lane], words[place + lane + 1] = lo, hi
    return True


@kernel
def _finish(store: Store, node_id: Int, child_id: Int, above: Int, group: Int) -> None:
    """Note that the group `above` of readers has changed, and where its live readers begin and end. O(log n)."""
    halves = store.halves
    node = store.nodes[node_id]
    enqueue(store, node.group, above)
    if node.output:
        at = record(store.tables[node.group], above)
        lo, hi = _live_readers(store, child_id, np.int64(halves[2 * group + store.nodes[child_id].root]))
        begin, end = ends(store, node.tree, np.int64(halves[2 * at + node.root]), lo, hi)
        halves[2 * at + node.begin], halves[2 * at + node.end] = begin, end


@kernel
def _live_readers(store: Store, child_id: Int, root: Int) -> tuple[Int, Int]:
    """Return between which images of their key readers have rows in their range; the first is greater if none has."""
    child = store.nodes[child_id]
    tree = child.tree
    none_lo, none_hi = np.int64(0), np.int64(-1)
    if root == NONE:
        return none_lo, none_hi
    store.trees.path[TARGET] = NULL
    code, entry = seek(store, tree, 1, AFTER_EQUAL, root)
    if code == NONE:
        return none_lo, none_hi
    if not store.trees.bounds[child.readers, 0].upper:
        code, entry = last(store, tree, root)
    return readers_of(store, child.readers, image_of_key(store, tree, key_at(store, tree, code, entry)))
