"""Changing counted trees: rows of a group in order, with partial sums of what they count.

A group is a code, which stands where the group keeps it (`root_at`, in half words): nothing, one row, a leaf, or an
inner block above others (`counted_blocks`). Rows are ordered by their order keys, then by id. The record of a row
holds what the tree counts for it, except while `change` says what it was: splitting a leaf reads records again.

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
from dynq_cli.engine.kernels.counted_blocks import (
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
from dynq_cli.engine.kernels.counted_search import aim, locate, preceding
from dynq_cli.engine.kernels.fields import T_ARITY, Halves, Int, Words

# A block that is less than half full looks for a neighbour to join, but not at every row that goes.
_NOW_AND_THEN = 4


@bare(forceinline=True)
def _largest(code: Int) -> Int:
    return LARGEST_INNER if is_inner(code) else LARGEST_LEAF


@bare(forceinline=True)
def _full_enough(most: Int) -> Int:
    """What blocks are filled to when they are built, and at most when a root moves to a smaller one."""
    return most * 3 // 4


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
    root = np.int64(a32[root_at])
    if root == NONE:
        a32[root_at] = row
        return np.int64(NONE)
    aim(a64, T, C, c, labels, work, row)
    leaf, entry, depth = locate(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root)
    if leaf >= 0:
        tiny = take(a64, a32, T, C, c, TINY)
        put_tiny(a32, T, C, c, tiny, 0, leaf)
        put_tiny(a32, T, C, c, tiny, entry, row)
        a32[root_at] = tiny
        return leaf if entry > 0 else np.int64(NONE)
    before, place = preceding(a32, T, C, c, leaf, entry)
    if before != NONE:
        before = row_at(a32, T, C, c, before, place)
    if size_of(leaf) == TINY:
        if length(a32, T, C, c, leaf) < room(T, C, c, leaf):
            put_tiny(a32, T, C, c, leaf, entry, row)
            return before
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
    return before


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
    root = np.int64(a32[root_at])
    if not is_inner(root):
        return
    aim(a64, T, C, c, labels, work, row)
    _, _, depth = locate(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root)
    width = C[c, C_WIDTH]
    for d in range(depth):
        above = work[2 * d]
        sums = sums_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * d + 1] * width
        for lane in range(0, width, 2):
            decrease(a64, sums + lane, old[lane], old[lane + 1])
            increase(a64, sums + lane, new[lane], new[lane + 1])


@bare
def _fit_root(a64: Words, a32: Halves, T: Words, C: Words, c: Int, root_at: Int) -> None:
    """After something went: no inner root with one child, no leaf with one row, no block that is too large."""
    code = np.int64(a32[root_at])
    while is_inner(code) and a32[2 * block(T, C, c, code)] == 1:
        child = np.int64(a32[children_at(block(T, C, c, code), room(T, C, c, code))])
        give(a64, T, C, c, code)
        code = child
    n = length(a32, T, C, c, code)
    if n == 1:
        at = block(T, C, c, code)
        row = np.int64(a32[2 * at]) if size_of(code) == TINY else np.int64(a32[rows_at(at)])
        give(a64, T, C, c, code)
        code = row
    else:
        size = np.int64(INNER if is_inner(code) else TINY)
        while size < size_of(code) and n > _full_enough(T[C[c, C_POOLS] + size, T_ARITY]):
            size += 1
        if size < size_of(code):
            code = resized(a64, a32, T, C, c, code, size)
    a32[root_at] = code


@bare
def _renew_first(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, code: Int, depth: Int) -> None:
    """The first row below a block is another: the entries above it follow."""
    at = block(T, C, c, code)
    row, key = np.int64(a32[rows_at(at)]), a64[keys_at(at, room(T, C, c, code))]
    for d in range(depth - 1, -1, -1):
        above, entry = block(T, C, c, work[2 * d]), work[2 * d + 1]
        a32[rows_at(above) + entry] = row
        a64[keys_at(above, room(T, C, c, work[2 * d])) + entry] = key
        if entry > 0:
            return


@bare
def _is_at_an_end(a32: Halves, T: Words, C: Words, c: Int, work: Words, depth: Int) -> Int:
    """Whether the path down to a depth is along either end of the tree."""
    is_first, is_last = True, True
    for d in range(depth):
        is_first = is_first and work[2 * d + 1] == 0
        is_last = is_last and work[2 * d + 1] == a32[2 * block(T, C, c, work[2 * d])] - 1
    return is_first or is_last


@bare
def _unlink(a32: Halves, T: Words, C: Words, c: Int, leaf: Int) -> None:
    at = 2 * block(T, C, c, leaf)
    behind, before = np.int64(a32[at + 2]), np.int64(a32[at + 3])
    if behind != NONE:
        a32[2 * block(T, C, c, behind) + 3] = before
    if before != NONE:
        a32[2 * block(T, C, c, before) + 2] = behind


@bare
def _share(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, above: Int, entry: Int, left: Int) -> None:
    """Children `entry` and the next of a block share their entries so that the first has `left` of them."""
    width, lanes = C[c, C_WIDTH], lanes_at(C, c)
    at, most = block(T, C, c, above), room(T, C, c, above)
    a = np.int64(a32[children_at(at, most) + entry])
    b = np.int64(a32[children_at(at, most) + entry + 1])
    a_at, b_at = 2 * block(T, C, c, a), 2 * block(T, C, c, b)
    n, m = np.int64(a32[a_at]), np.int64(a32[b_at])
    for lane in range(width):
        work[lanes + lane] = 0
    sums = sums_at(at, most) + entry * width
    if left > n:
        add_up(a64, a32, T, C, c, b, 0, left - n, work, lanes, False)
        move(a64, a32, T, C, c, b, 0, left - n, a, n)
        move(a64, a32, T, C, c, b, left - n, m - left + n, b, 0)
        for lane in range(0, width, 2):
            increase(a64, sums + lane, work[lanes + lane], work[lanes + lane + 1])
            decrease(a64, sums + width + lane, work[lanes + lane], work[lanes + lane + 1])
    else:
        add_up(a64, a32, T, C, c, a, left, n, work, lanes, False)
        move(a64, a32, T, C, c, b, 0, m, b, n - left)
        move(a64, a32, T, C, c, a, left, n - left, b, 0)
        for lane in range(0, width, 2):
            decrease(a64, sums + lane, work[lanes + lane], work[lanes + lane + 1])
            increase(a64, sums + width + lane, work[lanes + lane], work[lanes + lane + 1])
    a32[a_at], a32[b_at] = left, n + m - left
    if n + m > left:
        a32[rows_at(at) + entry + 1] = a32[rows_at(block(T, C, c, b))]
        a64[keys_at(at, most) + entry + 1] = a64[keys_at(block(T, C, c, b), room(T, C, c, b))]


@bare
def _drop(a64: Words, a32: Halves, T: Words, C: Words, c: Int, above: Int, entry: Int) -> None:
    """An empty child goes."""
    child = np.int64(a32[children_at(block(T, C, c, above), room(T, C, c, above)) + entry])
    if not is_inner(child):
        _unlink(a32, T, C, c, child)
    give(a64, T, C, c, child)
    cut(a64, a32, T, C, c, above, entry)


@bare(forceinline=True)
def _many(a32: Halves, T: Words, C: Words, c: Int, above: Int, entry: Int) -> Int:
    """How many entries a child has."""
    child = np.int64(a32[children_at(block(T, C, c, above), room(T, C, c, above)) + entry])
    return np.int64(a32[2 * block(T, C, c, child)])


@bare
def _balance(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, leaf: Int, depth: Int) -> None:
    """A leaf has lost a row: what holds too few entries, it or a block above, gets some or gives up its own."""
    code = leaf
    while depth > 0:
        n, most = np.int64(a32[2 * block(T, C, c, code)]), room(T, C, c, code)
        above, entry = work[2 * (depth - 1)], work[2 * (depth - 1) + 1]
        siblings = np.int64(a32[2 * block(T, C, c, above)])
        least = max(most // 4, np.int64(2 if is_inner(code) else 1))
        if n == 0:
            _drop(a64, a32, T, C, c, above, entry)
            if siblings > 1 and entry == 0:
                _renew_first(a64, a32, T, C, c, work, above, depth - 1)
        elif siblings == 1 or not (n < least or (n < most // 2 and n % _NOW_AND_THEN == 0)):
            return
        else:
            # Its neighbour with fewer entries.
            other = entry - 1
            if entry == 0 or (
                entry + 1 < siblings and _many(a32, T, C, c, above, entry + 1) < _many(a32, T, C, c, above, other)
            ):
                other = entry + 1
            both = n + _many(a32, T, C, c, above, other)
            entry = min(entry, other)
            # With some room to spare, or the next row would split them again.
            if both <= most * 7 // 8:
                _share(a64, a32, T, C, c, work, above, entry, both)
                _drop(a64, a32, T, C, c, above, entry + 1)
            else:
                if n < least and not _is_at_an_end(a32, T, C, c, work, depth):
                    _share(a64, a32, T, C, c, work, above, entry, both // 2)
                return
        code = above
        depth -= 1


@bare
def delete(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, root_at: Int, row: Int
) -> None:
    """A row of a group goes; its record still says what it counted. O(log n)."""
    root = np.int64(a32[root_at])
    if root >= 0:
        a32[root_at] = NONE
        return
    aim(a64, T, C, c, labels, work, row)
    leaf, entry, depth = locate(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root)
    width = C[c, C_WIDTH]
    for d in range(depth):
        above = work[2 * d]
        sums = sums_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * d + 1] * width
        for lane in range(0, width, 2):
            lo, hi = payload(a64, T, C, c, row, lane)
            decrease(a64, sums + lane, lo, hi)
    cut(a64, a32, T, C, c, leaf, entry)
    if depth > 0:
        if entry == 0 and a32[2 * block(T, C, c, leaf)] > 0:
            _renew_first(a64, a32, T, C, c, work, leaf, depth)
        _balance(a64, a32, T, C, c, work, leaf, depth)
    _fit_root(a64, a32, T, C, c, root_at)


@bare
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
    parts = 1 if count <= most else -(-count // _full_enough(most))
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
        parts = 1 if below <= most else -(-below // _full_enough(most))
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
