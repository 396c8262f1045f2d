"""Going through the combinations that have a dirty row, on one side; `dirty` has marked them.

Slots are gone through like the wheels of an odometer: the rows of a level, and, before the children of a row of which
a dirty combination is wanted, the child that is the first with a dirty row. Children before that one go through clean
combinations, it through dirty ones, those after it through any. Every step of every loop yields a row.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.dirty import (
    ANY,
    CLEAN,
    DIRTY,
    L_ABOVE,
    L_BELOW,
    L_GROUPS,
    L_MANY,
    L_NODE,
    L_ROWS,
    group_below,
    has_clean,
    value_of,
)
from dynq_cli.engine.kernels.fields import (
    N_GROUP,
    N_HEAD,
    N_NEXT,
    N_TABLE,
    Bytes,
    Flags,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.stages import LARGEST
from dynq_cli.engine.kernels.table import record

S_LEVEL, S_CHOOSES = 0, 1


@bare
def _group_at(a32: Halves, T: Words, N: Words, L: Words, root: Int, level: Int, current: Words) -> Int:
    """The group that a level goes through below the current row above it."""
    up = L[level, L_ABOVE]
    t = N[L[up, L_NODE], N_TABLE] if up >= 0 else N[root, N_TABLE]
    return group_below(a32, T, N, L[level, L_NODE], t, current[up] if up >= 0 else np.int64(0))


@bare
def _first_row(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    level: Int,
    current: Words,
    modes: Words,
    choices: Words,
    cursor: Words,
    order: Words,
    heads: Halves,
    lists: Words,
    ends: Words,
) -> None:
    """Put a level on its first row; there is one."""
    up = L[level, L_ABOVE]
    mode = modes[up + 1]
    if mode == DIRTY:
        chosen = choices[up + 1]
        mode = CLEAN if order[level] < chosen else (DIRTY if order[level] == chosen else ANY)
    modes[level + 1] = mode
    g = _group_at(a32, T, N, L, root, level, current)
    at = L[level, L_GROUPS] + g
    cursor[level] = -1
    if mode == DIRTY:
        current[level] = heads[at, 0] - 1
    elif mode == CLEAN and heads[at, 1] > 0:
        cursor[level] = ends[heads[at, 2] - 2] if heads[at, 2] > 1 else np.int64(0)
        current[level] = lists[cursor[level]]
    else:
        v = L[level, L_NODE]
        current[level] = a32[2 * record(T, N[v, N_GROUP], g) + N[v, N_HEAD]]


@bare
def _next_row(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    level: Int,
    current: Words,
    modes: Words,
    cursor: Words,
    links: Halves,
    heads: Halves,
    lists: Words,
    ends: Words,
) -> Int:
    """Put a level on its next row; False if there is none."""
    row = current[level]
    following: Int = np.int64(-1)
    if modes[level + 1] == DIRTY:
        following = np.int64(links[L[level, L_ROWS] + row, 0]) - 1
    elif cursor[level] >= 0:
        place = heads[L[level, L_GROUPS] + _group_at(a32, T, N, L, root, level, current), 2] - 1
        cursor[level] += 1
        following = lists[cursor[level]] if cursor[level] < ends[place] else np.int64(-1)
    else:
        v = L[level, L_NODE]
        following = np.int64(a32[2 * record(T, N[v, N_TABLE], row) + N[v, N_NEXT]])
    if following < 0:
        return False
    current[level] = following
    return True


@bare
def _next_choice(
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    below: Words,
    root: Int,
    roots: Int,
    level: Int,
    after: Int,
    current: Words,
    marks: Bytes,
    heads: Halves,
    groups: Bytes,
) -> Int:
    """The next child, after number `after`, that can be the first with a dirty row, or -1."""
    first = L[level, L_BELOW] if level >= 0 else np.int64(0)
    children = L[level, L_MANY] if level >= 0 else roots
    t = N[L[level, L_NODE], N_TABLE] if level >= 0 else N[root, N_TABLE]
    row = current[level] if level >= 0 else np.int64(0)
    for k in range(children):
        child = below[first + k]
        at = L[child, L_GROUPS] + group_below(a32, T, N, L[child, L_NODE], t, row)
        if k > after and heads[at, 0] > 0:
            return np.int64(k)
        # Children before the chosen one go through clean combinations only.
        if heads[at, 1] > 0 and not has_clean(a32, T, N, L, child, at - L[child, L_GROUPS], marks, groups):
            return np.int64(-1)
    return np.int64(-1)


@bare
def walk(
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
    out: Words,
) -> tuple[Int, Int]:
    """Fill `out` with combinations that have a dirty row, a row id per level: (how many, whether more follow).

    At first `started` is 0; later calls go on from where the one before stopped.
    """
    last = len(slots) - 1
    inner = slots[last, S_LEVEL]
    filled, size = 0, out.shape[1]
    slot = last if started else 0
    fresh = not started
    while True:
        # Wheels from `slot` on are set: to their first value if fresh, else this one to its next.
        while slot <= last:
            level = slots[slot, S_LEVEL]
            if slots[slot, S_CHOOSES]:
                found = modes[level + 1] != DIRTY and fresh
                if modes[level + 1] == DIRTY:
                    after = np.int64(-1) if fresh else choices[level + 1]
                    choices[level + 1] = _next_choice(
                        a32, T, N, L, below, root, roots, level, after, current, marks, heads, groups
                    )
                    found = choices[level + 1] >= 0
            elif fresh:
                _first_row(a32, T, N, L, root, level, current, modes, choices, cursor, order, heads, lists, ends)
                found = True
            else:
                found = _next_row(a32, T, N, L, root, level, current, modes, cursor, links, heads, lists, ends)
            if found:
                slot += 1
                fresh = True
            elif slot == 0:
                return filled, False
            else:
                slot -= 1
                fresh = False
        begin = filled
        while True:
            out[inner, filled] = current[inner]
            filled += 1
            if filled == size:
                break
            if not _next_row(a32, T, N, L, root, inner, current, modes, cursor, links, heads, lists, ends):
                break
        for level in range(len(L)):
            if level != inner:
                row = current[level]
                for i in range(begin, filled):
                    out[level, i] = row
        if filled == size:
            return filled, True
        slot, fresh = last - 1, False
        if slot < 0:
            return filled, False


@bare
def values_of(a64: Words, a32: Halves, T: Words, N: Words, v: Int, rows: Words, values: Words) -> None:
    """The two lanes of `value_of` for each row."""
    for i in range(len(rows)):
        values[0, i], values[1, i] = value_of(a64, a32, T, N, v, rows[i])


@bare
def _product_of(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    frontier: Flags,
    rows: Words,
    i: Int,
    first: Int,
    stop: Int,
) -> tuple[Int, Int]:
    """The product of the multiplicities of a combination over levels first … stop, and whether it fits 63 bits."""
    product, size = np.int64(1), 1.0
    for level in range(first, stop):
        if frontier[level]:
            lo, hi = value_of(a64, a32, T, N, levels[level], rows[level, i])
            if lo == 0 and hi == 0:
                return np.int64(0), True
            if hi != 0 or lo < 0:
                return np.int64(0), False
            product *= lo
            size *= float(lo)
    return product, size <= LARGEST


@bare
def _agree(frontier: Flags, rows: Words, i: Int) -> Int:
    """Whether a combination has the same rows as the one before, but for the innermost level."""
    for level in range(len(frontier) - 1):
        if frontier[level] and rows[level, i] != rows[level, i - 1]:
            return False
    return True


@bare
def copies_of(
    a64: Words, a32: Halves, T: Words, N: Words, levels: Words, frontier: Flags, rows: Words, many: Words
) -> Int:
    """The multiplicity on one side of each combination, 0 if it is not there; False if one passes 63 bits.

    Combinations come in runs that differ in the innermost level alone: what the others contribute is found once.
    """
    last = len(levels) - 1
    outer, fits = np.int64(0), True
    for i in range(rows.shape[1]):
        if i == 0 or not _agree(frontier, rows, i):
            outer, fits = _product_of(a64, a32, T, N, levels, frontier, rows, i, 0, last)
        if fits and outer == 0:
            many[i] = 0
            continue
        inner, is_whole = _product_of(a64, a32, T, N, levels, frontier, rows, i, last, last + 1)
        if is_whole and inner == 0:
            many[i] = 0
            continue
        if not fits or not is_whole or float(outer) * float(inner) > LARGEST:
            return False
        many[i] = outer * inner
    return True


@bare
def gather(a64: Words, T: Words, N: Words, v: Int, position: Int, rows: Words, out: Words) -> None:
    """A code of each row of node v; a row that follows itself is looked at once."""
    t = N[v, N_TABLE]
    before, code = np.int64(-1), np.int64(0)
    for i in range(len(rows)):
        if rows[i] != before:
            before = rows[i]
            code = a64[record(T, t, before) + position]
        out[i] = code
