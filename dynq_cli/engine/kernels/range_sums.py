"""Update the range sums of readers: rows of a node that read a range of a child's rows.

The pending updates of a commit stand in order (`pending_updates`), with partial sums. The readers of a group are
visited once, in their order. The difference of the partial sums at the ends of a reader's range is what its sum changes
by. O(1) per reader whose range has an update if ranges depend on one variable of the parent, else O(log n).

A group whose sum stays the same may have moved its values: sums of groups decide nothing here.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, key_at, range_by_key, range_of
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.delta_log import remember_range
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.journal import note_range
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, image_of_key, length, row_at
from dynq_cli.engine.kernels.order_statistic_search import following_on
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.range_ends import advance, advance_back, ends
from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, PREFIX
from dynq_cli.engine.kernels.table import record

MOST = 2**63 - 1
# Readers without a note that are passed before the next one is sought.
MISSES = 8
_AHEAD, _LINE = 8, 8
# Where readers are left: notes of the group in turn, a cursor at readers, notes found last, cursors at ends of ranges.
START, STOP, CODE, ENTRY, FROM, TO, HEAD, HEAD_ENTRY, TAIL, TAIL_ENTRY, STATE = range(11)


@kernel
def place_of(images: Words, start: Int, stop: Int, hint: Int, z: Int) -> Int:
    """Return the first of the images start … stop, ascending, that is not less than z. O(log distance to the hint)."""
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


@kernel
def ask_ahead(store: Store, r: Int, code: Int, entry: Int) -> None:
    """Prefetch the record of a reader some places behind a cursor, or the first ones of a leaf."""
    words = store.words
    if code >= NONE:
        return
    above_table, first, last = store.tables[store.trees.forest[r].table], entry + _AHEAD, entry + _AHEAD
    if entry == 0:
        first = np.int64(0)
    for place in range(first, min(last + 1, length(store, r, code))):
        at = record(above_table, row_at(store, r, code, place))
        prefetch(words, at)
        prefetch(words, at + _LINE)
        prefetch(words, at + 2 * _LINE)


@kernel
def begin_group(store: Store, r: Int, readers: Int, start: Int, stop: Int, state: Words) -> None:
    """Continue with notes start … stop, those of a group, and with the first of its readers, whose tree is at
    `range_sums`."""
    state[START], state[STOP], state[FROM], state[TO] = start, stop, start, start
    z = store.trees.notes[IMAGE, start]
    state[CODE], state[ENTRY] = first_reader(store, r, readers, z)


@kernel
def next_concerned(store: Store, r: Int, readers: Int, state: Words) -> tuple[Int, Int, Int]:
    """Return the next reader whose range has notes, and the range; state[FROM] … state[TO] are these notes.

    The reader is -1 at the end of the group, and the cursor NONE.
    """
    notes = store.trees.notes
    images, others, misses = notes[IMAGE], has_other_bounds(store, r), 0
    above_table = store.tables[store.trees.forest[r].table]
    start, stop = state[START], state[STOP]
    while state[CODE] != NONE:
        code, entry = state[CODE], state[ENTRY]
        key = key_at(store, r, code, entry)
        lo, hi = range_by_key(store, r, key)
        if lo > images[stop - 1] and key != NULL:
            break
        row = row_at(store, r, code, entry)
        state[CODE], state[ENTRY] = following_on(store, r, code, entry)
        if lo > hi:
            continue
        i = place_of(images, start, stop, state[FROM], lo)
        j = stop if hi == MOST else place_of(images, start, stop, max(i, state[TO]), hi + 1)
        state[FROM], state[TO] = i, j
        if i >= j:
            misses += 1
            if misses > MISSES:
                # Note i is behind the range: readers up to the first that sees it see none.
                state[CODE], state[ENTRY] = first_reader(store, r, readers, images[i])
                misses = 0
            continue
        misses = 0
        if others:
            lo, hi = range_of(store, r, record(above_table, row))
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


@kernel
def tell_some(store: Store, child_id: Int, n: Int, state: Words, rows: Words) -> Int:
    """Update the sums of the next readers of a child by its n notes, until len(rows) sums have changed; 0 at the end.

    state[STOP] is 0 at first: where the notes of the current group end. The rest of `state` is the position among
    readers.
    """
    child = store.nodes[child_id]
    r, filled = child.readers, np.int64(0)
    above_table = store.tables[store.nodes[child.parent].table]
    while filled < len(rows):
        row, first, last = next_range(store, child_id, n, state)
        if row < 0:
            break
        ask_ahead(store, r, state[CODE], state[ENTRY])
        at = record(above_table, row)
        move_range(store, child_id, row, at, first, last)
        if shift(store, store.trees.notes, child_id, at, state[FROM], state[TO]):
            rows[filled] = row
            filled += 1
    return filled


@kernel(forceinline=True)  # a call hands over dozens of words
def next_range(store: Store, child_id: Int, n: Int, state: Words) -> tuple[Int, Int, Int]:
    """Return the next reader of a child whose range has some of its n notes, and where its range begins and ends; -1 at
    the end."""
    halves = store.halves
    child = store.nodes[child_id]
    notes, r, tree = store.trees.notes, child.readers, child.tree
    while True:
        if state[STOP] == 0 or state[CODE] == NONE:
            if state[STOP] == n:
                return np.int64(-1), np.int64(-1), np.int64(-1)
            next_group(store, child_id, n, state)
        group = record(store.tables[child.group], notes[GROUP, state[START]])
        readers, root = np.int64(halves[2 * group + child.readers_root]), np.int64(halves[2 * group + child.root])
        row, lo, hi = next_concerned(store, r, readers, state)
        if row >= 0:
            if has_other_bounds(store, r):
                first, last = ends(store, tree, root, lo, hi)
            else:
                first, last = _ends_behind(store, tree, root, lo, hi, state)
            return row, first, last


@kernel(inline="always")
def move_range(store: Store, child_id: Int, row: Int, at: Int, first: Int, last: Int) -> None:
    """Set the begin and end of the range of a reader, whose record is at `at`."""
    halves = store.halves
    child = store.nodes[child_id]
    if child.old >= 0:
        remember_range(store, child_id, row, at, first, last)
    else:
        if child.watch >= 0:
            note_range(store, child_id, row, at)
        halves[2 * at + child.begin], halves[2 * at + child.end] = first, last


@kernel
def next_group(store: Store, child_id: Int, n: Int, state: Words) -> None:
    """Continue with the notes of the next group, and with the first of its readers that they may change."""
    child = store.nodes[child_id]
    notes = store.trees.notes
    start = state[STOP]
    stop = start + 1
    while stop < n and notes[GROUP, stop] == notes[GROUP, start]:
        stop += 1
    readers = np.int64(store.halves[2 * record(store.tables[child.group], notes[GROUP, start]) + child.readers_root])
    begin_group(store, child.readers, readers, start, stop, state)
    state[HEAD] = state[TAIL] = NONE


@kernel
def _ends_behind(store: Store, tree: Int, root: Int, lo: Int, hi: Int, state: Words) -> tuple[Int, Int]:
    """As `ends`, of a range that neither begins nor ends before the last one asked for."""
    state[HEAD], state[HEAD_ENTRY] = advance(store, tree, root, state[HEAD], state[HEAD_ENTRY], lo)
    head, entry = state[HEAD], state[HEAD_ENTRY]
    if head == NONE or image_of_key(store, tree, key_at(store, tree, head, entry)) > hi:
        return np.int64(-1), np.int64(-1)
    state[TAIL], state[TAIL_ENTRY] = advance_back(store, tree, root, state[TAIL], state[TAIL_ENTRY], hi)
    return row_at(store, tree, head, entry), row_at(store, tree, state[TAIL], state[TAIL_ENTRY])


@kernel
def shift(store: Store, notes: Words, child_id: Int, at: Int, i: Int, j: Int) -> Int:
    """Add what notes i … j change to the sum of the reader whose record is at `at`; return whether that is anything."""
    words = store.words
    child = store.nodes[child_id]
    is_any = False
    for lane in range(0, child.width, 2):
        place = at + child.total + lane
        lo, hi = replace(
            words[place],
            words[place + 1],
            notes[PREFIX + lane, i],
            notes[PREFIX + lane + 1, i],
            notes[PREFIX + lane, j],
            notes[PREFIX + lane + 1, j],
        )
        is_any = is_any or lo != words[place] or hi != words[place + 1]
        words[place], words[place + 1] = lo, hi
    return is_any
