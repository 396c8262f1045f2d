"""Balance order-statistic trees: a block with too few entries takes some from a neighbour, or is merged with it.

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
    """Return how full blocks are built, and how full a root at most is when it moves to a smaller block."""
    return most * 3 // 4


@kernel
def fit_root(store: Store, tree_id: Int, root_at: Int) -> None:
    """Restore the root after a deletion: no inner root with one child, no leaf with one row, no block that is too
    large."""
    halves = store.halves
    code = np.int64(halves[root_at])
    while is_inner(code) and halves[2 * block(store, tree_id, code)] == 1:
        child = np.int64(halves[children_at(block(store, tree_id, code), room(store, tree_id, code))])
        give(store, tree_id, code)
        code = child
    n = length(store, tree_id, code)
    if n == 1:
        at = block(store, tree_id, code)
        row = np.int64(halves[2 * at]) if size_of(code) == TINY else np.int64(halves[rows_at(at)])
        give(store, tree_id, code)
        code = row
    else:
        size = np.int64(INNER if is_inner(code) else TINY)
        while size < size_of(code) and n > full_enough(store.tables[store.trees.forest[tree_id].pools + size].arity):
            size += 1
        if size < size_of(code):
            code = resized(store, tree_id, code, size)
    halves[root_at] = code


@kernel
def renew_first(store: Store, tree_id: Int, code: Int, depth: Int) -> None:
    """Update the entries above a block whose first row has changed."""
    path = store.trees.path
    words, halves = store.words, store.halves
    at = block(store, tree_id, code)
    row, key = np.int64(halves[rows_at(at)]), words[keys_at(at, room(store, tree_id, code))]
    for d in range(depth - 1, -1, -1):
        above, entry = block(store, tree_id, path[2 * d]), path[2 * d + 1]
        halves[rows_at(above) + entry] = row
        words[keys_at(above, room(store, tree_id, path[2 * d])) + entry] = key
        if entry > 0:
            return


@kernel
def _is_at_an_end(store: Store, tree_id: Int, depth: Int) -> Int:
    """Whether the path down to a depth is along either end of the tree."""
    path = store.trees.path
    is_first, is_last = True, True
    for d in range(depth):
        is_first = is_first and path[2 * d + 1] == 0
        is_last = is_last and path[2 * d + 1] == store.halves[2 * block(store, tree_id, path[2 * d])] - 1
    return is_first or is_last


@kernel
def _unlink(store: Store, tree_id: Int, leaf: Int) -> None:
    halves = store.halves
    at = 2 * block(store, tree_id, leaf)
    behind, before = np.int64(halves[at + 2]), np.int64(halves[at + 3])
    if behind != NONE:
        halves[2 * block(store, tree_id, behind) + 3] = before
    if before != NONE:
        halves[2 * block(store, tree_id, before) + 2] = behind


@kernel
def _share(store: Store, tree_id: Int, above: Int, entry: Int, left: Int) -> None:
    """Distribute the entries of children `entry` and the next of a block so that the first has `left` of them."""
    path = store.trees.path
    words, halves = store.words, store.halves
    width, lanes = store.trees.forest[tree_id].width, lanes_at(store, tree_id)
    at, most = block(store, tree_id, above), room(store, tree_id, above)
    a = np.int64(halves[children_at(at, most) + entry])
    b = np.int64(halves[children_at(at, most) + entry + 1])
    a_at, b_at = 2 * block(store, tree_id, a), 2 * block(store, tree_id, b)
    n, m = np.int64(halves[a_at]), np.int64(halves[b_at])
    for lane in range(width):
        path[lanes + lane] = 0
    sums = sums_at(at, most) + entry * width
    if left > n:
        add_up(store, tree_id, b, 0, left - n, path, lanes, False)
        move(store, tree_id, b, 0, left - n, a, n)
        move(store, tree_id, b, left - n, m - left + n, b, 0)
        for lane in range(0, width, 2):
            increase(words, sums + lane, path[lanes + lane], path[lanes + lane + 1])
            decrease(words, sums + width + lane, path[lanes + lane], path[lanes + lane + 1])
    else:
        add_up(store, tree_id, a, left, n, path, lanes, False)
        move(store, tree_id, b, 0, m, b, n - left)
        move(store, tree_id, a, left, n - left, b, 0)
        for lane in range(0, width, 2):
            decrease(words, sums + lane, path[lanes + lane], path[lanes + lane + 1])
            increase(words, sums + width + lane, path[lanes + lane], path[lanes + lane + 1])
    halves[a_at], halves[b_at] = left, n + m - left
    if n + m > left:
        halves[rows_at(at) + entry + 1] = halves[rows_at(block(store, tree_id, b))]
        words[keys_at(at, most) + entry + 1] = words[keys_at(block(store, tree_id, b), room(store, tree_id, b))]


@kernel
def _drop(store: Store, tree_id: Int, above: Int, entry: Int) -> None:
    """Remove an empty child."""
    child = np.int64(store.halves[children_at(block(store, tree_id, above), room(store, tree_id, above)) + entry])
    if not is_inner(child):
        _unlink(store, tree_id, child)
    give(store, tree_id, child)
    cut(store, tree_id, above, entry)


@kernel(forceinline=True)
def _many(store: Store, tree_id: Int, above: Int, entry: Int) -> Int:
    """Return how many entries a child has."""
    halves = store.halves
    child = np.int64(halves[children_at(block(store, tree_id, above), room(store, tree_id, above)) + entry])
    return np.int64(halves[2 * block(store, tree_id, child)])


@kernel
def balance(store: Store, tree_id: Int, leaf: Int, depth: Int) -> None:
    """Restore the blocks above a leaf that has lost a row: each with too few entries gets some, or is merged."""
    path = store.trees.path
    halves = store.halves
    code = leaf
    while depth > 0:
        n, most = np.int64(halves[2 * block(store, tree_id, code)]), room(store, tree_id, code)
        above, entry = path[2 * (depth - 1)], path[2 * (depth - 1) + 1]
        siblings = np.int64(halves[2 * block(store, tree_id, above)])
        least = max(most // 4, np.int64(2 if is_inner(code) else 1))
        if n == 0:
            _drop(store, tree_id, above, entry)
            if siblings > 1 and entry == 0:
                renew_first(store, tree_id, above, depth - 1)
        elif siblings == 1 or not (n < least or (n < most // 2 and n % _NOW_AND_THEN == 0)):
            return
        else:
            # Its neighbour with fewer entries.
            other = entry - 1
            if entry == 0 or (
                entry + 1 < siblings and _many(store, tree_id, above, entry + 1) < _many(store, tree_id, above, other)
            ):
                other = entry + 1
            both = n + _many(store, tree_id, above, other)
            entry = min(entry, other)
            # With some room to spare, or the next row would split them again.
            if both <= most * 7 // 8:
                _share(store, tree_id, above, entry, both)
                _drop(store, tree_id, above, entry + 1)
            else:
                if n < least and not _is_at_an_end(store, tree_id, depth):
                    _share(store, tree_id, above, entry, both // 2)
                return
        code = above
        depth -= 1
