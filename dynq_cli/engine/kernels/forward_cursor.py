"""A walker: a place in the order of a group that only moves on, through each leaf as the array it is.

It has passed all rows whose images are not above some bound; the next bound is not below that. O(1) per row passed, or
O(log n) where these are many: then the place is searched.

A walker is an array of WALKER words. It holds as long as the tree does not change, and knows groups that have leaves:
of the smallest ones, up to four rows, there is nothing to be passed.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Halves, Int, Store, Words
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


@kernel(inline="always")
def has_leaves(root: Int) -> Int:
    """Whether a group, whose code is given, is one that can be walked through."""
    return root < NONE and size_of(root) != TINY


@kernel
def _open(store: Store, c: Int, W: Words, code: Int, passed: Int) -> None:
    """Let the walker stand in a leaf, so many of whose rows it has passed."""
    halves = store.halves
    at = block(store, c, code)
    behind = np.int64(halves[2 * at + 2])
    W[W_KEYS], W[W_ROWS], W[W_MANY] = keys_at(at, room(store, c, code)), rows_at(at), halves[2 * at]
    W[W_PASSED], W[W_BEHIND] = passed, behind
    if behind != NONE:
        at = block(store, c, behind)
        W[W_IMAGE] = image_of_key(store, c, store.words[keys_at(at, room(store, c, behind))])
        # What comes next is near already, being asked for from the leaf before.
        if halves[2 * at + 2] != NONE:
            ask_for_block(store, c, np.int64(halves[2 * at + 2]))


@kernel
def begin_walk(store: Store, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Let the walker pass all rows of a group up to a first bound. O(log n)."""
    store.trees.path[TARGET] = bound
    code, passed, _ = locate(store, c, 1, AFTER_EQUAL, root)
    _open(store, c, W, code, passed)


@kernel(forceinline=True)
def _walk_in_leaf(store: Store, c: Int, W: Words, bound: Int) -> Int:
    """Pass what is in the leaf; whether there is more behind it."""
    keys, passed, many = W[W_KEYS], W[W_PASSED], W[W_MANY]
    while passed < many and image_of_key(store, c, store.words[keys + passed]) <= bound:
        passed += 1
    W[W_PASSED] = passed
    return passed == many and W[W_BEHIND] != NONE and W[W_IMAGE] <= bound


@kernel
def _walk_on(store: Store, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Go on to other leaves."""
    for _leaf in range(_LEAVES):
        _open(store, c, W, W[W_BEHIND], np.int64(0))
        if not _walk_in_leaf(store, c, W, bound):
            return
    begin_walk(store, c, W, root, bound)


@kernel(forceinline=True)
def walk(store: Store, c: Int, W: Words, root: Int, bound: Int) -> None:
    """Pass all rows up to a bound."""
    if _walk_in_leaf(store, c, W, bound):
        _walk_on(store, c, W, root, bound)


@kernel(forceinline=True)
def last_passed(halves: Halves, W: Words) -> Int:
    """The last row that was passed, or -1. A leaf is gone on to only when its first row is passed."""
    return np.int64(halves[W[W_ROWS] + W[W_PASSED] - 1]) if W[W_PASSED] > 0 else np.int64(-1)


@kernel(forceinline=True)
def first_not_passed(store: Store, c: Int, W: Words) -> tuple[Int, Int]:
    """The first row that was not passed, or -1, and its image."""
    halves = store.halves
    if W[W_PASSED] < W[W_MANY]:
        key = store.words[W[W_KEYS] + W[W_PASSED]]
        return np.int64(halves[W[W_ROWS] + W[W_PASSED]]), image_of_key(store, c, key)
    if W[W_BEHIND] == NONE:
        return np.int64(-1), np.int64(0)
    return np.int64(halves[rows_at(block(store, c, W[W_BEHIND]))]), W[W_IMAGE]
