"""Blocks of counted trees that hold too few entries, after a row went: they get some of a neighbour's, or join it.

See `order_statistic_tree` for what holds afterwards.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import T_ARITY, Halves, Int, Words
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_POOLS,
    C_WIDTH,
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


@bare(forceinline=True)
def full_enough(most: Int) -> Int:
    """What blocks are filled to when they are built, and at most when a root moves to a smaller one."""
    return most * 3 // 4


@bare
def fit_root(a64: Words, a32: Halves, T: Words, C: Words, c: Int, root_at: Int) -> None:
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
        while size < size_of(code) and n > full_enough(T[C[c, C_POOLS] + size, T_ARITY]):
            size += 1
        if size < size_of(code):
            code = resized(a64, a32, T, C, c, code, size)
    a32[root_at] = code


@bare
def renew_first(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, code: Int, depth: Int) -> None:
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
def balance(a64: Words, a32: Halves, T: Words, C: Words, c: Int, work: Words, leaf: Int, depth: Int) -> None:
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
                renew_first(a64, a32, T, C, c, work, above, depth - 1)
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
