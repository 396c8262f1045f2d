"""A finger: a cursor in an order-statistic tree that knows its path, and what the rows before it count.

Places that are asked for in order are found from the one before: the path is followed up as far as needed, and only the
difference of the partial sums is added. O(log of the rows passed) each; in any other order O(log n).

A finger is an array of FINGER words, which `order_statistic_search` uses as scratch, too. It holds as long as its tree
does not change. Per level of its path it has what the rows before the entry taken there count.
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
def lift(finger: Words) -> None:
    """Reset the finger: trees may have changed."""
    finger[F_DEPTH], finger[F_CODE], finger[F_ROOT], finger[F_KNOWN] = NONE, NONE, NONE, 0


@kernel
def point(store: Store, tree_id: Int, finger: Words, tie: Int, root: Int, z: Int) -> tuple[Int, Int]:
    """Move the finger to the first row that is not before (z, tie): a leaf, and how many of its entries are before.

    A finger has one tie for all questions, so where it is asked the same again it stays.
    """
    if finger[TARGET] == z and finger[F_ROOT] == root:
        return finger[F_CODE], finger[F_ENTRY]
    finger[TARGET], finger[F_ROOT] = z, root
    finger[F_CODE], finger[F_ENTRY], finger[F_DEPTH] = locate_from(
        store, tree_id, finger, 1, tie, root, finger[F_DEPTH]
    )
    return finger[F_CODE], finger[F_ENTRY]


@kernel
def _add_up_path(store: Store, tree_id: Int, finger: Words) -> None:
    """Compute what stands before each entry of the path, from what is known of the path before."""
    width, same = store.trees.forest[tree_id].width, True
    for d in range(finger[F_DEPTH]):
        code, entry, sums = finger[2 * d], finger[2 * d + 1], F_SUMS + _MOST * d
        start = np.int64(0)
        if same and d < finger[F_KNOWN] and finger[F_PATH + 2 * d] == code and finger[F_PATH + 2 * d + 1] <= entry:
            start = finger[F_PATH + 2 * d + 1]
            same = start == entry
        else:
            same = False
            for lane in range(width):
                finger[sums + lane] = finger[sums - _MOST + lane] if d > 0 else np.int64(0)
        if start < entry:
            add_up(store, tree_id, code, start, entry, finger, sums, False)
        finger[F_PATH + 2 * d], finger[F_PATH + 2 * d + 1] = code, entry
    finger[F_KNOWN] = finger[F_DEPTH]


@kernel
def _count_one_each(store: Store, tree_id: Int, finger: Words, many: Int) -> Int:
    """Whether each row of the finger's leaf counts 1 in every column: none counts less, and the sum is their number."""
    words = store.words
    tree = store.trees.forest[tree_id]
    if tree.payload == UNIT:
        return True
    if finger[F_DEPTH] == 0:
        return False
    above, entry = finger[2 * finger[F_DEPTH] - 2], finger[2 * finger[F_DEPTH] - 1]
    sums = sums_at(block(store, tree_id, above), room(store, tree_id, above)) + entry * tree.width
    for lane in range(0, tree.width, 2):
        if words[sums + lane] != many or words[sums + lane + 1] != 0:
            return False
    return True


@kernel
def _add_before(store: Store, tree_id: Int, finger: Words, out: Words, subtract: Int) -> None:
    """Add what the rows before the finger count to `out`, or subtract it."""
    width, depth, entry = store.trees.forest[tree_id].width, finger[F_DEPTH], finger[F_ENTRY]
    _add_up_path(store, tree_id, finger)
    # A look at records, which lie anywhere, is saved where it can be.
    is_plain = _count_one_each(store, tree_id, finger, length(store, tree_id, finger[F_CODE]))
    for lane in range(0, width, 2):
        lo, hi = np.int64(0), np.int64(0)
        if depth > 0:
            sums = F_SUMS + _MOST * (depth - 1) + lane
            lo, hi = finger[sums], finger[sums + 1]
        if is_plain:
            lo, hi = replace(lo, hi, 0, 0, entry, 0)
        if subtract:
            decrease(out, lane, lo, hi)
        else:
            increase(out, lane, lo, hi)
    if not is_plain:
        add_up(store, tree_id, finger[F_CODE], 0, entry, out, 0, subtract)


@kernel
def sum_between_fingers(store: Store, tree_id: Int, head: Words, tail: Words, out: Words) -> None:
    """Set `out` to what the rows count that are before one finger and not before another, in the same group."""
    for lane in range(store.trees.forest[tree_id].width):
        out[lane] = 0
    _add_before(store, tree_id, tail, out, False)
    _add_before(store, tree_id, head, out, True)
