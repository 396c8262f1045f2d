"""Stages of an enumeration: the nested loops over the output set, some hundred combinations at a time.

A level is a node of the output set; its rows are the live rows of the group that its parent's current row
says, linked through NEXT. Stage 0 is the root's one row; an entry of stage s is an entry of stage s - 1, its
*origin*, with a row of level s - 1. Entries stand in the order of the nested loops, whatever the size of a stage:
a full stage is consumed and then filled again from where its lists were left.

    rows[s, e]       the row of level s - 1
    origin[s, e]     the entry of stage s - 1 it extends
    codes[s, c, e]   output column c, for columns of levels up to s - 1
    copies[s, e]     the product of the multiplicities so far
    heads[s, e]      the first row of level s - 1 under entry e of stage s - 1; known up to S_WARM
    tails[s, e]      the last one, if it is not the last of its list; else -1

No list on the way is empty while the parent's row is live, so every entry leads to a result row: constant delay.
Lists are linked through records all over the arena. Before the lists of some entries are followed one after the
other, all of them are followed at the same time, which asks for as many records at once as there are lists.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CLAMP,
    N_DEGREE,
    N_END,
    N_GROUP,
    N_NEXT,
    N_OWN,
    N_PARENT,
    N_TABLE,
    N_VALUE,
    N_VGID,
    T_MULT,
    T_ROWS,
    T_STRIDE,
    Flags,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.table import record

# Per stage: entries there are; the origin whose list is being followed, and its next row or -1 at the
# beginning of its list; origins whose heads are known; of the innermost level, where in the trail that row is.
S_FILLED, S_ORIGIN, S_NEXT, S_WARM, S_PLACE, S_FIELDS = range(6)
# How many records a stage asks for at most before it follows a list: what an inner cache holds.
WARMED = 2048
LARGEST = 9.2e18


@bare
def _follow_together(
    a64: Words, a32: Halves, T: Words, N: Words, v: Int, walkers: Words, ends: Words, many: Int
) -> None:
    """Bring near the rows of the lists that start at `walkers`, up to their `ends`, as long as there are several."""
    t, following = N[v, N_TABLE], N[v, N_NEXT]
    start, stride = T[t, T_ROWS], T[t, T_STRIDE]
    budget = WARMED
    while many > 1 and budget > 0:
        budget -= many
        left = 0
        for k in range(many):
            if walkers[k] == ends[k]:
                continue
            row = np.int64(a32[2 * (start + walkers[k] * stride) + following])
            if row >= 0:
                prefetch(a64, start + row * stride)
                walkers[left], ends[left] = row, ends[k]
                left += 1
        many = left


@bare
def warm(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    s: Int,
    rows: Words,
    origin: Words,
    heads: Words,
    tails: Words,
    state: Words,
    walkers: Words,
    places: Words,
) -> None:
    """Find the heads of the next few lists of stage s and bring their rows near. O(entries) amortised."""
    v, of = levels[s - 1], above[s - 1] + 1
    t, own = N[v, N_TABLE], N[v, N_OWN]
    is_range = N[v, N_END] >= 0
    parent, group = N[N[v, N_PARENT], N_TABLE], N[v, N_GROUP]
    begin = state[s, S_WARM]
    end = min(begin + len(walkers), state[s - 1, S_FILLED])
    before = np.int64(-1)
    for e in range(begin, end):
        p = np.int64(e)
        for k in range(s - 1, of, -1):
            p = origin[k, p]
        row = rows[of, p]
        # A list that many entries share, as those of siblings do, is asked for once.
        if row == before:
            places[e - begin] = -1
            continue
        before = row
        place = 2 * record(T, parent, row) + (N[v, N_BEGIN] if own else N[v, N_VGID])
        places[e - begin] = place
        prefetch(a64, place >> 1)
    if not own:
        for k in range(end - begin):
            if places[k] >= 0:
                places[k] = 2 * record(T, group, np.int64(a32[places[k]])) + N[v, N_BEGIN]
                prefetch(a64, places[k] >> 1)
    many = 0
    for k in range(end - begin):
        if places[k] < 0:
            heads[s, begin + k] = heads[s, begin + k - 1]
            tails[s, begin + k] = tails[s, begin + k - 1]
            continue
        head = np.int64(a32[places[k]])
        tail = np.int64(a32[places[k] - N[v, N_BEGIN] + N[v, N_END]]) if is_range else np.int64(-1)
        prefetch(a64, record(T, t, head))
        heads[s, begin + k], tails[s, begin + k] = head, tail
        # Places up to here have been read.
        walkers[many], places[many] = head, tail
        many += 1
    _follow_together(a64, a32, T, N, v, walkers, places, many)
    state[s, S_WARM] = end


@bare
def multiplicity(a64: Words, T: Words, N: Words, v: Int, row: Int) -> Int:
    """The copies that a frontier row contributes, or -1 if they do not fit 63 bits."""
    if N[v, N_CLAMP]:
        return np.int64(1)
    t = N[v, N_TABLE]
    if N[v, N_DEGREE] == 0:
        return a64[record(T, t, row) + T[t, T_MULT]]
    at = record(T, t, row) + N[v, N_VALUE]
    return a64[at] if a64[at + 1] == 0 and a64[at] >= 0 else np.int64(-1)


@bare
def _expand(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    s: Int,
    rows: Words,
    origin: Words,
    heads: Words,
    tails: Words,
    state: Words,
    walkers: Words,
    places: Words,
) -> None:
    """Fill stage s with what follows the entries it had."""
    v = levels[s - 1]
    t, following = N[v, N_TABLE], N[v, N_NEXT]
    start, stride = T[t, T_ROWS], T[t, T_STRIDE]
    size = rows.shape[1]
    n, p, row = 0, state[s, S_ORIGIN], state[s, S_NEXT]
    while n < size and p < state[s - 1, S_FILLED]:
        if p == state[s, S_WARM]:
            warm(a64, a32, T, N, levels, above, s, rows, origin, heads, tails, state, walkers, places)
        if row < 0:
            row = heads[s, p]
        while row >= 0 and n < size:
            rows[s, n] = row
            origin[s, n] = p
            n += 1
            row = np.int64(-1) if row == tails[s, p] else np.int64(a32[2 * (start + row * stride) + following])
        if row < 0:
            p += 1
    state[s, S_FILLED], state[s, S_ORIGIN], state[s, S_NEXT] = n, p, row


@bare
def _carry(
    a64: Words,
    T: Words,
    N: Words,
    v: Int,
    s: Int,
    rows: Words,
    origin: Words,
    n: Int,
    column_level: Words,
    column_position: Words,
    codes: Words,
) -> None:
    """The output columns of a stage just filled: its own level's from its rows, earlier ones' from the origins."""
    t = N[v, N_TABLE]
    for c in range(len(column_level)):
        if column_level[c] == s - 1:
            at, stride = T[t, T_ROWS] + column_position[c], T[t, T_STRIDE]
            for e in range(n):
                codes[s, c, e] = a64[at + rows[s, e] * stride]
        elif column_level[c] < s - 1:
            for e in range(n):
                codes[s, c, e] = codes[s - 1, c, origin[s, e]]


@bare
def _multiply(
    a64: Words, T: Words, N: Words, v: Int, s: Int, rows: Words, origin: Words, n: Int, counts: Int, copies: Words
) -> Int:
    """The copies of a stage just filled; False if some do not fit 63 bits."""
    for e in range(n):
        many = copies[s - 1, origin[s, e]]
        if counts:
            more = multiplicity(a64, T, N, v, rows[s, e])
            if more < 0 or float(many) * float(more) > LARGEST:
                return False
            many *= more
        copies[s, e] = many
    return True


@bare
def is_left(state: Words) -> Int:
    """Whether any stage has a list that was not followed to its end."""
    for s in range(1, len(state)):
        if state[s, S_ORIGIN] < state[s - 1, S_FILLED]:
            return True
    return False


@bare
def refill(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    frontier: Flags,
    column_level: Words,
    column_position: Words,
    counted: Int,
    rows: Words,
    origin: Words,
    codes: Words,
    copies: Words,
    heads: Words,
    tails: Words,
    state: Words,
    walkers: Words,
    places: Words,
) -> Int:
    """The next entries of the stage before the innermost level, whose lists have run out.

    Some stage has a list left. Returns False if a multiplicity does not fit 63 bits.
    """
    last = len(levels)
    s = last - 1
    while state[s, S_ORIGIN] == state[s - 1, S_FILLED]:
        s -= 1
    while s < last:
        v = levels[s - 1]
        _expand(a64, a32, T, N, levels, above, s, rows, origin, heads, tails, state, walkers, places)
        n = state[s, S_FILLED]
        _carry(a64, T, N, v, s, rows, origin, n, column_level, column_position, codes)
        if counted and not _multiply(a64, T, N, v, s, rows, origin, n, frontier[s - 1], copies):
            return False
        s += 1
        state[s, S_ORIGIN], state[s, S_NEXT], state[s, S_WARM] = 0, -1, 0
    return True
