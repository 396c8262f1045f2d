"""Notes: rows of a compared node whose payload changes within a commit, and what trees and lists make of them.

While a commit runs, rows are *noted*. When all have come, the notes of a node are put in order; its trees and lists
follow them in that order, in which each place is near the one before, and partial sums of what they change are kept
for those who read ranges of the rows (`range_sums`). O(log n) per note.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.delta_log import keep, remember_in_order
from dynq_cli.engine.kernels.fields import (
    N_DEGREE,
    N_GID,
    N_GROUP,
    N_NEXT,
    N_NOTE,
    N_NOTED,
    N_NOTES,
    N_OLD,
    N_OUTPUT,
    N_PENDING,
    N_PREV,
    N_TABLE,
    N_TREE,
    N_VALUE,
    N_WIDTH,
    T_STRIDE,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.multiplicity import value_now
from dynq_cli.engine.kernels.order_statistic_blocks import C_ORDER, NONE, O_POSITION, image
from dynq_cli.engine.kernels.ordered import move_in_list, move_in_tree
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX, ROW, sort_notes
from dynq_cli.engine.kernels.table import record

# The end of the scratch array of trees: what a row counted and counts, and of AHEAD rows what becomes of their lists.
_LANES = 4
SCRATCH = 2 * _LANES + 2 * AHEAD
# Records of rows that are asked for before they are needed.
_AHEAD = 8


@bare(inline="always")
def note(a32: Halves, T: Words, N: Words, c: Int, row: Int) -> None:
    """The payload of a row of compared node c changes, maybe not for the first time in this commit."""
    at = 2 * record(T, N[c, N_TABLE], row) + N[c, N_NOTED]
    if a32[at] == 0:
        a32[at] = N[c, N_NOTES] + 2
        N[c, N_NOTES] = row
        N[c, N_PENDING] += 1


@bare
def take_notes(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> Int:
    """Put the notes of node c in order, let its trees and lists follow them, and add them up; how many there are.

    Rows that are in no range come last in nobody's order: their notes are settled, and not counted.
    """
    C, labels, notes = trees.C, trees.labels, trees.notes
    t, tree, n = N[c, N_TABLE], N[c, N_TREE], np.int64(0)
    row = N[c, N_NOTES]
    N[c, N_NOTES] = -1
    while row >= 0:
        at = record(T, t, row)
        # The last one came first, and ids were given out one after the other.
        prefetch(a64, at - _AHEAD * T[t, T_STRIDE])
        following_row = np.int64(a32[2 * at + N[c, N_NOTED]]) - 2
        a32[2 * at + N[c, N_NOTED]] = 0
        notes[GROUP, n] = a32[2 * at + N[c, N_GID]]
        notes[IMAGE, n] = image(C, tree, labels, 0, a64[at + C[tree, C_ORDER + O_POSITION]])
        notes[ROW, n] = row
        n += 1
        row = following_row
    sort_notes(notes, n)
    _settle_notes(a64, a32, T, N, trees, c, n)
    return n


@bare
def _was(a64: Words, N: Words, c: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """A column of what a row counted before the commit."""
    if N[c, N_DEGREE] > 0:
        return a64[at + N[c, N_NOTE] + lane], a64[at + N[c, N_NOTE] + lane + 1]
    if lane == 0:
        return a64[at + N[c, N_NOTE]], np.int64(0)
    return np.int64(a64[at + N[c, N_NOTE]] != 0), np.int64(0)


@bare
def _is(a64: Words, a32: Halves, T: Words, N: Words, c: Int, at: Int, lane: Int) -> tuple[Int, Int]:
    """A column of what it counts now."""
    if N[c, N_DEGREE] > 0:
        return a64[at + N[c, N_VALUE] + lane], a64[at + N[c, N_VALUE] + lane + 1]
    lo, hi = value_now(a64, a32, T, N, c, at)
    return (lo, hi) if lane == 0 else (np.int64(lo != 0), np.int64(0))


@bare
def _settle_notes(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int) -> None:
    """Trees and lists follow n notes in order, and partial sums of what they change are kept: those before note i
    stand in column i.

    Lists follow some rows behind the trees: who is next to a row lies anywhere, and is asked for in between.
    """
    notes, work = trees.notes, trees.work[len(trees.work) - SCRATCH :]
    was, now = work[:_LANES], work[_LANES : 2 * _LANES]
    befores, lives = work[2 * _LANES : 2 * _LANES + AHEAD], work[2 * _LANES + AHEAD :]
    depth = np.int64(NONE)
    for lane in range(N[c, N_WIDTH]):
        notes[PREFIX + lane, 0] = 0
    for first in range(0, n, AHEAD):
        stop = min(first + AHEAD, n)
        for i in range(first, stop):
            if i + _AHEAD < n:
                _ask_for(a64, T, N[c, N_TABLE], notes[ROW, i + _AHEAD])
            row, group = notes[ROW, i], record(T, N[c, N_GROUP], notes[GROUP, i])
            at = record(T, N[c, N_TABLE], row)
            _add_note(a64, a32, T, N, notes, c, at, i, was, now)
            was_live, is_live = was[0] != 0 or was[1] != 0, now[0] != 0 or now[1] != 0
            if N[c, N_OLD] >= 0:
                keep(a64, N, c, at, was)
            before, depth = move_in_tree(a64, a32, T, N, trees, c, row, group, was_live, is_live, was, now, depth)
            befores[i - first], lives[i - first] = before, 2 * np.int64(was_live) + np.int64(is_live)
            if N[c, N_OUTPUT] and N[c, N_OLD] < 0 and was_live != is_live:
                _ask_for_neighbours(a64, a32, T, N, c, at, before, is_live)
        for i in range(first, stop):
            group, lived = record(T, N[c, N_GROUP], notes[GROUP, i]), lives[i - first]
            move_in_list(a32, T, N, c, notes[ROW, i], group, lived & 2 != 0, lived & 1 != 0, befores[i - first])
    if N[c, N_OLD] >= 0:
        remember_in_order(a32, T, N, c, notes[ROW], n)


@bare(inline="always")
def _add_note(
    a64: Words, a32: Halves, T: Words, N: Words, notes: Words, c: Int, at: Int, i: Int, was: Words, now: Words
) -> None:
    """What the row of note i counted and counts, and the partial sum behind the note."""
    for lane in range(0, N[c, N_WIDTH], 2):
        was[lane], was[lane + 1] = _was(a64, N, c, at, lane)
        now[lane], now[lane + 1] = _is(a64, a32, T, N, c, at, lane)
        notes[PREFIX + lane, i + 1], notes[PREFIX + lane + 1, i + 1] = replace(
            notes[PREFIX + lane, i],
            notes[PREFIX + lane + 1, i],
            was[lane],
            was[lane + 1],
            now[lane],
            now[lane + 1],
        )


@bare(inline="always")
def _ask_for(a64: Words, T: Words, t: Int, row: Int) -> None:
    """All of a record that takes up to two lines."""
    at = record(T, t, row)
    prefetch(a64, at)
    prefetch(a64, at + T[t, T_STRIDE] - 1)


@bare(inline="always")
def _ask_for_neighbours(a64: Words, a32: Halves, T: Words, N: Words, c: Int, at: Int, before: Int, comes: Int) -> None:
    """The rows in the list beside the one whose record is at `at`; of one that comes, the one before."""
    t, after = N[c, N_TABLE], np.int64(-1)
    if not comes:
        before, after = np.int64(a32[2 * at + N[c, N_PREV]]), np.int64(a32[2 * at + N[c, N_NEXT]])
    if before >= 0:
        prefetch(a64, record(T, t, before) + (N[c, N_NEXT] >> 1))
    if after >= 0:
        prefetch(a64, record(T, t, after) + (N[c, N_PREV] >> 1))
