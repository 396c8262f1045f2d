"""Ranges: rows of a node that read, of a group of a child's rows, those between two bounds (`bounds`).

A reader keeps the sum over its range, and the first and the last row of it, in its own record; the list of the group
is linked in the order of the range's variable, so whatever walks lists begins at the first row and leaves the list at
the last. While a commit runs, rows of the child whose payload changes are *noted* with what it was. Then all notes
are put in order, and readers are gone through once, in theirs: what the notes between the ends of a range add up to,
by partial sums, changes the reader's sum. O(log n) per note, and O(1) per reader that a note concerns where ranges
depend on one variable of the parent, else O(log n).

A row that begins to read looks its range up when it is recomputed first: O(log n). Until then it is FRESH, and no
note concerns it. A group whose sum stays the same may have moved its values: sums of groups decide nothing here.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, key_at, range_by_key, range_of
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.counted_blocks import (
    C_ORDER,
    C_TABLE,
    NONE,
    O_POSITION,
    TARGET,
    image,
    image_of_key,
    row_at,
)
from dynq_cli.engine.kernels.counted_search import (
    AFTER_EQUAL,
    BEFORE_EQUAL,
    following,
    seek,
    seek_back,
    sum_between,
)
from dynq_cli.engine.kernels.dirty import value_now
from dynq_cli.engine.kernels.fields import (
    FRESH,
    N_BEGIN,
    N_DEGREE,
    N_END,
    N_GID,
    N_GROUP,
    N_NOTE,
    N_NOTED,
    N_NOTES,
    N_PARENT,
    N_READERS,
    N_ROOT,
    N_RROOT,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_VALUE,
    N_VGID,
    N_WIDTH,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.order_notes import GROUP, IMAGE, PREFIX, ROW, sort_notes
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.table import enqueue, record
from dynq_cli.engine.kernels.wide import replace

MOST = 2**63 - 1
# Steps that a cursor takes before it searches; readers without a note that are passed before the next one is sought.
_STEPS, _MISSES = 8, 8
_AHEAD = 8


@bare
def note(a64: Words, a32: Halves, T: Words, N: Words, c: Int, row: Int, old: Words) -> None:
    """The payload of a row of compared node c changes from `old`, maybe not for the first time in this commit."""
    at = record(T, N[c, N_TABLE], row)
    if a32[2 * at + N[c, N_NOTED]] == 0:
        for i in range(N[c, N_WIDTH] if N[c, N_DEGREE] > 0 else 1):
            a64[at + N[c, N_NOTE] + i] = old[i]
        a32[2 * at + N[c, N_NOTED]] = N[c, N_NOTES] + 2
        N[c, N_NOTES] = row


@bare
def look_up(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, at: Int) -> None:
    """What the reader whose record is at `at` sees of child c. O(log n)."""
    C, labels, work, _ = trees
    tree, total = N[c, N_TREE], at + N[c, N_TOTAL]
    group = record(T, N[c, N_GROUP], np.int64(a32[2 * at + N[c, N_VGID]]))
    root = np.int64(a32[2 * group + N[c, N_ROOT]])
    lo, hi = range_of(a64, C, N[c, N_READERS], labels, at)
    sum_between(a64, a32, T, C, tree, labels, work, root, lo, False, hi, True, a64[total : total + N[c, N_WIDTH]])
    first, last = _ends(a64, a32, T, trees, tree, root, lo, hi)
    a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = first, last


@bare
def _ends(a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, lo: Int, hi: Int) -> tuple[Int, Int]:
    """First and last row of a range, both -1 if it is empty. O(log n)."""
    C, labels, work, _ = trees
    if lo > hi or root == NONE:
        return np.int64(-1), np.int64(-1)
    work[TARGET] = lo
    code, entry = seek(a64, a32, T, C, tree, labels, work, 1, BEFORE_EQUAL, root)
    if code == NONE or image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, code, entry)) > hi:
        return np.int64(-1), np.int64(-1)
    first = row_at(a32, T, C, tree, code, entry)
    work[TARGET] = hi
    code, entry = seek_back(a64, a32, T, C, tree, labels, work, 1, AFTER_EQUAL, root)
    return first, row_at(a32, T, C, tree, code, entry)


@bare
def _take_notes(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> Int:
    """Move the notes of node c into columns, without those that change nothing or are in no range; how many."""
    C, labels, _, notes = trees
    t, tree, n = N[c, N_TABLE], N[c, N_TREE], np.int64(0)
    row = N[c, N_NOTES]
    N[c, N_NOTES] = -1
    while row >= 0:
        at = record(T, t, row)
        following_row = np.int64(a32[2 * at + N[c, N_NOTED]]) - 2
        a32[2 * at + N[c, N_NOTED]] = 0
        if following_row >= 0:
            prefetch(a64, record(T, t, following_row))
        code = a64[at + C[tree, C_ORDER + O_POSITION]]
        if code != NULL:
            notes[GROUP, n] = a32[2 * at + N[c, N_GID]]
            notes[IMAGE, n] = image(C, tree, labels, 0, code)
            notes[ROW, n] = row
            n += 1
        row = following_row
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
def _add_up_notes(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int) -> None:
    """Partial sums of what the notes change: those before note i stand in column i."""
    notes, width = trees.notes, N[c, N_WIDTH]
    for lane in range(width):
        notes[PREFIX + lane, 0] = 0
    for i in range(n):
        at = record(T, N[c, N_TABLE], notes[ROW, i])
        if i + _AHEAD < n:
            prefetch(a64, record(T, N[c, N_TABLE], notes[ROW, i + _AHEAD]))
        for lane in range(0, width, 2):
            was_lo, was_hi = _was(a64, N, c, at, lane)
            lo, hi = _is(a64, a32, T, N, c, at, lane)
            notes[PREFIX + lane, i + 1], notes[PREFIX + lane + 1, i + 1] = replace(
                notes[PREFIX + lane, i], notes[PREFIX + lane + 1, i], was_lo, was_hi, lo, hi
            )


@bare
def place_of(images: Words, start: Int, stop: Int, hint: Int, z: Int) -> Int:
    """The first of the images start … stop, ascending, that is not less than z. O(log distance to the hint)."""
    low, high, step = hint, hint, np.int64(1)
    if hint < stop and images[hint] < z:
        # low - 1 is less; high may be.
        low = high = hint + 1
        while high < stop and images[high] < z:
            low = high + 1
            high += step
            step *= 2
        high = min(high, stop)
    else:
        while low > start and images[low - 1] >= z:
            high = low - 1
            low = max(low - step, start)
            step *= 2
    while low < high:
        middle = (low + high) >> 1
        if images[middle] < z:
            low = middle + 1
        else:
            high = middle
    return low


@bare
def tell_readers(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> None:
    """Let the readers of child c follow its notes, and queue those whose sum changes."""
    if N[c, N_NOTES] < 0:
        return
    n = _take_notes(a64, a32, T, N, trees, c)
    notes = trees.notes
    sort_notes(notes, n)
    _add_up_notes(a64, a32, T, N, trees, c, n)
    start = np.int64(0)
    while start < n:
        stop = start + 1
        while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
            stop += 1
        _tell_group(a64, a32, T, N, trees, c, start, stop)
        start = stop


@bare
def next_concerned(
    a64: Words,
    a32: Halves,
    T: Words,
    trees: Trees,
    r: Int,
    readers: Int,
    start: Int,
    stop: Int,
    code: Int,
    entry: Int,
    i: Int,
    j: Int,
) -> tuple[Int, Int, Int, Int, Int, Int, Int]:
    """From a cursor on, the next reader in whose range notes are, which notes, the range, and the cursor behind it.

    Notes start … stop are those of the group that the tree at `readers` reads; i and j are where notes were found last.
    The reader is -1 at the end.
    """
    C, labels, _, notes = trees
    images, others, above, misses = notes[IMAGE], has_other_bounds(C, r), C[r, C_TABLE], 0
    while code != NONE:
        key = key_at(a64, a32, T, C, r, code, entry)
        lo, hi = range_by_key(C, r, labels, key)
        if lo > images[stop - 1] and key != NULL:
            break
        row = row_at(a32, T, C, r, code, entry)
        code, entry = following(a32, T, C, r, code, entry)
        if code != NONE:
            prefetch(a64, record(T, above, row_at(a32, T, C, r, code, entry)))
        if lo > hi:
            continue
        i = place_of(images, start, stop, i, lo)
        j = stop if hi == MOST else place_of(images, start, stop, max(i, j), hi + 1)
        if i >= j:
            misses += 1
            if misses > _MISSES:
                # Note i is behind the range: readers up to the first that sees it see none.
                code, entry = first_reader(a64, a32, T, C, r, labels, readers, images[i])
                misses = 0
            continue
        misses = 0
        if others:
            lo, hi = range_of(a64, C, r, labels, record(T, above, row))
            if lo > hi:
                continue
            i = place_of(images, start, stop, i, lo)
            j = stop if hi == MOST else place_of(images, start, stop, max(i, j - 1), hi + 1)
            if i >= j:
                continue
        return row, i, j, lo, hi, code, entry
    return np.int64(-1), i, j, np.int64(0), np.int64(0), code, entry


@bare
def _tell_group(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, start: Int, stop: Int) -> None:
    """Notes start … stop are those of one group."""
    C, labels, _, notes = trees
    r, tree, above = N[c, N_READERS], N[c, N_TREE], N[N[c, N_PARENT], N_TABLE]
    group = record(T, N[c, N_GROUP], notes[GROUP, start])
    readers, root = np.int64(a32[2 * group + N[c, N_RROOT]]), np.int64(a32[2 * group + N[c, N_ROOT]])
    others = has_other_bounds(C, r)
    code, entry = first_reader(a64, a32, T, C, r, labels, readers, notes[IMAGE, start])
    i, j = start, start
    # Cursors in the child's tree: the last first and last row that were found.
    head, head_entry, tail, tail_entry = np.int64(NONE), np.int64(0), np.int64(NONE), np.int64(0)
    while True:
        row, i, j, lo, hi, code, entry = next_concerned(a64, a32, T, trees, r, readers, start, stop, code, entry, i, j)
        if row < 0:
            return
        at = record(T, above, row)
        if a32[2 * at + N[c, N_BEGIN]] == FRESH:
            continue
        _shift(a64, a32, T, N, notes, c, above, row, at, i, j)
        if others:
            first, last = _ends(a64, a32, T, trees, tree, root, lo, hi)
        else:
            head, head_entry = _advance(a64, a32, T, trees, tree, root, head, head_entry, lo)
            tail, tail_entry = _advance_back(a64, a32, T, trees, tree, root, tail, tail_entry, hi)
            first, last = np.int64(-1), np.int64(-1)
            if head != NONE and image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, head, head_entry)) <= hi:
                first = row_at(a32, T, C, tree, head, head_entry)
                last = row_at(a32, T, C, tree, tail, tail_entry)
        a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = first, last


@bare
def _shift(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    notes: Words,
    c: Int,
    above: Int,
    row: Int,
    at: Int,
    i: Int,
    j: Int,
) -> None:
    """Add what notes i … j change to the sum of a reader, and queue it if that is anything."""
    is_any = False
    for lane in range(0, N[c, N_WIDTH], 2):
        place = at + N[c, N_TOTAL] + lane
        lo, hi = replace(
            a64[place],
            a64[place + 1],
            notes[PREFIX + lane, i],
            notes[PREFIX + lane + 1, i],
            notes[PREFIX + lane, j],
            notes[PREFIX + lane + 1, j],
        )
        is_any = is_any or lo != a64[place] or hi != a64[place + 1]
        a64[place], a64[place + 1] = lo, hi
    if is_any:
        enqueue(a32, T, above, row)


@bare
def _advance(
    a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, code: Int, entry: Int, lo: Int
) -> tuple[Int, Int]:
    """The cursor at the first row that is not below lo, from one for a smaller lo; NONE if there is none."""
    C, labels, work, _ = trees
    if code != NONE:
        for _step in range(_STEPS):
            if image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, code, entry)) >= lo:
                return code, entry
            code, entry = following(a32, T, C, tree, code, entry)
            if code == NONE:
                return code, entry
    work[TARGET] = lo
    return seek(a64, a32, T, C, tree, labels, work, 1, BEFORE_EQUAL, root)


@bare
def _advance_back(
    a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, code: Int, entry: Int, hi: Int
) -> tuple[Int, Int]:
    """The cursor at the last row that is not above hi, from one for a smaller hi; NONE if there is none."""
    C, labels, work, _ = trees
    if code != NONE:
        for _step in range(_STEPS):
            next_code, next_entry = following(a32, T, C, tree, code, entry)
            if next_code == NONE:
                return code, entry
            if image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, next_code, next_entry)) > hi:
                return code, entry
            code, entry = next_code, next_entry
    work[TARGET] = hi
    return seek_back(a64, a32, T, C, tree, labels, work, 1, AFTER_EQUAL, root)
