"""Updating view trees: leaves take over what happened to base rows, then nodes recompute bottom-up.

For a row t of node n, value(n, t) = Π over children c of sum(c, t). A changed value moves the sum of
its group and touches the group: the row of the parent that the group is, or every row of the parent
that reads it. Rows are recomputed, not shifted, so simultaneous changes of several atoms and
self-joins need no special case. A value that stays the same touches nothing.

Payload lanes come in pairs (lo, hi). Column 0 is the multiplicity and alone decides whether a row is
live; column 1, where there is one, counts distinct results: 1 at a live frontier row, products of sums
above it.

A row of an inner node lives while rows of its guards refer to it; live or not, it keeps its place.
The lists that enumeration walks hold live rows only.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import (
    N_CHILDREN,
    N_CLAMP,
    N_DEGREE,
    N_FILTER,
    N_FRONTIER,
    N_GID,
    N_GROUP,
    N_GUARD,
    N_HEAD,
    N_KEY,
    N_LEAF_ROW,
    N_NEXT,
    N_OUTPUT,
    N_PARENT,
    N_PREV,
    N_PROJECT,
    N_SOURCE,
    N_SUM,
    N_TABLE,
    N_VALUE,
    N_VGID,
    N_VHEAD,
    N_VNEXT,
    N_VPREV,
    N_VPROJECT,
    N_WIDTH,
    OK,
    OVERFLOW,
    T_ARITY,
    T_KEYS,
    T_MULT,
    T_REFS,
)
from dynq_cli.engine.kernels.table import dequeue, enqueue, find, insert, remove
from dynq_cli.engine.kernels.wide import multiply, replace


@kernel
def _group_started(a64, a32, N, v, g):  # type: ignore[no-untyped-def]
    """A group of v's rows begins empty."""
    width = N[v, N_WIDTH]
    at = N[v, N_SUM] + g * width
    for i in range(width):
        a64[at + i] = 0
    if N[v, N_OUTPUT]:
        a32[N[v, N_HEAD] + g] = -1


@kernel
def _find_group(a64, a32, T, N, v, key):  # type: ignore[no-untyped-def]
    """The row of v's own group table for a key, made if need be, with one more reference."""
    t = N[v, N_GROUP]
    g = find(a64, T, t, key)
    if g < 0:
        g = insert(a64, a32, T, t, key)
        _group_started(a64, a32, N, v, g)
        a32[N[v, N_VHEAD] + g] = -1
    a32[T[t, T_REFS] + g] += 1
    return g


@kernel
def _row_started(a64, a32, T, N, lists, n, row, key):  # type: ignore[no-untyped-def]
    """A row of inner node n begins dead, with empty groups, reading the groups of its other children."""
    width = N[n, N_WIDTH]
    for i in range(width):
        a64[N[n, N_VALUE] + row * width + i] = 0
    at = T[N[n, N_TABLE], T_KEYS] + row * T[N[n, N_TABLE], T_ARITY]
    for k in range(N[n, N_DEGREE]):
        c = lists[N[n, N_CHILDREN] + k]
        if N[c, N_GUARD]:
            _group_started(a64, a32, N, c, row)
            continue
        for j in range(N[c, N_KEY]):
            key[j] = a64[at + lists[N[c, N_VPROJECT] + j]]
        g = _find_group(a64, a32, T, N, c, key)
        head = a32[N[c, N_VHEAD] + g]
        a32[N[c, N_VGID] + row] = g
        a32[N[c, N_VNEXT] + row] = head
        a32[N[c, N_VPREV] + row] = -1
        if head >= 0:
            a32[N[c, N_VPREV] + head] = row
        a32[N[c, N_VHEAD] + g] = row


@kernel
def join_group(a64, a32, T, N, lists, v, row, key):  # type: ignore[no-untyped-def]
    """Give a new row of v its group, making the rows above that it needs."""
    while True:
        t = N[v, N_TABLE]
        at = T[t, T_KEYS] + row * T[t, T_ARITY]
        _join_group_at(a64, a32, T, N, lists, v, row, at, key)
        g = a32[N[v, N_GID] + row]
        parent = N[v, N_PARENT]
        if not N[v, N_GUARD] or a32[T[N[v, N_GROUP], T_REFS] + g] > 1 or N[parent, N_PARENT] < 0:
            return
        v, row = parent, np.int64(g)


@kernel
def _join_group_at(a64, a32, T, N, lists, v, row, at, key):  # type: ignore[no-untyped-def]
    """One level of `join_group`: v's key starts at `at` of a64."""
    for j in range(N[v, N_KEY]):
        key[j] = a64[at + lists[N[v, N_PROJECT] + j]]
    if N[v, N_GUARD]:
        group = N[v, N_GROUP]
        g = find(a64, T, group, key)
        if g < 0:
            g = insert(a64, a32, T, group, key)
            _row_started(a64, a32, T, N, lists, N[v, N_PARENT], g, key)
        a32[T[group, T_REFS] + g] += 1
    else:
        g = _find_group(a64, a32, T, N, v, key)
    a32[N[v, N_GID] + row] = g


@kernel
def leave_group(a64, a32, T, N, lists, v, g):  # type: ignore[no-untyped-def]
    """A row of v that was in group g is gone: free what nothing refers to any more."""
    while True:
        t = N[v, N_GROUP]
        a32[T[t, T_REFS] + g] -= 1
        if a32[T[t, T_REFS] + g] > 0:
            return
        if not N[v, N_GUARD]:
            remove(a64, T, t, g)
            return
        n = N[v, N_PARENT]
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            if not N[c, N_GUARD]:
                _stop_reading(a64, a32, T, N, c, g)
        up = np.int64(a32[N[n, N_GID] + g])
        remove(a64, T, t, g)
        v, g = n, up


@kernel
def _stop_reading(a64, a32, T, N, c, row):  # type: ignore[no-untyped-def]
    """The parent's row no longer reads its group of child c."""
    g = a32[N[c, N_VGID] + row]
    following, previous = a32[N[c, N_VNEXT] + row], a32[N[c, N_VPREV] + row]
    if following >= 0:
        a32[N[c, N_VPREV] + following] = previous
    if previous >= 0:
        a32[N[c, N_VNEXT] + previous] = following
    else:
        a32[N[c, N_VHEAD] + g] = following
    t = N[c, N_GROUP]
    a32[T[t, T_REFS] + g] -= 1
    if a32[T[t, T_REFS] + g] == 0:
        remove(a64, T, t, g)


@kernel
def _move(a64, a32, T, N, v, row, old, new):  # type: ignore[no-untyped-def]
    """The payload of a row went from old to new: sum, live list and queue of its group follow."""
    width = N[v, N_WIDTH]
    g = np.int64(a32[N[v, N_GID] + row])
    at = N[v, N_SUM] + g * width
    fits = True
    for i in range(0, width, 2):
        lo, hi = replace(a64[at + i], a64[at + i + 1], old[i], old[i + 1], new[i], new[i + 1])
        a64[at + i], a64[at + i + 1] = lo, hi
        fits = fits and hi >= 0
    if N[v, N_OUTPUT]:
        was, now = old[0] != 0 or old[1] != 0, new[0] != 0 or new[1] != 0
        if now and not was:
            head = a32[N[v, N_HEAD] + g]
            a32[N[v, N_NEXT] + row] = head
            a32[N[v, N_PREV] + row] = -1
            if head >= 0:
                a32[N[v, N_PREV] + head] = row
            a32[N[v, N_HEAD] + g] = row
        elif was and not now:
            following, previous = a32[N[v, N_NEXT] + row], a32[N[v, N_PREV] + row]
            if following >= 0:
                a32[N[v, N_PREV] + following] = previous
            if previous >= 0:
                a32[N[v, N_NEXT] + previous] = following
            else:
                a32[N[v, N_HEAD] + g] = following
    enqueue(a32, T, N[v, N_GROUP], g)
    return fits


@kernel
def _payload_of_leaf(N, v, many, payload):  # type: ignore[no-untyped-def]
    live = np.int64(many > 0)
    payload[0] = live if N[v, N_CLAMP] else many
    payload[1] = 0
    payload[2] = live
    payload[3] = 0


@kernel
def update_leaf(  # type: ignore[no-untyped-def]
    a64, a32, T, N, lists, v, t, touched, first, old, new, start, stop, computed, passes, key, before, after
):
    """Entries start … stop of a settled batch of base table t, for leaf v.

    `computed` and `passes` have a row per change: values that the leaf binds to expressions, and
    whether its filters hold. They are looked at for rows that come, never for rows that go.
    """
    shared = N[v, N_TABLE] == t
    keys, arity = T[t, T_KEYS], T[t, T_ARITY]
    for i in range(start, stop):
        if old[i] == new[i]:
            continue
        base = np.int64(touched[i])
        row = base
        if old[i] == 0:
            if N[v, N_FILTER] >= 0 and not passes[first[i], N[v, N_FILTER]]:
                a32[N[v, N_LEAF_ROW] + base] = -1
                continue
            if shared:
                join_group(a64, a32, T, N, lists, v, base, key)
                if N[v, N_FILTER] >= 0:
                    a32[N[v, N_LEAF_ROW] + base] = base
            else:
                row = _leaf_row(a64, a32, T, N, lists, v, keys + base * arity, computed, first[i], key)
                a32[N[v, N_LEAF_ROW] + base] = row
        elif N[v, N_LEAF_ROW] >= 0:
            row = np.int64(a32[N[v, N_LEAF_ROW] + base])
            if row < 0:
                continue
        was, now = old[i], new[i]
        if not shared:
            at = T[N[v, N_TABLE], T_MULT] + row
            was = a64[at]
            now = was + new[i] - old[i]
            a64[at] = now
        _payload_of_leaf(N, v, was, before)
        _payload_of_leaf(N, v, now, after)
        if (before[0] != after[0] or before[2] != after[2]) and not _move(a64, a32, T, N, v, row, before, after):
            return OVERFLOW
    return OK


@kernel
def _leaf_row(a64, a32, T, N, lists, v, at, computed, change, key):  # type: ignore[no-untyped-def]
    """The row of leaf v for a base row whose codes start at `at`, with one more reference."""
    t = N[v, N_TABLE]
    wanted = key[T[t, T_ARITY] :]
    for j in range(T[t, T_ARITY]):
        source = lists[N[v, N_SOURCE] + j]
        wanted[j] = a64[at + source] if source >= 0 else computed[change, -source - 1]
    row = find(a64, T, t, wanted)
    if row < 0:
        row = insert(a64, a32, T, t, wanted)
        join_group(a64, a32, T, N, lists, v, row, key)
    a32[T[t, T_REFS] + row] += 1
    return np.int64(row)


@kernel
def release_leaf(a64, a32, T, N, lists, v, t, touched, old, new, n):  # type: ignore[no-untyped-def]
    """Base rows that a batch took away leave the tree; runs after `propagate`."""
    shared = N[v, N_TABLE] == t
    for i in range(n):
        if old[i] == 0 or new[i] != 0:
            continue
        row = np.int64(touched[i])
        if N[v, N_LEAF_ROW] >= 0:
            row = np.int64(a32[N[v, N_LEAF_ROW] + row])
            if row < 0:
                continue
        if not shared:
            own = N[v, N_TABLE]
            a32[T[own, T_REFS] + row] -= 1
            if a32[T[own, T_REFS] + row] > 0:
                continue
            g = np.int64(a32[N[v, N_GID] + row])
            remove(a64, T, own, row)
        else:
            g = np.int64(a32[N[v, N_GID] + row])
        leave_group(a64, a32, T, N, lists, v, g)


@kernel
def _recompute(a64, a32, N, lists, n, row, value):  # type: ignore[no-untyped-def]
    """Π of the children's sums, column by column; False if it does not fit."""
    width = N[n, N_WIDTH]
    for p in range(0, width, 2):
        lo, hi = np.int64(1), np.int64(0)
        if p == 2 and N[n, N_FRONTIER]:
            lo = np.int64(value[0] != 0 or value[1] != 0)
        else:
            for k in range(N[n, N_DEGREE]):
                c = lists[N[n, N_CHILDREN] + k]
                g = row if N[c, N_GUARD] else np.int64(a32[N[c, N_VGID] + row])
                at = N[c, N_SUM] + g * N[c, N_WIDTH] + p
                slo, shi = a64[at], a64[at + 1]
                if slo == 0 and shi == 0:
                    lo, hi = np.int64(0), np.int64(0)
                    break
                lo, hi = multiply(lo, hi, slo, shi)
                if hi < 0:
                    return False
            if N[n, N_CLAMP] and (lo != 0 or hi != 0):
                lo, hi = np.int64(1), np.int64(0)
        value[p], value[p + 1] = lo, hi
    return True


@kernel
def propagate(a64, a32, T, N, lists, first, stop, before, after):  # type: ignore[no-untyped-def]
    """Recompute the touched rows of the nodes first … stop, which stand children before parents."""
    for n in range(first, stop):
        if N[n, N_DEGREE] == 0:
            continue
        t = N[n, N_TABLE]
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            if not N[c, N_GUARD]:
                while True:
                    g = dequeue(a32, T, N[c, N_GROUP])
                    if g < 0:
                        break
                    row = a32[N[c, N_VHEAD] + g]
                    while row >= 0:
                        enqueue(a32, T, t, row)
                        row = a32[N[c, N_VNEXT] + row]
        width = N[n, N_WIDTH]
        while True:
            row = np.int64(dequeue(a32, T, t))
            if row < 0:
                break
            if not _recompute(a64, a32, N, lists, n, row, after):
                return OVERFLOW
            at = N[n, N_VALUE] + row * width
            changed = False
            for i in range(width):
                before[i] = a64[at + i]
                changed = changed or before[i] != after[i]
                a64[at + i] = after[i]
            if changed and N[n, N_PARENT] >= 0 and not _move(a64, a32, T, N, n, row, before, after):
                return OVERFLOW
    return OK
