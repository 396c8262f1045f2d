"""The sweep: very many readers follow the notes of a commit, in the order in which their records lie in memory.

In the order of ranges, the next reader's record is anywhere: it takes longer to fetch than all that is done with it.
So, where readers turn out to be a good part of all rows, the rest of them are only marked as they are met, with what
their sums change by and with the ends of their ranges, which needs no record; then the marked ones are gone through by
their ids. O(1) per reader that a note concerns, and a look at the marks of all rows.

A mark is two words, at the row's id: ~(first + 1, last + 1) of its range, and up to two columns to be added, each in
half a word; a change that does not fit is made at once. All are 0 between commits.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, shifted, shifts
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_GROUP,
    N_PARENT,
    N_READERS,
    N_ROOT,
    N_RROOT,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_WIDTH,
    T_STRIDE,
    T_USED,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.forward_cursor import WALKER, begin_walk, first_not_passed, has_leaves, last_passed, walk
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, block, keys_at, room, rows_at
from dynq_cli.engine.kernels.order_statistic_search import ask_for_block
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.range_sums import (
    CODE,
    ENTRY,
    FROM,
    MISSES,
    START,
    STATE,
    STOP,
    TO,
    ends,
    move_range,
    next_concerned,
    next_group,
    place_of,
    shift,
)
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX
from dynq_cli.engine.kernels.table import record

# Which part of all rows readers have to be before it is worth while to look at all of them.
_SHARE = 16
_AHEAD, _LINE = 8, 8
_HALF = 32
_LOW = (1 << _HALF) - 1
# Words to work in: where readers are left, and a walker at each end of their ranges.
SWEEP = STATE + 2 * WALKER


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
def _packed(notes: Words, width: Int, i: Int, j: Int) -> tuple[Int, Int]:
    """What notes i … j change a reader's sum by, as a mark has it, and whether it can."""
    change, fits = _difference(notes, 0, i, j)
    packed = change << _HALF
    if width > 2:
        change, both = _difference(notes, 2, i, j)
        packed, fits = packed | (change & _LOW), fits and both
    return packed if fits else np.int64(0), fits


@bare(inline="always")
def _mark(marks: Words, row: Int, first: Int, last: Int, packed: Int) -> None:
    marks[row, 0] = ~((first + 1) << _HALF | (last + 1))
    marks[row, 1] = packed


@bare
def mark_readers(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words) -> None:
    """Mark all readers of child c that its n notes concern, from where `tell_some` has left them."""
    while state[CODE] != NONE or state[STOP] != n:
        if state[CODE] == NONE:
            next_group(a64, a32, T, N, trees, c, n, state)
        group = 2 * record(T, N[c, N_GROUP], trees.notes[GROUP, state[START]])
        readers, root = np.int64(a32[group + N[c, N_RROOT]]), np.int64(a32[group + N[c, N_ROOT]])
        if has_leaves(readers) and has_leaves(root):
            _mark_in_leaves(a64, a32, T, N, trees, c, readers, root, state)
        else:
            _mark_few(a64, a32, T, N, trees, c, readers, root, state)


@bare
def _mark_few(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, readers: Int, root: Int, state: Words
) -> None:
    """Mark the readers of a group that has few of them, or few rows."""
    notes, above = trees.notes, N[N[c, N_PARENT], N_TABLE]
    while True:
        row, lo, hi = next_concerned(a64, a32, T, trees, N[c, N_READERS], readers, state)
        if row < 0:
            return
        i, j = state[FROM], state[TO]
        packed, fits = _packed(notes, N[c, N_WIDTH], i, j)
        if not fits:
            shift(a64, N, notes, c, record(T, above, row), i, j)
        first, last = ends(a64, a32, T, trees, N[c, N_TREE], root, lo, hi)
        _mark(trees.marks, row, first, last, packed)


@bare
def _mark_in_leaves(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, readers: Int, root: Int, state: Words
) -> None:
    """Mark the readers of a group. Readers, notes and rows are gone through side by side: both ends of ranges, and with
    them the notes and rows in between, only ever move on."""
    C, labels, notes, images = trees.C, trees.labels, trees.notes, trees.notes[IMAGE]
    r, tree, above, width = N[c, N_READERS], N[c, N_TREE], N[N[c, N_PARENT], N_TABLE], N[c, N_WIDTH]
    head, tail = state[STATE : STATE + WALKER], state[STATE + WALKER : STATE + 2 * WALKER]
    lower, upper, is_plain = shifts(C, r)
    start, stop, i, j = state[START], state[STOP], state[FROM], state[TO]
    last_image, begun, misses = images[stop - 1], False, 0
    known_i, known_j, packed, fits = np.int64(-1), np.int64(-1), np.int64(0), False
    code, entry = state[CODE], state[ENTRY]
    state[CODE] = NONE
    while code != NONE:
        at = block(T, C, r, code)
        keys, rows, many = keys_at(at, room(T, C, r, code)), rows_at(at), np.int64(a32[2 * at])
        code, behind = np.int64(a32[2 * at + 2]), np.int64(0)
        if code != NONE:
            ask_for_block(a64, T, C, r, code)
        while entry < many:
            row = np.int64(a32[rows + entry])
            lo, hi = shifted(C, r, labels, a64[keys + entry], lower, upper, is_plain)
            entry += 1
            if lo > hi:
                continue
            if lo > last_image:
                return
            if images[i] < lo:
                i = place_of(images, start, stop, i, lo)
            j = max(i, j)
            if hi >= last_image:
                j = stop
            elif images[j] <= hi:
                j = place_of(images, start, stop, j, hi + 1)
            if i >= j:
                misses += 1
                if misses > MISSES:
                    # Note i is behind the range: readers up to the first that sees it see none.
                    code, behind = first_reader(a64, a32, T, C, r, labels, readers, images[i])
                    misses = 0
                    break
                continue
            misses = 0
            if i != known_i or j != known_j:
                known_i, known_j = i, j
                packed, fits = _packed(notes, width, i, j)
            if not fits:
                shift(a64, N, notes, c, record(T, above, row), i, j)
            if begun:
                walk(a64, a32, T, trees, tree, head, root, lo - 1)
                walk(a64, a32, T, trees, tree, tail, root, hi)
            else:
                begin_walk(a64, a32, T, trees, tree, head, root, lo - 1)
                begin_walk(a64, a32, T, trees, tree, tail, root, hi)
                begun = True
            first, image = first_not_passed(a64, a32, T, trees, tree, head)
            if first >= 0 and image <= hi:
                _mark(trees.marks, row, first, last_passed(a32, tail), packed)
            else:
                _mark(trees.marks, row, np.int64(-1), np.int64(-1), packed)
        entry = behind


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
