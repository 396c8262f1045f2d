"""A row's multiplicity during a commit: new, old, or their minimum.

A changed row of a tree that feeds relations keeps its old multiplicity (`delta_log`); for any other row all three are
equal.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import LEAST, NOW, Int, Store
from dynq_cli.engine.kernels.int128 import is_less
from dynq_cli.engine.kernels.range_ends import range_ends
from dynq_cli.engine.kernels.table import record


@kernel
def value_of(store: Store, node_id: Int, row: Int) -> tuple[Int, Int]:
    """Return the multiplicity of a row in the state that is set for its node, in two lanes; 0 for a row id that is not
    in use."""
    node = store.nodes[node_id]
    if row >= store.tables[node.table].used:
        return np.int64(0), np.int64(0)
    return value_on(store, node_id, row, node.side)


@kernel
def value_on(store: Store, node_id: Int, row: Int, side: Int) -> tuple[Int, Int]:
    """Return the multiplicity of a row that is in use, in a state."""
    return value_at(store, node_id, record(store.tables[store.nodes[node_id].table], row), side)


@kernel(inline="always")
def value_at(store: Store, node_id: Int, at: Int, side: Int) -> tuple[Int, Int]:
    """Return the multiplicity of the row whose record is at `at`, in a state."""
    if side == NOW or store.halves[2 * at + store.nodes[node_id].changed] == 0:
        return value_now(store, node_id, at)
    lo, hi = value_before(store, node_id, at)
    if side == LEAST:
        now_lo, now_hi = value_now(store, node_id, at)
        if is_less(now_lo, now_hi, lo, hi):
            return now_lo, now_hi
    return lo, hi


@kernel(inline="always")
def value_before(store: Store, node_id: Int, at: Int) -> tuple[Int, Int]:
    """Return the old multiplicity of a changed row whose record is at `at`."""
    words = store.words
    node = store.nodes[node_id]
    return words[at + node.old], words[at + node.old + 1] if node.degree > 0 else np.int64(0)


@kernel
def value_now(store: Store, node_id: Int, at: Int) -> tuple[Int, Int]:
    """Return the new multiplicity of the row whose record is at `at`.

    Of a waiting reader that of the rest of its subtree, or 0 if its range is empty: whether it is live is right.
    """
    words = store.words
    node = store.nodes[node_id]
    table = store.tables[node.table]
    if node.degree > 0:
        if node.waiting >= 0 and range_ends(store, node.waiting, at)[0] < 0:
            return np.int64(0), np.int64(0)
        return words[at + node.value], words[at + node.value + 1]
    many = words[at + table.mult]
    # A leaf without a table of its own has base rows, of which its filter may keep some out.
    if node.leaf_row >= 0 and table.refs < 0 and many > 0 and store.halves[2 * at + node.leaf_row] < 0:
        many = np.int64(0)
    if node.clamp and many > 1:
        many = np.int64(1)
    return many, np.int64(0)
