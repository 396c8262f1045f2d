"""Groups: which row of a node belongs to which row or group above it.

A row of node v belongs to the group of v's rows that agree on the variables shared with the parent.
For a guard the group is a row of the parent; otherwise it is a row of v's own group table, and the
parent's rows that read it are linked to it, or, if they read a range of its rows, stand in a counted tree (`ranges`).
A row of an inner node lives while rows of its guards
belong to it; a group lives while rows belong to it or read it. Live or not, a row keeps its place.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CHANGED,
    N_CHILDREN,
    N_DEGREE,
    N_END,
    N_FRESH,
    N_GID,
    N_GROUP,
    N_GUARD,
    N_HEAD,
    N_KEY,
    N_NOTE,
    N_NOTED,
    N_OLD,
    N_OUTPUT,
    N_PARENT,
    N_PENDING,
    N_PROJECT,
    N_READERS,
    N_ROOT,
    N_RROOT,
    N_SUM,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_VALUE,
    N_VGID,
    N_VHEAD,
    N_VNEXT,
    N_VPREV,
    N_VPROJECT,
    N_WIDTH,
    T_REFS,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.order_statistic_blocks import NONE
from dynq_cli.engine.kernels.order_statistic_tree import delete
from dynq_cli.engine.kernels.table import find_or_insert_tagged, record, remove, tag_of


@bare(inline="always")
def link(a32: Halves, T: Words, t: Int, row: Int, head_at: Int, following: Int, previous: Int) -> None:
    """Put a row of table t in front of the list whose head stands at `head_at`."""
    at = 2 * record(T, t, row)
    head = np.int64(a32[head_at])
    a32[at + following] = head
    a32[at + previous] = -1
    if head >= 0:
        a32[2 * record(T, t, head) + previous] = row
    a32[head_at] = row


@bare(inline="always")
def unlink(a32: Halves, T: Words, t: Int, row: Int, head_at: Int, following: Int, previous: Int) -> None:
    """Take a row of table t out of the list whose head stands at `head_at`."""
    at = 2 * record(T, t, row)
    after, before = np.int64(a32[at + following]), np.int64(a32[at + previous])
    if after >= 0:
        a32[2 * record(T, t, after) + previous] = before
    if before >= 0:
        a32[2 * record(T, t, before) + following] = after
    else:
        a32[head_at] = after


@bare(inline="always")
def _start_group(a64: Words, a32: Halves, N: Words, v: Int, at: Int) -> None:
    """A group of v's rows, whose record is at `at`, begins empty."""
    for i in range(N[v, N_WIDTH]):
        a64[at + N[v, N_SUM] + i] = 0
    if N[v, N_OUTPUT]:
        a32[2 * at + N[v, N_HEAD]] = -1
    if N[v, N_TREE] >= 0:
        a32[2 * at + N[v, N_ROOT]] = -1


@bare
def _own_group(a64: Words, a32: Halves, T: Words, N: Words, v: Int, key: Words, tag: Int) -> Int:
    """The row of v's own group table for a key, made if need be, with one more reference."""
    t = N[v, N_GROUP]
    g, is_new = find_or_insert_tagged(a64, a32, T, t, key, tag)
    at = record(T, t, g)
    if is_new:
        _start_group(a64, a32, N, v, at)
        if N[v, N_READERS] >= 0:
            a32[2 * at + N[v, N_RROOT]] = NONE
        else:
            a32[2 * at + N[v, N_VHEAD]] = -1
    a32[2 * at + T[t, T_REFS]] += 1
    return g


@bare
def start_row(a64: Words, a32: Halves, T: Words, N: Words, lists: Words, n: Int, row: Int, key: Words) -> None:
    """A row of inner node n begins dead, with empty groups, reading the groups of its other children.

    What it reads of a range is found when all rows of the commit have come.
    """
    t = N[n, N_TABLE]
    at = record(T, t, row)
    for i in range(N[n, N_WIDTH]):
        a64[at + N[n, N_VALUE] + i] = 0
    for k in range(N[n, N_DEGREE]):
        c = lists[N[n, N_CHILDREN] + k]
        if N[c, N_GUARD]:
            _start_group(a64, a32, N, c, at)
            continue
        for j in range(N[c, N_KEY]):
            key[j] = a64[at + lists[N[c, N_VPROJECT] + j]]
        g = _own_group(a64, a32, T, N, c, key, tag_of(key, N[c, N_KEY]))
        a32[2 * at + N[c, N_VGID]] = g
        group_at = 2 * record(T, N[c, N_GROUP], g)
        if N[c, N_READERS] >= 0:
            for i in range(N[c, N_WIDTH]):
                a64[at + N[c, N_TOTAL] + i] = 0
            a32[2 * at + N[c, N_BEGIN]], a32[2 * at + N[c, N_END]] = -1, N[c, N_FRESH]
            N[c, N_FRESH] = row
            N[c, N_PENDING] += 1
        else:
            link(a32, T, t, row, group_at + N[c, N_VHEAD], N[c, N_VNEXT], N[c, N_VPREV])


@bare
def join_group(
    a64: Words, a32: Halves, T: Words, N: Words, lists: Words, v: Int, row: Int, key: Words, tag: Int
) -> None:
    """Give a new row of v its group, making the rows above that it needs; `tag` is that of the group's key, or -1."""
    while True:
        at = record(T, N[v, N_TABLE], row)
        if N[v, N_OLD] >= 0:
            a32[2 * at + N[v, N_CHANGED]] = 0
        if N[v, N_NOTE] >= 0:
            a32[2 * at + N[v, N_NOTED]] = 0
            for i in range(N[v, N_WIDTH] if N[v, N_DEGREE] > 0 else 1):
                a64[at + N[v, N_NOTE] + i] = 0
        for j in range(N[v, N_KEY]):
            key[j] = a64[at + lists[N[v, N_PROJECT] + j]]
        if tag < 0:
            tag = tag_of(key, N[v, N_KEY])
        if not N[v, N_GUARD]:
            a32[2 * at + N[v, N_GID]] = _own_group(a64, a32, T, N, v, key, tag)
            return
        t, parent = N[v, N_GROUP], N[v, N_PARENT]
        g, is_new = find_or_insert_tagged(a64, a32, T, t, key, tag)
        if is_new:
            start_row(a64, a32, T, N, lists, parent, g, key)
        a32[2 * record(T, t, g) + T[t, T_REFS]] += 1
        a32[2 * at + N[v, N_GID]] = g
        if not is_new:
            return
        v, row, tag = parent, g, np.int64(-1)


@bare
def leave_group(a64: Words, a32: Halves, T: Words, N: Words, lists: Words, trees: Trees, v: Int, g: Int) -> None:
    """A row of v that was in group g is gone: free what nothing refers to any more."""
    while True:
        t = N[v, N_GROUP]
        at = record(T, t, g)
        a32[2 * at + T[t, T_REFS]] -= 1
        if a32[2 * at + T[t, T_REFS]] > 0:
            return
        if not N[v, N_GUARD]:
            remove(a64, T, t, g)
            return
        n = N[v, N_PARENT]
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            if not N[c, N_GUARD]:
                _stop_reading(a64, a32, T, N, trees, c, g)
        up = np.int64(a32[2 * at + N[n, N_GID]])
        remove(a64, T, t, g)
        v, g = n, up


@bare
def _stop_reading(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, c: Int, row: Int) -> None:
    """A row of c's parent no longer reads its group."""
    above, t = N[N[c, N_PARENT], N_TABLE], N[c, N_GROUP]
    g = np.int64(a32[2 * record(T, above, row) + N[c, N_VGID]])
    at = 2 * record(T, t, g)
    if N[c, N_READERS] >= 0:
        C, labels, work = trees.C, trees.labels, trees.work
        delete(a64, a32, T, C, N[c, N_READERS], labels, work, at + N[c, N_RROOT], row)
    else:
        unlink(a32, T, above, row, at + N[c, N_VHEAD], N[c, N_VNEXT], N[c, N_VPREV])
    a32[at + T[t, T_REFS]] -= 1
    if a32[at + T[t, T_REFS]] == 0:
        remove(a64, T, t, g)
