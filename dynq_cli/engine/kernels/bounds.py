"""The range that a row reads of a group whose rows are in order: from the bounds that comparisons set.

A comparison on an edge says z ≥ x + c or z ≤ x + c, strictly or not, of a variable z of the child and a variable x of
the parent. Rows of the child stand in a counted tree by z; those of the parent that read a group, its *readers*,
stand in another one by one of their variables, whose description goes on, behind its key, with the bounds:

    how many | position of x, is it an upper bound, is it strict, c | …

Codes are whole numbers, and so are labels: a range is closed, [lo, hi] in images of z, and empty if lo > hi. NULL, the
smallest code, is in no range and has none. A sum past the ends of int64 is greater, or less, than every code.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import Halves, Int, Words
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_ORDER,
    NONE,
    O_FIELDS,
    O_LABELS,
    O_POSITION,
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

# Readers have one key, and nulls first: what blocks keep of it is its code.
BOUNDS = C_ORDER + O_FIELDS
B_POSITION, B_UPPER, B_STRICT, B_OFFSET, B_FIELDS = range(5)
MOST = 2**63 - 1
# Instead of a shift: there is no such end. Images and shifts below _FAR add up to codes.
OPEN, _FAR = 1 << 62, 1 << 61


@bare
def _bound(C: Words, r: Int, labels: Words, b: Int, code: Int) -> tuple[Int, Int]:
    """The range that one bound leaves, for the code of its variable."""
    if code == NULL:
        return np.int64(MOST), np.int64(NULL)
    if C[r, C_ORDER + O_LABELS] >= 0:
        code = labels[C[r, C_ORDER + O_LABELS] + code]
    offset, strict = C[r, b + B_OFFSET], C[r, b + B_STRICT]
    above = offset > 0 and code > MOST - offset
    below = offset < 0 and code < NULL - offset
    if C[r, b + B_UPPER]:
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


@bare
def range_by_key(C: Words, r: Int, labels: Words, key: Int) -> tuple[Int, Int]:
    """The range of a reader as far as the variable decides by which readers are ordered. Both ends grow with it."""
    lo, hi = np.int64(NULL + 1), np.int64(MOST)
    for i in range(C[r, BOUNDS]):
        b = BOUNDS + 1 + i * B_FIELDS
        if C[r, b + B_POSITION] == C[r, C_ORDER + O_POSITION]:
            its_lo, its_hi = _bound(C, r, labels, b, key)
            lo, hi = max(lo, its_lo), min(hi, its_hi)
    return lo, hi


@bare
def shifts(C: Words, r: Int) -> tuple[Int, Int, Int]:
    """How far both ends of a range are from the image of its reader's key, or OPEN; and whether that says it all.

    As `range_by_key`, for those who ask it of many readers.
    """
    first, last, fits = np.int64(-OPEN), np.int64(OPEN), True
    for i in range(C[r, BOUNDS]):
        b = BOUNDS + 1 + i * B_FIELDS
        if C[r, b + B_POSITION] == C[r, C_ORDER + O_POSITION]:
            offset, strict = C[r, b + B_OFFSET], C[r, b + B_STRICT]
            fits = fits and -_FAR < offset < _FAR
            if C[r, b + B_UPPER]:
                last = min(last, offset - strict)
            else:
                first = max(first, offset + strict)
    return first, last, fits


@bare(forceinline=True)
def shifted(C: Words, r: Int, labels: Words, key: Int, first: Int, last: Int, fits: Int) -> tuple[Int, Int]:
    """`range_by_key` from `shifts`."""
    image = key
    if C[r, C_ORDER + O_LABELS] >= 0 and key != NULL:
        image = labels[C[r, C_ORDER + O_LABELS] + key]
    if not fits or image <= -_FAR or image >= _FAR:
        return range_by_key(C, r, labels, key)
    return np.int64(NULL + 1) if first == -OPEN else image + first, np.int64(MOST) if last == OPEN else image + last


@bare
def range_of(a64: Words, C: Words, r: Int, labels: Words, at: Int) -> tuple[Int, Int]:
    """The range of the reader whose record is at `at`."""
    lo, hi = np.int64(NULL + 1), np.int64(MOST)
    for i in range(C[r, BOUNDS]):
        b = BOUNDS + 1 + i * B_FIELDS
        its_lo, its_hi = _bound(C, r, labels, b, a64[at + C[r, b + B_POSITION]])
        lo, hi = max(lo, its_lo), min(hi, its_hi)
    return lo, hi


@bare
def is_in_range(a64: Words, C: Words, labels: Words, r: Int, reader: Int, c: Int, row: Int) -> Int:
    """Whether a row of the child is in the range of a reader; both are given by their records."""
    lo, hi = range_of(a64, C, r, labels, reader)
    return lo <= image(C, c, labels, 0, a64[row + C[c, C_ORDER + O_POSITION]]) <= hi


@bare
def has_other_bounds(C: Words, r: Int) -> Int:
    """Whether ranges depend on more than the variable by which readers are ordered."""
    for i in range(C[r, BOUNDS]):
        if C[r, BOUNDS + 1 + i * B_FIELDS + B_POSITION] != C[r, C_ORDER + O_POSITION]:
            return True
    return False


@bare(forceinline=True)
def key_at(a64: Words, a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> Int:
    """The key that stands at a cursor, as blocks keep it."""
    if code >= 0 or size_of(code) == TINY:
        return key_of(a64, T, C, c, row_at(a32, T, C, c, code, entry))
    return a64[keys_at(block(T, C, c, code), room(T, C, c, code)) + entry]


@bare
def _reaches(C: Words, r: Int, labels: Words, key: Int, z: Int) -> Int:
    """Whether upper bounds let readers with this key see z; if so, those behind them see it, too."""
    for i in range(C[r, BOUNDS]):
        b = BOUNDS + 1 + i * B_FIELDS
        if C[r, b + B_UPPER] and C[r, b + B_POSITION] == C[r, C_ORDER + O_POSITION]:
            _, hi = _bound(C, r, labels, b, key)
            if hi < z:
                return False
    return True


@bare
def first_reader(
    a64: Words, a32: Halves, T: Words, C: Words, r: Int, labels: Words, root: Int, z: Int
) -> tuple[Int, Int]:
    """A cursor at the first reader whose upper bounds, by the key of readers, are not before z. O(log n)."""
    code = np.int64(root)
    while is_inner(code):
        at = block(T, C, r, code)
        keys = keys_at(at, room(T, C, r, code))
        low, high = np.int64(0), np.int64(a32[2 * at])
        while low < high:
            middle = (low + high) >> 1
            if _reaches(C, r, labels, a64[keys + middle], z):
                high = middle
            else:
                low = middle + 1
        # Entries have the first key below them: the last one that does not reach z may have readers that do.
        code = np.int64(a32[children_at(at, room(T, C, r, code)) + max(low - 1, np.int64(0))])
    if code == NONE:
        return code, np.int64(0)
    low, high = np.int64(0), np.int64(length(a32, T, C, r, code))
    many = high
    while low < high:
        middle = (low + high) >> 1
        if _reaches(C, r, labels, key_at(a64, a32, T, C, r, code, middle), z):
            high = middle
        else:
            low = middle + 1
    if low == many:
        return following(a32, T, C, r, code, many - 1)
    return code, low
