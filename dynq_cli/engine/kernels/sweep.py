"""The sweep: very many readers follow the notes of a commit, in the order in which their records lie in memory.

In the order of ranges, the next reader's record is anywhere: it takes longer to fetch than all that is done with it.
So, where readers turn out to be a good part of all rows, the rest of them are only marked as they are met, with what
their sums change by and with the ends of their ranges, which needs no record; then the marked ones are gone through by
their ids. O(1) per reader that a note concerns, and a look at the marks of all rows.

A mark is two words, at the row's id: ~(first + 1, last + 1) of its range, and up to two columns to be added, each in
half a word; a change that does not fit is made at once. All are 0 between commits.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import has_other_bounds
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_PARENT,
    N_READERS,
    N_TABLE,
    N_TOTAL,
    N_WIDTH,
    T_STRIDE,
    T_USED,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.order_notes import PREFIX
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.readers import FROM, TO, move_range, next_range, shift
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.wide import replace

# Which part of all rows readers have to be before it is worth while to look at all of them.
_SHARE = 16
_AHEAD, _LINE = 8, 8
_HALF = 32
_LOW = (1 << _HALF) - 1


@bare
def are_many(T: Words, N: Words, trees: Trees, c: Int, told: Int) -> Int:
    """Whether so many readers of child c that have been told make it likely that those left had better be marked.

    Ranges that depend on several variables of a reader are not known without its record.
    """
    return told * _SHARE > T[N[N[c, N_PARENT], N_TABLE], T_USED] and not has_other_bounds(trees.C, N[c, N_READERS])


@bare(inline="always")
def _difference(notes: Words, lane: Int, i: Int, j: Int) -> tuple[Int, Int]:
    """What notes i … j change a column by: its lower word, and whether half of that is enough."""
    lo, hi = replace(
        notes[PREFIX + lane, j],
        notes[PREFIX + lane + 1, j],
        notes[PREFIX + lane, i],
        notes[PREFIX + lane + 1, i],
        0,
        0,
    )
    return lo, hi == lo >> 63 and np.int64(np.int32(lo)) == lo


@bare
def mark_readers(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words) -> None:
    """Mark all readers of child c that its n notes concern, from where `tell_some` has left them."""
    notes, marks, above, width = trees.notes, trees.marks, N[N[c, N_PARENT], N_TABLE], N[c, N_WIDTH]
    while True:
        row, first, last = next_range(a64, a32, T, N, trees, c, n, state)
        if row < 0:
            return
        i, j = state[FROM], state[TO]
        change, fits = _difference(notes, 0, i, j)
        packed = change << _HALF
        if width > 2:
            change, both = _difference(notes, 2, i, j)
            packed, fits = packed | (change & _LOW), fits and both
        if not fits:
            shift(a64, N, notes, c, record(T, above, row), i, j)
            packed = np.int64(0)
        marks[row, 0] = ~((first + 1) << _HALF | (last + 1))
        marks[row, 1] = packed


@bare
def tell_marked(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, start: Int, rows: Words
) -> tuple[Int, Int]:
    """Let marked readers of child c from row id `start` on follow, up to len(rows) of them: how many, and the id behind
    the last."""
    marks, above, width, filled = trees.marks, N[N[c, N_PARENT], N_TABLE], N[c, N_WIDTH], np.int64(0)
    row, used, stride = start, T[above, T_USED], T[above, T_STRIDE]
    while row < used and filled < len(rows):
        if marks[row, 0] != 0:
            at = record(T, above, row)
            for line in range(at + _AHEAD * stride, at + (_AHEAD + 1) * stride, _LINE):
                prefetch(a64, line)
            ends, packed = ~marks[row, 0], marks[row, 1]
            marks[row, 0] = 0
            move_range(a32, N, c, row, at, (ends >> _HALF) - 1, (ends & _LOW) - 1)
            _add(a64, at + N[c, N_TOTAL], packed >> _HALF)
            if width > 2:
                _add(a64, at + N[c, N_TOTAL] + 2, np.int64(np.int32(packed)))
            rows[filled] = row
            filled += 1
        row += 1
    return filled, row


@bare(inline="always")
def _add(a64: Words, place: Int, change: Int) -> None:
    a64[place], a64[place + 1] = replace(a64[place], a64[place + 1], 0, 0, change, change >> 63)
