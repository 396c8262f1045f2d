"""The blocks of counted trees: where rows stand in order, and where partial sums are kept.

A *code* says what is there: `NONE`, a row by itself (its id, ≥ 0), or a block (≤ -2). A block lies in the pool of
its size, one of 2^28; pools are rows of `T` without slots, so that they grow, are freed and are copied as tables are.
The smallest size is four rows in two words, -1 behind the last one. All other blocks are made alike:

    count | next, previous | row ids | keys | inner blocks: children | their sums, `width` lanes each

An entry of a leaf is a row, with the code of its first order key beside its id, so that a search looks at records
only where first keys are equal. An entry of an inner block is a child: its first row with that row's key, and
the sums over all rows below it. Sums over the rows of a leaf are kept above it, never in it: a group that fits a leaf
keeps none, and its rows may change their payload for nothing.

A tree, or rather a forest of groups that are ordered alike, is a row of the matrix `C`. Keys are compared by their
*image*, (code ^ flip) + shift with wrap-around: NULL, the smallest code, comes first, last with shift -1; both
mirrored with flip -1. Ids of a dictionary are kept as ids, and their labels looked up: labels may change, the order of
any two does not. Other keys are kept as images.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import (
    T_ARITY,
    T_FREE,
    T_LIVE,
    T_ROWS,
    T_STRIDE,
    T_USED,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.table import record

# Counted trees.
(
    C_TABLE,  # the table of the rows
    C_PAYLOAD,  # how the payload of a row is read
    C_PLACE,  # wide: where it stands in the row's record
    C_WIDTH,  # its lanes: two per column
    C_POOLS,  # the first of `POOLS` rows of T, by size; T_ARITY is how many entries a block has room for
    C_KEYS,  # how many order keys there are; four numbers each:
    C_ORDER,
) = range(7)
O_POSITION, O_LABELS, O_FLIP, O_SHIFT, O_FIELDS = range(5)  # labels start there, or -1 for keys that need none

# Payload is read from the lanes of the record, or is (multiplicity, 1), or (1, 1).
LANES, COUNT, UNIT = range(3)

# Sizes of blocks: leaves, then inner blocks. Only a root is smaller than the largest of its kind.
TINY, LARGEST_LEAF, INNER, LARGEST_INNER, POOLS = 0, 3, 4, 6, 7
NONE = -1
HEADER = 2

# Scratch: a path from the root (block, entry), then the images of a target, then lanes.
TARGET = 80


@bare(forceinline=True)
def size_of(code: Int) -> Int:
    return (-2 - code) & 7


@bare(forceinline=True)
def is_inner(code: Int) -> Int:
    return code < NONE and (-2 - code) & 7 >= INNER


@bare(forceinline=True)
def block(T: Words, C: Words, c: Int, code: Int) -> Int:
    """Where a block starts, in words."""
    pool = C[c, C_POOLS] + ((-2 - code) & 7)
    return T[pool, T_ROWS] + ((-2 - code) >> 3) * T[pool, T_STRIDE]


@bare(forceinline=True)
def room(T: Words, C: Words, c: Int, code: Int) -> Int:
    """How many entries a block has room for."""
    return T[C[c, C_POOLS] + ((-2 - code) & 7), T_ARITY]


@bare(forceinline=True)
def rows_at(at: Int) -> Int:
    """Where the row ids of a block start, in half words."""
    return 2 * (at + HEADER)


@bare(forceinline=True)
def keys_at(at: Int, most: Int) -> Int:
    return at + HEADER + (most >> 1)


@bare(forceinline=True)
def children_at(at: Int, most: Int) -> Int:
    return 2 * (at + HEADER + most) + most


@bare(forceinline=True)
def sums_at(at: Int, most: Int) -> Int:
    return at + HEADER + 2 * most


@bare(forceinline=True)
def lanes_at(C: Words, c: Int) -> Int:
    """Where lanes stand in the scratch array."""
    return TARGET + C[c, C_KEYS]


@bare
def take(a64: Words, a32: Halves, T: Words, C: Words, c: Int, size: Int) -> Int:
    """An empty block; the caller has made room. Blocks are handed out again last in, first out."""
    pool = C[c, C_POOLS] + size
    number = T[pool, T_FREE]
    if number >= 0:
        T[pool, T_FREE] = a64[record(T, pool, number)]
    else:
        number = T[pool, T_USED]
        T[pool, T_USED] = number + 1
    T[pool, T_LIVE] += 1
    at = 2 * record(T, pool, number)
    if size == TINY:
        for i in range(T[pool, T_ARITY]):
            a32[at + i] = NONE
    else:
        a32[at] = a32[at + 1] = 0
        a32[at + 2] = a32[at + 3] = NONE
    return -2 - (number << 3 | size)


@bare
def give(a64: Words, T: Words, C: Words, c: Int, code: Int) -> None:
    """A block is not needed any more."""
    pool = C[c, C_POOLS] + size_of(code)
    a64[block(T, C, c, code)] = T[pool, T_FREE]
    T[pool, T_FREE] = (-2 - code) >> 3
    T[pool, T_LIVE] -= 1


@bare(forceinline=True)
def image(C: Words, c: Int, labels: Words, i: Int, code: Int) -> Int:
    """What the i-th order key is compared by."""
    order = C_ORDER + i * O_FIELDS
    if C[c, order + O_LABELS] >= 0 and code != NULL:
        code = labels[C[c, order + O_LABELS] + code]
    return (code ^ C[c, order + O_FLIP]) + C[c, order + O_SHIFT]


@bare(forceinline=True)
def key_of(a64: Words, T: Words, C: Words, c: Int, row: Int) -> Int:
    """The first order key of a row as blocks keep it."""
    code = a64[record(T, C[c, C_TABLE], row) + C[c, C_ORDER + O_POSITION]]
    if C[c, C_ORDER + O_LABELS] >= 0:
        return code
    return (code ^ C[c, C_ORDER + O_FLIP]) + C[c, C_ORDER + O_SHIFT]


@bare(forceinline=True)
def image_of_key(C: Words, c: Int, labels: Words, key: Int) -> Int:
    if C[c, C_ORDER + O_LABELS] >= 0:
        return image(C, c, labels, 0, key)
    return key


@bare(forceinline=True)
def payload(a64: Words, T: Words, C: Words, c: Int, row: Int, lane: Int) -> tuple[Int, Int]:
    """One column of what a row counts; `lane` is the column's first."""
    at = record(T, C[c, C_TABLE], row) + C[c, C_PLACE]
    if C[c, C_PAYLOAD] == LANES:
        return a64[at + lane], a64[at + lane + 1]
    if C[c, C_PAYLOAD] == COUNT and lane == 0:
        return a64[at], np.int64(0)
    return np.int64(1), np.int64(0)


@bare(forceinline=True)
def increase(into: Words, at: Int, lo: Int, hi: Int) -> None:
    into[at], into[at + 1] = replace(into[at], into[at + 1], 0, 0, lo, hi)


@bare(forceinline=True)
def decrease(into: Words, at: Int, lo: Int, hi: Int) -> None:
    into[at], into[at + 1] = replace(into[at], into[at + 1], lo, hi, 0, 0)


@bare(forceinline=True)
def length(a32: Halves, T: Words, C: Words, c: Int, code: Int) -> Int:
    """How many entries stand there."""
    if code >= NONE:
        return np.int64(code > NONE)
    at = 2 * block(T, C, c, code)
    if size_of(code) != TINY:
        return np.int64(a32[at])
    n = 0
    while n < room(T, C, c, code) and a32[at + n] >= 0:
        n += 1
    return n


@bare(forceinline=True)
def row_at(a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> Int:
    """The row of an entry of a leaf, or of a row by itself."""
    if code >= 0:
        return code
    at = block(T, C, c, code)
    return np.int64(a32[2 * at + entry]) if size_of(code) == TINY else np.int64(a32[rows_at(at) + entry])


@bare
def add_up(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    code: Int,
    start: Int,
    stop: Int,
    into: Words,
    place: Int,
    subtract: Int,
) -> None:
    """Add what entries start … stop of a block count to the lanes from `place` on, or subtract it. O(block)."""
    width = C[c, C_WIDTH]
    inner, sums = is_inner(code), np.int64(0)
    if inner:
        sums = sums_at(block(T, C, c, code), room(T, C, c, code))
    for lane in range(0, width, 2):
        lo, hi = np.int64(0), np.int64(0)
        if inner:
            for at in range(sums + start * width + lane, sums + stop * width + lane, width):
                lo, hi = replace(lo, hi, 0, 0, a64[at], a64[at + 1])
        elif C[c, C_PAYLOAD] == UNIT or (C[c, C_PAYLOAD] == COUNT and lane > 0):
            lo = np.int64(stop - start)
        else:
            for i in range(start, stop):
                own_lo, own_hi = payload(a64, T, C, c, row_at(a32, T, C, c, code, i), lane)
                lo, hi = replace(lo, hi, 0, 0, own_lo, own_hi)
        if subtract:
            decrease(into, place + lane, lo, hi)
        else:
            increase(into, place + lane, lo, hi)


@bare
def _copy(words: Words | Halves, start: Int, n: Int, to: Int, backwards: Int) -> None:
    if backwards:
        for i in range(n - 1, -1, -1):
            words[to + i] = words[start + i]
    else:
        for i in range(n):
            words[to + i] = words[start + i]


@bare
def move(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, source: Int, start: Int, n: Int, target: Int, to: Int
) -> None:
    """Copy n entries to another place, which may be in the same block, or in one of another size but of its kind."""
    old, new = block(T, C, c, source), block(T, C, c, target)
    was, now = room(T, C, c, source), room(T, C, c, target)
    inner, width = is_inner(source), C[c, C_WIDTH]
    backwards = source == target and to > start
    _copy(a32, rows_at(old) + start, n, rows_at(new) + to, backwards)
    _copy(a64, keys_at(old, was) + start, n, keys_at(new, now) + to, backwards)
    if inner:
        _copy(a32, children_at(old, was) + start, n, children_at(new, now) + to, backwards)
        _copy(a64, sums_at(old, was) + start * width, n * width, sums_at(new, now) + to * width, backwards)


@bare
def cut(a64: Words, a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> None:
    """Take an entry out of a block. O(block)."""
    n = length(a32, T, C, c, code)
    at = 2 * block(T, C, c, code)
    if size_of(code) == TINY:
        for i in range(entry, n - 1):
            a32[at + i] = a32[at + i + 1]
        a32[at + n - 1] = NONE
        return
    move(a64, a32, T, C, c, code, entry + 1, n - 1 - entry, code, entry)
    a32[at] = n - 1


@bare
def put(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    work: Words,
    code: Int,
    entry: Int,
    row: Int,
    key: Int,
    child: Int,
) -> None:
    """Make an entry of a block that has room; an inner one takes its sums from the scratch array."""
    at, most = block(T, C, c, code), room(T, C, c, code)
    n = np.int64(a32[2 * at])
    move(a64, a32, T, C, c, code, entry, n - entry, code, entry + 1)
    a32[2 * at] = n + 1
    a32[rows_at(at) + entry] = row
    a64[keys_at(at, most) + entry] = key
    if is_inner(code):
        a32[children_at(at, most) + entry] = child
        width, lanes = C[c, C_WIDTH], lanes_at(C, c)
        for lane in range(width):
            a64[sums_at(at, most) + entry * width + lane] = work[lanes + lane]


@bare
def put_tiny(a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int, row: Int) -> None:
    at = 2 * block(T, C, c, code)
    for i in range(length(a32, T, C, c, code), entry, -1):
        a32[at + i] = a32[at + i - 1]
    a32[at + entry] = row


@bare
def resized(a64: Words, a32: Halves, T: Words, C: Words, c: Int, code: Int, size: Int) -> Int:
    """The entries of a root in a block of another size of its kind."""
    n = length(a32, T, C, c, code)
    new = take(a64, a32, T, C, c, size)
    old_at, new_at = block(T, C, c, code), block(T, C, c, new)
    if size == TINY:
        for i in range(n):
            a32[2 * new_at + i] = a32[rows_at(old_at) + i]
    elif size_of(code) == TINY:
        keys = keys_at(new_at, room(T, C, c, new))
        for i in range(n):
            row = np.int64(a32[2 * old_at + i])
            a32[rows_at(new_at) + i] = row
            a64[keys + i] = key_of(a64, T, C, c, row)
        a32[2 * new_at] = n
    else:
        move(a64, a32, T, C, c, code, 0, n, new, 0)
        a32[2 * new_at] = n
    give(a64, T, C, c, code)
    return new
