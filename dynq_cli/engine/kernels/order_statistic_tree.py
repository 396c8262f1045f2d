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

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import T_ARITY, Halves, Int, Words
from dynq_cli.engine.kernels.order_statistic_balance import balance, fit_root, full_enough, renew_first
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_KEYS,
    C_POOLS,
    C_WIDTH,
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


@bare(forceinline=True)
def _largest(code: Int) -> Int:
    return LARGEST_INNER if is_inner(code) else LARGEST_LEAF


@bare
def _split(
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
    side: Int,
) -> Int:
    """Make an entry in a full block: a new block behind it takes over half, or all but the entry's side."""
    at, n = block(T, C, c, code), room(T, C, c, code)
    left = (n + 1) // 2
    if side > 0:
        left = n
    elif side < 0:
        left = np.int64(1)
    kept = left - 1 if entry < left else left
    new = take(a64, a32, T, C, c, size_of(code))
    new_at = block(T, C, c, new)
    move(a64, a32, T, C, c, code, kept, n - kept, new, 0)
    a32[2 * at], a32[2 * new_at] = kept, n - kept
    if entry < left:
        put(a64, a32, T, C, c, work, code, entry, row, key, child)
    else:
        put(a64, a32, T, C, c, work, new, entry - left, row, key, child)
    if not is_inner(code):
        behind = np.int64(a32[2 * at + 2])
        a32[2 * new_at + 2], a32[2 * new_at + 3] = behind, code
        a32[2 * at + 2] = new
        if behind != NONE:
            a32[2 * block(T, C, c, behind) + 3] = new
    return new


@bare
def _add_up_to_lanes(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, code: Int) -> None:
    lanes = lanes_at(C, c)
    for lane in range(C[c, C_WIDTH]):
        work[lanes + lane] = 0
    add_up(a64, a32, T, C, c, code, 0, length(a32, T, C, c, code), work, lanes, False)


@bare
def _put_child(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, code: Int, entry: Int, child: Int
) -> None:
    """Make a child's entry in an inner block that has room, its sums added up."""
    at = block(T, C, c, child)
    _add_up_to_lanes(a64, a32, T, C, c, work, child)
    row, key = np.int64(a32[rows_at(at)]), a64[keys_at(at, room(T, C, c, child))]
    put(a64, a32, T, C, c, work, code, entry, row, key, child)


@bare
def _enter(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    work: Words,
    root_at: Int,
    leaf: Int,
    entry: Int,
    depth: Int,
    row: Int,
) -> None:
    """Make a row's entry in a leaf, and whatever blocks it takes on the path above."""
    lanes, width = lanes_at(C, c), C[c, C_WIDTH]
    key, child, code = key_of(a64, T, C, c, row), np.int64(NONE), leaf
    at = block(T, C, c, leaf)
    side = 0
    if entry == a32[2 * at] and a32[2 * at + 2] == NONE:
        side = 1
    elif entry == 0:
        # Before all rows of its leaf is before all rows there are.
        side = -1
        for d in range(depth):
            above, most = block(T, C, c, work[2 * d]), room(T, C, c, work[2 * d])
            a32[rows_at(above)] = row
            a64[keys_at(above, most)] = key
    while True:
        if a32[2 * block(T, C, c, code)] < room(T, C, c, code):
            put(a64, a32, T, C, c, work, code, entry, row, key, child)
            return
        if size_of(code) != _largest(code):
            code = resized(a64, a32, T, C, c, code, size_of(code) + 1)
            a32[root_at] = code
            continue
        new = _split(a64, a32, T, C, c, work, code, entry, row, key, child, side)
        if depth == 0:
            root = take(a64, a32, T, C, c, INNER)
            _put_child(a64, a32, T, C, c, work, root, 0, code)
            _put_child(a64, a32, T, C, c, work, root, 1, new)
            a32[root_at] = root
            return
        _add_up_to_lanes(a64, a32, T, C, c, work, new)
        at = block(T, C, c, new)
        row, key, child = np.int64(a32[rows_at(at)]), a64[keys_at(at, room(T, C, c, new))], new
        depth -= 1
        code, entry = work[2 * depth], work[2 * depth + 1]
        sums = sums_at(block(T, C, c, code), room(T, C, c, code)) + entry * width
        for lane in range(0, width, 2):
            decrease(a64, sums + lane, work[lanes + lane], work[lanes + lane + 1])
        entry += 1


@bare
def insert(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, root_at: Int, row: Int
) -> Int:
    """A row comes into a group; its record says what it counts. The row before it, or NONE. O(log n)."""
    return insert_from(a64, a32, T, C, c, labels, work, root_at, row, np.int64(NONE))[0]


@bare
def insert_from(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    root_at: Int,
    row: Int,
    depth: Int,
) -> tuple[Int, Int]:
    """`insert`, from the path to the last change of the tree, whose length is given, or NONE; and the length of its own
    path, NONE if its blocks are not the same any more. See `locate_from`."""
    root = np.int64(a32[root_at])
    if root == NONE:
        a32[root_at] = row
        return np.int64(NONE), np.int64(NONE)
    aim(a64, T, C, c, labels, work, row)
    leaf, entry, depth = locate_from(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root, depth)
    if leaf >= 0:
        tiny = take(a64, a32, T, C, c, TINY)
        put_tiny(a32, T, C, c, tiny, 0, leaf)
        put_tiny(a32, T, C, c, tiny, entry, row)
        a32[root_at] = tiny
        return leaf if entry > 0 else np.int64(NONE), np.int64(NONE)
    before, place = preceding(a32, T, C, c, leaf, entry)
    if before != NONE:
        before = row_at(a32, T, C, c, before, place)
    holds = depth
    if length(a32, T, C, c, leaf) == room(T, C, c, leaf):
        holds = np.int64(NONE)
    if size_of(leaf) == TINY:
        if holds != NONE:
            put_tiny(a32, T, C, c, leaf, entry, row)
            return before, holds
        leaf = resized(a64, a32, T, C, c, leaf, TINY + 1)
        a32[root_at] = leaf
    width = C[c, C_WIDTH]
    for d in range(depth):
        above = work[2 * d]
        sums = sums_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * d + 1] * width
        for lane in range(0, width, 2):
            lo, hi = payload(a64, T, C, c, row, lane)
            increase(a64, sums + lane, lo, hi)
    _enter(a64, a32, T, C, c, work, root_at, leaf, entry, depth, row)
    return before, holds


@bare
def change(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    root_at: Int,
    row: Int,
    old: Words,
    new: Words,
) -> None:
    """A row of a group counted `old` and counts `new`. O(log n); O(1) where the group fits a leaf."""
    change_from(a64, a32, T, C, c, labels, work, root_at, row, old, new, np.int64(NONE))


@bare
def change_from(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    root_at: Int,
    row: Int,
    old: Words,
    new: Words,
    depth: Int,
) -> Int:
    """`change`, from the path to the last change of the tree, as `insert_from`: the length of its own path, or NONE."""
    root = np.int64(a32[root_at])
    if not is_inner(root):
        return np.int64(NONE)
    aim(a64, T, C, c, labels, work, row)
    _, _, depth = locate_from(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root, depth)
    width = C[c, C_WIDTH]
    for d in range(depth):
        above = work[2 * d]
        sums = sums_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * d + 1] * width
        for lane in range(0, width, 2):
            decrease(a64, sums + lane, old[lane], old[lane + 1])
            increase(a64, sums + lane, new[lane], new[lane + 1])
    return depth


@bare
def delete(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, root_at: Int, row: Int
) -> None:
    """A row of a group goes; its record still says what it counted. O(log n)."""
    delete_from(a64, a32, T, C, c, labels, work, root_at, row, np.int64(NONE))


@bare
def delete_from(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    root_at: Int,
    row: Int,
    depth: Int,
) -> Int:
    """`delete`, from the path to the last change of the tree, as `insert_from`: the length of its own path, or NONE."""
    root = np.int64(a32[root_at])
    if root >= 0:
        a32[root_at] = NONE
        return np.int64(NONE)
    aim(a64, T, C, c, labels, work, row)
    leaf, entry, depth = locate_from(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root, depth)
    width = C[c, C_WIDTH]
    for d in range(depth):
        above = work[2 * d]
        sums = sums_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * d + 1] * width
        for lane in range(0, width, 2):
            lo, hi = payload(a64, T, C, c, row, lane)
            decrease(a64, sums + lane, lo, hi)
    cut(a64, a32, T, C, c, leaf, entry)
    holds = np.int64(NONE)
    if depth > 0:
        many = np.int64(a32[2 * block(T, C, c, leaf)])
        if entry == 0 and many > 0:
            renew_first(a64, a32, T, C, c, work, leaf, depth)
        if 2 * many >= room(T, C, c, leaf):
            holds = depth
        else:
            balance(a64, a32, T, C, c, work, leaf, depth)
    fit_root(a64, a32, T, C, c, root_at)
    return holds if a32[root_at] == root else np.int64(NONE)


@bare(error_model="numpy")  # no block is of size 0, and what can raise cannot be built
def build(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, root_at: Int, rows: Words, count: Int
) -> None:
    """Make an empty group hold the first `count` of `rows`, which are in order and are overwritten. O(n)."""
    if count <= 1:
        a32[root_at] = rows[0] if count == 1 else NONE
        return
    size, pools = np.int64(TINY), C[c, C_POOLS]
    while size < LARGEST_LEAF and T[pools + size, T_ARITY] < count:
        size += 1
    if size == TINY:
        code = take(a64, a32, T, C, c, TINY)
        for i in range(count):
            a32[2 * block(T, C, c, code) + i] = rows[i]
        a32[root_at] = code
        return
    most = T[pools + size, T_ARITY]
    parts = 1 if count <= most else -(-count // full_enough(most))
    before, start = np.int64(NONE), 0
    for part in range(parts):
        code = take(a64, a32, T, C, c, size)
        at = block(T, C, c, code)
        share = count // parts + (1 if part < count % parts else 0)
        for i in range(share):
            a32[rows_at(at) + i] = rows[start + i]
            a64[keys_at(at, most) + i] = key_of(a64, T, C, c, rows[start + i])
        a32[2 * at], a32[2 * at + 3] = share, before
        if before != NONE:
            a32[2 * block(T, C, c, before) + 2] = code
        before = code
        start += share
        # Rows up to here have been read, and there are fewer blocks than rows.
        rows[part] = code
    while parts > 1:
        below, start = parts, 0
        size = np.int64(INNER)
        while size < LARGEST_INNER and T[pools + size, T_ARITY] < below:
            size += 1
        most = T[pools + size, T_ARITY]
        parts = 1 if below <= most else -(-below // full_enough(most))
        for part in range(parts):
            code = take(a64, a32, T, C, c, size)
            share = below // parts + (1 if part < below % parts else 0)
            for i in range(share):
                _put_child(a64, a32, T, C, c, work, code, i, rows[start + i])
            start += share
            rows[part] = code
    a32[root_at] = rows[0]


@bare
def clear(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, root_at: Int) -> None:
    """Make a group empty, whatever it holds. O(blocks)."""
    code, depth = np.int64(a32[root_at]), 0
    a32[root_at] = NONE
    if code >= NONE:
        return
    work[0] = code
    while depth >= 0:
        code = work[depth]
        at = 2 * block(T, C, c, code)
        if is_inner(code) and a32[at] > 0:
            a32[at] -= 1
            depth += 1
            work[depth] = a32[children_at(at >> 1, room(T, C, c, code)) + a32[at]]
        else:
            give(a64, T, C, c, code)
            depth -= 1
