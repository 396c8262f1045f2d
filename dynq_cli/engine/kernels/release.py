"""Remove deleted base rows from the trees, after everything above them is updated; free what nothing refers to."""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import DeltaEntries, Int, Store
from dynq_cli.engine.kernels.groups import leave_group
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record, remove


@kernel(inline="always")
def _ask_for_own_groups(store: Store, node_id: Int, delta: DeltaEntries, start: Int, stop: Int) -> None:
    """Prefetch the groups of deleted base rows, where these are the rows of the leaf."""
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    table, group_table = store.tables[node.table], store.tables[node.group]
    for i in range(start, stop):
        if delta.old[i] != 0 and delta.new[i] == 0:
            at = 2 * record(table, np.int64(delta.touched[i]))
            if node.leaf_row < 0 or halves[at + node.leaf_row] >= 0:
                there = record(group_table, np.int64(halves[at + node.gid]))
                prefetch(words, there)
                prefetch(words, there + (group_table.refs >> 1))


@kernel
def release_leaf(store: Store, node_id: Int, table_id: Int, delta: DeltaEntries, n: Int) -> None:
    """Remove the base rows that a batch deleted from a leaf; runs after `propagate`."""
    halves = store.halves
    node = store.nodes[node_id]
    own = node.table
    own_table = store.tables[own]
    for i in range(n):
        if i % AHEAD == 0 and own == table_id:
            _ask_for_own_groups(store, node_id, delta, i, min(i + AHEAD, n))
        if delta.old[i] == 0 or delta.new[i] != 0:
            continue
        row = np.int64(delta.touched[i])
        if node.leaf_row >= 0:
            row = np.int64(halves[2 * record(store.tables[table_id], row) + node.leaf_row])
            if row < 0:
                continue
        at = 2 * record(own_table, row)
        g = np.int64(halves[at + node.gid])
        if own != table_id:
            halves[at + own_table.refs] -= 1
            if halves[at + own_table.refs] > 0:
                continue
            remove(store, own, row)
        leave_group(store, node_id, g)
