"""Pending updates, or *notes*: the rows of a compared node whose payload changes within a commit.

While a commit runs, rows are noted. At its end the notes of a node are sorted; its trees and lists are updated in that
order, in which each place is near the one before; and partial sums of the changes are kept for the readers of ranges
(`range_sums`). O(log n) per note.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.delta_log import keep, remember_in_order
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.journal import note_list
from dynq_cli.engine.kernels.multiplicity import value_now
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, image
from dynq_cli.engine.kernels.ordered import move_in_list, move_in_tree
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX, ROW, sort_notes
from dynq_cli.engine.kernels.table import record

# The end of the scratch array of trees: what a row counted and counts, and of AHEAD rows what becomes of their lists.
_LANES = 4
SCRATCH = 2 * _LANES + 2 * AHEAD
# Records of rows that are asked for before they are needed.
_AHEAD = 8


@kernel(inline="always")
def note(store: Store, child_id: Int, row: Int) -> None:
    """Note that the payload of a row of a compared node changes, maybe not for the first time in this commit."""
    halves = store.halves
    child = store.nodes[child_id]
    at = 2 * record(store.tables[child.table], row) + child.noted
    if halves[at] == 0:
        halves[at] = child.first_note + 2
        child.first_note = row
        child.pending += 1


@kernel
def take_notes(store: Store, child_id: Int) -> Int:
    """Sort the notes of a node, update its trees and lists, and compute partial sums; return how many notes there are.

    Rows that are in no range come last, in any order: their notes are settled, and not counted.
    """
    words, halves = store.words, store.halves
    child = store.nodes[child_id]
    notes = store.trees.notes
    table, tree, n = store.tables[child.table], child.tree, np.int64(0)
    row = child.first_note
    child.first_note = -1
    while row >= 0:
        at = record(table, row)
        # The last one came first, and ids were given out one after the other.
        prefetch(words, at - _AHEAD * table.stride)
        following_row = np.int64(halves[2 * at + child.noted]) - 2
        halves[2 * at + child.noted] = 0
        notes[GROUP, n] = halves[2 * at + child.gid]
        notes[IMAGE, n] = image(store, tree, 0, words[at + store.trees.orders[tree, 0].position])
        notes[ROW, n] = row
        n += 1
        row = following_row
    sort_notes(notes, n)
    _settle_notes(store, child_id, n)
    return n


@kernel
def _was(store: Store, child_id: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """Return a column of what a row counted before the commit."""
    words = store.words
    child = store.nodes[child_id]
    if child.degree > 0:
        return words[at + child.note + lane], words[at + child.note + lane + 1]
    if lane == 0:
        return words[at + child.note], np.int64(0)
    return np.int64(words[at + child.note] != 0), np.int64(0)


@kernel
def _is(store: Store, child_id: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """Return a column of what a row counts now."""
    words = store.words
    child = store.nodes[child_id]
    if child.degree > 0:
        return words[at + child.value + lane], words[at + child.value + lane + 1]
    lo, hi = value_now(store, child_id, at)
    return (lo, hi) if lane == 0 else (np.int64(lo != 0), np.int64(0))


@kernel
def _settle_notes(store: Store, child_id: Int, n: Int) -> None:
    """Update trees and lists by n notes in order, and compute partial sums of their changes: column i has the sum of
    the notes before note i.

    Lists are updated some rows behind the trees: the neighbours of a row are anywhere in memory, and are prefetched
    meanwhile.
    """
    path = store.trees.path
    child = store.nodes[child_id]
    notes, work = store.trees.notes, path[len(path) - SCRATCH :]
    was, now = work[:_LANES], work[_LANES : 2 * _LANES]
    befores, lives = work[2 * _LANES : 2 * _LANES + AHEAD], work[2 * _LANES + AHEAD :]
    depth = np.int64(NONE)
    for lane in range(child.width):
        notes[PREFIX + lane, 0] = 0
    for first in range(0, n, AHEAD):
        stop = min(first + AHEAD, n)
        for i in range(first, stop):
            if i + _AHEAD < n:
                _ask_for(store, child.table, notes[ROW, i + _AHEAD])
            row, group = notes[ROW, i], record(store.tables[child.group], notes[GROUP, i])
            at = record(store.tables[child.table], row)
            _add_note(store, notes, child_id, at, i, was, now)
            was_live, is_live = was[0] != 0 or was[1] != 0, now[0] != 0 or now[1] != 0
            if child.old >= 0:
                keep(store, child_id, at, was)
            before, depth = move_in_tree(store, child_id, row, group, was_live, is_live, was, now, depth)
            befores[i - first], lives[i - first] = before, 2 * np.int64(was_live) + np.int64(is_live)
            if child.output and child.old < 0 and was_live != is_live:
                _ask_for_neighbours(store, child_id, at, before, is_live)
        for i in range(first, stop):
            group, lived = record(store.tables[child.group], notes[GROUP, i]), lives[i - first]
            move_in_list(store, child_id, notes[ROW, i], group, lived & 2 != 0, lived & 1 != 0, befores[i - first])
            if child.watch >= 0 and (lived & 2 != 0) != (lived & 1 != 0):
                note_list(store, child_id, notes[ROW, i], lived & 1 != 0)
    if child.old >= 0:
        remember_in_order(store, child_id, notes[ROW], n)


@kernel(inline="always")
def _add_note(store: Store, notes: Words, child_id: Int, at: Int, i: Int, was: Words, now: Words) -> None:
    """Record what the row of note i counted and counts, and the partial sum behind the note."""
    for lane in range(0, store.nodes[child_id].width, 2):
        was[lane], was[lane + 1] = _was(store, child_id, at, lane)
        now[lane], now[lane + 1] = _is(store, child_id, at, lane)
        if notes[IMAGE, i] == NULL and store.nodes[child_id].waiting >= 0:
            # It reads nothing, whatever there is.
            now[lane] = now[lane + 1] = 0
        notes[PREFIX + lane, i + 1], notes[PREFIX + lane + 1, i + 1] = replace(
            notes[PREFIX + lane, i], notes[PREFIX + lane + 1, i], was[lane], was[lane + 1], now[lane], now[lane + 1]
        )


@kernel(inline="always")
def _ask_for(store: Store, table_id: Int, row: Int) -> None:
    """Prefetch a record that takes up to two cache lines."""
    words = store.words
    table = store.tables[table_id]
    at = record(table, row)
    prefetch(words, at)
    prefetch(words, at + table.stride - 1)


@kernel(inline="always")
def _ask_for_neighbours(store: Store, child_id: Int, at: Int, before: Int, comes: Int) -> None:
    """Prefetch the neighbours in the list of the row whose record is at `at`; of one that comes, the row before."""
    words, halves = store.words, store.halves
    child = store.nodes[child_id]
    table, after = store.tables[child.table], np.int64(-1)
    if not comes:
        before, after = np.int64(halves[2 * at + child.prev]), np.int64(halves[2 * at + child.next])
    if before >= 0:
        prefetch(words, record(table, before) + (child.next >> 1))
    if after >= 0:
        prefetch(words, record(table, after) + (child.prev >> 1))
