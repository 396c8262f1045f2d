"""Commits of one relation, one after the other, in one call: the whole path from changes to roots.

Small commits cost what they touch, not what calling kernels from Python costs. The caller has made room
in every table for all changes of the call.
"""

import numpy as np

from dynq_cli.engine.kernels.base import forget, resolve
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import NO_ROOM, OK, Bytes, Flags, Halves, Int, Trees, Words
from dynq_cli.engine.kernels.release import release_leaf
from dynq_cli.engine.kernels.update import propagate, update_leaf


@bare
def run_commits(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    t: Int,
    leaves: Words,
    trees: Words,
    codes: Words,
    ops: Bytes,
    counts: Words,
    computed: Words,
    passes: Flags,
    start: Int,
    ends: Words,
    touched: Halves,
    first: Halves,
    last: Halves,
    delta: Words,
    old: Words,
    new: Words,
    key: Words,
    before: Words,
    after: Words,
    ahead: Words,
    may_miss: Int,
    order: Trees,
) -> tuple[Int, Int, Int, Int]:
    """Commits that end at the changes `ends`, the first starting at `start`.

    Returns (OK, -1, number of commits, deletes skipped), or what is wrong, the change at fault, and how many
    commits hold: the one at fault has changed nothing, unless a count overflowed. With NO_ROOM the commit after these
    is on its way through the trees, and the number of base rows it touches is returned instead of a change.
    """
    skipped = np.int64(0)
    for done in range(len(ends)):
        reason, at, n, missed = resolve(
            a64,
            a32,
            T,
            t,
            codes,
            ops,
            counts,
            start,
            ends[done],
            touched,
            delta,
            first,
            last,
            old,
            new,
            ahead,
            may_miss,
        )
        if reason != OK:
            return reason, at, done, skipped
        skipped += missed
        for v in leaves:
            reason = update_leaf(
                a64,
                a32,
                T,
                N,
                lists,
                v,
                t,
                touched,
                first,
                old,
                new,
                np.int64(0),
                n,
                computed,
                passes,
                key,
                before,
                after,
                ahead,
                order,
            )
            if reason != OK:
                return reason, start, done, skipped
        for k in range(0, len(trees), 2):
            reason = propagate(a64, a32, T, N, lists, trees[k], trees[k + 1], before, after, order)
            if reason == NO_ROOM:
                return reason, n, done, skipped
            if reason != OK:
                return reason, start, done, skipped
        release(a64, a32, T, N, lists, t, leaves, touched, old, new, n, order)
        start = ends[done]
    return OK, np.int64(-1), len(ends), skipped


@bare
def update_tree(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    t: Int,
    leaves: Words,
    first_node: Int,
    stop_node: Int,
    touched: Halves,
    first: Halves,
    old: Words,
    new: Words,
    n: Int,
    computed: Words,
    passes: Flags,
    key: Words,
    before: Words,
    after: Words,
    ahead: Words,
    order: Trees,
) -> Int:
    """A tree takes over a settled batch of base table t, on which it has these leaves. NO_ROOM as in `propagate`."""
    for v in leaves:
        reason = update_leaf(
            a64,
            a32,
            T,
            N,
            lists,
            v,
            t,
            touched,
            first,
            old,
            new,
            np.int64(0),
            n,
            computed,
            passes,
            key,
            before,
            after,
            ahead,
            order,
        )
        if reason != OK:
            return reason
    return propagate(a64, a32, T, N, lists, first_node, stop_node, before, after, order)


@bare
def release(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    t: Int,
    leaves: Words,
    touched: Halves,
    old: Words,
    new: Words,
    n: Int,
    order: Trees,
) -> None:
    """Base rows that a commit took away leave all trees, and are freed."""
    for v in leaves:
        release_leaf(a64, a32, T, N, lists, v, t, touched, old, new, n, order)
    forget(a64, T, t, touched, new, n)
