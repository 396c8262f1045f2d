"""A walker: a cursor in the order of a group that only moves forward, leaf by leaf.

It has passed all rows whose images are not above a bound; the next bound is not below that one. O(1) per row passed, or
O(log n) where these are many: then the place is searched.

A walker is an array of WALKER words. It holds as long as the tree does not change, and takes groups that have leaves:
the smallest ones, of up to four rows, have none.
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
    """Whether a group, given by its code, is one that a walker takes."""
    return root < NONE and size_of(root) != TINY


@kernel
def _open(store: Store, tree_id: Int, walker: Words, code: Int, passed: Int) -> None:
    """Put the walker into a leaf, so many of whose rows it has passed."""
    halves = store.halves
    at = block(store, tree_id, code)
    behind = np.int64(halves[2 * at + 2])
    walker[W_KEYS], walker[W_ROWS], walker[W_MANY] = (
        keys_at(at, room(store, tree_id, code)),
        rows_at(at),
        halves[2 * at],
    )
    walker[W_PASSED], walker[W_BEHIND] = passed, behind
    if behind != NONE:
        at = block(store, tree_id, behind)
        walker[W_IMAGE] = image_of_key(store, tree_id, store.words[keys_at(at, room(store, tree_id, behind))])
        # What comes next is near already, being asked for from the leaf before.
        if halves[2 * at + 2] != NONE:
            ask_for_block(store, tree_id, np.int64(halves[2 * at + 2]))


@kernel
def begin_walk(store: Store, tree_id: Int, walker: Words, root: Int, bound: Int) -> None:
    """Pass all rows of a group up to a first bound. O(log n)."""
    store.trees.path[TARGET] = bound
    code, passed, _ = locate(store, tree_id, 1, AFTER_EQUAL, root)
    _open(store, tree_id, walker, code, passed)


@kernel(forceinline=True)
def _walk_in_leaf(store: Store, tree_id: Int, walker: Words, bound: Int) -> Int:
    """Pass rows of the leaf; return whether more follow behind it."""
    keys, passed, many = walker[W_KEYS], walker[W_PASSED], walker[W_MANY]
    while passed < many and image_of_key(store, tree_id, store.words[keys + passed]) <= bound:
        passed += 1
    walker[W_PASSED] = passed
    return passed == many and walker[W_BEHIND] != NONE and walker[W_IMAGE] <= bound


@kernel
def _walk_on(store: Store, tree_id: Int, walker: Words, root: Int, bound: Int) -> None:
    """Continue with other leaves."""
    for _leaf in range(_LEAVES):
        _open(store, tree_id, walker, walker[W_BEHIND], np.int64(0))
        if not _walk_in_leaf(store, tree_id, walker, bound):
            return
    begin_walk(store, tree_id, walker, root, bound)


@kernel(forceinline=True)
def walk(store: Store, tree_id: Int, walker: Words, root: Int, bound: Int) -> None:
    """Pass all rows up to a bound."""
    if _walk_in_leaf(store, tree_id, walker, bound):
        _walk_on(store, tree_id, walker, root, bound)


@kernel(forceinline=True)
def last_passed(halves: Halves, walker: Words) -> Int:
    """Return the last row that was passed, or -1. The walker enters a leaf only when it passes the first row of it."""
    return np.int64(halves[walker[W_ROWS] + walker[W_PASSED] - 1]) if walker[W_PASSED] > 0 else np.int64(-1)


@kernel(forceinline=True)
def first_not_passed(store: Store, tree_id: Int, walker: Words) -> tuple[Int, Int]:
    """Return the first row that was not passed, or -1, and its image."""
    halves = store.halves
    if walker[W_PASSED] < walker[W_MANY]:
        key = store.words[walker[W_KEYS] + walker[W_PASSED]]
        return np.int64(halves[walker[W_ROWS] + walker[W_PASSED]]), image_of_key(store, tree_id, key)
    if walker[W_BEHIND] == NONE:
        return np.int64(-1), np.int64(0)
    return np.int64(halves[rows_at(block(store, tree_id, walker[W_BEHIND]))]), walker[W_IMAGE]
