"""Where the range of a reader begins and ends: stored in its record, or found in the trees of a group.

Readers of a child whose sums wait (`waiting_sums`) store no ends: these are searched in the child's tree, O(log n), or
found from the ends of the reader before, O(1) amortised.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import key_at, range_of
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, TARGET, image_of_key, row_at
from dynq_cli.engine.kernels.order_statistic_search import AFTER_EQUAL, BEFORE_EQUAL, following_on, seek, seek_back
from dynq_cli.engine.kernels.table import find, record

# Steps that a cursor takes before it searches.
_STEPS = 8


@kernel
def ends(store: Store, tree: Int, root: Int, lo: Int, hi: Int) -> tuple[Int, Int]:
    """Return the first and last row of a range, both -1 if it is empty. O(log n)."""
    path = store.trees.path
    if lo > hi or root == NONE:
        return np.int64(-1), np.int64(-1)
    path[TARGET] = lo
    code, entry = seek(store, tree, 1, BEFORE_EQUAL, root)
    if code == NONE or image_of_key(store, tree, key_at(store, tree, code, entry)) > hi:
        return np.int64(-1), np.int64(-1)
    first = row_at(store, tree, code, entry)
    path[TARGET] = hi
    code, entry = seek_back(store, tree, 1, AFTER_EQUAL, root)
    return first, row_at(store, tree, code, entry)


@kernel
def advance(store: Store, tree: Int, root: Int, code: Int, entry: Int, lo: Int) -> tuple[Int, Int]:
    """Return the cursor at the first row that is not below lo, from one for a smaller lo; NONE if there is none."""
    path = store.trees.path
    if code != NONE:
        for _step in range(_STEPS):
            if image_of_key(store, tree, key_at(store, tree, code, entry)) >= lo:
                return code, entry
            code, entry = following_on(store, tree, code, entry)
            if code == NONE:
                return code, entry
    path[TARGET] = lo
    return seek(store, tree, 1, BEFORE_EQUAL, root)


@kernel
def advance_back(store: Store, tree: Int, root: Int, code: Int, entry: Int, hi: Int) -> tuple[Int, Int]:
    """Return the cursor at the last row that is not above hi, from one for a smaller hi; NONE if there is none."""
    path = store.trees.path
    if code != NONE:
        for _step in range(_STEPS):
            next_code, next_entry = following_on(store, tree, code, entry)
            if next_code == NONE:
                return code, entry
            if image_of_key(store, tree, key_at(store, tree, next_code, next_entry)) > hi:
                return code, entry
            code, entry = next_code, next_entry
    path[TARGET] = hi
    return seek_back(store, tree, 1, AFTER_EQUAL, root)


@kernel
def range_ends(store: Store, child_id: Int, at: Int) -> tuple[Int, Int]:
    """Return the first and last row of the range of the reader whose record is at `at`, both -1 if it is empty.

    O(1), or O(log n) where readers wait.
    """
    halves = store.halves
    child = store.nodes[child_id]
    if child.waits < 0:
        return np.int64(halves[2 * at + child.begin]), np.int64(halves[2 * at + child.end])
    lo, hi = range_of(store, child.readers, at)
    group = record(store.tables[child.group], np.int64(halves[2 * at + child.reads]))
    return ends(store, child.tree, np.int64(halves[2 * group + child.root]), lo, hi)


@kernel
def group_of_readers(store: Store, child_id: Int, group: Int) -> Int:
    """Return the group of all waiting readers of the child's group whose record is at `group`, or -1.

    Both have one key.
    """
    child = store.nodes[child_id]
    return np.int64(find(store, store.nodes[child.parent].group, store.words[group : group + child.key]))


@kernel
def root_of_readers(store: Store, child_id: Int, group: Int) -> Int:
    """Return the code of the tree of the readers of a group, whose record is at `group`."""
    child = store.nodes[child_id]
    if child.waits < 0:
        return np.int64(store.halves[2 * group + child.readers_root])
    node = store.nodes[child.parent]
    row = group_of_readers(store, child_id, group)
    return np.int64(store.halves[2 * record(store.tables[node.group], row) + node.root]) if row >= 0 else np.int64(NONE)
