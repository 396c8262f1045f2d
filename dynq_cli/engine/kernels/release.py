"""Base rows that a commit took away leave the trees, after everything above them has followed, and what nothing refers
to any more is freed."""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_GID,
    N_GROUP,
    N_LEAF_ROW,
    N_TABLE,
    T_REFS,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.groups import leave_group
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record, remove


@bare(inline="always")
def _ask_for_own_groups(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    v: Int,
    touched: Halves,
    old: Words,
    new: Words,
    start: Int,
    stop: Int,
) -> None:
    """The groups of base rows that a batch took away, where these are the rows of leaf v."""
    t, group = N[v, N_TABLE], N[v, N_GROUP]
    for i in range(start, stop):
        if old[i] != 0 and new[i] == 0:
            at = 2 * record(T, t, np.int64(touched[i]))
            if N[v, N_LEAF_ROW] < 0 or a32[at + N[v, N_LEAF_ROW]] >= 0:
                there = record(T, group, np.int64(a32[at + N[v, N_GID]]))
                prefetch(a64, there)
                prefetch(a64, there + (T[group, T_REFS] >> 1))


@bare
def release_leaf(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    t: Int,
    touched: Halves,
    old: Words,
    new: Words,
    n: Int,
    trees: Trees,
) -> None:
    """Base rows that a batch took away leave the tree; runs after `propagate`."""
    own = N[v, N_TABLE]
    for i in range(n):
        if i % AHEAD == 0 and own == t:
            _ask_for_own_groups(a64, a32, T, N, v, touched, old, new, i, min(i + AHEAD, n))
        if old[i] == 0 or new[i] != 0:
            continue
        row = np.int64(touched[i])
        if N[v, N_LEAF_ROW] >= 0:
            row = np.int64(a32[2 * record(T, t, row) + N[v, N_LEAF_ROW]])
            if row < 0:
                continue
        at = 2 * record(T, own, row)
        g = np.int64(a32[at + N[v, N_GID]])
        if own != t:
            a32[at + T[own, T_REFS]] -= 1
            if a32[at + T[own, T_REFS]] > 0:
                continue
            remove(a64, T, own, row)
        leave_group(a64, a32, T, N, lists, trees, v, g)
