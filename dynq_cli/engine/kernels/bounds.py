"""Compute the range of rows of a group that a reader reads, from the bounds that comparisons set.

A comparison on an edge says z ≥ x + c or z ≤ x + c, strictly or not, of a variable z of the child and a variable x of
the parent. Rows of the child stand in an order-statistic tree by z. The parent rows that read a group, its *readers*,
stand in another one, by one of their variables. `Trees.bounds` has the bounds of their ranges (`fields.BOUND`).

Codes are whole numbers, and so are labels: a range is closed, [lo, hi] in images of z, and empty if lo > hi. NULL, the
smallest code, is in no range and has none. A sum past the ends of int64 is greater, or less, than every code.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import Int, Store
from dynq_cli.engine.kernels.order_statistic_blocks import (
    NONE,
    TINY,
    block,
    children_at,
    image,
    is_inner,
    key_of,
    keys_at,
    length,
    room,
    row_at,
    size_of,
)
from dynq_cli.engine.kernels.order_statistic_search import following

MOST = 2**63 - 1
# Instead of a shift: there is no such end. Images and shifts below _FAR add up to codes.
OPEN, _FAR = 1 << 62, 1 << 61


@kernel
def _bound(store: Store, r: Int, b: Int, code: Int) -> tuple[Int, Int]:
    """Return the range that one bound leaves, for the code of its variable."""
    if code == NULL:
        return np.int64(MOST), np.int64(NULL)
    order, bound = store.trees.orders[r, 0], store.trees.bounds[r, b]
    if order.labels >= 0:
        code = store.trees.labels[order.labels + code]
    offset, strict = bound.offset, bound.strict
    above = offset > 0 and code > MOST - offset
    below = offset < 0 and code < NULL - offset
    if bound.upper:
        if above:
            return np.int64(NULL + 1), np.int64(MOST)
        if below or code + offset == NULL:
            return np.int64(MOST), np.int64(NULL)
        return np.int64(NULL + 1), code + offset - strict
    if below:
        return np.int64(NULL + 1), np.int64(MOST)
    if above or (strict and code + offset == MOST):
        return np.int64(MOST), np.int64(NULL)
    return max(code + offset + strict, np.int64(NULL + 1)), np.int64(MOST)


@kernel
def range_by_key(store: Store, r: Int, key: Int) -> tuple[Int, Int]:
    """Return the range of a reader as far as the variable decides by which readers are ordered. Both ends grow with
    it."""
    lo, hi = np.int64(NULL + 1), np.int64(MOST)
    for b in range(store.trees.forest[r].bounds):
        if store.trees.bounds[r, b].position == store.trees.orders[r, 0].position:
            its_lo, its_hi = _bound(store, r, b, key)
            lo, hi = max(lo, its_lo), min(hi, its_hi)
    return lo, hi


@kernel
def shifts(store: Store, r: Int) -> tuple[Int, Int, Int]:
    """Return how far both ends of a range are from the image of its reader's key, or OPEN; and whether nothing else
    decides the range.

    As `range_by_key`, for those who need it of many readers.
    """
    first, last, fits = np.int64(-OPEN), np.int64(OPEN), True
    for b in range(store.trees.forest[r].bounds):
        if store.trees.bounds[r, b].position == store.trees.orders[r, 0].position:
            offset, strict = store.trees.bounds[r, b].offset, store.trees.bounds[r, b].strict
            fits = fits and -_FAR < offset < _FAR
            if store.trees.bounds[r, b].upper:
                last = min(last, offset - strict)
            else:
                first = max(first, offset + strict)
    return first, last, fits


@kernel(forceinline=True)
def shifted(store: Store, r: Int, key: Int, first: Int, last: Int, fits: Int) -> tuple[Int, Int]:
    """Return `range_by_key` from `shifts`."""
    image = key
    if store.trees.orders[r, 0].labels >= 0 and key != NULL:
        image = store.trees.labels[store.trees.orders[r, 0].labels + key]
    if not fits or image <= -_FAR or image >= _FAR:
        return range_by_key(store, r, key)
    return np.int64(NULL + 1) if first == -OPEN else image + first, np.int64(MOST) if last == OPEN else image + last


@kernel
def range_of(store: Store, r: Int, at: Int) -> tuple[Int, Int]:
    """Return the range of the reader whose record is at `at`."""
    lo, hi = np.int64(NULL + 1), np.int64(MOST)
    for b in range(store.trees.forest[r].bounds):
        its_lo, its_hi = _bound(store, r, b, store.words[at + store.trees.bounds[r, b].position])
        lo, hi = max(lo, its_lo), min(hi, its_hi)
    return lo, hi


@kernel
def readers_of(store: Store, r: Int, z: Int) -> tuple[Int, Int]:
    """Return between which images of their key readers have z in their range; the first is greater if none has.

    For ranges that depend on this key alone.
    """
    lo, hi = np.int64(NULL + 1), np.int64(MOST)
    for b in range(store.trees.forest[r].bounds):
        bound = store.trees.bounds[r, b]
        if bound.upper:
            shift = bound.offset - bound.strict
            if shift < 0 and z > MOST + shift:
                return np.int64(MOST), np.int64(NULL)
            if shift <= 0 or z >= NULL + 1 + shift:
                lo = max(lo, z - shift)
        else:
            shift = bound.offset + bound.strict
            if shift > 0 and z < NULL + 1 + shift:
                return np.int64(MOST), np.int64(NULL)
            if shift >= 0 or z <= MOST + shift:
                hi = min(hi, z - shift)
    return lo, hi


@kernel
def is_in_range(store: Store, r: Int, reader: Int, tree_id: Int, row: Int) -> Int:
    """Whether a row of the child is in the range of a reader; both are given by their records."""
    lo, hi = range_of(store, r, reader)
    return lo <= image(store, tree_id, 0, store.words[row + store.trees.orders[tree_id, 0].position]) <= hi


@kernel
def has_other_bounds(store: Store, r: Int) -> Int:
    """Whether ranges depend on more than the variable by which readers are ordered."""
    for i in range(store.trees.forest[r].bounds):
        if store.trees.bounds[r, i].position != store.trees.orders[r, 0].position:
            return True
    return False


@kernel(forceinline=True)
def key_at(store: Store, tree_id: Int, code: Int, entry: Int) -> Int:
    """Return the key at a cursor, as blocks keep it."""
    if code >= 0 or size_of(code) == TINY:
        return key_of(store, tree_id, row_at(store, tree_id, code, entry))
    return store.words[keys_at(block(store, tree_id, code), room(store, tree_id, code)) + entry]


@kernel
def _reaches(store: Store, r: Int, key: Int, z: Int) -> Int:
    """Whether upper bounds let readers with this key read z; if so, readers behind them do, too."""
    for b in range(store.trees.forest[r].bounds):
        if store.trees.bounds[r, b].upper and store.trees.bounds[r, b].position == store.trees.orders[r, 0].position:
            _, hi = _bound(store, r, b, key)
            if hi < z:
                return False
    return True


@kernel
def first_reader(store: Store, r: Int, root: Int, z: Int) -> tuple[Int, Int]:
    """Return a cursor at the first reader whose upper bounds, by the key of readers, are not before z. O(log n)."""
    halves = store.halves
    code = np.int64(root)
    while is_inner(code):
        at = block(store, r, code)
        keys = keys_at(at, room(store, r, code))
        low, high = np.int64(0), np.int64(halves[2 * at])
        while low < high:
            middle = (low + high) >> 1
            if _reaches(store, r, store.words[keys + middle], z):
                high = middle
            else:
                low = middle + 1
        # Entries have the first key below them: the last one that does not reach z may have readers that do.
        code = np.int64(halves[children_at(at, room(store, r, code)) + max(low - 1, np.int64(0))])
    if code == NONE:
        return code, np.int64(0)
    low, high = np.int64(0), np.int64(length(store, r, code))
    many = high
    while low < high:
        middle = (low + high) >> 1
        if _reaches(store, r, key_at(store, r, code, middle), z):
            high = middle
        else:
            low = middle + 1
    if low == many:
        return following(store, r, code, many - 1)
    return code, low
