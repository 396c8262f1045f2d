"""Readers: rows of a node that follow what has changed in their ranges of a child's rows.

When the notes of a commit are in order (`pending_updates`), the readers of a group are gone through once, in theirs:
what the notes between the ends of a range add up to, by partial sums, changes the reader's sum. O(1) per reader that a
note concerns where ranges depend on one variable of the parent, else O(log n).

A group whose sum stays the same may have moved its values: sums of groups decide nothing here.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, key_at, range_by_key, range_of
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.delta_log import remember_range
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_END,
    N_GROUP,
    N_OLD,
    N_PARENT,
    N_READERS,
    N_ROOT,
    N_RROOT,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_WIDTH,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_TABLE,
    NONE,
    TARGET,
    image_of_key,
    length,
    row_at,
)
from dynq_cli.engine.kernels.order_statistic_search import (
    AFTER_EQUAL,
    BEFORE_EQUAL,
    following_on,
    seek,
    seek_back,
)
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX
from dynq_cli.engine.kernels.table import record

MOST = 2**63 - 1
# Steps that a cursor takes before it searches; readers without a note that are passed before the next one is sought.
_STEPS, MISSES = 8, 8
_AHEAD, _LINE = 8, 8
# Where readers are left: notes of the group in turn, a cursor at readers, notes found last, cursors at ends of ranges.
START, STOP, CODE, ENTRY, FROM, TO, HEAD, HEAD_ENTRY, TAIL, TAIL_ENTRY, STATE = range(11)


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
def ask_ahead(a64: Words, a32: Halves, T: Words, C: Words, r: Int, code: Int, entry: Int) -> None:
    """Bring near the record of a reader some places behind a cursor, or those of the first ones of a leaf."""
    if code >= NONE:
        return
    above, first, last = C[r, C_TABLE], entry + _AHEAD, entry + _AHEAD
    if entry == 0:
        first = np.int64(0)
    for place in range(first, min(last + 1, length(a32, T, C, r, code))):
        at = record(T, above, row_at(a32, T, C, r, code, place))
        prefetch(a64, at)
        prefetch(a64, at + _LINE)
        prefetch(a64, at + 2 * _LINE)


@bare
def begin_group(
    a64: Words, a32: Halves, T: Words, trees: Trees, r: Int, readers: Int, start: Int, stop: Int, state: Words
) -> None:
    """Go on to notes start … stop, those of a group, and to the first of its readers, whose tree is at `range_sums`."""
    state[START], state[STOP], state[FROM], state[TO] = start, stop, start, start
    z = trees.notes[IMAGE, start]
    state[CODE], state[ENTRY] = first_reader(a64, a32, T, trees.C, r, trees.labels, readers, z)


@bare
def next_concerned(
    a64: Words, a32: Halves, T: Words, trees: Trees, r: Int, readers: Int, state: Words
) -> tuple[Int, Int, Int]:
    """The next reader in whose range notes are, and the range; state[FROM] … state[TO] are these notes.

    The reader is -1 at the end of the group, and the cursor NONE.
    """
    C, labels, notes = trees.C, trees.labels, trees.notes
    images, others, above, misses = notes[IMAGE], has_other_bounds(C, r), C[r, C_TABLE], 0
    start, stop = state[START], state[STOP]
    while state[CODE] != NONE:
        code, entry = state[CODE], state[ENTRY]
        key = key_at(a64, a32, T, C, r, code, entry)
        lo, hi = range_by_key(C, r, labels, key)
        if lo > images[stop - 1] and key != NULL:
            break
        row = row_at(a32, T, C, r, code, entry)
        state[CODE], state[ENTRY] = following_on(a64, a32, T, C, r, code, entry)
        if lo > hi:
            continue
        i = place_of(images, start, stop, state[FROM], lo)
        j = stop if hi == MOST else place_of(images, start, stop, max(i, state[TO]), hi + 1)
        state[FROM], state[TO] = i, j
        if i >= j:
            misses += 1
            if misses > MISSES:
                # Note i is behind the range: readers up to the first that sees it see none.
                state[CODE], state[ENTRY] = first_reader(a64, a32, T, C, r, labels, readers, images[i])
                misses = 0
            continue
        misses = 0
        if others:
            lo, hi = range_of(a64, C, r, labels, record(T, above, row))
            if lo > hi:
                continue
            i = place_of(images, start, stop, i, lo)
            j = stop if hi == MOST else place_of(images, start, stop, max(i, j - 1), hi + 1)
            state[FROM], state[TO] = i, j
            if i >= j:
                continue
        return row, lo, hi
    state[CODE] = NONE
    return np.int64(-1), np.int64(0), np.int64(0)


@bare
def tell_some(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words, rows: Words
) -> Int:
    """Let the next readers of child c follow its n notes: up to len(rows) of them whose sum changes; 0 at the end.

    state[STOP] is 0 at first: where the notes of the group in turn end. The rest of it is where readers are left.
    """
    C, r, filled = trees.C, N[c, N_READERS], np.int64(0)
    above = N[N[c, N_PARENT], N_TABLE]
    while filled < len(rows):
        row, first, last = next_range(a64, a32, T, N, trees, c, n, state)
        if row < 0:
            break
        ask_ahead(a64, a32, T, C, r, state[CODE], state[ENTRY])
        at = record(T, above, row)
        move_range(a32, N, c, row, at, first, last)
        if shift(a64, N, trees.notes, c, at, state[FROM], state[TO]):
            rows[filled] = row
            filled += 1
    return filled


@bare(forceinline=True)  # a call hands over dozens of words
def next_range(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words
) -> tuple[Int, Int, Int]:
    """The next reader of child c that its n notes concern, and where its range begins and ends; -1 at the end."""
    C, notes, r, tree = trees.C, trees.notes, N[c, N_READERS], N[c, N_TREE]
    while True:
        if state[STOP] == 0 or state[CODE] == NONE:
            if state[STOP] == n:
                return np.int64(-1), np.int64(-1), np.int64(-1)
            next_group(a64, a32, T, N, trees, c, n, state)
        group = record(T, N[c, N_GROUP], notes[GROUP, state[START]])
        readers, root = np.int64(a32[2 * group + N[c, N_RROOT]]), np.int64(a32[2 * group + N[c, N_ROOT]])
        row, lo, hi = next_concerned(a64, a32, T, trees, r, readers, state)
        if row >= 0:
            if has_other_bounds(C, r):
                first, last = ends(a64, a32, T, trees, tree, root, lo, hi)
            else:
                first, last = _ends_behind(a64, a32, T, trees, tree, root, lo, hi, state)
            return row, first, last


@bare(inline="always")
def move_range(a32: Halves, N: Words, c: Int, row: Int, at: Int, first: Int, last: Int) -> None:
    """The range of a reader of child c, whose record is at `at`, begins and ends elsewhere."""
    if N[c, N_OLD] >= 0:
        remember_range(a32, N, c, row, at, first, last)
    else:
        a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = first, last


@bare
def next_group(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words) -> None:
    """Go on to the notes of the next group, and to the first of its readers that they may concern."""
    notes = trees.notes
    start = state[STOP]
    stop = start + 1
    while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
        stop += 1
    readers = np.int64(a32[2 * record(T, N[c, N_GROUP], notes[GROUP, start]) + N[c, N_RROOT]])
    begin_group(a64, a32, T, trees, N[c, N_READERS], readers, start, stop, state)
    state[HEAD] = state[TAIL] = NONE


@bare
def ends(a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, lo: Int, hi: Int) -> tuple[Int, Int]:
    """First and last row of a range, both -1 if it is empty. O(log n)."""
    C, labels, work = trees.C, trees.labels, trees.work
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
def _ends_behind(
    a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, lo: Int, hi: Int, state: Words
) -> tuple[Int, Int]:
    """As `_ends`, of a range that neither begins nor ends before the one asked for last."""
    C, labels = trees.C, trees.labels
    state[HEAD], state[HEAD_ENTRY] = _advance(a64, a32, T, trees, tree, root, state[HEAD], state[HEAD_ENTRY], lo)
    head, entry = state[HEAD], state[HEAD_ENTRY]
    if head == NONE or image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, head, entry)) > hi:
        return np.int64(-1), np.int64(-1)
    state[TAIL], state[TAIL_ENTRY] = _advance_back(a64, a32, T, trees, tree, root, state[TAIL], state[TAIL_ENTRY], hi)
    return row_at(a32, T, C, tree, head, entry), row_at(a32, T, C, tree, state[TAIL], state[TAIL_ENTRY])


@bare
def shift(a64: Words, N: Words, notes: Words, c: Int, at: Int, i: Int, j: Int) -> Int:
    """Add what notes i … j change to the sum of the reader whose record is at `at`; whether that is anything."""
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
    return is_any


@bare
def _advance(
    a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, code: Int, entry: Int, lo: Int
) -> tuple[Int, Int]:
    """The cursor at the first row that is not below lo, from one for a smaller lo; NONE if there is none."""
    C, labels, work = trees.C, trees.labels, trees.work
    if code != NONE:
        for _step in range(_STEPS):
            if image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, code, entry)) >= lo:
                return code, entry
            code, entry = following_on(a64, a32, T, C, tree, code, entry)
            if code == NONE:
                return code, entry
    work[TARGET] = lo
    return seek(a64, a32, T, C, tree, labels, work, 1, BEFORE_EQUAL, root)


@bare
def _advance_back(
    a64: Words, a32: Halves, T: Words, trees: Trees, tree: Int, root: Int, code: Int, entry: Int, hi: Int
) -> tuple[Int, Int]:
    """The cursor at the last row that is not above hi, from one for a smaller hi; NONE if there is none."""
    C, labels, work = trees.C, trees.labels, trees.work
    if code != NONE:
        for _step in range(_STEPS):
            next_code, next_entry = following_on(a64, a32, T, C, tree, code, entry)
            if next_code == NONE:
                return code, entry
            if image_of_key(C, tree, labels, key_at(a64, a32, T, C, tree, next_code, next_entry)) > hi:
                return code, entry
            code, entry = next_code, next_entry
    work[TARGET] = hi
    return seek_back(a64, a32, T, C, tree, labels, work, 1, AFTER_EQUAL, root)
