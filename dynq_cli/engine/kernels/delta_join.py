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

Rows are gone out from by the hundred. Stage 0 are some of those that changed; an entry of stage s is an entry of stage
s - 1, its *origin*, with a row of the level that step s sets. All lists of a stage are followed at the same time, a row
of each in turn, so that what the next row of each needs is asked for long before it is looked at. A stage that is full
is gone on from before its lists are followed further: an entry's origins stay as long as it does.
"""

import numpy as np

from dynq_cli.engine.kernels.delta_log import forget, in_turn, many_changed, relink, take_changed
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import (
    L_FRONTIER,
    L_NODE,
    first_of,
    group_below,
)
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import (
    BEFORE,
    LEAST,
    N_BEGIN,
    N_GID,
    N_GROUP,
    N_LISTS,
    N_NEXT,
    N_OWN,
    N_TABLE,
    N_VGID,
    N_VHEAD,
    N_VNEXT,
    NOW,
    T_ROWS,
    T_STRIDE,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.multiplicity import value_at, value_before, value_now
from dynq_cli.engine.kernels.prefetch import prefetch, prefetch_all
from dynq_cli.engine.kernels.table import record

OWN, READERS, DOWN = range(3)
# What is asked of a row of a step: nothing, since lists have live rows alone; to be live on the side; on both.
NOTHING, ON_SIDE, ON_BOTH = range(3)
# Of a step: its kind, the level that it sets, the one that this is found from or -1, the stage of that, what is asked.
KIND, LEVEL, FROM, AT, ASKED, ROUTE = range(6)
# Of an entry of a stage: its row, its origin, its copies so far. Of a list that is being followed: its next row, and
# the entry of the stage before that it belongs to.
ROW, ORIGIN, SHARE, WALKER, ENTRY, STAGES = range(6)
# How many of both there are.
FILLED, WALKING, COUNTS = range(3)
# Of the state of `fill`: 0 and 1 are the old side, not begun and begun, 2 and 3 the new one; the level that is gone
# out from, and how many of its rows were taken.
PHASE, AT_LEVEL, TAKEN, STATE = range(4)
DONE = 4
# Copies that are more than 63 bits hold.
_TOO_MANY = np.int64(-1)


@bare(inline="always")
def _times(x: Int, y: Int) -> Int:
    """The product of two numbers of copies; -1 if it, or one of them, passes 63 bits."""
    if y == 1:
        return x
    return _TOO_MANY if x < 0 or y < 0 or np.float64(x) * np.float64(y) > LARGEST else x * y


@bare
def _set_out(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    changed: Halves,
    first: Int,
    room: Int,
    stages: Words,
    side: Int,
) -> Int:
    """Stage 0: rows of a level that have more copies on this side, from number `first` on; how many."""
    rows, shares, v = stages[ROW, 0, :room], stages[SHARE, 0], L[level, L_NODE]
    many = take_changed(a64, a32, T, N, L, level, changed, side == BEFORE, first, rows)
    for k in range(many):
        at = record(T, N[v, N_TABLE], rows[k])
        was, was_hi = value_before(a64, N, v, at)
        now, now_hi = value_now(a64, a32, T, N, v, at)
        more, hi, least = (was, was_hi, now) if side == BEFORE else (now, now_hi, was)
        shares[k] = _TOO_MANY if hi != 0 or more < 0 else more - least
    return many


@bare(inline="always")
def _entry_at(stages: Words, s: Int, at: Int, e: Int) -> Int:
    """The entry of stage `at` that an entry of stage s goes back to."""
    for k in range(s - at):
        e = stages[ORIGIN, s - k, e]
    return e


@bare
def _begin(
    a64: Words, a32: Halves, T: Words, N: Words, L: Words, root: Int, route: Words, s: Int, stages: Words, counts: Words
) -> None:
    """Stage s begins: for each entry of the stage before the first row that it may be combined with."""
    kind, level, below, at = route[s - 1, KIND], route[s - 1, LEVEL], route[s - 1, FROM], route[s - 1, AT]
    walkers, entries, filled = stages[WALKER, s], stages[ENTRY, s], counts[s - 1, FILLED]
    v = L[level, L_NODE]
    start, stride, many = T[N[v, N_TABLE], T_ROWS], T[N[v, N_TABLE], T_STRIDE], 0
    if below < 0:
        # The list below the root is the same for all of them.
        head = first_of(a32, T, N, v, group_below(a32, T, N, v, N[root, N_TABLE], np.int64(0)))
        for e in range(filled):
            walkers[e], entries[e] = head, e
        counts[s, WALKING] = filled if head >= 0 else 0
        return
    from_ = L[below, L_NODE]
    rows, begin, length = stages[ROW, at], T[N[from_, N_TABLE], T_ROWS], T[N[from_, N_TABLE], T_STRIDE]
    # Where a row says which row or group it leads to; a list below a guard begins in the row itself.
    is_itself, field = kind == DOWN and N[v, N_OWN], N[v, N_VGID] if kind == DOWN else N[from_, N_GID]
    for e in range(filled):
        row = rows[_entry_at(stages, s - 1, at, np.int64(e))]
        walkers[e] = row if is_itself else np.int64(a32[2 * (begin + row * length) + field])
        entries[e] = e
        if kind == OWN:
            prefetch_all(a64, start + walkers[e] * stride, stride)
    if kind == OWN:
        counts[s, WALKING] = filled
        return
    table = N[v, N_LISTS] if kind == DOWN else N[from_, N_GROUP]
    place = N[v, N_BEGIN] if kind == DOWN else N[from_, N_VHEAD]
    begin, length = T[table, T_ROWS], T[table, T_STRIDE]
    if not is_itself:
        for e in range(filled):
            prefetch(a32, 2 * (begin + walkers[e] * length) + place)
    for e in range(filled):
        head = np.int64(a32[2 * (begin + walkers[e] * length) + place])
        if head >= 0:
            prefetch_all(a64, start + head * stride, stride)
            walkers[many], entries[many] = head, e
            many += 1
    counts[s, WALKING] = many


@bare
def _go_on(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    route: Words,
    s: Int,
    room: Int,
    stages: Words,
    counts: Words,
    side: Int,
) -> None:
    """Fill stage s with up to `room` entries: the lists that it has begun are followed, a row of each in turn."""
    kind, level, asked = route[s - 1, KIND], route[s - 1, LEVEL], route[s - 1, ASKED]
    rows, origins, shares = stages[ROW, s], stages[ORIGIN, s], stages[SHARE, s]
    walkers, entries, before = stages[WALKER, s], stages[ENTRY, s], stages[SHARE, s - 1]
    v = L[level, L_NODE]
    start, stride = T[N[v, N_TABLE], T_ROWS], T[N[v, N_TABLE], T_STRIDE]
    counted, on = L[level, L_FRONTIER], side if asked == ON_SIDE else np.int64(LEAST)
    link = N[v, N_NEXT] if kind == DOWN else N[L[route[s - 1, FROM], L_NODE], N_VNEXT]
    filled, many = 0, counts[s, WALKING]
    while many > 0 and filled < room:
        left = 0
        for k in range(many):
            row, e = walkers[k], entries[k]
            if filled < room:
                share, at = before[e], start + row * stride
                if asked != NOTHING:
                    lo, hi = value_at(a64, a32, T, N, v, at, on)
                    if lo == 0 and hi == 0:
                        share = np.int64(0)
                    elif counted:
                        share = _times(share, _TOO_MANY if hi != 0 else lo)
                if share != 0:
                    rows[filled], origins[filled], shares[filled] = row, e, share
                    filled += 1
                row = np.int64(-1) if kind == OWN else np.int64(a32[2 * at + link])
                if row >= 0:
                    prefetch_all(a64, start + row * stride, stride)
            if row >= 0:
                walkers[left], entries[left] = row, e
                left += 1
        many = left
    counts[s, FILLED], counts[s, WALKING] = filled, many


@bare
def _give(
    a64: Words,
    T: Words,
    N: Words,
    L: Words,
    route: Words,
    stages: Words,
    many: Int,
    columns: Words,
    codes: Words,
    copies: Words,
    filled: Int,
    sign: Int,
) -> Int:
    """The entries of the last stage come out; False if one has too many copies."""
    last = len(route)
    for e in range(many):
        share = stages[SHARE, last, e]
        if share < 0:
            return False
        copies[filled + e] = sign * share
    for c in range(len(columns)):
        level, at = columns[c, 0], 0
        for k in range(last):
            if route[k, LEVEL] == level:
                at = k + 1
        t, rows, out = N[L[level, L_NODE], N_TABLE], stages[ROW, at], codes[c, filled:]
        start, stride = T[t, T_ROWS] + columns[c, 1], T[t, T_STRIDE]
        for e in range(many):
            out[e] = a64[start + rows[_entry_at(stages, last, at, np.int64(e))] * stride]
    return True


@bare
def _read(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    root: Int,
    routes: Words,
    changed: Halves,
    stages: Words,
    counts: Words,
    columns: Words,
    codes: Words,
    copies: Words,
    filled: Int,
    side: Int,
    state: Words,
) -> Int:
    """Fill `codes` and `copies` from one side: how many, or -1; all that there is if state[AT_LEVEL] is len(L)."""
    last, wide, sign = len(L) - 1, stages.shape[2], np.int64(-1 if side == BEFORE else 1)
    while state[AT_LEVEL] < len(L) and filled < len(copies):
        level = state[AT_LEVEL]
        route = routes[level * last : (level + 1) * last]
        room, s = min(wide, len(copies) - filled), last
        while s > 0 and counts[s, WALKING] == 0:
            s -= 1
        if s > 0:
            _go_on(a64, a32, T, N, L, route, s, room if s == last else wide, stages, counts, side)
        elif L[level, L_FRONTIER] and state[TAKEN] < many_changed(L, level, side == BEFORE):
            most = room if last == 0 else wide
            many = _set_out(a64, a32, T, N, L, level, changed, state[TAKEN], most, stages, side)
            counts[0, FILLED] = many
            state[TAKEN] += many
        else:
            state[AT_LEVEL], state[TAKEN] = level + 1, 0
            continue
        while s < last and counts[s, FILLED] > 0:
            s += 1
            _begin(a64, a32, T, N, L, root, route, s, stages, counts)
            _go_on(a64, a32, T, N, L, route, s, room if s == last else wide, stages, counts, side)
        if s == last:
            if not _give(a64, T, N, L, route, stages, counts[s, FILLED], columns, codes, copies, filled, sign):
                return _TOO_MANY
            filled += counts[s, FILLED]
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
    changed: Halves,
    stages: Words,
    counts: Words,
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
    `had_rows` and `has_rows` say whether the result had any row, and has one. `state` and `counts` are zeros at first,
    and state[PHASE] is DONE after the last call. They and `stages` stay between calls; `work` is to work in.
    """
    filled = np.int64(0)
    while state[PHASE] != DONE:
        if state[PHASE] == 0:
            in_turn(a64, a32, T, N, L, changed)
            state[PHASE] = 1
        elif state[PHASE] == 2:
            for level in range(len(L)):
                relink(a64, a32, T, N, L, level, changed, work)
            state[PHASE] = 3
        is_old = state[PHASE] == 1
        if had_rows if is_old else has_rows:
            filled = _read(
                a64,
                a32,
                T,
                N,
                L,
                root,
                routes,
                changed,
                stages,
                counts,
                columns,
                codes,
                copies,
                filled,
                np.int64(BEFORE) if is_old else np.int64(NOW),
                state,
            )
            if filled < 0 or state[AT_LEVEL] < len(L):
                return filled
        state[PHASE] += 1
        state[AT_LEVEL] = 0
    for level in range(len(L)):
        forget(a32, T, N, L, level, changed)
    return filled
