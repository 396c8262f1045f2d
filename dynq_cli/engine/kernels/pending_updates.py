"""Notes: rows of a compared node whose payload changes within a commit, and what trees and lists make of them.

While a commit runs, rows are *noted*. When all have come, the notes of a node are put in order; its trees and lists
follow them in that order, in which each place is near the one before, and partial sums of what they change are kept
for those who read ranges of the rows (`range_sums`). O(log n) per note.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.delta_log import keep, remember_in_order
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
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
def note(store: Store, c: Int, row: Int) -> None:
    """The payload of a row of compared node c changes, maybe not for the first time in this commit."""
    halves = store.halves
    child = store.nodes[c]
    at = 2 * record(store.tables[child.table], row) + child.noted
    if halves[at] == 0:
        halves[at] = child.first_note + 2
        child.first_note = row
        child.pending += 1


@kernel
def take_notes(store: Store, c: Int) -> Int:
    """Put the notes of node c in order, let its trees and lists follow them, and add them up; how many there are.

    Rows that are in no range come last in nobody's order: their notes are settled, and not counted.
    """
    words, halves = store.words, store.halves
    child = store.nodes[c]
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
    _settle_notes(store, c, n)
    return n


@kernel
def _was(store: Store, c: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """A column of what a row counted before the commit."""
    words = store.words
    child = store.nodes[c]
    if child.degree > 0:
        return words[at + child.note + lane], words[at + child.note + lane + 1]
    if lane == 0:
        return words[at + child.note], np.int64(0)
    return np.int64(words[at + child.note] != 0), np.int64(0)


@kernel
def _is(store: Store, c: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """A column of what it counts now."""
    words = store.words
    child = store.nodes[c]
    if child.degree > 0:
        return words[at + child.value + lane], words[at + child.value + lane + 1]
    lo, hi = value_now(store, c, at)
    return (lo, hi) if lane == 0 else (np.int64(lo != 0), np.int64(0))


@kernel
def _settle_notes(store: Store, c: Int, n: Int) -> None:
    """Trees and lists follow n notes in order, and partial sums of what they change are kept: those before note i
    stand in column i.

    Lists follow some rows behind the trees: who is next to a row lies anywhere, and is asked for in between.
    """
    path = store.trees.path
    child = store.nodes[c]
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
            _add_note(store, notes, c, at, i, was, now)
            was_live, is_live = was[0] != 0 or was[1] != 0, now[0] != 0 or now[1] != 0
            if child.old >= 0:
                keep(store, c, at, was)
            before, depth = move_in_tree(store, c, row, group, was_live, is_live, was, now, depth)
            befores[i - first], lives[i - first] = before, 2 * np.int64(was_live) + np.int64(is_live)
            if child.output and child.old < 0 and was_live != is_live:
                _ask_for_neighbours(store, c, at, before, is_live)
        for i in range(first, stop):
            group, lived = record(store.tables[child.group], notes[GROUP, i]), lives[i - first]
            move_in_list(store, c, notes[ROW, i], group, lived & 2 != 0, lived & 1 != 0, befores[i - first])
    if child.old >= 0:
        remember_in_order(store, c, notes[ROW], n)


@kernel(inline="always")
def _add_note(store: Store, notes: Words, c: Int, at: Int, i: Int, was: Words, now: Words) -> None:
    """What the row of note i counted and counts, and the partial sum behind the note."""
    for lane in range(0, store.nodes[c].width, 2):
        was[lane], was[lane + 1] = _was(store, c, at, lane)
        now[lane], now[lane + 1] = _is(store, c, at, lane)
        notes[PREFIX + lane, i + 1], notes[PREFIX + lane + 1, i + 1] = replace(
            notes[PREFIX + lane, i], notes[PREFIX + lane + 1, i], was[lane], was[lane + 1], now[lane], now[lane + 1]
        )


@kernel(inline="always")
def _ask_for(store: Store, t: Int, row: Int) -> None:
    """All of a record that takes up to two lines."""
    words = store.words
    table = store.tables[t]
    at = record(table, row)
    prefetch(words, at)
    prefetch(words, at + table.stride - 1)


@kernel(inline="always")
def _ask_for_neighbours(store: Store, c: Int, at: Int, before: Int, comes: Int) -> None:
    """The rows in the list beside the one whose record is at `at`; of one that comes, the one before."""
    words, halves = store.words, store.halves
    child = store.nodes[c]
    table, after = store.tables[child.table], np.int64(-1)
    if not comes:
        before, after = np.int64(halves[2 * at + child.prev]), np.int64(halves[2 * at + child.next])
    if before >= 0:
        prefetch(words, record(table, before) + (child.next >> 1))
    if after >= 0:
        prefetch(words, record(table, after) + (child.prev >> 1))
