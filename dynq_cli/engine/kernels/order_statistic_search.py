"""Reading counted trees: places in the order, sums over ranges, the row where a sum is reached.

A *target* is what rows are compared with: `m` images in the scratch array, and a row id that breaks ties.
`locate` finds the place of the first row that is not before it:

    row < target   ⟺   (its first m images, its id) < (images, tie)

A row is found with all its images and its own id; the rows below a bound are those before (bound, BEFORE_EQUAL), or,
with equal ones, before (bound, AFTER_EQUAL). A *cursor* is a leaf's code and an entry in it; its code is NONE beyond
either end. Everything here is O(log n) for a group of n rows, a step of a cursor O(1).
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import Halves, Int, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_KEYS,
    C_ORDER,
    C_TABLE,
    C_WIDTH,
    NONE,
    O_FIELDS,
    O_POSITION,
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


@bare
def aim(a64: Words, T: Words, C: Words, c: Int, labels: Words, work: Words, row: Int) -> None:
    """Make a row the target, up to its id."""
    at = record(T, C[c, C_TABLE], row)
    for i in range(C[c, C_KEYS]):
        work[TARGET + i] = image(C, c, labels, i, a64[at + C[c, C_ORDER + i * O_FIELDS + O_POSITION]])


@bare
def _is_before_by_the_rest(
    a64: Words, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, row: Int
) -> Int:
    at = record(T, C[c, C_TABLE], row)
    for i in range(1, m):
        seen = image(C, c, labels, i, a64[at + C[c, C_ORDER + i * O_FIELDS + O_POSITION]])
        if seen != work[TARGET + i]:
            return seen < work[TARGET + i]
    return row < tie


@bare(forceinline=True)
def _is_before(
    a64: Words, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, row: Int, key: Int
) -> Int:
    seen = image_of_key(C, c, labels, key)
    if seen != work[TARGET]:
        return seen < work[TARGET]
    return _is_before_by_the_rest(a64, T, C, c, labels, work, m, tie, row)


@bare(forceinline=True)
def _entries_before(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, code: Int
) -> Int:
    """How many entries of a block, or of a row by itself, are before the target."""
    if code >= 0:
        key = key_of(a64, T, C, c, code)
        return np.int64(_is_before(a64, T, C, c, labels, work, m, tie, code, key))
    n = length(a32, T, C, c, code)
    if size_of(code) == TINY:
        at = 2 * block(T, C, c, code)
        for i in range(n):
            row = np.int64(a32[at + i])
            if not _is_before(a64, T, C, c, labels, work, m, tie, row, key_of(a64, T, C, c, row)):
                return i
        return n
    at = block(T, C, c, code)
    rows, keys = rows_at(at), keys_at(at, room(T, C, c, code))
    # By first keys alone, without a branch that could be guessed wrong; then among those that are equal.
    wanted, low, left = work[TARGET], np.int64(0), n
    while left > 0:
        half = (left + 1) >> 1
        low += half * np.int64(image_of_key(C, c, labels, a64[keys + low + half - 1]) < wanted)
        left -= half
    high = n
    while low < high:
        middle = low if image_of_key(C, c, labels, a64[keys + low]) != wanted else (low + high) >> 1
        if _is_before(a64, T, C, c, labels, work, m, tie, np.int64(a32[rows + middle]), a64[keys + middle]):
            low = middle + 1
        else:
            high = middle
    return low


@bare(forceinline=True)
def _is_within(a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, leaf: Int) -> Int:
    """Whether the target lies between the first and the last key of a leaf: it is in no other one then."""
    at = block(T, C, c, leaf)
    keys, n = keys_at(at, room(T, C, c, leaf)), np.int64(a32[2 * at])
    return (
        n > 0
        and image_of_key(C, c, labels, a64[keys]) < work[TARGET]
        and work[TARGET] < image_of_key(C, c, labels, a64[keys + n - 1])
    )


@bare(forceinline=True)
def ask_for_block(a64: Words, T: Words, C: Words, c: Int, code: Int) -> None:
    """Bring near the rows and keys of a block, or of whatever lies there."""
    at = block(T, C, c, code)
    for line in range(at, keys_at(at, 3 * room(T, C, c, code)), _LINE):
        prefetch(a64, line)


@bare
def locate(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, root: Int
) -> tuple[Int, Int, Int]:
    """The leaf where the target belongs, how many of its entries are before it, and the length of the path to it.

    The path stands in the scratch array: an inner block and the entry taken there, from the root on.
    """
    return _descend(a64, a32, T, C, c, labels, work, m, tie, np.int64(root), np.int64(0))


@bare
def locate_from(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    m: Int,
    tie: Int,
    root: Int,
    depth: Int,
) -> tuple[Int, Int, Int]:
    """As `locate`, from the path that the scratch array has, if its length is given and its blocks are as they were, in
    whichever group: O(log of the rows in between) where the target is not before the last one. NONE: there is no path.
    """
    code, level = np.int64(root), np.int64(0)
    if depth > 0 and work[0] == root:
        above = work[2 * depth - 2]
        leaf = np.int64(a32[children_at(block(T, C, c, above), room(T, C, c, above)) + work[2 * depth - 1]])
        if _is_within(a64, a32, T, C, c, labels, work, leaf):
            return leaf, np.int64(_entries_before(a64, a32, T, C, c, labels, work, m, tie, leaf)), depth
        level = depth
        while level > 0:
            above = work[2 * level - 2]
            at, many = block(T, C, c, above), _entries_before(a64, a32, T, C, c, labels, work, m, tie + 1, above)
            # Behind the last entry the target may as well be in another block.
            if 0 < many < a32[2 * at] or level == 1:
                many = max(many, np.int64(1))
                work[2 * level - 1] = many - 1
                code = np.int64(a32[children_at(at, room(T, C, c, above)) + many - 1])
                break
            level -= 1
    code, entry, depth = _descend(a64, a32, T, C, c, labels, work, m, tie, code, level)
    if code < NONE and size_of(code) != TINY:
        # Where the next one may be found.
        behind = np.int64(a32[2 * block(T, C, c, code) + 2])
        if behind != NONE:
            ask_for_block(a64, T, C, c, behind)
    return code, entry, depth


@bare
def _descend(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    m: Int,
    tie: Int,
    code: Int,
    depth: Int,
) -> tuple[Int, Int, Int]:
    """`locate` below a block that is so deep."""
    while is_inner(code):
        # The last child that does not start after the target; one that starts with it is included.
        entry = _entries_before(a64, a32, T, C, c, labels, work, m, tie + 1, code) - 1
        entry = max(entry, np.int64(0))
        work[2 * depth], work[2 * depth + 1] = code, entry
        code = np.int64(a32[children_at(block(T, C, c, code), room(T, C, c, code)) + entry])
        depth += 1
        # A search goes through the keys at a cache miss each, unless they have all been asked for.
        ask_for_block(a64, T, C, c, code)
    if code == NONE:
        return code, np.int64(0), depth
    return code, np.int64(_entries_before(a64, a32, T, C, c, labels, work, m, tie, code)), depth


@bare
def sum_before(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    m: Int,
    tie: Int,
    root: Int,
    out: Words,
) -> None:
    """Add what the rows before the target count, all columns of it, to `out`."""
    code, entry, depth = locate(a64, a32, T, C, c, labels, work, m, tie, root)
    work[2 * depth], work[2 * depth + 1] = code, entry
    for d in range(depth + 1):
        code, entry = work[2 * d], work[2 * d + 1]
        n = length(a32, T, C, c, code)
        if d > 0 and 2 * entry > n:
            # The fewer entries are those behind: what the block counts, as its parent says, without them.
            add_up(a64, a32, T, C, c, work[2 * d - 2], work[2 * d - 1], work[2 * d - 1] + 1, out, 0, False)
            add_up(a64, a32, T, C, c, code, entry, n, out, 0, True)
        else:
            add_up(a64, a32, T, C, c, code, 0, entry, out, 0, False)


@bare
def sum_before_row(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, root: Int, row: Int, out: Words
) -> None:
    """Make `out` what the rows before a row of the tree count: its rank."""
    for lane in range(C[c, C_WIDTH]):
        out[lane] = 0
    aim(a64, T, C, c, labels, work, row)
    sum_before(a64, a32, T, C, c, labels, work, C[c, C_KEYS], row, root, out)


@bare
def sum_between(
    a64: Words,
    a32: Halves,
    T: Words,
    C: Words,
    c: Int,
    labels: Words,
    work: Words,
    root: Int,
    low: Int,
    after_low: Int,
    high: Int,
    after_high: Int,
    out: Words,
) -> None:
    """Make `out` what the rows count whose first image lies between two.

    Rows with the image `low` are left out if `after_low`, those with `high` are in if `after_high`. LEAST and MOST make
    open ends.
    """
    width = C[c, C_WIDTH]
    for lane in range(width):
        out[lane] = 0
    if low > high or (low == high and (after_low or not after_high)):
        return
    if after_low or low > LEAST:
        work[TARGET] = low
        sum_before(a64, a32, T, C, c, labels, work, 1, AFTER_EQUAL if after_low else BEFORE_EQUAL, root, out)
        for lane in range(0, width, 2):
            out[lane], out[lane + 1] = replace(0, 0, out[lane], out[lane + 1], 0, 0)
    if after_high and high == MOST:
        add_up(a64, a32, T, C, c, root, 0, length(a32, T, C, c, root), out, 0, False)
    else:
        work[TARGET] = high
        sum_before(a64, a32, T, C, c, labels, work, 1, AFTER_EQUAL if after_high else BEFORE_EQUAL, root, out)


@bare
def total(a64: Words, a32: Halves, T: Words, C: Words, c: Int, root: Int, out: Words) -> None:
    """Make `out` what all rows of a group count. O(1): one block is read."""
    for lane in range(C[c, C_WIDTH]):
        out[lane] = 0
    add_up(a64, a32, T, C, c, root, 0, length(a32, T, C, c, root), out, 0, False)


@bare
def select(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, root: Int, lane: Int, lo: Int, hi: Int
) -> tuple[Int, Int, Int, Int]:
    """A cursor at the row where the sum of a column passes j = (lo, hi), and what is left of j there.

    With s the sum over the rows before it, s ≤ j < s + the row's own; j - s is left. `lane` is the column's first.
    """
    code, width = np.int64(root), C[c, C_WIDTH]
    while code != NONE:
        inner, n = is_inner(code), length(a32, T, C, c, code)
        sums = np.int64(0)
        if inner:
            sums = sums_at(block(T, C, c, code), room(T, C, c, code))
        i = np.int64(0)
        while i < n:
            if inner:
                slo, shi = a64[sums + i * width + lane], a64[sums + i * width + lane + 1]
            else:
                slo, shi = payload(a64, T, C, c, row_at(a32, T, C, c, code, i), lane)
            rlo, rhi = replace(lo, hi, slo, shi, 0, 0)
            if rhi < 0:
                break
            lo, hi = rlo, rhi
            i += 1
        if i == n:
            return np.int64(NONE), np.int64(0), lo, hi
        if not inner:
            return code, i, lo, hi
        code = np.int64(a32[children_at(block(T, C, c, code), room(T, C, c, code)) + i])
    return code, np.int64(0), lo, hi


@bare
def first(a32: Halves, T: Words, C: Words, c: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the first row."""
    code = np.int64(root)
    while is_inner(code):
        code = np.int64(a32[children_at(block(T, C, c, code), room(T, C, c, code))])
    return code, np.int64(0)


@bare
def last(a32: Halves, T: Words, C: Words, c: Int, root: Int) -> tuple[Int, Int]:
    """A cursor at the last row."""
    code = np.int64(root)
    while is_inner(code):
        at = block(T, C, c, code)
        code = np.int64(a32[children_at(at, room(T, C, c, code)) + a32[2 * at] - 1])
    return code, length(a32, T, C, c, code) - 1 if code != NONE else np.int64(0)


@bare
def following(a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """The cursor one row on."""
    if entry + 1 < length(a32, T, C, c, code):
        return code, entry + 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    return np.int64(a32[2 * block(T, C, c, code) + 2]), np.int64(0)


@bare
def following_on(a64: Words, a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """`following`, on the way through many leaves: each is asked for while the one before it is gone through."""
    code, entry = following(a32, T, C, c, code, entry)
    if entry == 0 and code < NONE:
        behind = np.int64(a32[2 * block(T, C, c, code) + 2])
        if behind != NONE:
            ask_for_block(a64, T, C, c, behind)
    return code, entry


@bare
def preceding(a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int) -> tuple[Int, Int]:
    """The cursor one row back."""
    if entry > 0:
        return code, entry - 1
    if code >= NONE or size_of(code) == TINY:
        return np.int64(NONE), np.int64(0)
    before = np.int64(a32[2 * block(T, C, c, code) + 3])
    if before == NONE:
        return before, np.int64(0)
    return before, length(a32, T, C, c, before) - 1


@bare
def seek(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, root: Int
) -> tuple[Int, Int]:
    """A cursor at the first row that is not before the target."""
    code, entry, _ = locate(a64, a32, T, C, c, labels, work, m, tie, root)
    if code != NONE and entry == length(a32, T, C, c, code):
        return following(a32, T, C, c, code, entry - 1)
    return code, entry


@bare
def seek_back(
    a64: Words, a32: Halves, T: Words, C: Words, c: Int, labels: Words, work: Words, m: Int, tie: Int, root: Int
) -> tuple[Int, Int]:
    """A cursor at the last row that is before the target."""
    code, entry, _ = locate(a64, a32, T, C, c, labels, work, m, tie, root)
    return preceding(a32, T, C, c, code, entry)


@bare
def collect(
    a32: Halves, T: Words, C: Words, c: Int, code: Int, entry: Int, forward: Int, rows: Words
) -> tuple[Int, Int, Int]:
    """Fill `rows` with row ids from a cursor on; returns how many, and the cursor behind them. O(1) per row."""
    n = np.int64(0)
    while n < len(rows) and code != NONE:
        rows[n] = row_at(a32, T, C, c, code, entry)
        n += 1
        if forward:
            code, entry = following(a32, T, C, c, code, entry)
        else:
            code, entry = preceding(a32, T, C, c, code, entry)
    return n, code, entry
