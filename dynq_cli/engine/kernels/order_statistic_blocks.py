"""The blocks of counted trees: where rows stand in order, and where partial sums are kept.

A *code* says what is there: `NONE`, a row by itself (its id, ≥ 0), or a block (≤ -2). A block lies in the pool of
its size, one of 2^28; pools are tables without slots, so that they grow, are freed and are copied as tables are.
The smallest size is four rows in two words, -1 behind the last one. All other blocks are made alike:

    count | next, previous | row ids | keys | inner blocks: children | their sums, `width` lanes each

An entry of a leaf is a row, with the code of its first order key beside its id, so that a search looks at records
only where first keys are equal. An entry of an inner block is a child: its first row with that row's key, and
the sums over all rows below it. Sums over the rows of a leaf are kept above it, never in it: a group that fits a leaf
keeps none, and its rows may change their payload for nothing.

A tree, or rather a forest of groups that are ordered alike, is a row of `Trees.forest`. Keys are compared by their
*image*, (code ^ flip) + shift with wrap-around: NULL, the smallest code, comes first, last with shift -1; both
mirrored with flip -1. Ids of a dictionary are kept as ids, and their labels looked up: labels may change, the order of
any two does not. Other keys are kept as images.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL
from dynq_cli.engine.kernels.fields import Halves, Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.table import record

# Payload is read from the lanes of the record, or is (multiplicity, 1), or (1, 1).
LANES, COUNT, UNIT = range(3)

# Sizes of blocks: leaves, then inner blocks. Only a root is smaller than the largest of its kind.
TINY, LARGEST_LEAF, INNER, LARGEST_INNER, POOLS = 0, 3, 4, 6, 7
NONE = -1
HEADER = 2

# Scratch: a path from the root (block, entry), then the images of a target, then lanes.
TARGET = 80


@kernel(forceinline=True)
def size_of(code: Int) -> Int:
    return (-2 - code) & 7


@kernel(forceinline=True)
def is_inner(code: Int) -> Int:
    return code < NONE and (-2 - code) & 7 >= INNER


@kernel(forceinline=True)
def block(store: Store, tree_id: Int, code: Int) -> Int:
    """Return where a block starts, in words."""
    pool = store.tables[store.trees.forest[tree_id].pools + ((-2 - code) & 7)]
    return pool.rows + ((-2 - code) >> 3) * pool.stride


@kernel(forceinline=True)
def room(store: Store, tree_id: Int, code: Int) -> Int:
    """Return how many entries a block has room for."""
    return store.tables[store.trees.forest[tree_id].pools + ((-2 - code) & 7)].arity


@kernel(forceinline=True)
def rows_at(at: Int) -> Int:
    """Return where the row ids of a block start, in half words."""
    return 2 * (at + HEADER)


@kernel(forceinline=True)
def keys_at(at: Int, most: Int) -> Int:
    return at + HEADER + (most >> 1)


@kernel(forceinline=True)
def children_at(at: Int, most: Int) -> Int:
    return 2 * (at + HEADER + most) + most


@kernel(forceinline=True)
def sums_at(at: Int, most: Int) -> Int:
    return at + HEADER + 2 * most


@kernel(forceinline=True)
def lanes_at(store: Store, tree_id: Int) -> Int:
    """Return where lanes stand in the scratch array."""
    return TARGET + store.trees.forest[tree_id].keys


@kernel
def take(store: Store, tree_id: Int, size: Int) -> Int:
    """Take an empty block; the caller has made room. Freed blocks are handed out again last in, first out."""
    halves = store.halves
    pool = store.tables[store.trees.forest[tree_id].pools + size]
    number = pool.free
    if number >= 0:
        pool.free = store.words[record(pool, number)]
    else:
        number = pool.used
        pool.used = number + 1
    pool.live += 1
    at = 2 * record(pool, number)
    if size == TINY:
        for i in range(pool.arity):
            halves[at + i] = NONE
    else:
        halves[at] = halves[at + 1] = 0
        halves[at + 2] = halves[at + 3] = NONE
    return -2 - (number << 3 | size)


@kernel
def give(store: Store, tree_id: Int, code: Int) -> None:
    """Free a block."""
    pool = store.tables[store.trees.forest[tree_id].pools + size_of(code)]
    store.words[block(store, tree_id, code)] = pool.free
    pool.free = (-2 - code) >> 3
    pool.live -= 1


@kernel(forceinline=True)
def image(store: Store, tree_id: Int, i: Int, code: Int) -> Int:
    """Return the image by which the i-th order key is compared."""
    order = store.trees.orders[tree_id, i]
    if order.labels >= 0 and code != NULL:
        code = store.trees.labels[order.labels + code]
    return (code ^ order.flip) + order.shift


@kernel(forceinline=True)
def key_of(store: Store, tree_id: Int, row: Int) -> Int:
    """Return the first order key of a row as blocks keep it."""
    order = store.trees.orders[tree_id, 0]
    code = store.words[record(store.tables[store.trees.forest[tree_id].table], row) + order.position]
    if order.labels >= 0:
        return code
    return (code ^ order.flip) + order.shift


@kernel(forceinline=True)
def image_of_key(store: Store, tree_id: Int, key: Int) -> Int:
    if store.trees.orders[tree_id, 0].labels >= 0:
        return image(store, tree_id, 0, key)
    return key


@kernel(forceinline=True)
def payload(store: Store, tree_id: Int, row: Int, lane: Int) -> tuple[Int, Int]:
    """Return one column of what a row counts; `lane` is the column's first."""
    words = store.words
    tree = store.trees.forest[tree_id]
    at = record(store.tables[tree.table], row) + tree.place
    if tree.payload == LANES:
        return words[at + lane], words[at + lane + 1]
    if tree.payload == COUNT and lane == 0:
        return words[at], np.int64(0)
    return np.int64(1), np.int64(0)


@kernel(forceinline=True)
def increase(into: Words, at: Int, lo: Int, hi: Int) -> None:
    into[at], into[at + 1] = replace(into[at], into[at + 1], 0, 0, lo, hi)


@kernel(forceinline=True)
def decrease(into: Words, at: Int, lo: Int, hi: Int) -> None:
    into[at], into[at + 1] = replace(into[at], into[at + 1], lo, hi, 0, 0)


@kernel(forceinline=True)
def length(store: Store, tree_id: Int, code: Int) -> Int:
    """Return how many entries a block, or a row by itself, has."""
    halves = store.halves
    if code >= NONE:
        return np.int64(code > NONE)
    at = 2 * block(store, tree_id, code)
    if size_of(code) != TINY:
        return np.int64(halves[at])
    n = 0
    while n < room(store, tree_id, code) and halves[at + n] >= 0:
        n += 1
    return n


@kernel(forceinline=True)
def row_at(store: Store, tree_id: Int, code: Int, entry: Int) -> Int:
    """Return the row of an entry of a leaf, or of a row by itself."""
    halves = store.halves
    if code >= 0:
        return code
    at = block(store, tree_id, code)
    return np.int64(halves[2 * at + entry]) if size_of(code) == TINY else np.int64(halves[rows_at(at) + entry])


@kernel
def add_up(
    store: Store, tree_id: Int, code: Int, start: Int, stop: Int, into: Words, place: Int, subtract: Int
) -> None:
    """Add what entries start … stop of a block count to the lanes from `place` on, or subtract it. O(block)."""
    words = store.words
    tree = store.trees.forest[tree_id]
    width = tree.width
    inner, sums = is_inner(code), np.int64(0)
    if inner:
        sums = sums_at(block(store, tree_id, code), room(store, tree_id, code))
    for lane in range(0, width, 2):
        lo, hi = np.int64(0), np.int64(0)
        if inner:
            for at in range(sums + start * width + lane, sums + stop * width + lane, width):
                lo, hi = replace(lo, hi, 0, 0, words[at], words[at + 1])
        elif tree.payload == UNIT or (tree.payload == COUNT and lane > 0):
            lo = np.int64(stop - start)
        else:
            for i in range(start, stop):
                own_lo, own_hi = payload(store, tree_id, row_at(store, tree_id, code, i), lane)
                lo, hi = replace(lo, hi, 0, 0, own_lo, own_hi)
        if subtract:
            decrease(into, place + lane, lo, hi)
        else:
            increase(into, place + lane, lo, hi)


@kernel
def _copy(words: Words | Halves, start: Int, n: Int, to: Int, backwards: Int) -> None:
    if backwards:
        for i in range(n - 1, -1, -1):
            words[to + i] = words[start + i]
    else:
        for i in range(n):
            words[to + i] = words[start + i]


@kernel
def move(store: Store, tree_id: Int, source: Int, start: Int, n: Int, target: Int, to: Int) -> None:
    """Copy n entries to another place, in the same block or in one of another size but of its kind."""
    words, halves = store.words, store.halves
    old, new = block(store, tree_id, source), block(store, tree_id, target)
    was, now = room(store, tree_id, source), room(store, tree_id, target)
    inner, width = is_inner(source), store.trees.forest[tree_id].width
    backwards = source == target and to > start
    _copy(halves, rows_at(old) + start, n, rows_at(new) + to, backwards)
    _copy(words, keys_at(old, was) + start, n, keys_at(new, now) + to, backwards)
    if inner:
        _copy(halves, children_at(old, was) + start, n, children_at(new, now) + to, backwards)
        _copy(words, sums_at(old, was) + start * width, n * width, sums_at(new, now) + to * width, backwards)


@kernel
def cut(store: Store, tree_id: Int, code: Int, entry: Int) -> None:
    """Remove an entry from a block. O(block)."""
    halves = store.halves
    n = length(store, tree_id, code)
    at = 2 * block(store, tree_id, code)
    if size_of(code) == TINY:
        for i in range(entry, n - 1):
            halves[at + i] = halves[at + i + 1]
        halves[at + n - 1] = NONE
        return
    move(store, tree_id, code, entry + 1, n - 1 - entry, code, entry)
    halves[at] = n - 1


@kernel
def put(store: Store, tree_id: Int, code: Int, entry: Int, row: Int, key: Int, child: Int) -> None:
    """Insert an entry into a block that has room; an inner one takes its sums from the scratch array."""
    words, halves = store.words, store.halves
    at, most = block(store, tree_id, code), room(store, tree_id, code)
    n = np.int64(halves[2 * at])
    move(store, tree_id, code, entry, n - entry, code, entry + 1)
    halves[2 * at] = n + 1
    halves[rows_at(at) + entry] = row
    words[keys_at(at, most) + entry] = key
    if is_inner(code):
        halves[children_at(at, most) + entry] = child
        width, lanes = store.trees.forest[tree_id].width, lanes_at(store, tree_id)
        for lane in range(width):
            words[sums_at(at, most) + entry * width + lane] = store.trees.path[lanes + lane]


@kernel
def put_tiny(store: Store, tree_id: Int, code: Int, entry: Int, row: Int) -> None:
    halves = store.halves
    at = 2 * block(store, tree_id, code)
    for i in range(length(store, tree_id, code), entry, -1):
        halves[at + i] = halves[at + i - 1]
    halves[at + entry] = row


@kernel
def resized(store: Store, tree_id: Int, code: Int, size: Int) -> Int:
    """Copy the entries of a root to a block of another size of its kind; return that block."""
    halves = store.halves
    n = length(store, tree_id, code)
    new = take(store, tree_id, size)
    old_at, new_at = block(store, tree_id, code), block(store, tree_id, new)
    if size == TINY:
        for i in range(n):
            halves[2 * new_at + i] = halves[rows_at(old_at) + i]
    elif size_of(code) == TINY:
        keys = keys_at(new_at, room(store, tree_id, new))
        for i in range(n):
            row = np.int64(halves[2 * old_at + i])
            halves[rows_at(new_at) + i] = row
            store.words[keys + i] = key_of(store, tree_id, row)
        halves[2 * new_at] = n
    else:
        move(store, tree_id, code, 0, n, new, 0)
        halves[2 * new_at] = n
    give(store, tree_id, code)
    return new
