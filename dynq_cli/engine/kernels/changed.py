"""What a commit changes in the rows of output nodes, of trees whose result is the change of other relations.

Such a tree runs in one arena from its old to its new state, and what came and went is read in between:

- while it is updated, `remember` keeps what the multiplicity of a row was before its first change, and lists the row;
  lists of live rows stay as they were, and so do the ends of ranges (`remember_range`);
- `in_turn` puts the rows of that list into an array, from which they can be asked for ahead;
- `relink` puts lists and ranges into the new state;
- `forget` ends it: between commits no row is listed.

A row is in the list of its node exactly if its field CHANGED is not 0. Each names the fourth row after it, and the
node has the first four: to go through the list, four rows are waited for at a time instead of one after the other.
Nothing is allocated and nothing overflows.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import CHANGED, L_CHANGED, L_NODE, L_ROWS, value_now
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CHANGED,
    N_DEGREE,
    N_END,
    N_FIRST,
    N_FOURTH,
    N_GID,
    N_GROUP,
    N_HEAD,
    N_NEXT,
    N_OLD,
    N_PARENT,
    N_PREV,
    N_READERS,
    N_SECOND,
    N_TABLE,
    N_TBEGIN,
    N_TELL,
    N_TEND,
    N_THIRD,
    N_TOLD,
    N_VALUE,
    T_MULT,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.lookahead import ask_for_neighbours
from dynq_cli.engine.kernels.ordered import link_behind
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record


@bare(inline="always")
def remember(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, old: Words) -> None:
    """The payload of a row of node v changes from `old`, maybe not for the first time in this commit."""
    at = record(T, N[v, N_TABLE], row)
    if a32[2 * at + N[v, N_CHANGED]] == 0:
        a64[at + N[v, N_OLD]], a64[at + N[v, N_OLD] + 1] = old[0], old[1]
        _list(a32, N, v, row, at)


@bare(inline="always")
def _list(a32: Halves, N: Words, v: Int, row: Int, at: Int) -> None:
    """A row of node v, whose record is at `at`, is the first of those that changed."""
    a32[2 * at + N[v, N_CHANGED]] = N[v, N_FOURTH] + 2
    N[v, N_FOURTH], N[v, N_THIRD], N[v, N_SECOND] = N[v, N_THIRD], N[v, N_SECOND], N[v, N_FIRST]
    N[v, N_FIRST] = row


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
def in_turn(a32: Halves, T: Words, N: Words, L: Words, links: Halves) -> None:
    """The rows that changed, of every level in the order of its list, into `links`."""
    for level in range(len(L)):
        v, many = L[level, L_NODE], np.int64(0)
        t, row, second, third, fourth = N[v, N_TABLE], N[v, N_FIRST], N[v, N_SECOND], N[v, N_THIRD], N[v, N_FOURTH]
        while row >= 0:
            links[L[level, L_ROWS] + many, CHANGED] = row
            many += 1
            fifth = np.int64(a32[2 * record(T, t, row) + N[v, N_CHANGED]]) - 2
            row, second, third, fourth = second, third, fourth, fifth
        L[level, L_CHANGED] = many


@bare(inline="always")
def take_changed(
    a64: Words, a32: Halves, T: Words, N: Words, L: Words, level: Int, links: Halves, first: Int, rows: Words
) -> Int:
    """Up to AHEAD of the rows of a level that changed, from number `first` on, into `rows`, and all that says how they
    did asked for, and their groups: how many."""
    v = L[level, L_NODE]
    t, group, many = N[v, N_TABLE], N[v, N_GROUP], min(np.int64(AHEAD), L[level, L_CHANGED] - first)
    for k in range(many):
        rows[k] = links[L[level, L_ROWS] + first + k, CHANGED]
        at = record(T, t, rows[k])
        prefetch(a64, at + (N[v, N_GID] >> 1))
        prefetch(a64, at + N[v, N_OLD])
        prefetch(a64, at + (N[v, N_VALUE] if N[v, N_DEGREE] > 0 else T[t, T_MULT]))
    for k in range(many):
        there = record(T, group, np.int64(a32[2 * record(T, t, rows[k]) + N[v, N_GID]]))
        prefetch(a64, there)
        prefetch(a64, there + (N[v, N_HEAD] >> 1))
    return many


@bare
def relink(a64: Words, a32: Halves, T: Words, N: Words, L: Words, level: Int, links: Halves, rows: Words) -> None:
    """Rows of a level that died leave the lists of live rows, and those that came to life join them; `rows` are two
    times AHEAD words to work in.

    Of a compared node the row that one is to be linked behind came before it, or was there.
    """
    v = L[level, L_NODE]
    t, group, is_compared = N[v, N_TABLE], N[v, N_GROUP], N[v, N_READERS] >= 0
    lives = rows[AHEAD:]
    for first in range(0, L[level, L_CHANGED], AHEAD):
        many = take_changed(a64, a32, T, N, L, level, links, first, rows)
        for k in range(many):
            at = record(T, t, rows[k])
            was = a64[at + N[v, N_OLD]] != 0 or a64[at + N[v, N_OLD] + 1] != 0
            lo, hi = value_now(a64, a32, T, N, v, at)
            now = lo != 0 or hi != 0
            lives[k] = np.int64(now) - np.int64(was)
            there = record(T, group, np.int64(a32[2 * at + N[v, N_GID]]))
            ask_for_neighbours(a64, a32, T, N, v, rows[k], there, was, now)
        for k in range(many):
            if lives[k] == 0:
                continue
            at = record(T, t, rows[k])
            head_at = 2 * record(T, group, np.int64(a32[2 * at + N[v, N_GID]])) + N[v, N_HEAD]
            if lives[k] > 0 and is_compared:
                before = np.int64(a32[2 * at + N[v, N_PREV]])
                link_behind(a32, T, N, v, rows[k], before, head_at)
            elif lives[k] > 0:
                link(a32, T, t, rows[k], head_at, N[v, N_NEXT], N[v, N_PREV])
            else:
                unlink(a32, T, t, rows[k], head_at, N[v, N_NEXT], N[v, N_PREV])
    if is_compared:
        _move_ranges(a32, T, N, v)


@bare
def forget(a32: Halves, T: Words, N: Words, L: Words, level: Int, links: Halves) -> None:
    """No row of a level has changed."""
    v, first, many = L[level, L_NODE], L[level, L_ROWS], L[level, L_CHANGED]
    t = N[v, N_TABLE]
    for k in range(many):
        if k + AHEAD < many:
            prefetch(a32, 2 * record(T, t, np.int64(links[first + k + AHEAD, CHANGED])) + N[v, N_CHANGED])
        a32[2 * record(T, t, np.int64(links[first + k, CHANGED])) + N[v, N_CHANGED]] = 0
    N[v, N_FIRST], N[v, N_SECOND], N[v, N_THIRD], N[v, N_FOURTH] = -1, -1, -1, -1
    L[level, L_CHANGED] = 0
