"""Update the range sums of very many readers in the order of their records in memory.

In the order of ranges, the next reader's record is anywhere in memory, and fetching it takes longer than the update. So
where readers are a good part of all rows, they are first only marked with the change of their sum and the ends of their
range, which needs no record. Then the marked readers are updated in the order of their row ids. O(1) per reader whose
range has a note, and a look at the marks of all rows.

A mark is two words, at the row's id: ~(first + 1, last + 1) of its range, and up to two columns to be added, each in
half a word; a change that does not fit is made at once. All marks are 0 between commits.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import first_reader, has_other_bounds, shifted, shifts
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.forward_cursor import WALKER, begin_walk, first_not_passed, has_leaves, last_passed, walk
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, block, keys_at, room, rows_at
from dynq_cli.engine.kernels.order_statistic_search import ask_for_block
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.range_ends import ends
from dynq_cli.engine.kernels.range_sums import (
    CODE,
    ENTRY,
    FROM,
    MISSES,
    START,
    STATE,
    STOP,
    TO,
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


@kernel
def are_many(store: Store, child_id: Int, told: Int) -> Int:
    """Whether so many readers of a child have been updated that the others had better be marked.

    Ranges that depend on several variables of a reader are not known without its record.
    """
    child = store.nodes[child_id]
    return told * _SHARE > store.tables[store.nodes[child.parent].table].used and not has_other_bounds(
        store, child.readers
    )


@kernel(inline="always")
def _difference(notes: Words, lane: Int, i: Int, j: Int) -> tuple[Int, Int]:
    """Return what notes i … j change a column by: its lower word, and whether half of that is enough."""
    lo, hi = replace(
        notes[PREFIX + lane, j], notes[PREFIX + lane + 1, j], notes[PREFIX + lane, i], notes[PREFIX + lane + 1, i], 0, 0
    )
    return lo, hi == lo >> 63 and np.int64(np.int32(lo)) == lo


@kernel
def _packed(notes: Words, width: Int, i: Int, j: Int) -> tuple[Int, Int]:
    """Return what notes i … j change a reader's sum by, in the form of a mark, and whether it fits."""
    change, fits = _difference(notes, 0, i, j)
    packed = change << _HALF
    if width > 2:
        change, both = _difference(notes, 2, i, j)
        packed, fits = packed | (change & _LOW), fits and both
    return packed if fits else np.int64(0), fits


@kernel(inline="always")
def _mark(marks: Words, row: Int, first: Int, last: Int, packed: Int) -> None:
    marks[row, 0] = ~((first + 1) << _HALF | (last + 1))
    marks[row, 1] = packed


@kernel
def mark_readers(store: Store, child_id: Int, n: Int, state: Words) -> None:
    """Mark all readers of a child whose ranges have some of its n notes, from where `tell_some` has stopped."""
    halves = store.halves
    child = store.nodes[child_id]
    while state[CODE] != NONE or state[STOP] != n:
        if state[CODE] == NONE:
            next_group(store, child_id, n, state)
        group = 2 * record(store.tables[child.group], store.trees.notes[GROUP, state[START]])
        readers, root = np.int64(halves[group + child.readers_root]), np.int64(halves[group + child.root])
        if has_leaves(readers) and has_leaves(root):
            _mark_in_leaves(store, child_id, readers, root, state)
        else:
            _mark_few(store, child_id, readers, root, state)


@kernel
def _mark_few(store: Store, child_id: Int, readers: Int, root: Int, state: Words) -> None:
    """Mark the readers of a group that has few of them, or few rows."""
    child = store.nodes[child_id]
    notes, above_table = store.trees.notes, store.tables[store.nodes[child.parent].table]
    while True:
        row, lo, hi = next_concerned(store, child.readers, readers, state)
        if row < 0:
            return
        i, j = state[FROM], state[TO]
        packed, fits = _packed(notes, child.width, i, j)
        if not fits:
            shift(store, notes, child_id, record(above_table, row), i, j)
        first, last = ends(store, child.tree, root, lo, hi)
        _mark(store.trees.marks, row, first, last, packed)


@kernel
def _mark_in_leaves(store: Store, child_id: Int, readers: Int, root: Int, state: Words) -> None:
    """Mark the readers of a group, leaf by leaf. Readers, notes and rows are read side by side: both ends of ranges,
    and the notes and rows between them, only move forward."""
    halves = store.halves
    child = store.nodes[child_id]
    notes, images = store.trees.notes, store.trees.notes[IMAGE]
    r, tree, above_table, width = child.readers, child.tree, store.tables[store.nodes[child.parent].table], child.width
    head, tail = state[STATE : STATE + WALKER], state[STATE + WALKER : STATE + 2 * WALKER]
    lower, upper, is_plain = shifts(store, r)
    start, stop, i, j = state[START], state[STOP], state[FROM], state[TO]
    last_image, begun, misses = images[stop - 1], False, 0
    known_i, known_j, packed, fits = np.int64(-1), np.int64(-1), np.int64(0), False
    code, entry = state[CODE], state[ENTRY]
    state[CODE] = NONE
    while code != NONE:
        at = block(store, r, code)
        keys, rows, many = keys_at(at, room(store, r, code)), rows_at(at), np.int64(halves[2 * at])
        code, behind = np.int64(halves[2 * at + 2]), np.int64(0)
        if code != NONE:
            ask_for_block(store, r, code)
        while entry < many:
            row = np.int64(halves[rows + entry])
            lo, hi = shifted(store, r, store.words[keys + entry], lower, upper, is_plain)
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
                    code, behind = first_reader(store, r, readers, images[i])
                    misses = 0
                    break
                continue
            misses = 0
            if i != known_i or j != known_j:
                known_i, known_j = i, j
                packed, fits = _packed(notes, width, i, j)
            if not fits:
                shift(store, notes, child_id, record(above_table, row), i, j)
            if begun:
                walk(store, tree, head, root, lo - 1)
                walk(store, tree, tail, root, hi)
            else:
                begin_walk(store, tree, head, root, lo - 1)
                begin_walk(store, tree, tail, root, hi)
                begun = True
            first, image = first_not_passed(store, tree, head)
            if first >= 0 and image <= hi:
                _mark(store.trees.marks, row, first, last_passed(halves, tail), packed)
            else:
                _mark(store.trees.marks, row, np.int64(-1), np.int64(-1), packed)
        entry = behind


@kernel
def tell_marked(store: Store, child_id: Int, start: Int, rows: Words) -> tuple[Int, Int]:
    """Update marked readers of a child from row id `start` on, up to len(rows) of them; return how many, and the id
    behind the last."""
    words = store.words
    child = store.nodes[child_id]
    above_table = store.tables[store.nodes[child.parent].table]
    marks, width, filled = store.trees.marks, child.width, np.int64(0)
    row, used, stride = start, above_table.used, above_table.stride
    while row < used and filled < len(rows):
        if marks[row, 0] != 0:
            at = record(above_table, row)
            for line in range(at + _AHEAD * stride, at + (_AHEAD + 1) * stride, _LINE):
                prefetch(words, line)
            ends, packed = ~marks[row, 0], marks[row, 1]
            marks[row, 0] = 0
            move_range(store, child_id, row, at, (ends >> _HALF) - 1, (ends & _LOW) - 1)
            _add(words, at + child.total, packed >> _HALF)
            if width > 2:
                _add(words, at + child.total + 2, np.int64(np.int32(packed)))
            rows[filled] = row
            filled += 1
        row += 1
    return filled, row


@kernel(inline="always")
def _add(words: Words, place: Int, change: Int) -> None:
    words[place], words[place + 1] = replace(words[place], words[place + 1], 0, 0, change, change >> 63)
