"""What a commit changes in the rows of output nodes, of trees whose result is the change of other relations.

Such a tree runs in one arena from its old to its new state, and what came and went is read in between:

- while it is updated, `remember` keeps what the multiplicity of a row was before its first change, and lists the row;
  lists of live rows stay as they were, and so do the ends of ranges (`remember_range`);
- `in_turn` puts the rows of that list into an array, those that became fewer and those that became more apart, so
  that they can be asked for ahead and each side of the commit looks at its own alone;
- `relink` puts lists and ranges into the new state;
- `forget` ends it: between commits no row is listed.

A row is in the list of its node exactly if its field CHANGED is not 0. The list is RING lists in turn, and the node has
the first row of each: to go through it, as many rows are waited for at a time instead of one after the other.
Nothing is allocated and nothing overflows.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import L_FEWER, L_MORE, L_NODE, L_ROWS
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CHANGED,
    N_DEGREE,
    N_END,
    N_GID,
    N_GROUP,
    N_HEAD,
    N_LISTED,
    N_NEXT,
    N_OLD,
    N_PARENT,
    N_PREV,
    N_READERS,
    N_RING,
    N_TABLE,
    N_TBEGIN,
    N_TELL,
    N_TEND,
    N_TOLD,
    N_VALUE,
    RING,
    T_CAPACITY,
    T_MULT,
    T_ROWS,
    T_STRIDE,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.group_prefetch import ask_for_neighbours
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.int128 import is_less
from dynq_cli.engine.kernels.multiplicity import value_before, value_now
from dynq_cli.engine.kernels.ordered import link_behind
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch, prefetch_all
from dynq_cli.engine.kernels.table import record


@bare(inline="always")
def remember(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, old: Words) -> None:
    """The payload of a row of node v changes from `old`, maybe not for the first time in this commit."""
    at = record(T, N[v, N_TABLE], row)
    if a32[2 * at + N[v, N_CHANGED]] == 0:
        keep(a64, N, v, at, old)
        _list(a32, N, v, row, at)


@bare(inline="always")
def keep(a64: Words, N: Words, v: Int, at: Int, old: Words) -> None:
    """What the multiplicity of a row of node v was; that of a leaf fits a lane."""
    a64[at + N[v, N_OLD]] = old[0]
    if N[v, N_DEGREE] > 0:
        a64[at + N[v, N_OLD] + 1] = old[1]


@bare(inline="always")
def _list(a32: Halves, N: Words, v: Int, row: Int, at: Int) -> None:
    """A row of node v, whose record is at `at`, is the first of those that changed."""
    place = N_RING + (N[v, N_LISTED] & RING - 1)
    a32[2 * at + N[v, N_CHANGED]] = N[v, place] + 2
    N[v, place] = row
    N[v, N_LISTED] += 1


@bare
def remember_in_order(a32: Halves, T: Words, N: Words, v: Int, rows: Words, many: Int) -> None:
    """Rows of compared node v have changed; they are listed in the order given, that of their groups' lists."""
    for back in range(many):
        row = rows[many - 1 - back]
        _list(a32, N, v, row, record(T, N[v, N_TABLE], row))


@bare
def remember_range(a32: Halves, N: Words, c: Int, row: Int, at: Int, first: Int, last: Int) -> None:
    """The range of a reader of node c, whose record is at `at`, goes from `first` to `last` once lists are relinked."""
    a32[2 * at + N[c, N_TBEGIN]], a32[2 * at + N[c, N_TEND]] = first, last
    a32[2 * at + N[c, N_TOLD]] = N[c, N_TELL]
    N[c, N_TELL] = row


@bare
def _move_ranges(a32: Halves, T: Words, N: Words, c: Int) -> None:
    """Readers of node c begin and end where they do in the new state."""
    above, row = N[N[c, N_PARENT], N_TABLE], N[c, N_TELL]
    while row >= 0:
        at = 2 * record(T, above, row)
        a32[at + N[c, N_BEGIN]], a32[at + N[c, N_END]] = a32[at + N[c, N_TBEGIN]], a32[at + N[c, N_TEND]]
        row = np.int64(a32[at + N[c, N_TOLD]])
    N[c, N_TELL] = -1


@bare
def in_turn(a64: Words, a32: Halves, T: Words, N: Words, L: Words, changed: Halves) -> None:
    """The rows that changed, of every level in the order of its list, into `changed`: those that became fewer from the
    beginning of the level's part on, those that became more from its end on, backwards; ~row for one that died or came
    to life. Those that are what they were are not listed any more."""
    for level in range(len(L)):
        v, fewer, more = L[level, L_NODE], np.int64(0), np.int64(0)
        t, old, link_ = N[v, N_TABLE], N[v, N_OLD], N[v, N_CHANGED]
        value = N[v, N_VALUE] if N[v, N_DEGREE] > 0 else T[t, T_MULT]
        for back in range(N[v, N_LISTED]):
            place = N_RING + (N[v, N_LISTED] - 1 - back & RING - 1)
            row = N[v, place]
            at = record(T, t, row)
            following = np.int64(a32[2 * at + link_]) - 2
            N[v, place] = following
            if following >= 0:
                there = record(T, t, following)
                prefetch(a64, there + (link_ >> 1))
                prefetch(a64, there + old)
                prefetch(a64, there + value)
            was_lo, was_hi = value_before(a64, N, v, at)
            lo, hi = value_now(a64, a32, T, N, v, at)
            entry = row if (lo != 0 or hi != 0) == (was_lo != 0 or was_hi != 0) else ~row
            if is_less(lo, hi, was_lo, was_hi):
                changed[L[level, L_ROWS] + fewer] = entry
                fewer += 1
            elif lo != was_lo or hi != was_hi:
                changed[L[level, L_ROWS] + T[t, T_CAPACITY] - 1 - more] = entry
                more += 1
            else:
                a32[2 * at + link_] = 0
        N[v, N_LISTED] = 0
        L[level, L_FEWER], L[level, L_MORE] = fewer, more


@bare(inline="always")
def _entry(T: Words, N: Words, L: Words, level: Int, changed: Halves, is_old: Int, k: Int) -> Int:
    """Number k of the rows of a level that became fewer, if `is_old`, or more; ~row if it died or came to life."""
    if is_old:
        return np.int64(changed[L[level, L_ROWS] + k])
    return np.int64(changed[L[level, L_ROWS] + T[N[L[level, L_NODE], N_TABLE], T_CAPACITY] - 1 - k])


@bare(inline="always")
def many_changed(L: Words, level: Int, is_old: Int) -> Int:
    """How many rows of a level have more copies on a side than on the other."""
    return L[level, L_FEWER] if is_old else L[level, L_MORE]


@bare
def take_changed(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    L: Words,
    level: Int,
    changed: Halves,
    is_old: Int,
    first: Int,
    rows: Words,
) -> Int:
    """Rows of a level that have more copies on a side than on the other, from number `first` on, as many as `rows` has
    room for, and all that says how they changed asked for, and their groups: how many."""
    v = L[level, L_NODE]
    t, group, many = N[v, N_TABLE], N[v, N_GROUP], min(np.int64(len(rows)), many_changed(L, level, is_old) - first)
    start, stride = T[t, T_ROWS], T[t, T_STRIDE]
    for k in range(many):
        entry = _entry(T, N, L, level, changed, is_old, first + k)
        rows[k] = max(entry, ~entry)
        prefetch_all(a64, start + rows[k] * stride, stride)
    for k in range(many):
        there = record(T, group, np.int64(a32[2 * (start + rows[k] * stride) + N[v, N_GID]]))
        prefetch(a64, there)
        prefetch(a64, there + (N[v, N_HEAD] >> 1))
    return many


@bare
def relink(a64: Words, a32: Halves, T: Words, N: Words, L: Words, level: Int, changed: Halves, work: Words) -> None:
    """Rows of a level that died leave the lists of live rows, and those that came to life join them; `work` is two
    times AHEAD words.

    Of a compared node the row that one is to be linked behind came before it, or was there.
    """
    v = L[level, L_NODE]
    for is_old in (True, False):
        first, many = np.int64(0), many_changed(L, level, is_old)
        while first < many:
            taken = 0
            while taken < AHEAD and first < many:
                entry = _entry(T, N, L, level, changed, is_old, first)
                first += 1
                if entry < 0:
                    work[taken] = ~entry
                    taken += 1
            _move_rows(a64, a32, T, N, v, work, taken, is_old)
    if N[v, N_READERS] >= 0:
        _move_ranges(a32, T, N, v)


@bare
def _move_rows(a64: Words, a32: Halves, T: Words, N: Words, v: Int, work: Words, many: Int, is_old: Int) -> None:
    """The first `many` rows in `work` leave the lists of their groups, or join them."""
    t, group, head, places = N[v, N_TABLE], N[v, N_GROUP], N[v, N_HEAD], work[AHEAD:]
    for k in range(many):
        at = record(T, t, work[k])
        prefetch(a64, at + (N[v, N_GID] >> 1))
        prefetch(a64, at + (N[v, N_PREV] >> 1))
    for k in range(many):
        places[k] = record(T, group, np.int64(a32[2 * record(T, t, work[k]) + N[v, N_GID]]))
        prefetch(a64, places[k] + (head >> 1))
    for k in range(many):
        ask_for_neighbours(a64, a32, T, N, v, work[k], places[k], is_old, not is_old)
    for k in range(many):
        head_at = 2 * places[k] + head
        if is_old:
            unlink(a32, T, t, work[k], head_at, N[v, N_NEXT], N[v, N_PREV])
        elif N[v, N_READERS] >= 0:
            before = np.int64(a32[2 * record(T, t, work[k]) + N[v, N_PREV]])
            link_behind(a32, T, N, v, work[k], before, head_at)
        else:
            link(a32, T, t, work[k], head_at, N[v, N_NEXT], N[v, N_PREV])


@bare
def forget(a32: Halves, T: Words, N: Words, L: Words, level: Int, changed: Halves) -> None:
    """No row of a level has changed."""
    v = L[level, L_NODE]
    t = N[v, N_TABLE]
    for is_old in (True, False):
        many = many_changed(L, level, is_old)
        for k in range(many):
            if k + AHEAD < many:
                ahead = _entry(T, N, L, level, changed, is_old, k + AHEAD)
                prefetch(a32, 2 * record(T, t, max(ahead, ~ahead)) + N[v, N_CHANGED])
            entry = _entry(T, N, L, level, changed, is_old, np.int64(k))
            a32[2 * record(T, t, max(entry, ~entry)) + N[v, N_CHANGED]] = 0
    L[level, L_FEWER], L[level, L_MORE] = 0, 0
