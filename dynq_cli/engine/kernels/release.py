"""Base rows that a commit took away leave the trees, after everything above them has followed, and what nothing refers
to any more is freed."""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import DeltaEntries, Int, Store
from dynq_cli.engine.kernels.groups import leave_group
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record, remove


@kernel(inline="always")
def _ask_for_own_groups(store: Store, v: Int, delta: DeltaEntries, start: Int, stop: Int) -> None:
    """The groups of base rows that a batch took away, where these are the rows of leaf v."""
    words, halves = store.words, store.halves
    node = store.nodes[v]
    table, group_table = store.tables[node.table], store.tables[node.group]
    for i in range(start, stop):
        if delta.old[i] != 0 and delta.new[i] == 0:
            at = 2 * record(table, np.int64(delta.touched[i]))
            if node.leaf_row < 0 or halves[at + node.leaf_row] >= 0:
                there = record(group_table, np.int64(halves[at + node.gid]))
                prefetch(words, there)
                prefetch(words, there + (group_table.refs >> 1))


@kernel
def release_leaf(store: Store, v: Int, t: Int, delta: DeltaEntries, n: Int) -> None:
    """Base rows that a batch took away leave the tree; runs after `propagate`."""
    halves = store.halves
    node = store.nodes[v]
    own = node.table
    own_table = store.tables[own]
    for i in range(n):
        if i % AHEAD == 0 and own == t:
            _ask_for_own_groups(store, v, delta, i, min(i + AHEAD, n))
        if delta.old[i] == 0 or delta.new[i] != 0:
            continue
        row = np.int64(delta.touched[i])
        if node.leaf_row >= 0:
            row = np.int64(halves[2 * record(store.tables[t], row) + node.leaf_row])
            if row < 0:
                continue
        at = 2 * record(own_table, row)
        g = np.int64(halves[at + node.gid])
        if own != t:
            halves[at + own_table.refs] -= 1
            if halves[at + own_table.refs] > 0:
                continue
            remove(store, own, row)
        leave_group(store, v, g)
