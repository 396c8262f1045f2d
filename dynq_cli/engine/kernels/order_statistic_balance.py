"""Blocks of counted trees that hold too few entries, after a row went: they get some of a neighbour's, or join it.

See `order_statistic_tree` for what holds afterwards.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store
from dynq_cli.engine.kernels.order_statistic_blocks import (
    INNER,
    NONE,
    TINY,
    add_up,
    block,
    children_at,
    cut,
    decrease,
    give,
    increase,
    is_inner,
    keys_at,
    lanes_at,
    length,
    move,
    resized,
    room,
    rows_at,
    size_of,
    sums_at,
)

# A block that is less than half full looks for a neighbour to join, but not at every row that goes.
_NOW_AND_THEN = 4


@kernel(forceinline=True)
def full_enough(most: Int) -> Int:
    """What blocks are filled to when they are built, and at most when a root moves to a smaller one."""
    return most * 3 // 4


@kernel
def fit_root(store: Store, c: Int, root_at: Int) -> None:
    """After something went: no inner root with one child, no leaf with one row, no block that is too large."""
    halves = store.halves
    code = np.int64(halves[root_at])
    while is_inner(code) and halves[2 * block(store, c, code)] == 1:
        child = np.int64(halves[children_at(block(store, c, code), room(store, c, code))])
        give(store, c, code)
        code = child
    n = length(store, c, code)
    if n == 1:
        at = block(store, c, code)
        row = np.int64(halves[2 * at]) if size_of(code) == TINY else np.int64(halves[rows_at(at)])
        give(store, c, code)
        code = row
    else:
        size = np.int64(INNER if is_inner(code) else TINY)
        while size < size_of(code) and n > full_enough(store.tables[store.trees.forest[c].pools + size].arity):
            size += 1
        if size < size_of(code):
            code = resized(store, c, code, size)
    halves[root_at] = code


@kernel
def renew_first(store: Store, c: Int, code: Int, depth: Int) -> None:
    """The first row below a block is another: the entries above it follow."""
    path = store.trees.path
    words, halves = store.words, store.halves
    at = block(store, c, code)
    row, key = np.int64(halves[rows_at(at)]), words[keys_at(at, room(store, c, code))]
    for d in range(depth - 1, -1, -1):
        above, entry = block(store, c, path[2 * d]), path[2 * d + 1]
        halves[rows_at(above) + entry] = row
        words[keys_at(above, room(store, c, path[2 * d])) + entry] = key
        if entry > 0:
            return


@kernel
def _is_at_an_end(store: Store, c: Int, depth: Int) -> Int:
    """Whether the path down to a depth is along either end of the tree."""
    path = store.trees.path
    is_first, is_last = True, True
    for d in range(depth):
        is_first = is_first and path[2 * d + 1] == 0
        is_last = is_last and path[2 * d + 1] == store.halves[2 * block(store, c, path[2 * d])] - 1
    return is_first or is_last


@kernel
def _unlink(store: Store, c: Int, leaf: Int) -> None:
    halves = store.halves
    at = 2 * block(store, c, leaf)
    behind, before = np.int64(halves[at + 2]), np.int64(halves[at + 3])
    if behind != NONE:
        halves[2 * block(store, c, behind) + 3] = before
    if before != NONE:
        halves[2 * block(store, c, before) + 2] = behind


@kernel
def _share(store: Store, c: Int, above: Int, entry: Int, left: Int) -> None:
    """Children `entry` and the next of a block share their entries so that the first has `left` of them."""
    path = store.trees.path
    words, halves = store.words, store.halves
    width, lanes = store.trees.forest[c].width, lanes_at(store, c)
    at, most = block(store, c, above), room(store, c, above)
    a = np.int64(halves[children_at(at, most) + entry])
    b = np.int64(halves[children_at(at, most) + entry + 1])
    a_at, b_at = 2 * block(store, c, a), 2 * block(store, c, b)
    n, m = np.int64(halves[a_at]), np.int64(halves[b_at])
    for lane in range(width):
        path[lanes + lane] = 0
    sums = sums_at(at, most) + entry * width
    if left > n:
        add_up(store, c, b, 0, left - n, path, lanes, False)
        move(store, c, b, 0, left - n, a, n)
        move(store, c, b, left - n, m - left + n, b, 0)
        for lane in range(0, width, 2):
            increase(words, sums + lane, path[lanes + lane], path[lanes + lane + 1])
            decrease(words, sums + width + lane, path[lanes + lane], path[lanes + lane + 1])
    else:
        add_up(store, c, a, left, n, path, lanes, False)
        move(store, c, b, 0, m, b, n - left)
        move(store, c, a, left, n - left, b, 0)
        for lane in range(0, width, 2):
            decrease(words, sums + lane, path[lanes + lane], path[lanes + lane + 1])
            increase(words, sums + width + lane, path[lanes + lane], path[lanes + lane + 1])
    halves[a_at], halves[b_at] = left, n + m - left
    if n + m > left:
        halves[rows_at(at) + entry + 1] = halves[rows_at(block(store, c, b))]
        words[keys_at(at, most) + entry + 1] = words[keys_at(block(store, c, b), room(store, c, b))]


@kernel
def _drop(store: Store, c: Int, above: Int, entry: Int) -> None:
    """An empty child goes."""
    child = np.int64(store.halves[children_at(block(store, c, above), room(store, c, above)) + entry])
    if not is_inner(child):
        _unlink(store, c, child)
    give(store, c, child)
    cut(store, c, above, entry)


@kernel(forceinline=True)
def _many(store: Store, c: Int, above: Int, entry: Int) -> Int:
    """How many entries a child has."""
    halves = store.halves
    child = np.int64(halves[children_at(block(store, c, above), room(store, c, above)) + entry])
    return np.int64(halves[2 * block(store, c, child)])


@kernel
def balance(store: Store, c: Int, leaf: Int, depth: Int) -> None:
    """A leaf has lost a row: what holds too few entries, it or a block above, gets some or gives up its own."""
    path = store.trees.path
    halves = store.halves
    code = leaf
    while depth > 0:
        n, most = np.int64(halves[2 * block(store, c, code)]), room(store, c, code)
        above, entry = path[2 * (depth - 1)], path[2 * (depth - 1) + 1]
        siblings = np.int64(halves[2 * block(store, c, above)])
        least = max(most // 4, np.int64(2 if is_inner(code) else 1))
        if n == 0:
            _drop(store, c, above, entry)
            if siblings > 1 and entry == 0:
                renew_first(store, c, above, depth - 1)
        elif siblings == 1 or not (n < least or (n < most // 2 and n % _NOW_AND_THEN == 0)):
            return
        else:
            # Its neighbour with fewer entries.
            other = entry - 1
            if entry == 0 or (
                entry + 1 < siblings and _many(store, c, above, entry + 1) < _many(store, c, above, other)
            ):
                other = entry + 1
            both = n + _many(store, c, above, other)
            entry = min(entry, other)
            # With some room to spare, or the next row would split them again.
            if both <= most * 7 // 8:
                _share(store, c, above, entry, both)
                _drop(store, c, above, entry + 1)
            else:
                if n < least and not _is_at_an_end(store, c, depth):
                    _share(store, c, above, entry, both // 2)
                return
        code = above
        depth -= 1
