"""What came and went in the result of a tree without ranges, within the commit that changes it: outward from the rows
that did.

On each side of the commit (see `delta`), every row of the frontier that has more copies there than in the smaller
state is taken in turn, and what it is combined with is found from it: the rows above it one after the other, which
have to be live, then the lists below these. Levels of the frontier before its own stand on the smaller state, those
behind it on the side:

    Π here - Π least = Σᵢ  Π_{j<i} leastⱼ · (hereᵢ - leastᵢ) · Π_{j>i} hereⱼ

So nothing is marked and nothing has to be taken back. A combination of several such rows may come out once for each
of them, with its share of the copies; what has none is passed over, and came out before for another row. Work is that
of the rows that changed and of what comes out.

A *route* says, for the level that is gone out from, in which order the others are set and from which level each is:
OWN is the row above that a guard's row belongs to, READERS are the rows above that read a group, DOWN the list below.
"""

import numpy as np

from dynq_cli.engine.kernels.changed import forget, in_turn, relink, take_changed
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import (
    L_CHANGED,
    L_FRONTIER,
    L_NODE,
    first_of,
    group_below,
    group_of,
    value_on,
)
from dynq_cli.engine.kernels.fields import (
    BEFORE,
    LEAST,
    N_BEGIN,
    N_GROUP,
    N_LISTS,
    N_NEXT,
    N_OWN,
    N_TABLE,
    N_VHEAD,
    N_VNEXT,
    NOW,
    T_STRIDE,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.stages import LARGEST
from dynq_cli.engine.kernels.table import record

OWN, READERS, DOWN = range(3)
KIND, LEVEL, FROM, ROUTE = range(4)
# Of the state of `fill`: 0 and 1 are the old side, not begun and begun, 2 and 3 the new one; the level that is gone
# out from; how many of its rows that changed were looked at, how many of the last of these are gone out from, and
# which of them is; whether more combinations of that one may follow.
PHASE, AT_LEVEL, LOOKED_AT, MANY, NUMBER, IS_OPEN, STATE = range(7)
DONE = 4
# Copies that are more than 63 bits hold.
_TOO_MANY = np.int64(-1)


@bare(inline="always")
def _ask_for(a32: Halves, T: Words, t: Int, row: Int) -> None:
    """Ask for the whole record of a row."""
    at = record(T, t, row)
    for place in range(at, at + T[t, T_STRIDE], 8):
        prefetch(a32, 2 * place)


@bare(inline="always")
def _is_live(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, side: Int) -> Int:
    lo, hi = value_on(a64, a32, T, N, v, row, side)
    return lo != 0 or hi != 0


@bare(inline="always")
def _more(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, side: Int) -> Int:
    """How many copies a row of node v has on a side beyond the smaller state; -1 if they pass 63 bits."""
    lo, hi = value_on(a64, a32, T, N, v, row, side)
    least, high = value_on(a64, a32, T, N, v, row, LEAST)
    if lo == least and hi == high:
        return np.int64(0)
    return _TOO_MANY if hi != 0 or lo < 0 else lo - least


@bare
def _ask_along(
    a64: Words, a32: Halves, T: Words, N: Words, L: Words, routes: Words, start: Int, many: Int, work: Words, side: Int
) -> None:
    """Ask for what the first combination of each of `many` rows needs, step by step for all of them; of a row without
    a live one above it nothing is asked for from there on."""
    for step in range(start, start + len(L) - 1):
        kind, level, below = routes[step, KIND], routes[step, LEVEL], routes[step, FROM]
        here = level * AHEAD
        if below < 0:
            # The list below the root is the same for all of them.
            work[here : here + many] = -1
            continue
        v, from_, there = L[level, L_NODE], L[below, L_NODE], below * AHEAD
        t = N[v, N_TABLE]
        for k in range(many):
            row = work[there + k]
            if row < 0:
                work[here + k] = -1
            elif kind == OWN:
                work[here + k] = group_of(a32, T, N, from_, row)
                _ask_for(a32, T, t, work[here + k])
            elif kind == READERS:
                work[here + k] = group_of(a32, T, N, from_, row)
                prefetch(a32, 2 * record(T, N[from_, N_GROUP], work[here + k]) + N[from_, N_VHEAD])
            else:
                work[here + k] = group_below(a32, T, N, v, N[from_, N_TABLE], row)
                if not N[v, N_OWN]:
                    prefetch(a32, 2 * record(T, N[v, N_LISTS], work[here + k]) + N[v, N_BEGIN])
        if kind != OWN:
            for k in range(many):
                g = work[here + k]
                if g >= 0:
                    if kind == READERS:
                        work[here + k] = a32[2 * record(T, N[from_, N_GROUP], g) + N[from_, N_VHEAD]]
                    else:
                        work[here + k] = first_of(a32, T, N, v, g)
                    if work[here + k] >= 0:
                        _ask_for(a32, T, t, work[here + k])
        if kind == OWN:
            for k in range(many):
                if work[here + k] >= 0 and not _is_live(a64, a32, T, N, v, work[here + k], side):
                    work[here + k] = -1


@bare
def _take_more(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    links: Halves,
    first: Int,
    work: Words,
    side: Int,
) -> Int:
    """Of up to AHEAD rows of a level that changed, from number `first` on, those with more copies on this side: how
    many."""
    here = work[level * AHEAD : (level + 1) * AHEAD]
    changed, many = take_changed(a64, a32, T, N, L, level, links, first, here), 0
    for k in range(changed):
        row = here[k]
        if _more(a64, a32, T, N, L[level, L_NODE], row, side) != 0:
            here[many] = row
            many += 1
    return np.int64(many)


@bare(inline="always")
def _acceptable(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    kind: Int,
    level: Int,
    below: Int,
    row: Int,
    side: Int,
    on: Int,
) -> tuple[Int, Int]:
    """The first row from `row` on that a level can be set to, or -1, and what it contributes to the copies.

    `on` is the state that a level of the frontier stands on.
    """
    v = L[level, L_NODE]
    t = N[v, N_TABLE]
    while row >= 0:
        if kind == DOWN:
            following = np.int64(a32[2 * record(T, t, row) + N[v, N_NEXT]])
            if following >= 0:
                prefetch(a64, record(T, t, following))
            if not L[level, L_FRONTIER]:
                return row, np.int64(1)
            lo, hi = value_on(a64, a32, T, N, v, row, on)
            if hi != 0 or lo < 0:
                return row, _TOO_MANY
            if lo != 0:
                return row, lo
            row = following
        else:
            if _is_live(a64, a32, T, N, v, row, side):
                return row, np.int64(1)
            if kind == OWN:
                break
            row = np.int64(a32[2 * record(T, t, row) + N[L[below, L_NODE], N_VNEXT]])
    return np.int64(-1), np.int64(0)


@bare(inline="always")
def _first_row(
    a32: Halves, T: Words, N: Words, L: Words, root: Int, kind: Int, level: Int, below: Int, current: Words
) -> Int:
    """The row that a level is tried with first, or -1."""
    if kind == DOWN:
        v = L[level, L_NODE]
        t = N[L[below, L_NODE], N_TABLE] if below >= 0 else N[root, N_TABLE]
        return first_of(a32, T, N, v, group_below(a32, T, N, v, t, current[below] if below >= 0 else np.int64(0)))
    v = L[below, L_NODE]
    g = group_of(a32, T, N, v, current[below])
    return g if kind == OWN else np.int64(a32[2 * record(T, N[v, N_GROUP], g) + N[v, N_VHEAD]])


@bare(inline="always")
def _next_row(a32: Halves, T: Words, N: Words, L: Words, kind: Int, level: Int, below: Int, row: Int) -> Int:
    """The row that a level is tried with after `row`, or -1."""
    if kind == OWN:
        return np.int64(-1)
    v = L[level, L_NODE]
    link = N[v, N_NEXT] if kind == DOWN else N[L[below, L_NODE], N_VNEXT]
    following = np.int64(a32[2 * record(T, N[v, N_TABLE], row) + link])
    if following >= 0 and kind == READERS:
        _ask_for(a32, T, N[v, N_TABLE], following)
    return following


@bare(inline="always")
def _times(x: Int, y: Int) -> Int:
    """The product of two numbers of copies; -1 if it, or one of them, passes 63 bits."""
    if y == 1:
        return x
    return _TOO_MANY if x < 0 or y < 0 or np.float64(x) * np.float64(y) > LARGEST else x * y


@bare
def _combine(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    out: Int,
    routes: Words,
    current: Words,
    factors: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    filled: Int,
    side: Int,
    is_open: Int,
) -> tuple[Int, Int]:
    """All combinations of the current row of level `out`, as far as there is room: (how many are filled, whether more
    may follow), or (-1, …) if one has too many copies. If `is_open`, go on from where the call before stopped."""
    steps, start = len(L) - 1, out * (len(L) - 1)
    step, fresh = (steps - 1, False) if is_open else (np.int64(0), True)
    while step >= 0 or fresh:
        while 0 <= step < steps:
            kind, level, below = routes[start + step, KIND], routes[start + step, LEVEL], routes[start + step, FROM]
            if fresh:
                row = _first_row(a32, T, N, L, root, kind, level, below, current)
            else:
                row = _next_row(a32, T, N, L, kind, level, below, current[level])
            on = np.int64(LEAST) if level < out else side
            row, many = _acceptable(a64, a32, T, N, L, kind, level, below, row, side, on)
            if row < 0:
                step, fresh = step - 1, False
                continue
            current[level], factors[step + 1] = row, _times(factors[step], many)
            step, fresh = step + 1, True
        if step < 0:
            break
        if factors[steps] < 0:
            return _TOO_MANY, False
        copies[filled] = factors[steps]
        for c in range(len(columns)):
            level = columns[c, 0]
            at = record(T, N[L[level, L_NODE], N_TABLE], current[level])
            codes[c, filled] = a64[at + columns[c, 1]]
        filled += 1
        step, fresh = steps - 1, False
        if filled == len(copies):
            return filled, True
    return filled, False


@bare
def _read(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    routes: Words,
    links: Halves,
    current: Words,
    factors: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    filled: Int,
    side: Int,
    state: Words,
    work: Words,
) -> Int:
    """Fill `codes` and `copies` from one side: how many, or -1; all that there is if state[AT_LEVEL] is len(L)."""
    while state[AT_LEVEL] < len(L):
        level = state[AT_LEVEL]
        if not L[level, L_FRONTIER]:
            state[AT_LEVEL] += 1
            continue
        if state[NUMBER] == state[MANY]:
            if state[LOOKED_AT] >= L[level, L_CHANGED]:
                state[AT_LEVEL], state[LOOKED_AT] = level + 1, 0
                continue
            state[MANY] = _take_more(a64, a32, T, N, L, level, links, state[LOOKED_AT], work, side)
            state[LOOKED_AT] += AHEAD
            state[NUMBER] = 0
            _ask_along(a64, a32, T, N, L, routes, level * (len(L) - 1), state[MANY], work, side)
            continue
        current[level] = work[level * AHEAD + state[NUMBER]]
        if not state[IS_OPEN]:
            factors[0] = _more(a64, a32, T, N, L[level, L_NODE], current[level], side)
        filled, state[IS_OPEN] = _combine(
            a64,
            a32,
            T,
            N,
            L,
            root,
            level,
            routes,
            current,
            factors,
            columns,
            codes,
            copies,
            filled,
            side,
            state[IS_OPEN],
        )
        if filled < 0 or state[IS_OPEN]:
            return filled
        state[NUMBER] += 1
    return filled


@bare
def fill(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    routes: Words,
    links: Halves,
    current: Words,
    factors: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    had_rows: Int,
    has_rows: Int,
    state: Words,
    work: Words,
) -> Int:
    """Fill `codes` and `copies` with rows that went (< 0) or came: how many, or -1 if one has too many copies.

    `columns` are level and position per row of `codes`; `routes` has a step for each other level, level by level.
    `had_rows` and `has_rows` say whether the result had any row, and has one. `state` is zeros at first, and
    state[PHASE] is DONE after the last call. `current`, `factors` and `work`, AHEAD words per level and at least two
    times that, stay between calls.
    """
    filled = np.int64(0)
    while state[PHASE] != DONE:
        if state[PHASE] == 0:
            in_turn(a32, T, N, L, links)
            state[PHASE] = 1
        elif state[PHASE] == 2:
            for level in range(len(L)):
                relink(a64, a32, T, N, L, level, links, work)
            state[PHASE] = 3
        is_old = state[PHASE] == 1
        if had_rows if is_old else has_rows:
            before = filled
            filled = _read(
                a64,
                a32,
                T,
                N,
                L,
                root,
                routes,
                links,
                current,
                factors,
                columns,
                codes,
                copies,
                filled,
                np.int64(BEFORE) if is_old else np.int64(NOW),
                state,
                work,
            )
            if filled < 0:
                return filled
            if is_old:
                for i in range(before, filled):
                    copies[i] = -copies[i]
            if state[AT_LEVEL] < len(L):
                return filled
        state[PHASE] += 1
        state[AT_LEVEL] = 0
    for level in range(len(L)):
        forget(a32, T, N, L, level, links)
    return filled
