"""A walker: a place in the order of a group that only moves on, through each leaf as the array it is.

It has passed all rows whose images are not above some bound; the next bound is not below that. O(1) per row passed, or
O(log n) where these are many: then the place is searched.

A walker is an array of WALKER words. It holds as long as the tree does not change, and knows groups that have leaves:
of the smallest ones, up to four rows, there is nothing to be passed.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import Halves, Int, Trees, Words
from dynq_cli.engine.kernels.order_statistic_blocks import (
    NONE,
    TARGET,
    TINY,
    block,
    image_of_key,
    keys_at,
    room,
    rows_at,
    size_of,
)
from dynq_cli.engine.kernels.order_statistic_search import AFTER_EQUAL, ask_for_block, locate

# Where keys and rows of the leaf stand, how many there are and how many of them are passed; the leaf behind it, and the
# image of the first row there.
W_KEYS, W_ROWS, W_MANY, W_PASSED, W_BEHIND, W_IMAGE, WALKER = range(7)
# Leaves that are gone through before the place is searched.
_LEAVES = 2


@bare(inline="always")
def has_leaves(root: Int) -> Int:
    """Whether a group, whose code is given, is one that can be walked through."""
    return root < NONE and size_of(root) != TINY


@bare
def _open(a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, W: Words, code: Int, passed: Int) -> None:
    """Let the walker stand in a leaf, so many of whose rows it has passed."""
    C = trees.C
    at = block(T, C, c, code)
    behind = np.int64(a32[2 * at + 2])
    W[W_KEYS], W[W_ROWS], W[W_MANY] = keys_at(at, room(T, C, c, code)), rows_at(at), a32[2 * at]
    W[W_PASSED], W[W_BEHIND] = passed, behind
    if behind != NONE:
        at = block(T, C, c, behind)
        W[W_IMAGE] = image_of_key(C, c, trees.labels, a64[keys_at(at, room(T, C, c, behind))])
        # What comes next is near already, being asked for from the leaf before.
        if a32[2 * at + 2] != NONE:
            ask_for_block(a64, T, C, c, np.int64(a32[2 * at + 2]))


@bare
def begin_walk(a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Let the walker pass all rows of a group up to a first bound. O(log n)."""
    trees.work[TARGET] = bound
    code, passed, _ = locate(a64, a32, T, trees.C, c, trees.labels, trees.work, 1, AFTER_EQUAL, root)
    _open(a64, a32, T, trees, c, W, code, passed)


@bare(forceinline=True)
def _walk_in_leaf(a64: Words, trees: Trees, c: Int, W: Words, bound: Int) -> Int:
    """Pass what is in the leaf; whether there is more behind it."""
    keys, passed, many = W[W_KEYS], W[W_PASSED], W[W_MANY]
    while passed < many and image_of_key(trees.C, c, trees.labels, a64[keys + passed]) <= bound:
        passed += 1
    W[W_PASSED] = passed
    return passed == many and W[W_BEHIND] != NONE and W[W_IMAGE] <= bound


@bare
def _walk_on(a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Go on to other leaves."""
    for _leaf in range(_LEAVES):
        _open(a64, a32, T, trees, c, W, W[W_BEHIND], np.int64(0))
        if not _walk_in_leaf(a64, trees, c, W, bound):
            return
    begin_walk(a64, a32, T, trees, c, W, root, bound)


@bare(forceinline=True)
def walk(a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Pass all rows up to a bound."""
    if _walk_in_leaf(a64, trees, c, W, bound):
        _walk_on(a64, a32, T, trees, c, W, root, bound)


@bare(forceinline=True)
def last_passed(a32: Halves, W: Words) -> Int:
    """The last row that was passed, or -1. A leaf is gone on to only when its first row is passed."""
    return np.int64(a32[W[W_ROWS] + W[W_PASSED] - 1]) if W[W_PASSED] > 0 else np.int64(-1)


@bare(forceinline=True)
def first_not_passed(a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, W: Words) -> tuple[Int, Int]:
    """The first row that was not passed, or -1, and its image."""
    if W[W_PASSED] < W[W_MANY]:
        key = a64[W[W_KEYS] + W[W_PASSED]]
        return np.int64(a32[W[W_ROWS] + W[W_PASSED]]), image_of_key(trees.C, c, trees.labels, key)
    if W[W_BEHIND] == NONE:
        return np.int64(-1), np.int64(0)
    return np.int64(a32[rows_at(block(T, trees.C, c, W[W_BEHIND]))]), W[W_IMAGE]
