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
def aim(store: Store, c: Int, row: Int) -> None:
    """Make a row the target, up to its id."""
    tree = store.trees.forest[c]
    at = record(store.tables[tree.table], row)
    for i in range(tree.keys):
        store.trees.path[TARGET + i] = image(store, c, i, store.words[at + store.trees.orders[c, i].position])


@kernel
def _is_before_by_the_rest(store: Store, c: Int, path: Words, m: Int, tie: Int, row: Int) -> Int:
    at = record(store.tables[store.trees.forest[c].table], row)
    for i in range(1, m):
        seen = image(store, c, i, store.words[at + store.trees.orders[c, i].position])
        if seen != path[TARGET + i]:
            return seen < path[TARGET + i]
    return row < tie


@kernel(forceinline=True)
def _is_before(store: Store, c: Int, path: Words, m: Int, tie: Int, row: Int, key: Int) -> Int:
    seen = image_of_key(store, c, key)
    if seen != path[TARGET]:
        return seen < path[TARGET]
    return _is_before_by_the_rest(store, c, path, m, tie, row)


@kernel(forceinline=True)
def _entries_before(store: Store, c: Int, path: Words, m: Int, tie: Int, code: Int) -> Int:
    """How many entries of a block, or of a row by itself, are before the target."""
    words, halves = store.words, store.halves
    if code >= 0:
        key = key_of(store, c, code)
        return np.int64(_is_before(store, c, path, m, tie, code, key))
    n = length(store, c, code)
    if size_of(code) == TINY:
        at = 2 * block(store, c, code)
        for i in range(n):
            row = np.int64(halves[at + i])
            if not _is_before(store, c, path, m, tie, row, key_of(store, c, row)):
                return i
        return n
    at = block(store, c, code)
    rows, keys = rows_at(at), keys_at(at, room(store, c, code))
    # By first keys alone, without a branch that could be guessed wrong; then among those that are equal.
    wanted, low, left = path[TARGET], np.int64(0), n
    while left > 0:
        half = (left + 1) >> 1
        low += half * np.int64(image_of_key(store, c, words[keys + low + half - 1]) < wanted)
        left -= half
    high = n
    while low < high:
        middle = low if image_of_key(store, c, words[keys + low]) != wanted else (low + high) >> 1
        if _is_before(store, c, path, m, tie, np.int64(halves[rows + middle]), words[keys + middle]):
            low = middle + 1
        else:
            high = middle
    return low


@kernel(forceinline=True)
def _is_within(store: Store, c: Int, path: Words, leaf: Int) -> Int:
    """Whether the target lies between the first and the last key of a leaf: it is in no other one then."""
    words = store.words
    at = block(store, c, leaf)
    keys, n = keys_at(at, room(store, c, leaf)), np.int64(store.halves[2 * at])
    return (
        n > 0
        and image_of_key(store, c, words[keys]) < path[TARGET]
        and path[TARGET] < image_of_key(store, c, words[keys + n - 1])
    )


@kernel(forceinline=True)
def ask_for_block(store: Store, c: Int, code: Int) -> None:
    """Bring near the rows and keys of a block, or of whatever lies there."""
    at = block(store, c, code)
    for line in range(at, keys_at(at, 3 * room(store, c, code)), _LINE):
        prefetch(store.words, line)


@kernel
def locate(store: Store, c: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int, Int]:
    """The leaf where the target belongs, how many of its entries are before it, and the length of the path to it.

    The path stands in the scratch array: an inner block and the entry taken there, from the root on.
    """
    return _descend(store, c, store.trees.path, m, tie, np.int64(root), np.int64(0))


@kernel
def locate_from(store: Store, c: Int, path: Words, m: Int, tie: Int, root: Int, depth: Int) -> tuple[Int, Int, Int]:
    """As `locate`, from the path that the scratch array has, if its length is given and its blocks are as they were, in
    whichever group: O(log of the rows in between) where the target is not before the last one. NONE: there is no path.
    """
    halves = store.halves
    code, level = np.int64(root), np.int64(0)
    if depth > 0 and path[0] == root:
        above = path[2 * depth - 2]
        leaf = np.int64(halves[children_at(block(store, c, above), room(store, c, above)) + path[2 * depth - 1]])
        if _is_within(store, c, path, leaf):
            return leaf, np.int64(_entries_before(store, c, path, m, tie, leaf)), depth
        level = depth
        while level > 0:
            above = path[2 * level - 2]
            at, many = block(store, c, above), _entries_before(store, c, path, m, tie + 1, above)
            # Behind the last entry the target may as well be in another block.
            if 0 < many < halves[2 * at] or level == 1:
                many = max(many, np.int64(1))
                path[2 * level - 1] = many - 1
                code = np.int64(halves[children_at(at, room(store, c, above)) + many - 1])
                break
            level -= 1
    code, entry, depth = _descend(store, c, path, m, tie, code, level)
    if code < NONE and size_of(code) != TINY:
        # Where the next one may be found.
        behind = np.int64(halves[2 * block(store, c, code) + 2])
        if behind != NONE:
            ask_for_block(store, c, behind)
    return code, entry, depth


@kernel
def _descend(store: Store, c: Int, path: Words, m: Int, tie: Int, code: Int, depth: Int) -> tuple[Int, Int, Int]:
    """`locate` below a block that is so deep."""
    while is_inner(code):
        # The last child that does not start after the target; one that starts with it is included.
        entry = _entries_before(store, c, path, m, tie + 1, code) - 1
        entry = max(entry, np.int64(0))
        path[2 * depth], path[2 * depth + 1] = code, entry
        code = np.int64(store.halves[children_at(block(store, c, code), room(store, c, code)) + entry])
        depth += 1
        # A search goes through the keys at a cache miss each, unless they have all been asked for.
        ask_for_block(store, c, code)
    if code == NONE:
        return code, np.int64(0), depth
    return code, np.int64(_entries_before(store, c, path, m, tie, code)), depth


@kernel
def sum_before(store: Store, c: Int, m: Int, tie: Int, root: Int, out: Words) -> None:
    """Add what the rows before the target count, all columns of it, to `out`."""
    path = store.trees.path
    code, entry, depth = locate(store, c, m, tie, root)
    path[2 * depth], path[2 * depth + 1] = code, entry
    for d in range(depth + 1):
        code, entry = path[2 * d], path[2 * d + 1]
        n = length(store, c, code)
        if d > 0 and 2 * entry > n:
            # The fewer entries are those behind: what the block counts, as its parent says, without them.
            add_up(store, c, path[2 * d - 2], path[2 * d - 1], path[2 * d - 1] + 1, out, 0, False)
            add_up(store, c, code, entry, n, out, 0, True)
        else:
            add_up(store, c, code, 0, entry, out, 0, False)


@kernel
def sum_before_row(store: Store, c: Int, root: Int, row: Int, out: Words) -> None:
    """Make `out` what the rows before a row of the tree count: its rank."""
    tree = store.trees.forest[c]
    for lane in range(tree.width):
        out[lane] = 0
    aim(store, c, row)
    sum_before(store, c, tree.keys, row, root, out)


@kernel
def sum_between(
    store: Store, c: Int, root: Int, low: Int, after_low: Int, high: Int, after_high: Int, out: Words
) -> None:
    """Make `out` what the rows count whose first image lies between two.

    Rows with the image `low` are left out if `after_low`, those with `high` are in if `after_high`. LEAST and MOST make
    open ends.
    """
    path = store.trees.path
    width = store.trees.forest[c].width
    for lane in range(width):
        out[lane] = 0
    if low > high or (low == high and (after_low or not after_high)):
        return
    if after_low or low > LEAST:
        path[TARGET] = low
        sum_before(store, c, 1, AFTER_EQUAL if after_low else BEFORE_EQUAL, root, out)
        for lane in range(0, width, 2):
            out[lane], out[lane + 1] = replace(0, 0, out[lane], out[lane + 1], 0, 0)
    if after_high and high == MOST:
        add_up(store, c, root, 0, length(store, c, root), out, 0, False)
    else:
        path[TARGET] = high
        sum_before(store, c, 1, AFTER_EQUAL if after_high else BEFORE_EQUAL, root, out)


@kernel
def total(store: Store, c: Int, root: Int, out: Words) -> None:
    """Make `out` what all rows of a group count. O(1): one block is read."""
    for lane in range(store.trees.forest[c].width):
        out[lane] = 0
    add_up(store, c, root, 0, length(store, c, root), out, 0, False)


@kernel
def select(store: Store, c: Int, root: Int, lane: Int, lo: Int, hi: Int) -> tuple[Int, Int, Int, Int]:
    """A cursor at the row where the sum of a column passes j = (lo, hi), and what is left of j there.

    With s the sum over the rows before it, s ≤ j < s + the row's own; j - s is left. `lane` is the column's first.
    """
    words = store.words
    code, width = np.int64(root), store.trees.forest[c].width
    while code != NONE:
        inner, n = is_inner(code), length(store, c, code)
        sums = np.int64(0)
        if inner:
            sums = sums_at(block(store, c, code), room(store, c, code))
        i = np.int64(0)
        while i < n:
            if inner:
                slo, shi = words[sums + i * width + lane], words[sums + i * width + lane + 1]
            else:
                slo, shi = payload(store, c, row_at(store, c, code, i), lane)
            rlo, rhi = replace(lo, hi, slo, shi, 0, 0)
            if rhi < 0:
                break
            lo, hi = rlo, rhi
            i += 1
        if i == n:
            return np.int64(NONE), np.int64(0), lo, hi
        if not inner:
            return code, i, lo, hi
        code = np.int64(store.halves[children_at(block(store, c, code), room(store, c, code)) + i])
    return code, np.int64(0), lo, hi


@kernel
def first(store: Store, c: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the first row."""
    code = np.int64(root)
    while is_inner(code):
        code = np.int64(store.halves[children_at(block(store, c, code), room(store, c, code))])
    return code, np.int64(0)


@kernel
def last(store: Store, c: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the last row."""
    halves = store.halves
    code = np.int64(root)
    while is_inner(code):
        at = block(store, c, code)
        code = np.int64(halves[children_at(at, room(store, c, code)) + halves[2 * at] - 1])
    return code, length(store, c, code) - 1 if code != NONE else np.int64(0)


@kernel
def following(store: Store, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """The cursor one row on."""
    if entry + 1 < length(store, c, code):
        return code, entry + 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    return np.int64(store.halves[2 * block(store, c, code) + 2]), np.int64(0)


@kernel
def following_on(store: Store, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """`following`, on the way through many leaves: each is asked for while the one before it is gone through."""
    code, entry = following(store, c, code, entry)
    if entry == 0 and code < NONE:
        behind = np.int64(store.halves[2 * block(store, c, code) + 2])
        if behind != NONE:
            ask_for_block(store, c, behind)
    return code, entry


@kernel
def preceding(store: Store, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """The cursor one row back."""
    if entry > 0:
        return code, entry - 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    before = np.int64(store.halves[2 * block(store, c, code) + 3])
    if before == NONE:
        return before, np.int64(0)
    return before, length(store, c, before) - 1


@kernel
def seek(store: Store, c: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the first row that is not before the target."""
    code, entry, _ = locate(store, c, m, tie, root)
    if code != NONE and entry == length(store, c, code):
        return following(store, c, code, entry - 1)
    return code, entry


@kernel
def seek_back(store: Store, c: Int, m: Int, tie: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the last row that is before the target."""
    code, entry, _ = locate(store, c, m, tie, root)
    return preceding(store, c, code, entry)


@kernel
def collect(store: Store, c: Int, code: Int, entry: Int, forward: Int, rows: Words) -> tuple[Int, Int, Int]:
    """Fill `rows` with row ids from a cursor on; returns how many, and the cursor behind them. O(1) per row."""
    n = np.int64(0)
    while n < len(rows) and code != NONE:
        rows[n] = row_at(store, c, code, entry)
        n += 1
        if forward:
            code, entry = following(store, c, code, entry)
        else:
            code, entry = preceding(store, c, code, entry)
    return n, code, entry
