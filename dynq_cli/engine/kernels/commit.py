"""Commits of one relation, one after the other, in one call: the whole path from changes to roots.

Small commits cost what they touch, not what calling kernels from Python costs. The caller has made room
in every table for all changes of the call.
"""

import numpy as np

from dynq_cli.engine.kernels.base import forget, resolve
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import NO_ROOM, OK, Batch, DeltaEntries, Int, Scratch, Store, Words
from dynq_cli.engine.kernels.release import release_leaf
from dynq_cli.engine.kernels.update import propagate, update_leaf


@kernel
def run_commits(
    store: Store,
    t: Int,
    leaves: Words,
    trees: Words,
    batch: Batch,
    start: Int,
    ends: Words,
    delta: DeltaEntries,
    scratch: Scratch,
    may_miss: Int,
) -> tuple[Int, Int, Int, Int]:
    """Commits that end at the changes `ends`, the first starting at `start`.

    Returns (OK, -1, number of commits, deletes skipped), or what is wrong, the change at fault, and how many
    commits hold: the one at fault has changed nothing, unless a count overflowed. With NO_ROOM the commit after these
    is on its way through the trees, and the number of base rows it touches is returned instead of a change.
    """
    skipped = np.int64(0)
    for done in range(len(ends)):
        reason, at, n, missed = resolve(store, t, batch, start, ends[done], delta, scratch, may_miss)
        if reason != OK:
            return reason, at, done, skipped
        skipped += missed
        for v in leaves:
            reason = update_leaf(store, v, t, delta, np.int64(0), n, batch, scratch)
            if reason != OK:
                return reason, start, done, skipped
        for k in range(0, len(trees), 2):
            reason = propagate(store, trees[k], trees[k + 1], scratch)
            if reason == NO_ROOM:
                return reason, n, done, skipped
            if reason != OK:
                return reason, start, done, skipped
        release(store, t, leaves, delta, n)
        start = ends[done]
    return OK, np.int64(-1), len(ends), skipped


@kernel
def update_tree(
    store: Store,
    t: Int,
    leaves: Words,
    first_node: Int,
    stop_node: Int,
    delta: DeltaEntries,
    n: Int,
    batch: Batch,
    scratch: Scratch,
) -> Int:
    """A tree takes over a settled batch of base table t, on which it has these leaves. NO_ROOM as in `propagate`."""
    for v in leaves:
        reason = update_leaf(store, v, t, delta, np.int64(0), n, batch, scratch)
        if reason != OK:
            return reason
    return propagate(store, first_node, stop_node, scratch)


@kernel
def release(store: Store, t: Int, leaves: Words, delta: DeltaEntries, n: Int) -> None:
    """Base rows that a commit took away leave all trees, and are freed."""
    for v in leaves:
        release_leaf(store, v, t, delta, n)
    forget(store, t, delta, n)
