"""Ranges: rows of a node that read, of a group of a child's rows, those between two bounds (`bounds`).

A reader keeps the sum over its range, and the first and the last row of it, in its own record; the list of the group
is linked in the order of the range's variable, so whatever walks lists begins at the first row and leaves the list at
the last. While a commit runs, rows of the child whose payload changes are *noted*. When all have come, notes are put
in order. Trees and lists follow them, and then readers are gone through once, in their order: what the notes
between the ends of a range add up to, by partial sums, changes the reader's sum. O(log n) per note, and O(1) per
reader that a note concerns where ranges depend on one variable of the parent, else O(log n). Rows that begin to read
look their ranges up after that, in order, too: O(log n).

A group whose sum stays the same may have moved its values: sums of groups decide nothing here.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, key_at, range_by_key, range_of
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.changed import remember_in_order, remember_range
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.counted_blocks import (
    C_ORDER,
    C_TABLE,
    NONE,
    O_POSITION,
    TARGET,
    image,
    image_of_key,
    length,
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
from dynq_cli.engine.kernels.counted_tree import insert
from dynq_cli.engine.kernels.dirty import value_now
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_DEGREE,
    N_END,
    N_FRESH,
    N_GID,
    N_GROUP,
    N_HEAD,
    N_NOTE,
    N_NOTED,
    N_NOTES,
    N_OLD,
    N_PARENT,
    N_PENDING,
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
from dynq_cli.engine.kernels.ordered import move_in_order
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.wide import replace

MOST = 2**63 - 1
# Steps that a cursor takes before it searches; readers without a note that are passed before the next one is sought.
_STEPS, _MISSES = 8, 8
_AHEAD, _LINE = 8, 8
# Where `tell_some` is: notes of the group in turn, a cursor at readers, notes found last, cursors at ends of ranges.
START, STOP, CODE, ENTRY, FROM, TO, HEAD, HEAD_ENTRY, TAIL, TAIL_ENTRY, STATE = range(11)


@bare(inline="always")
def note(a32: Halves, T: Words, N: Words, c: Int, row: Int) -> None:
    """The payload of a row of compared node c changes, maybe not for the first time in this commit."""
    at = 2 * record(T, N[c, N_TABLE], row) + N[c, N_NOTED]
    if a32[at] == 0:
        a32[at] = N[c, N_NOTES] + 2
        N[c, N_NOTES] = row
        N[c, N_PENDING] += 1


@bare
def begin_reading(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> None:
    """Rows of the parent that are about to read child c come into the trees of readers, and look their ranges up.

    In the order of these trees, so that what one looks at is at hand for the next. O(log n) each.
    """
    C, labels, work, notes = trees
    r, above, n = N[c, N_READERS], N[N[c, N_PARENT], N_TABLE], np.int64(0)
    row = N[c, N_FRESH]
    N[c, N_FRESH] = -1
    while row >= 0:
        at = record(T, above, row)
        notes[GROUP, n] = a32[2 * at + N[c, N_VGID]]
        notes[IMAGE, n] = image(C, r, labels, 0, a64[at + C[r, C_ORDER + O_POSITION]])
        notes[ROW, n] = row
        row = np.int64(a32[2 * at + N[c, N_END]])
        n += 1
    sort_notes(notes, n)
    for i in range(n):
        row = notes[ROW, i]
        if i + _AHEAD < n:
            prefetch(a64, record(T, above, notes[ROW, i + _AHEAD]))
        group = record(T, N[c, N_GROUP], notes[GROUP, i])
        insert(a64, a32, T, C, r, labels, work, 2 * group + N[c, N_RROOT], row)
        _look_up(a64, a32, T, N, trees, c, record(T, above, row), group)


@bare
def _look_up(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, at: Int, group: Int) -> None:
    """What the reader whose record is at `at` sees of a group of child c. O(log n)."""
    C, labels, work, _ = trees
    tree, total = N[c, N_TREE], at + N[c, N_TOTAL]
    root = np.int64(a32[2 * group + N[c, N_ROOT]])
    lo, hi = range_of(a64, C, N[c, N_READERS], labels, at)
    first, last = _ends(a64, a32, T, trees, tree, root, lo, hi)
    a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = first, last
    if first < 0:
        return
    if N[c, N_HEAD] >= 0 and N[c, N_OLD] < 0 and first == a32[2 * group + N[c, N_HEAD]]:
        # Nothing is before the range, and need not be added up to be taken away. (Lists that are still those of
        # before the commit do not tell.)
        lo = np.int64(NULL)
    sum_between(a64, a32, T, C, tree, labels, work, root, lo, False, hi, True, a64[total : total + N[c, N_WIDTH]])


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
def take_notes(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int) -> Int:
    """Put the notes of node c in order, let its trees and lists follow them, and add them up; how many there are.

    Rows that are in no range come last in nobody's order: their notes are settled, and not counted.
    """
    C, labels, _, notes = trees
    t, tree, n = N[c, N_TABLE], N[c, N_TREE], np.int64(0)
    row = N[c, N_NOTES]
    N[c, N_NOTES] = -1
    while row >= 0:
        at = record(T, t, row)
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
    stand in column i."""
    notes, width = trees.notes, N[c, N_WIDTH]
    was, now = trees.work[len(trees.work) - 8 : len(trees.work) - 4], trees.work[len(trees.work) - 4 :]
    for lane in range(width):
        notes[PREFIX + lane, 0] = 0
    for i in range(n):
        row = notes[ROW, i]
        at = record(T, N[c, N_TABLE], row)
        if i + _AHEAD < n:
            prefetch(a64, record(T, N[c, N_TABLE], notes[ROW, i + _AHEAD]))
        for lane in range(0, width, 2):
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
        group = record(T, N[c, N_GROUP], notes[GROUP, i])
        was_live, is_live = was[0] != 0 or was[1] != 0, now[0] != 0 or now[1] != 0
        if N[c, N_OLD] >= 0:
            a64[at + N[c, N_OLD]], a64[at + N[c, N_OLD] + 1] = was[0], was[1]
        move_in_order(a64, a32, T, N, trees, c, row, group, was_live, is_live, was, now)
    if N[c, N_OLD] >= 0:
        remember_in_order(a32, T, N, c, notes[ROW], n)


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
def _ask_ahead(a64: Words, a32: Halves, T: Words, C: Words, r: Int, above: Int, code: Int, entry: Int) -> None:
    """Bring near the records of a reader some places on, or of the first ones of a leaf."""
    if code >= NONE:
        return
    first, last = entry + _AHEAD, entry + _AHEAD
    if entry == 0:
        first = np.int64(0)
    for place in range(first, min(last + 1, length(a32, T, C, r, code))):
        at = record(T, above, row_at(a32, T, C, r, code, place))
        prefetch(a64, at)
        prefetch(a64, at + _LINE)
        prefetch(a64, at + 2 * _LINE)


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
        _ask_ahead(a64, a32, T, C, r, above, code, entry)
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
def tell_some(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words, rows: Words
) -> Int:
    """Let the next readers of child c follow its n notes: up to len(rows) of them whose sum changes; 0 at the end.

    state[STOP] is 0 at first: where the notes of the group in turn end. The rest of it is where readers are left.
    """
    C, notes = trees.C, trees.notes
    r, tree, above, filled = N[c, N_READERS], N[c, N_TREE], N[N[c, N_PARENT], N_TABLE], np.int64(0)
    others = has_other_bounds(C, r)
    while filled < len(rows):
        if state[STOP] == 0 or state[CODE] == NONE:
            if state[STOP] == n:
                break
            _next_group(a64, a32, T, N, trees, c, n, state)
        start, stop = state[START], state[STOP]
        group = record(T, N[c, N_GROUP], notes[GROUP, start])
        readers, root = np.int64(a32[2 * group + N[c, N_RROOT]]), np.int64(a32[2 * group + N[c, N_ROOT]])
        while filled < len(rows):
            row, i, j, lo, hi, code, entry = next_concerned(
                a64, a32, T, trees, r, readers, start, stop, state[CODE], state[ENTRY], state[FROM], state[TO]
            )
            state[CODE], state[ENTRY], state[FROM], state[TO] = code, entry, i, j
            if row < 0:
                state[CODE] = NONE
                break
            at = record(T, above, row)
            if _shift(a64, N, notes, c, at, i, j):
                rows[filled] = row
                filled += 1
            if others:
                first, last = _ends(a64, a32, T, trees, tree, root, lo, hi)
            else:
                first, last = _ends_behind(a64, a32, T, trees, tree, root, lo, hi, state)
            if N[c, N_OLD] >= 0:
                remember_range(a32, N, c, row, at, first, last)
            else:
                a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = first, last
    return filled


@bare
def _next_group(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, n: Int, state: Words) -> None:
    """Go on to the notes of the next group, and to the first of its readers that they may concern."""
    notes = trees.notes
    start = state[STOP]
    stop = start + 1
    while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
        stop += 1
    readers = np.int64(a32[2 * record(T, N[c, N_GROUP], notes[GROUP, start]) + N[c, N_RROOT]])
    z = notes[IMAGE, start]
    code, entry = first_reader(a64, a32, T, trees.C, N[c, N_READERS], trees.labels, readers, z)
    state[START], state[STOP], state[CODE], state[ENTRY] = start, stop, code, entry
    state[FROM] = state[TO] = start
    state[HEAD] = state[TAIL] = NONE


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
def _shift(a64: Words, N: Words, notes: Words, c: Int, at: Int, i: Int, j: Int) -> Int:
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
