"""Marking the part of a result that has changed, on one side: as it was, or as it is.

Rows of the frontier are *dirty* if they are live on this side and have another payload, or none, on the other. A
result row has changed only if a row of the frontier in it is dirty; `dirty_walk` gives those combinations and no
others, each once.

Within a commit (see `delta_log`) both sides are in one arena: the lists are those of the side that is read, and
`multiplicity` gives the multiplicities of the side that nodes are put on.

- `climb_from`, and `dirty_ranges` where ranges share rows, mark the rows above dirty ones: a row is *dirty below* if
  a combination below it has a dirty row. Each group lists the rows in it that are.
- `judge` finds the rows without a *clean* combination below them: one in which no row is dirty.
- `ask` finds the groups whose clean rows the walk will go through, and `list_clean` lists them past unclean ones.

All marks lie in side arrays of zeros, by row or by group of each level, so that untouched rows cost nothing: links
are a row + 1, or 0. The marked rows of a level stand in an array, too, in the order in which they were marked: entry k
of `links` has number k of the queue in its second column. Work is that of the marks and of the rows that come out.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_END,
    N_GID,
    N_GROUP,
    N_GUARD,
    N_LISTS,
    N_NEXT,
    N_OWN,
    N_READERS,
    N_TABLE,
    N_VALUE,
    N_VGID,
    N_VHEAD,
    N_VNEXT,
    Bytes,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.multiplicity import value_of
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record

# Marks of a row, and of a group.
IS_DIRTY, NO_CLEAN = 1, 2
WITHOUT, WITH, ASKED = 1, 2, 4
ANY, CLEAN, DIRTY = 0, 1, 2
# Per level: where its marks by row and by group start, the level above, whether it is of the frontier, its first
# child in `below`, how many of its rows are dirty below, the first group that was asked for, how many rows became
# fewer and how many more.
(
    L_NODE,
    L_ROWS,
    L_GROUPS,
    L_ABOVE,
    L_FRONTIER,
    L_BELOW,
    L_MANY,
    L_QUEUE,
    L_ASKED,
    L_FEWER,
    L_MORE,
    L_FIELDS,
) = range(12)
NEXT, QUEUED, LINKS = range(3)


@bare
def is_live(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int) -> Int:
    """Whether a row of node v is in the result of its subtree, on the side that the node is on."""
    lo, hi = value_of(a64, a32, T, N, v, row)
    return lo != 0 or hi != 0


@bare(inline="always")
def group_of(a32: Halves, T: Words, N: Words, v: Int, row: Int) -> Int:
    """The group that a row of node v is in."""
    return np.int64(a32[2 * record(T, N[v, N_TABLE], row) + N[v, N_GID]])


@bare(inline="always")
def group_below(a32: Halves, T: Words, N: Words, c: Int, t: Int, row: Int) -> Int:
    """The group of child c that a row of the parent, whose table is t, reads; of a range, the row itself."""
    if N[c, N_OWN]:
        return row
    return np.int64(a32[2 * record(T, t, row) + N[c, N_VGID]])


@bare
def is_reached(a64: Words, a32: Halves, T: Words, N: Words, L: Words, level: Int, row: Int) -> Int:
    """Whether the rows that a row guards, one above the other, are all live; if not, it is in no combination."""
    while True:
        v, up = L[level, L_NODE], L[level, L_ABOVE]
        if up < 0 or not N[v, N_GUARD]:
            return True
        row = group_of(a32, T, N, v, row)
        if not is_live(a64, a32, T, N, L[up, L_NODE], row):
            return False
        level = up


@bare
def mark(
    a32: Halves, T: Words, N: Words, L: Words, level: Int, row: Int, marks: Bytes, links: Halves, heads: Halves
) -> None:
    """A row is dirty below: it joins the list of its group, and the queue of its level."""
    at = L[level, L_ROWS] + row
    if marks[at] & IS_DIRTY:
        return
    marks[at] |= IS_DIRTY
    # Rows that ranges share are listed later, in order.
    if N[L[level, L_NODE], N_READERS] < 0:
        g = L[level, L_GROUPS] + group_of(a32, T, N, L[level, L_NODE], row)
        links[at, NEXT] = heads[g, 0]
        heads[g, 0] = row + 1
    links[L[level, L_ROWS] + L[level, L_QUEUE], QUEUED] = row
    L[level, L_QUEUE] += 1


@bare(inline="always")
def queued(L: Words, level: Int, links: Halves, k: Int) -> Int:
    """The row of a level that was marked as number k."""
    return np.int64(links[L[level, L_ROWS] + k, QUEUED])


@bare
def ask_for_groups(
    a32: Halves, T: Words, N: Words, L: Words, below: Words, level: Int, links: Halves, heads: Halves, k: Int
) -> None:
    """Ask for the marks of the groups that row number k of a queue, and those marked just before it, are in or read."""
    v, first = L[level, L_NODE], max(k - AHEAD + 1, 0)
    t = N[v, N_TABLE]
    for c in range(L[level, L_MANY]):
        place = max(N[L[below[L[level, L_BELOW] + c], L_NODE], N_VGID], np.int64(0))
        for i in range(first, k + 1):
            prefetch(a32, 2 * record(T, t, queued(L, level, links, i)) + place)
    for i in range(first, k + 1):
        row = queued(L, level, links, i)
        prefetch(links, L[level, L_ROWS] + row)
        if N[v, N_READERS] < 0:
            prefetch(heads, L[level, L_GROUPS] + group_of(a32, T, N, v, row))
        for c in range(L[level, L_MANY]):
            child = below[L[level, L_BELOW] + c]
            prefetch(heads, L[child, L_GROUPS] + group_below(a32, T, N, L[child, L_NODE], t, row))


@bare
def start(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    rows: Words,
    marks: Bytes,
    links: Halves,
    heads: Halves,
) -> None:
    """Mark rows of a level of the frontier, as far as they are live on this side."""
    for row in rows:
        if is_live(a64, a32, T, N, L[level, L_NODE], row):
            mark(a32, T, N, L, level, row, marks, links, heads)


@bare
def climb_from(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    work: Words,
) -> None:
    """Mark the rows above marked ones of a level that is no range, if they are live and reached; levels below are."""
    up = L[level, L_ABOVE]
    if up < 0:
        return
    if N[L[level, L_NODE], N_GUARD]:
        _climb_to_own(a64, a32, T, N, L, level, marks, links, heads, work)
    else:
        _climb_to_readers(a64, a32, T, N, L, level, marks, links, heads, work)


@bare(inline="always")
def _mark_above(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    up: Int,
    row: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
) -> None:
    if is_live(a64, a32, T, N, L[up, L_NODE], row) and is_reached(a64, a32, T, N, L, up, row):
        mark(a32, T, N, L, up, row, marks, links, heads)


@bare
def _climb_to_own(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    work: Words,
) -> None:
    """From the rows of a guard to the rows that they belong to."""
    up, v = L[level, L_ABOVE], L[level, L_NODE]
    t, value = N[L[up, L_NODE], N_TABLE], N[L[up, L_NODE], N_VALUE]
    left = L[level, L_QUEUE]
    while left > 0:
        many = min(left, np.int64(AHEAD))
        for k in range(many):
            work[k] = group_of(a32, T, N, v, queued(L, level, links, left - 1 - k))
            prefetch(a64, record(T, t, work[k]) + value)
        left -= many
        for k in range(many):
            _mark_above(a64, a32, T, N, L, up, work[k], marks, links, heads)


@bare
def _climb_to_readers(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    work: Words,
) -> None:
    """From the rows of a child that is no guard to all that read their groups, those of several groups in turn."""
    up, v = L[level, L_ABOVE], L[level, L_NODE]
    t, value = N[L[up, L_NODE], N_TABLE], N[L[up, L_NODE], N_VALUE]
    more, many = L[level, L_QUEUE], 0
    while True:
        while more > 0 and many < AHEAD:
            more -= 1
            g = group_of(a32, T, N, v, queued(L, level, links, more))
            reader = np.int64(a32[2 * record(T, N[v, N_GROUP], g) + N[v, N_VHEAD]])
            if reader >= 0:
                prefetch(a64, record(T, t, reader) + value)
                prefetch(a64, record(T, t, reader) + (N[v, N_VNEXT] >> 1))
                work[many] = reader
                many += 1
        if many == 0:
            return
        left = 0
        for k in range(many):
            _mark_above(a64, a32, T, N, L, up, work[k], marks, links, heads)
            reader = np.int64(a32[2 * record(T, t, work[k]) + N[v, N_VNEXT]])
            if reader >= 0:
                prefetch(a64, record(T, t, reader) + value)
                prefetch(a64, record(T, t, reader) + (N[v, N_VNEXT] >> 1))
                work[left] = reader
                left += 1
        many = left


@bare
def first_of(a32: Halves, T: Words, N: Words, v: Int, g: Int) -> Int:
    """The first row of a list of node v."""
    return np.int64(a32[2 * record(T, N[v, N_LISTS], g) + N[v, N_BEGIN]])


@bare
def next_of(a32: Halves, T: Words, N: Words, v: Int, g: Int, row: Int) -> Int:
    """The row behind another in a list of node v, or -1."""
    if N[v, N_END] >= 0 and a32[2 * record(T, N[v, N_LISTS], g) + N[v, N_END]] == row:
        return np.int64(-1)
    return np.int64(a32[2 * record(T, N[v, N_TABLE], row) + N[v, N_NEXT]])


@bare
def _count_unclean(L: Words, child: Int, g: Int, marks: Bytes, links: Halves, heads: Halves) -> None:
    """Count the dirty rows of a range that have no clean combination."""
    at, many = L[child, L_GROUPS] + g, 0
    row = np.int64(heads[at, 0]) - 1
    while row >= 0:
        place = L[child, L_ROWS] + row
        many += marks[place] & NO_CLEAN != 0
        row = np.int64(-1) if row == heads[at, 3] - 1 else np.int64(links[place, NEXT]) - 1
    heads[at, 1] = many


@bare
def has_clean(a32: Halves, T: Words, N: Words, L: Words, level: Int, g: Int, marks: Bytes, groups: Bytes) -> Int:
    """Whether a group has a row with a clean combination; remembered."""
    at = L[level, L_GROUPS] + g
    if groups[at] & (WITHOUT | WITH) == 0:
        v = L[level, L_NODE]
        row = first_of(a32, T, N, v, g)
        while row >= 0 and marks[L[level, L_ROWS] + row] & NO_CLEAN:
            row = next_of(a32, T, N, v, g, row)
        groups[at] |= WITH if row >= 0 else WITHOUT
    return groups[at] & WITH != 0


@bare
def judge(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    below: Words,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    groups: Bytes,
) -> None:
    """Find the rows that have no clean combination, and count them by group."""
    for down in range(len(L)):
        level = len(L) - 1 - down
        v = L[level, L_NODE]
        last = L[level, L_QUEUE] - 1
        for back in range(last + 1):
            if back % AHEAD == 0:
                ask_for_groups(a32, T, N, L, below, level, links, heads, last - back)
            row = queued(L, level, links, last - back)
            unclean = L[level, L_FRONTIER] != 0
            for k in range(L[level, L_MANY]):
                child = below[L[level, L_BELOW] + k]
                g = group_below(a32, T, N, L[child, L_NODE], N[v, N_TABLE], row)
                if N[L[child, L_NODE], N_READERS] >= 0:
                    _count_unclean(L, child, g, marks, links, heads)
                if heads[L[child, L_GROUPS] + g, 1] > 0 and not has_clean(a32, T, N, L, child, g, marks, groups):
                    unclean = True
            if unclean:
                marks[L[level, L_ROWS] + row] |= NO_CLEAN
                if N[v, N_READERS] < 0:
                    heads[L[level, L_GROUPS] + group_of(a32, T, N, v, row), 1] += 1


@bare
def _ask(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    child: Int,
    g: Int,
    marks: Bytes,
    heads: Halves,
    groups: Bytes,
) -> Int:
    """The clean rows of a group are wanted: how many have to be listed, since it has unclean ones, too."""
    at = L[child, L_GROUPS] + g
    if groups[at] & ASKED:
        return np.int64(0)
    groups[at] |= ASKED
    if heads[at, 1] == 0 or not has_clean(a32, T, N, L, child, g, marks, groups):
        return np.int64(0)
    if N[L[child, L_NODE], N_READERS] >= 0:
        return np.int64(0)
    heads[at, 2] = L[child, L_ASKED]
    L[child, L_ASKED] = g + 1
    v = L[child, L_NODE]
    many = np.int64(0)
    row = first_of(a32, T, N, v, g)
    while row >= 0:
        many += marks[L[child, L_ROWS] + row] & NO_CLEAN == 0
        row = next_of(a32, T, N, v, g, row)
    return many


@bare
def ask(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    below: Words,
    root: Int,
    roots: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    groups: Bytes,
) -> Int:
    """Mark the groups whose clean rows have to be listed; how many rows that are.

    `root` is the root node, whose one row is 0, `roots` how many children it has, first in `below`.
    """
    many = np.int64(0)
    for level in range(-1, len(L)):
        first = L[level, L_BELOW] if level >= 0 else np.int64(0)
        children = L[level, L_MANY] if level >= 0 else roots
        t = N[L[level, L_NODE], N_TABLE] if level >= 0 else N[root, N_TABLE]
        rows = L[level, L_QUEUE] if level >= 0 else np.int64(1)
        for back in range(rows):
            if level >= 0 and back % AHEAD == 0:
                ask_for_groups(a32, T, N, L, below, level, links, heads, rows - 1 - back)
            row = queued(L, level, links, rows - 1 - back) if level >= 0 else np.int64(0)
            last: Int = np.int64(-1)
            for k in range(children):
                child = below[first + k]
                if heads[L[child, L_GROUPS] + group_below(a32, T, N, L[child, L_NODE], t, row), 0] > 0:
                    last = k
            if level >= 0 and marks[L[level, L_ROWS] + row] & NO_CLEAN == 0:
                # Which ranges ask for a row is not known here; that one might is reason enough.
                is_asked = N[L[level, L_NODE], N_READERS] >= 0
                if not is_asked:
                    own = L[level, L_GROUPS] + group_of(a32, T, N, L[level, L_NODE], row)
                    is_asked = groups[own] & ASKED != 0
                if is_asked:
                    last = children
            for k in range(min(last, children)):
                child = below[first + k]
                g = group_below(a32, T, N, L[child, L_NODE], t, row)
                many += _ask(a32, T, N, L, child, g, marks, heads, groups)
    return many


@bare
def list_clean(
    a32: Halves, T: Words, N: Words, L: Words, marks: Bytes, heads: Halves, lists: Words, ends: Words
) -> None:
    """List the clean rows of each group that was asked for: `lists` from `ends` of the one before.

    From here on heads[group, 2] is the place of the group's list + 1.
    """
    filled = n = 0
    for level in range(len(L)):
        v = L[level, L_NODE]
        asked = L[level, L_ASKED]
        while asked > 0:
            g = asked - 1
            at = L[level, L_GROUPS] + g
            asked = np.int64(heads[at, 2])
            row = first_of(a32, T, N, v, g)
            while row >= 0:
                if marks[L[level, L_ROWS] + row] & NO_CLEAN == 0:
                    lists[filled] = row
                    filled += 1
                row = next_of(a32, T, N, v, g, row)
            ends[n] = filled
            n += 1
            heads[at, 2] = n
