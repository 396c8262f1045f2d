"""Changing counted trees: rows of a group in order, with partial sums of what they count.

A group is a code, which stands where the group keeps it (`root_at`, in half words): nothing, one row, a leaf, or an
inner block above others (`order_statistic_blocks`). Rows are ordered by their order keys, then by id. The record of a
row holds what the tree counts for it, except while `change` says what it was: splitting a leaf reads records again.

Invariants: leaves are linked in order; an entry of an inner block has the first row below it and the sums
over all rows below; all leaves are equally deep. Blocks below a root are of the largest size and hold a quarter of
that at least, unless they are at either end of the tree: a row that comes behind (before) all others
leaves the full block as it is and starts a new one, so that rows in order fill blocks completely. A root is of the
smallest size that fits, give or take a quarter; an inner root has two children at least.

The blocks are a function of the history alone. A change takes O(log n) in a group of n rows and no memory
beyond what the caller has reserved (`engine.counted_tree.reserve`).
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.order_statistic_balance import balance, fit_root, full_enough, renew_first
from dynq_cli.engine.kernels.order_statistic_blocks import (
    INNER,
    LARGEST_INNER,
    LARGEST_LEAF,
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
    key_of,
    keys_at,
    lanes_at,
    length,
    move,
    payload,
    put,
    put_tiny,
    resized,
    room,
    row_at,
    rows_at,
    size_of,
    sums_at,
    take,
)
from dynq_cli.engine.kernels.order_statistic_search import aim, locate_from, preceding


@kernel(forceinline=True)
def _largest(code: Int) -> Int:
    return LARGEST_INNER if is_inner(code) else LARGEST_LEAF


@kernel
def _split(store: Store, tree_id: Int, code: Int, entry: Int, row: Int, key: Int, child: Int, side: Int) -> Int:
    """Insert an entry into a full block: a new block behind it takes half of the entries, or all but the entry's
    side."""
    halves = store.halves
    at, n = block(store, tree_id, code), room(store, tree_id, code)
    left = (n + 1) // 2
    if side > 0:
        left = n
    elif side < 0:
        left = np.int64(1)
    kept = left - 1 if entry < left else left
    new = take(store, tree_id, size_of(code))
    new_at = block(store, tree_id, new)
    move(store, tree_id, code, kept, n - kept, new, 0)
    halves[2 * at], halves[2 * new_at] = kept, n - kept
    if entry < left:
        put(store, tree_id, code, entry, row, key, child)
    else:
        put(store, tree_id, new, entry - left, row, key, child)
    if not is_inner(code):
        behind = np.int64(halves[2 * at + 2])
        halves[2 * new_at + 2], halves[2 * new_at + 3] = behind, code
        halves[2 * at + 2] = new
        if behind != NONE:
            halves[2 * block(store, tree_id, behind) + 3] = new
    return new


@kernel
def _add_up_to_lanes(store: Store, tree_id: Int, code: Int) -> None:
    path = store.trees.path
    lanes = lanes_at(store, tree_id)
    for lane in range(store.trees.forest[tree_id].width):
        path[lanes + lane] = 0
    add_up(store, tree_id, code, 0, length(store, tree_id, code), path, lanes, False)


@kernel
def _put_child(store: Store, tree_id: Int, code: Int, entry: Int, child: Int) -> None:
    """Insert a child's entry into an inner block that has room, with its sums."""
    at = block(store, tree_id, child)
    _add_up_to_lanes(store, tree_id, child)
    row, key = np.int64(store.halves[rows_at(at)]), store.words[keys_at(at, room(store, tree_id, child))]
    put(store, tree_id, code, entry, row, key, child)


@kernel
def _enter(store: Store, tree_id: Int, root_at: Int, leaf: Int, entry: Int, depth: Int, row: Int) -> None:
    """Insert a row's entry into a leaf, and the blocks that this takes on the path above."""
    path = store.trees.path
    words, halves = store.words, store.halves
    lanes, width = lanes_at(store, tree_id), store.trees.forest[tree_id].width
    key, child, code = key_of(store, tree_id, row), np.int64(NONE), leaf
    at = block(store, tree_id, leaf)
    side = 0
    if entry == halves[2 * at] and halves[2 * at + 2] == NONE:
        side = 1
    elif entry == 0:
        # Before all rows of its leaf is before all rows there are.
        side = -1
        for d in range(depth):
            above, most = block(store, tree_id, path[2 * d]), room(store, tree_id, path[2 * d])
            halves[rows_at(above)] = row
            words[keys_at(above, most)] = key
    while True:
        if halves[2 * block(store, tree_id, code)] < room(store, tree_id, code):
            put(store, tree_id, code, entry, row, key, child)
            return
        if size_of(code) != _largest(code):
            code = resized(store, tree_id, code, size_of(code) + 1)
            halves[root_at] = code
            continue
        new = _split(store, tree_id, code, entry, row, key, child, side)
        if depth == 0:
            root = take(store, tree_id, INNER)
            _put_child(store, tree_id, root, 0, code)
            _put_child(store, tree_id, root, 1, new)
            halves[root_at] = root
            return
        _add_up_to_lanes(store, tree_id, new)
        at = block(store, tree_id, new)
        row, key, child = np.int64(halves[rows_at(at)]), words[keys_at(at, room(store, tree_id, new))], new
        depth -= 1
        code, entry = path[2 * depth], path[2 * depth + 1]
        sums = sums_at(block(store, tree_id, code), room(store, tree_id, code)) + entry * width
        for lane in range(0, width, 2):
            decrease(words, sums + lane, path[lanes + lane], path[lanes + lane + 1])
        entry += 1


@kernel
def insert(store: Store, tree_id: Int, root_at: Int, row: Int) -> Int:
    """Insert a row into a group; return the row before it, or NONE. Its record has what it counts. O(log n)."""
    return insert_from(store, tree_id, root_at, row, np.int64(NONE))[0]


@kernel
def insert_from(store: Store, tree_id: Int, root_at: Int, row: Int, depth: Int) -> tuple[Int, Int]:
    """As `insert`, starting from the path to the last change of the tree, whose length is given, or NONE.

    Also return the length of its own path, NONE if its blocks have changed. See `locate_from`.
    """
    path = store.trees.path
    halves = store.halves
    tree = store.trees.forest[tree_id]
    root = np.int64(halves[root_at])
    if root == NONE:
        halves[root_at] = row
        return np.int64(NONE), np.int64(NONE)
    aim(store, tree_id, row)
    leaf, entry, depth = locate_from(store, tree_id, path, tree.keys, row, root, depth)
    if leaf >= 0:
        tiny = take(store, tree_id, TINY)
        put_tiny(store, tree_id, tiny, 0, leaf)
        put_tiny(store, tree_id, tiny, entry, row)
        halves[root_at] = tiny
        return leaf if entry > 0 else np.int64(NONE), np.int64(NONE)
    before, place = preceding(store, tree_id, leaf, entry)
    if before != NONE:
        before = row_at(store, tree_id, before, place)
    holds = depth
    if length(store, tree_id, leaf) == room(store, tree_id, leaf):
        holds = np.int64(NONE)
    if size_of(leaf) == TINY:
        if holds != NONE:
            put_tiny(store, tree_id, leaf, entry, row)
            return before, holds
        leaf = resized(store, tree_id, leaf, TINY + 1)
        halves[root_at] = leaf
    width = tree.width
    for d in range(depth):
        above = path[2 * d]
        sums = sums_at(block(store, tree_id, above), room(store, tree_id, above)) + path[2 * d + 1] * width
        for lane in range(0, width, 2):
            lo, hi = payload(store, tree_id, row, lane)
            increase(store.words, sums + lane, lo, hi)
    _enter(store, tree_id, root_at, leaf, entry, depth, row)
    return before, holds


@kernel
def change(store: Store, tree_id: Int, root_at: Int, row: Int, old: Words, new: Words) -> None:
    """Change what a row of a group counts from `old` to `new`. O(log n); O(1) where the group fits a leaf."""
    change_from(store, tree_id, root_at, row, old, new, np.int64(NONE))


@kernel
def change_from(store: Store, tree_id: Int, root_at: Int, row: Int, old: Words, new: Words, depth: Int) -> Int:
    """As `change`, starting from the path to the last change of the tree, as `insert_from`; return the length of its
    own path, or NONE."""
    path = store.trees.path
    words = store.words
    tree = store.trees.forest[tree_id]
    root = np.int64(store.halves[root_at])
    if not is_inner(root):
        return np.int64(NONE)
    aim(store, tree_id, row)
    _, _, depth = locate_from(store, tree_id, path, tree.keys, row, root, depth)
    width = tree.width
    for d in range(depth):
        above = path[2 * d]
        sums = sums_at(block(store, tree_id, above), room(store, tree_id, above)) + path[2 * d + 1] * width
        for lane in range(0, width, 2):
            decrease(words, sums + lane, old[lane], old[lane + 1])
            increase(words, sums + lane, new[lane], new[lane + 1])
    return depth


@kernel
def delete(store: Store, tree_id: Int, root_at: Int, row: Int) -> None:
    """Delete a row from a group; its record still has what it counted. O(log n)."""
    delete_from(store, tree_id, root_at, row, np.int64(NONE))


@kernel
def delete_from(store: Store, tree_id: Int, root_at: Int, row: Int, depth: Int) -> Int:
    """As `delete`, starting from the path to the last change of the tree, as `insert_from`; return the length of its
    own path, or NONE."""
    path = store.trees.path
    halves = store.halves
    tree = store.trees.forest[tree_id]
    root = np.int64(halves[root_at])
    if root >= 0:
        halves[root_at] = NONE
        return np.int64(NONE)
    aim(store, tree_id, row)
    leaf, entry, depth = locate_from(store, tree_id, path, tree.keys, row, root, depth)
    width = tree.width
    for d in range(depth):
        above = path[2 * d]
        sums = sums_at(block(store, tree_id, above), room(store, tree_id, above)) + path[2 * d + 1] * width
        for lane in range(0, width, 2):
            lo, hi = payload(store, tree_id, row, lane)
            decrease(store.words, sums + lane, lo, hi)
    cut(store, tree_id, leaf, entry)
    holds = np.int64(NONE)
    if depth > 0:
        many = np.int64(halves[2 * block(store, tree_id, leaf)])
        if entry == 0 and many > 0:
            renew_first(store, tree_id, leaf, depth)
        if 2 * many >= room(store, tree_id, leaf):
            holds = depth
        else:
            balance(store, tree_id, leaf, depth)
    fit_root(store, tree_id, root_at)
    return holds if halves[root_at] == root else np.int64(NONE)


@kernel(error_model="numpy")  # no block is of size 0, and what can raise cannot be built
def build(store: Store, tree_id: Int, root_at: Int, rows: Words, count: Int) -> None:
    """Fill an empty group with the first `count` of `rows`, which are in order and are overwritten. O(n)."""
    halves = store.halves
    if count <= 1:
        halves[root_at] = rows[0] if count == 1 else NONE
        return
    size, pools = np.int64(TINY), store.trees.forest[tree_id].pools
    while size < LARGEST_LEAF and store.tables[pools + size].arity < count:
        size += 1
    if size == TINY:
        code = take(store, tree_id, TINY)
        for i in range(count):
            halves[2 * block(store, tree_id, code) + i] = rows[i]
        halves[root_at] = code
        return
    most = store.tables[pools + size].arity
    parts = 1 if count <= most else -(-count // full_enough(most))
    before, start = np.int64(NONE), 0
    for part in range(parts):
        code = take(store, tree_id, size)
        at = block(store, tree_id, code)
        share = count // parts + (1 if part < count % parts else 0)
        for i in range(share):
            halves[rows_at(at) + i] = rows[start + i]
            store.words[keys_at(at, most) + i] = key_of(store, tree_id, rows[start + i])
        halves[2 * at], halves[2 * at + 3] = share, before
        if before != NONE:
            halves[2 * block(store, tree_id, before) + 2] = code
        before = code
        start += share
        # Rows up to here have been read, and there are fewer blocks than rows.
        rows[part] = code
    while parts > 1:
        below, start = parts, 0
        size = np.int64(INNER)
        while size < LARGEST_INNER and store.tables[pools + size].arity < below:
            size += 1
        most = store.tables[pools + size].arity
        parts = 1 if below <= most else -(-below // full_enough(most))
        for part in range(parts):
            code = take(store, tree_id, size)
            share = below // parts + (1 if part < below % parts else 0)
            for i in range(share):
                _put_child(store, tree_id, code, i, rows[start + i])
            start += share
            rows[part] = code
    halves[root_at] = rows[0]


@kernel
def clear(store: Store, tree_id: Int, root_at: Int) -> None:
    """Empty a group. O(blocks)."""
    path = store.trees.path
    halves = store.halves
    code, depth = np.int64(halves[root_at]), 0
    halves[root_at] = NONE
    if code >= NONE:
        return
    path[0] = code
    while depth >= 0:
        code = path[depth]
        at = 2 * block(store, tree_id, code)
        if is_inner(code) and halves[at] > 0:
            halves[at] -= 1
            depth += 1
            path[depth] = halves[children_at(at >> 1, room(store, tree_id, code)) + halves[at]]
        else:
            give(store, tree_id, code)
            depth -= 1
