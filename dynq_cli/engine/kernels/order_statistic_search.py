"""Reading counted trees: places in the order, sums over ranges, the row where a sum is reached.

A *target* is what rows are compared with: `m` images in the scratch array, and a row id that breaks ties.
`locate` finds the place of the first row that is not before it:

    row < target   ⟺   (its first m images, its id) < (images, tie)

A row is found with all its images and its own id; the rows below a bound are those before (bound, BEFORE_EQUAL), or,
with equal ones, before (bound, AFTER_EQUAL). A *cursor* is a leaf's code and an entry in it; its code is NONE beyond
either end. Everything here is O(log n) for a group of n rows, a step of a cursor O(1).
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import (
    NONE,
    TARGET,
    TINY,
    add_up,
    block,
    children_at,
    image,
    image_of_key,
    is_inner,
    key_of,
    keys_at,
    length,
    payload,
    room,
    row_at,
    rows_at,
    size_of,
    sums_at,
)
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.table import record

BEFORE_EQUAL, AFTER_EQUAL = -1, 1 << 31
LEAST, MOST = -(2**63), 2**63 - 1
_LINE = 8


@kernel
def aim(store: Store, tree_id: Int, row: Int) -> None:
    """Make a row the target, up to its id."""
    tree = store.trees.forest[tree_id]
    at = record(store.tables[tree.table], row)
    for i in range(tree.keys):
        store.trees.path[TARGET + i] = image(
            store, tree_id, i, store.words[at + store.trees.orders[tree_id, i].position]
        )


@kernel
def _is_before_by_the_rest(store: Store, tree_id: Int, path: Words, m: Int, tie: Int, row: Int) -> Int:
    at = record(store.tables[store.trees.forest[tree_id].table], row)
    for i in range(1, m):
        seen = image(store, tree_id, i, store.words[at + store.trees.orders[tree_id, i].position])
        if seen != path[TARGET + i]:
            return seen < path[TARGET + i]
    return row < tie


@kernel(forceinline=True)
def _is_before(store: Store, tree_id: Int, path: Words, m: Int, tie: Int, row: Int, key: Int) -> Int:
    seen = image_of_key(store, tree_id, key)
    if seen != path[TARGET]:
        return seen < path[TARGET]
    return _is_before_by_the_rest(store, tree_id, path, m, tie, row)


@kernel(forceinline=True)
def _entries_before(store: Store, tree_id: Int, path: Words, m: Int, tie: Int, code: Int) -> Int:
    """Return how many entries of a block, or of a row by itself, are before the target."""
    words, halves = store.words, store.halves
    if code >= 0:
        key = key_of(store, tree_id, code)
        return np.int64(_is_before(store, tree_id, path, m, tie, code, key))
    n = length(store, tree_id, code)
    if size_of(code) == TINY:
        at = 2 * block(store, tree_id, code)
        for i in range(n):
            row = np.int64(halves[at + i])
            if not _is_before(store, tree_id, path, m, tie, row, key_of(store, tree_id, row)):
                return i
        return n
    at = block(store, tree_id, code)
    rows, keys = rows_at(at), keys_at(at, room(store, tree_id, code))
    # By first keys alone, without a branch that could be guessed wrong; then among those that are equal.
    wanted, low, left = path[TARGET], np.int64(0), n
    while left > 0:
        half = (left + 1) >> 1
        low += half * np.int64(image_of_key(store, tree_id, words[keys + low + half - 1]) < wanted)
        left -= half
    high = n
    while low < high:
        middle = low if image_of_key(store, tree_id, words[keys + low]) != wanted else (low + high) >> 1
        if _is_before(store, tree_id, path, m, tie, np.int64(halves[rows + middle]), words[keys + middle]):
            low = middle + 1
        else:
            high = middle
    return low


@kernel(forceinline=True)
def _is_within(store: Store, tree_id: Int, path: Words, leaf: Int) -> Int:
    """Whether the target lies between the first and the last key of a leaf: then it is in no other leaf."""
    words = store.words
    at = block(store, tree_id, leaf)
    keys, n = keys_at(at, room(store, tree_id, leaf)), np.int64(store.halves[2 * at])
    return (
        n > 0
        and image_of_key(store, tree_id, words[keys]) < path[TARGET]
        and path[TARGET] < image_of_key(store, tree_id, words[keys + n - 1])
    )


@kernel(forceinline=True)
def ask_for_block(store: Store, tree_id: Int, code: Int) -> None:
    """Prefetch the rows and keys of a block."""
    at = block(store, tree_id, code)
    for line in range(at, keys_at(at, 3 * room(store, tree_id, code)), _LINE):
        prefetch(store.words, line)


@kernel
def locate(store: Store, tree_id: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int, Int]:
    """Return the leaf where the target belongs, how many of its entries are before it, and the length of the path to
    it.

    The path stands in the scratch array: an inner block and the entry taken there, from the root on.
    """
    return _descend(store, tree_id, store.trees.path, m, tie, np.int64(root), np.int64(0))


@kernel
def locate_from(
    store: Store, tree_id: Int, path: Words, m: Int, tie: Int, root: Int, depth: Int
) -> tuple[Int, Int, Int]:
    """As `locate`, starting from the path in the scratch array, if its length is given and its blocks are unchanged.

    The path may be of any group: O(log of the rows in between) where the target is not before the last one. NONE: there
    is no path.
    """
    halves = store.halves
    code, level = np.int64(root), np.int64(0)
    if depth > 0 and path[0] == root:
        above = path[2 * depth - 2]
        leaf = np.int64(
            halves[children_at(block(store, tree_id, above), room(store, tree_id, above)) + path[2 * depth - 1]]
        )
        if _is_within(store, tree_id, path, leaf):
            return leaf, np.int64(_entries_before(store, tree_id, path, m, tie, leaf)), depth
        level = depth
        while level > 0:
            above = path[2 * level - 2]
            at, many = block(store, tree_id, above), _entries_before(store, tree_id, path, m, tie + 1, above)
            # Behind the last entry the target may as well be in another block.
            if 0 < many < halves[2 * at] or level == 1:
                many = max(many, np.int64(1))
                path[2 * level - 1] = many - 1
                code = np.int64(halves[children_at(at, room(store, tree_id, above)) + many - 1])
                break
            level -= 1
    code, entry, depth = _descend(store, tree_id, path, m, tie, code, level)
    if code < NONE and size_of(code) != TINY:
        # Where the next one may be found.
        behind = np.int64(halves[2 * block(store, tree_id, code) + 2])
        if behind != NONE:
            ask_for_block(store, tree_id, behind)
    return code, entry, depth


@kernel
def _descend(store: Store, tree_id: Int, path: Words, m: Int, tie: Int, code: Int, depth: Int) -> tuple[Int, Int, Int]:
    """As `locate`, below a block of this depth."""
    while is_inner(code):
        # The last child that does not start after the target; one that starts with it is included.
        entry = _entries_before(store, tree_id, path, m, tie + 1, code) - 1
        entry = max(entry, np.int64(0))
        path[2 * depth], path[2 * depth + 1] = code, entry
        code = np.int64(store.halves[children_at(block(store, tree_id, code), room(store, tree_id, code)) + entry])
        depth += 1
        # A search goes through the keys at a cache miss each, unless they have all been asked for.
        ask_for_block(store, tree_id, code)
    if code == NONE:
        return code, np.int64(0), depth
    return code, np.int64(_entries_before(store, tree_id, path, m, tie, code)), depth


@kernel
def sum_before(store: Store, tree_id: Int, m: Int, tie: Int, root: Int, out: Words) -> None:
    """Add what the rows before the target count, in all columns, to `out`."""
    path = store.trees.path
    code, entry, depth = locate(store, tree_id, m, tie, root)
    path[2 * depth], path[2 * depth + 1] = code, entry
    for d in range(depth + 1):
        code, entry = path[2 * d], path[2 * d + 1]
        n = length(store, tree_id, code)
        if d > 0 and 2 * entry > n:
            # The fewer entries are those behind: what the block counts, as its parent says, without them.
            add_up(store, tree_id, path[2 * d - 2], path[2 * d - 1], path[2 * d - 1] + 1, out, 0, False)
            add_up(store, tree_id, code, entry, n, out, 0, True)
        else:
            add_up(store, tree_id, code, 0, entry, out, 0, False)


@kernel
def sum_before_row(store: Store, tree_id: Int, root: Int, row: Int, out: Words) -> None:
    """Set `out` to what the rows before a row of the tree count: its rank."""
    tree = store.trees.forest[tree_id]
    for lane in range(tree.width):
        out[lane] = 0
    aim(store, tree_id, row)
    sum_before(store, tree_id, tree.keys, row, root, out)


@kernel
def sum_between(
    store: Store, tree_id: Int, root: Int, low: Int, after_low: Int, high: Int, after_high: Int, out: Words
) -> None:
    """Set `out` to what the rows count whose first image lies between two.

    Rows with the image `low` are left out if `after_low`, those with `high` are in if `after_high`. LEAST and MOST make
    open ends.
    """
    path = store.trees.path
    width = store.trees.forest[tree_id].width
    for lane in range(width):
        out[lane] = 0
    if low > high or (low == high and (after_low or not after_high)):
        return
    if after_low or low > LEAST:
        path[TARGET] = low
        sum_before(store, tree_id, 1, AFTER_EQUAL if after_low else BEFORE_EQUAL, root, out)
        for lane in range(0, width, 2):
            out[lane], out[lane + 1] = replace(0, 0, out[lane], out[lane + 1], 0, 0)
    if after_high and high == MOST:
        add_up(store, tree_id, root, 0, length(store, tree_id, root), out, 0, False)
    else:
        path[TARGET] = high
        sum_before(store, tree_id, 1, AFTER_EQUAL if after_high else BEFORE_EQUAL, root, out)


@kernel
def total(store: Store, tree_id: Int, root: Int, out: Words) -> None:
    """Set `out` to what all rows of a group count. O(1): one block is read."""
    for lane in range(store.trees.forest[tree_id].width):
        out[lane] = 0
    add_up(store, tree_id, root, 0, length(store, tree_id, root), out, 0, False)


@kernel
def select(store: Store, tree_id: Int, root: Int, lane: Int, lo: Int, hi: Int) -> tuple[Int, Int, Int, Int]:
    """Return a cursor at the row where the sum of a column passes j = (lo, hi), and the rest of j there.

    With s the sum over the rows before it, s ≤ j < s + the row's own; the rest is j - s. `lane` is the column's first.
    """
    words = store.words
    code, width = np.int64(root), store.trees.forest[tree_id].width
    while code != NONE:
        inner, n = is_inner(code), length(store, tree_id, code)
        sums = np.int64(0)
        if inner:
            sums = sums_at(block(store, tree_id, code), room(store, tree_id, code))
        i = np.int64(0)
        while i < n:
            if inner:
                slo, shi = words[sums + i * width + lane], words[sums + i * width + lane + 1]
            else:
                slo, shi = payload(store, tree_id, row_at(store, tree_id, code, i), lane)
            rlo, rhi = replace(lo, hi, slo, shi, 0, 0)
            if rhi < 0:
                break
            lo, hi = rlo, rhi
            i += 1
        if i == n:
            return np.int64(NONE), np.int64(0), lo, hi
        if not inner:
            return code, i, lo, hi
        code = np.int64(store.halves[children_at(block(store, tree_id, code), room(store, tree_id, code)) + i])
    return code, np.int64(0), lo, hi


@kernel
def first(store: Store, tree_id: Int, root: Int) -> tuple[Int, Int]:
    """Return a cursor at the first row."""
    code = np.int64(root)
    while is_inner(code):
        code = np.int64(store.halves[children_at(block(store, tree_id, code), room(store, tree_id, code))])
    return code, np.int64(0)


@kernel
def last(store: Store, tree_id: Int, root: Int) -> tuple[Int, Int]:
    """Return a cursor at the last row."""
    halves = store.halves
    code = np.int64(root)
    while is_inner(code):
        at = block(store, tree_id, code)
        code = np.int64(halves[children_at(at, room(store, tree_id, code)) + halves[2 * at] - 1])
    return code, length(store, tree_id, code) - 1 if code != NONE else np.int64(0)


@kernel
def following(store: Store, tree_id: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """Return the cursor one row on."""
    if entry + 1 < length(store, tree_id, code):
        return code, entry + 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    return np.int64(store.halves[2 * block(store, tree_id, code) + 2]), np.int64(0)


@kernel
def following_on(store: Store, tree_id: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """As `following`, for a walk through many leaves: each is prefetched while the one before it is read."""
    code, entry = following(store, tree_id, code, entry)
    if entry == 0 and code < NONE:
        behind = np.int64(store.halves[2 * block(store, tree_id, code) + 2])
        if behind != NONE:
            ask_for_block(store, tree_id, behind)
    return code, entry


@kernel
def preceding(store: Store, tree_id: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """Return the cursor one row back."""
    if entry > 0:
        return code, entry - 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    before = np.int64(store.halves[2 * block(store, tree_id, code) + 3])
    if before == NONE:
        return before, np.int64(0)
    return before, length(store, tree_id, before) - 1


@kernel
def seek(store: Store, tree_id: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int]:
    """Return a cursor at the first row that is not before the target."""
    code, entry, _ = locate(store, tree_id, m, tie, root)
    if code != NONE and entry == length(store, tree_id, code):
        return following(store, tree_id, code, entry - 1)
    return code, entry


@kernel
def seek_back(store: Store, tree_id: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int]:
    """Return a cursor at the last row that is before the target."""
    code, entry, _ = locate(store, tree_id, m, tie, root)
    return preceding(store, tree_id, code, entry)


@kernel
def collect(store: Store, tree_id: Int, code: Int, entry: Int, forward: Int, rows: Words) -> tuple[Int, Int, Int]:
    """Fill `rows` with row ids from a cursor on; return how many, and the cursor behind them. O(1) per row."""
    n = np.int64(0)
    while n < len(rows) and code != NONE:
        rows[n] = row_at(store, tree_id, code, entry)
        n += 1
        if forward:
            code, entry = following(store, tree_id, code, entry)
        else:
            code, entry = preceding(store, tree_id, code, entry)
    return n, code, entry
