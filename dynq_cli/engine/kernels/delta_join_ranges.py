"""What came and went in the result of a tree, within the commit that changes it; `delta_log` has the rows that did.

`fill` fills blocks from both sides, the old one first, a call per block. On each side:

    _begin   put the tree on it, and mark what has fewer copies on the other
    _read    go through the combinations that have a marked row, with what they have more
    _clean   take the marks back, so that the next commit finds zeros and pays for none that it does not touch

The marks are those of `dirty`, and stand in arrays that stay from commit to commit.
"""

import numpy as np

from dynq_cli.engine.kernels.delta_log import forget, in_turn, many_changed, relink, take_changed
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import (
    L_ASKED,
    L_BELOW,
    L_FRONTIER,
    L_GROUPS,
    L_MANY,
    L_NODE,
    L_QUEUE,
    L_ROWS,
    NEXT,
    ask,
    ask_for_groups,
    group_below,
    group_of,
    is_reached,
    judge,
    list_clean,
    mark,
    queued,
)
from dynq_cli.engine.kernels.dirty_ranges import climb
from dynq_cli.engine.kernels.dirty_walk import expand, walk
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import (
    BEFORE,
    LEAST,
    N_READERS,
    N_SIDE,
    N_TABLE,
    NOW,
    Bytes,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.multiplicity import value_on
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.table import record

# Of the state of `fill`: 0 and 1 are the old side, not begun and begun, 2 and 3 the new one; how many rows have to be
# listed; whether the walk has started.
PHASE, LISTED, STARTED, STATE = range(4)
DONE = 4


@bare
def _start(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    marks: Bytes,
    changed: Halves,
    links: Halves,
    heads: Halves,
    rows: Words,
) -> None:
    """Mark the rows of a level of the frontier that have fewer copies on the other side, of those that changed.

    Most of them may be in no combination at all: where few rows of another relation pass a filter.
    """
    is_old = N[L[level, L_NODE], N_SIDE] == BEFORE
    for first in range(0, many_changed(L, level, is_old), AHEAD):
        many = take_changed(a64, a32, T, N, L, level, changed, is_old, first, rows[:AHEAD])
        for k in range(many):
            if is_reached(a64, a32, T, N, L, level, rows[k]):
                mark(a32, T, N, L, level, rows[k], marks, links, heads)


@bare
def _begin(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    L: Words,
    below: Words,
    root: Int,
    roots: Int,
    marks: Bytes,
    changed: Halves,
    links: Halves,
    heads: Halves,
    groups: Bytes,
    is_old: Int,
    has_rows: Int,
    rows: Words,
) -> Int:
    """Put the tree on a side; how many clean rows `_read` has to list, or -1 if nothing is marked.

    `has_rows` says whether the result has any on this side; without, there is nothing to mark. `rows` is to work in.
    """
    if is_old:
        in_turn(a64, a32, T, N, L, changed)
    for level in range(len(L)):
        v = L[level, L_NODE]
        if not is_old:
            relink(a64, a32, T, N, L, level, changed, rows)
        N[v, N_SIDE] = BEFORE if is_old else NOW
    if not has_rows:
        return np.int64(-1)
    is_any = False
    for level in range(len(L)):
        if L[level, L_FRONTIER]:
            _start(a64, a32, T, N, L, level, marks, changed, links, heads, rows)
            is_any = is_any or L[level, L_QUEUE] > 0
    if not is_any:
        return np.int64(-1)
    climb(a64, a32, T, N, trees, L, marks, links, heads, rows)
    judge(a32, T, N, L, below, marks, links, heads, groups)
    return ask(a32, T, N, L, below, root, roots, marks, links, heads, groups)


@bare
def _more(a64: Words, a32: Halves, T: Words, N: Words, L: Words, rows: Words, i: Int) -> Int:
    """How many copies more combination i has on this side than if each row had the fewer of its two multiplicities;
    -1 if that passes 63 bits."""
    here, least, size = np.int64(1), np.int64(1), 1.0
    for level in range(len(L)):
        if L[level, L_FRONTIER]:
            v, row = L[level, L_NODE], rows[level, i]
            lo, hi = value_on(a64, a32, T, N, v, row, N[v, N_SIDE])
            if hi != 0 or lo < 0:
                return np.int64(-1)
            here *= lo
            size *= float(lo)
            least *= value_on(a64, a32, T, N, v, row, LEAST)[0]
    return np.int64(-1) if size > LARGEST else here - least


@bare
def _read(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    below: Words,
    order: Words,
    slots: Words,
    root: Int,
    roots: Int,
    marks: Bytes,
    links: Halves,
    heads: Halves,
    groups: Bytes,
    lists: Words,
    ends: Words,
    current: Words,
    modes: Words,
    choices: Words,
    cursor: Words,
    started: Int,
    rows: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    work: Words,
) -> tuple[Int, Int]:
    """Fill `codes` and `copies`: (how many, whether more follow), or (-1, …) if a row has too many copies."""
    if not started:
        list_clean(a32, T, N, L, marks, heads, lists, ends)
    filled, runs, more = walk(
        a32,
        T,
        N,
        L,
        below,
        order,
        slots,
        root,
        roots,
        marks,
        links,
        heads,
        groups,
        lists,
        ends,
        current,
        modes,
        choices,
        cursor,
        started,
        rows,
        work,
    )
    expand(rows, filled, runs)
    for i in range(filled):
        copies[i] = _more(a64, a32, T, N, L, rows, i)
        if copies[i] < 0:
            return np.int64(-1), more
    for c in range(len(columns)):
        level, position = columns[c, 0], columns[c, 1]
        t = N[L[level, L_NODE], N_TABLE]
        for i in range(filled):
            codes[c, i] = a64[record(T, t, rows[level, i]) + position]
    return filled, more


@bare
def _clean(
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
) -> None:
    """Marks of rows and groups are zeros again. Groups are marked only where a row of theirs, or above, is."""
    for k in range(roots):
        child = below[k]
        g = L[child, L_GROUPS] + group_below(a32, T, N, L[child, L_NODE], N[root, N_TABLE], np.int64(0))
        heads[g, 0], heads[g, 1], heads[g, 2], groups[g] = 0, 0, 0, 0
    for level in range(len(L)):
        v = L[level, L_NODE]
        last = L[level, L_QUEUE] - 1
        for back in range(last + 1):
            if back % AHEAD == 0:
                ask_for_groups(a32, T, N, L, below, level, links, heads, last - back)
            row = queued(L, level, links, last - back)
            at = L[level, L_ROWS] + row
            for k in range(L[level, L_MANY]):
                child = below[L[level, L_BELOW] + k]
                g = L[child, L_GROUPS] + group_below(a32, T, N, L[child, L_NODE], N[v, N_TABLE], row)
                heads[g, 0], heads[g, 1], heads[g, 2], groups[g] = 0, 0, 0, 0
            # The marks of ranges are those of their readers, which are marked themselves.
            if N[v, N_READERS] < 0:
                g = L[level, L_GROUPS] + group_of(a32, T, N, v, row)
                heads[g, 0], heads[g, 1], heads[g, 2], groups[g] = 0, 0, 0, 0
            links[at, NEXT], marks[at] = 0, 0
        L[level, L_QUEUE], L[level, L_ASKED] = 0, 0


@bare
def _end(a32: Halves, T: Words, N: Words, L: Words, changed: Halves) -> None:
    """The commit is over for this tree: no row of it has changed."""
    for level in range(len(L)):
        forget(a32, T, N, L, level, changed)


@bare
def fill(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    L: Words,
    below: Words,
    order: Words,
    slots: Words,
    root: Int,
    roots: Int,
    marks: Bytes,
    changed: Halves,
    links: Halves,
    heads: Halves,
    groups: Bytes,
    lists: Words,
    ends: Words,
    current: Words,
    modes: Words,
    choices: Words,
    cursor: Words,
    rows: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    had_rows: Int,
    has_rows: Int,
    state: Words,
    work: Words,
) -> Int:
    """Fill `codes` and `copies` with rows that went (< 0) or came: how many, or -1 if one has too many copies.

    `columns` are level and position per row of `codes`; `rows` is to work in, as is `work`, AHEAD words per level and
    at least two times that; from `below` to `cursor` it is as for `walk`. `had_rows` and `has_rows` say whether the
    result had any row, and has one. `state` is zeros at first. After a call state[PHASE] is DONE at the end; else
    either the block is full, or `lists` and `ends` are shorter than state[LISTED].
    """
    filled, size = np.int64(0), len(copies)
    while state[PHASE] != DONE:
        is_old = state[PHASE] == 0 or state[PHASE] == 1
        if state[PHASE] == 0 or state[PHASE] == 2:
            listed = _begin(
                a64,
                a32,
                T,
                N,
                trees,
                L,
                below,
                root,
                roots,
                marks,
                changed,
                links,
                heads,
                groups,
                is_old,
                had_rows if is_old else has_rows,
                work,
            )
            state[PHASE] += 1 if listed >= 0 else 2
            state[LISTED], state[STARTED] = listed, 0
            continue
        if filled == size or state[LISTED] > len(lists):
            return filled
        many, more = _read(
            a64,
            a32,
            T,
            N,
            L,
            below,
            order,
            slots,
            root,
            roots,
            marks,
            links,
            heads,
            groups,
            lists,
            ends,
            current,
            modes,
            choices,
            cursor,
            state[STARTED],
            rows[:, filled:],
            columns,
            codes[:, filled:],
            copies[filled:],
            work,
        )
        if many < 0:
            return many
        if is_old:
            for i in range(filled, filled + many):
                copies[i] = -copies[i]
        filled += many
        state[STARTED] = 1
        if not more:
            _clean(a32, T, N, L, below, root, roots, marks, links, heads, groups)
            state[PHASE] += 1
    _end(a32, T, N, L, changed)
    return filled
