"""A row's multiplicity during a commit: new, old, or their minimum.

A row that changed, in a tree that feeds relations, keeps what it was (`delta_log`); any other is what it was.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import LEAST, NOW, Int, Store
from dynq_cli.engine.kernels.int128 import is_less
from dynq_cli.engine.kernels.table import record


@kernel
def value_of(store: Store, v: Int, row: Int) -> tuple[Int, Int]:
    """The multiplicity of a row of node v, on the side that the node is on, in two lanes; 0 for a row id that is not
    in use."""
    node = store.nodes[v]
    if row >= store.tables[node.table].used:
        return np.int64(0), np.int64(0)
    return value_on(store, v, row, node.side)


@kernel
def value_on(store: Store, v: Int, row: Int, side: Int) -> tuple[Int, Int]:
    """The multiplicity of a row of node v that is in use, on a side."""
    return value_at(store, v, record(store.tables[store.nodes[v].table], row), side)


@kernel(inline="always")
def value_at(store: Store, v: Int, at: Int, side: Int) -> tuple[Int, Int]:
    """The multiplicity of the row of node v whose record is at `at`, on a side."""
    if side == NOW or store.halves[2 * at + store.nodes[v].changed] == 0:
        return value_now(store, v, at)
    lo, hi = value_before(store, v, at)
    if side == LEAST:
        now_lo, now_hi = value_now(store, v, at)
        if is_less(now_lo, now_hi, lo, hi):
            return now_lo, now_hi
    return lo, hi


@kernel(inline="always")
def value_before(store: Store, v: Int, at: Int) -> tuple[Int, Int]:
    """The multiplicity that the row of node v whose record is at `at`, and which changed, had."""
    words = store.words
    node = store.nodes[v]
    return words[at + node.old], words[at + node.old + 1] if node.degree > 0 else np.int64(0)


@kernel
def value_now(store: Store, v: Int, at: Int) -> tuple[Int, Int]:
    """The multiplicity that the row of node v whose record is at `at` has now."""
    words = store.words
    node = store.nodes[v]
    table = store.tables[node.table]
    if node.degree > 0:
        return words[at + node.value], words[at + node.value + 1]
    many = words[at + table.mult]
    # A leaf without a table of its own has base rows, of which its filter may keep some out.
    if node.leaf_row >= 0 and table.refs < 0 and many > 0 and store.halves[2 * at + node.leaf_row] < 0:
        many = np.int64(0)
    if node.clamp and many > 1:
        many = np.int64(1)
    return many, np.int64(0)
