"""A finger: a place in a counted tree that knows the way there, and what the rows before it count.

Places that are asked for in their order are found one from the other: the path is gone up as far as need be, and of
what stands before it only the difference is added up. O(log of the rows passed) each, in any other order O(log n).

A finger is an array of FINGER words that is scratch to `order_statistic_search`, too; it holds as long as its tree does
not change. Per level of its path there is what the rows before the entry taken there count.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import replace
from dynq_cli.engine.kernels.order_statistic_blocks import (
    NONE,
    TARGET,
    UNIT,
    add_up,
    block,
    decrease,
    increase,
    length,
    room,
    sums_at,
)
from dynq_cli.engine.kernels.order_statistic_search import locate_from

# A target is one image. The path stands before it; behind, what is known of the finger, the path up to which sums are
# added up, and those, of up to _MOST lanes.
_MOST = 4
F_DEPTH, F_CODE, F_ENTRY, F_ROOT, F_KNOWN, F_PATH = range(TARGET + 1, TARGET + 7)
F_SUMS = F_PATH + TARGET
FINGER = F_SUMS + _MOST * TARGET // 2


@kernel
def lift(F: Words) -> None:
    """The finger points nowhere: trees may have changed."""
    F[F_DEPTH], F[F_CODE], F[F_ROOT], F[F_KNOWN] = NONE, NONE, NONE, 0


@kernel
def point(store: Store, c: Int, F: Words, tie: Int, root: Int, z: Int) -> tuple[Int, Int]:
    """Let the finger point at the first row that is not before (z, tie): a leaf, and how many of its entries are.

    A finger has one tie for all that it is asked for, so where it is asked for the same again it stays.
    """
    if F[TARGET] == z and F[F_ROOT] == root:
        return F[F_CODE], F[F_ENTRY]
    F[TARGET], F[F_ROOT] = z, root
    F[F_CODE], F[F_ENTRY], F[F_DEPTH] = locate_from(store, c, F, 1, tie, root, F[F_DEPTH])
    return F[F_CODE], F[F_ENTRY]


@kernel
def _add_up_path(store: Store, c: Int, F: Words) -> None:
    """Have what stands before each entry of the path; what is known of the path before is made use of."""
    width, same = store.trees.forest[c].width, True
    for d in range(F[F_DEPTH]):
        code, entry, sums = F[2 * d], F[2 * d + 1], F_SUMS + _MOST * d
        start = np.int64(0)
        if same and d < F[F_KNOWN] and F[F_PATH + 2 * d] == code and F[F_PATH + 2 * d + 1] <= entry:
            start = F[F_PATH + 2 * d + 1]
            same = start == entry
        else:
            same = False
            for lane in range(width):
                F[sums + lane] = F[sums - _MOST + lane] if d > 0 else np.int64(0)
        if start < entry:
            add_up(store, c, code, start, entry, F, sums, False)
        F[F_PATH + 2 * d], F[F_PATH + 2 * d + 1] = code, entry
    F[F_KNOWN] = F[F_DEPTH]


@kernel
def _count_one_each(store: Store, c: Int, F: Words, many: Int) -> Int:
    """Whether each row of the finger's leaf counts 1 in every column: none counts less, and the sum is their number."""
    words = store.words
    tree = store.trees.forest[c]
    if tree.payload == UNIT:
        return True
    if F[F_DEPTH] == 0:
        return False
    above, entry = F[2 * F[F_DEPTH] - 2], F[2 * F[F_DEPTH] - 1]
    sums = sums_at(block(store, c, above), room(store, c, above)) + entry * tree.width
    for lane in range(0, tree.width, 2):
        if words[sums + lane] != many or words[sums + lane + 1] != 0:
            return False
    return True


@kernel
def _add_before(store: Store, c: Int, F: Words, out: Words, subtract: Int) -> None:
    """Add what the rows before the finger count to `out`, or subtract it."""
    width, depth, entry = store.trees.forest[c].width, F[F_DEPTH], F[F_ENTRY]
    _add_up_path(store, c, F)
    # A look at records, which lie anywhere, is saved where it can be.
    is_plain = _count_one_each(store, c, F, length(store, c, F[F_CODE]))
    for lane in range(0, width, 2):
        lo, hi = np.int64(0), np.int64(0)
        if depth > 0:
            sums = F_SUMS + _MOST * (depth - 1) + lane
            lo, hi = F[sums], F[sums + 1]
        if is_plain:
            lo, hi = replace(lo, hi, 0, 0, entry, 0)
        if subtract:
            decrease(out, lane, lo, hi)
        else:
            increase(out, lane, lo, hi)
    if not is_plain:
        add_up(store, c, F[F_CODE], 0, entry, out, 0, subtract)


@kernel
def sum_between_fingers(store: Store, c: Int, head: Words, tail: Words, out: Words) -> None:
    """Make `out` what the rows count that are before one finger and not before another, in the same group."""
    for lane in range(store.trees.forest[c].width):
        out[lane] = 0
    _add_before(store, c, tail, out, False)
    _add_before(store, c, head, out, True)
