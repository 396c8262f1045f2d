"""What the next rows of a leaf will touch, asked for before they do.

A row that comes looks for its group, and where its group is a new row above, for everything that row is
linked to; a row that goes or changes knows its group. Each step is asked for for all rows before the next step
of the first one: slots, then records, then the rows at the heads of their lists. Nothing is changed here, and
nothing depends on what was found: what a row of the same batch makes is not seen.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_CHILDREN,
    N_DEGREE,
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
    N_SUM,
    N_TABLE,
    N_VHEAD,
    N_VPREV,
    N_VPROJECT,
    T_HASHED,
    T_MASK,
    T_REFS,
    T_SLOTS,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import likely, record, tag_of

# Instead of a place: nothing to look for, or a group that is not there yet.
_NOTHING, _NEW = -2, -1


@bare(inline="always")
def ask_for_neighbours(
    a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, at: Int, was_live: Int, is_live: Int
) -> None:
    """The rows between which a row of v enters or leaves the list of its group, whose record is at `at`."""
    t = N[v, N_TABLE]
    if is_live and not was_live:
        head = np.int64(a32[2 * at + N[v, N_HEAD]])
        if head >= 0:
            prefetch(a64, record(T, t, head) + (N[v, N_PREV] >> 1))
    elif was_live and not is_live:
        mine = 2 * record(T, t, row)
        before, after = np.int64(a32[mine + N[v, N_PREV]]), np.int64(a32[mine + N[v, N_NEXT]])
        if before >= 0:
            prefetch(a64, record(T, t, before) + (N[v, N_NEXT] >> 1))
        if after >= 0:
            prefetch(a64, record(T, t, after) + (N[v, N_PREV] >> 1))


@bare
def _ask_for_lookups(
    a64: Words,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    touched: Halves,
    begin: Int,
    many: Int,
    key: Words,
    places: Words,
    where: Words,
    project: Int,
    length: Int,
    t: Int,
    found: Words,
) -> None:
    """For each new row of a node above leaf v, the row of table t that agrees on the codes `project` says of its key.

    `where` says which code of the leaf's row each code of that key is.
    """
    for k in range(many):
        if places[k] != _NEW:
            continue
        at = record(T, N[v, N_TABLE], np.int64(touched[begin + k]))
        for j in range(length):
            key[j] = a64[at + where[lists[project + j]]]
        found[k] = tag_of(key, length)
        prefetch(a64, T[t, T_SLOTS] + (found[k] & T[t, T_MASK]))
    for k in range(many):
        if places[k] == _NEW:
            found[k] = likely(a64, T, t, found[k])
            prefetch(a64, max(found[k], np.int64(0)))


@bare
def _ask_above(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    touched: Halves,
    begin: Int,
    many: Int,
    key: Words,
    places: Words,
    found: Words,
) -> None:
    """What new rows above guard v will be linked to: the groups they read, the first readers there, their own group;
    and the same of the rows above that are new for them, level by level."""
    room = len(key) // 3
    where, other = key[room : 2 * room], key[2 * room :]
    for j in range(N[v, N_KEY]):
        where[j] = lists[N[v, N_PROJECT] + j]
    n, is_any = N[v, N_PARENT], True
    while is_any:
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            if N[c, N_GUARD]:
                continue
            t, project, length = N[c, N_GROUP], N[c, N_VPROJECT], N[c, N_KEY]
            _ask_for_lookups(a64, T, N, lists, v, touched, begin, many, key, places, where, project, length, t, found)
            for i in range(many):
                if places[i] == _NEW and found[i] >= 0 and N[c, N_VHEAD] >= 0:
                    reader = np.int64(a32[2 * found[i] + N[c, N_VHEAD]])
                    if reader >= 0:
                        prefetch(a64, record(T, N[n, N_TABLE], reader) + (N[c, N_VPREV] >> 1))
        if N[n, N_PARENT] < 0 or N[n, N_KEY] == 0:
            return
        t, project, length = N[n, N_GROUP], N[n, N_PROJECT], N[n, N_KEY]
        _ask_for_lookups(a64, T, N, lists, v, touched, begin, many, key, places, where, project, length, t, found)
        if not N[n, N_GUARD]:
            return
        is_any = False
        for i in range(many):
            if places[i] == _NEW:
                if found[i] >= 0:
                    places[i] = _NOTHING
                else:
                    is_any = True
        for j in range(length):
            other[j] = where[lists[project + j]]
        where, other = other, where
        n = N[n, N_PARENT]


@bare
def ask_for_groups(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    touched: Halves,
    old: Words,
    new: Words,
    begin: Int,
    end: Int,
    key: Words,
    ahead: Words,
) -> None:
    """Entries begin … end, at most AHEAD, of a settled batch for leaf v on the base table.

    Leaves the tag of the group's key in `ahead` for each row that comes.
    """
    places, found = ahead[AHEAD:], ahead[2 * AHEAD :]
    t, group, leaf_row, many = N[v, N_TABLE], N[v, N_GROUP], N[v, N_LEAF_ROW], end - begin
    slots, mask, hashed = T[group, T_SLOTS], T[group, T_MASK], T[group, T_HASHED]
    for k in range(many):
        i = begin + k
        at = record(T, t, np.int64(touched[i]))
        places[k] = _NOTHING
        if old[i] == new[i] or (old[i] != 0 and leaf_row >= 0 and a32[2 * at + leaf_row] < 0):
            continue
        if old[i] != 0:
            places[k] = record(T, group, np.int64(a32[2 * at + N[v, N_GID]]))
            prefetch(a64, places[k] + N[v, N_SUM])
            continue
        for j in range(hashed):
            key[j] = a64[at + lists[N[v, N_PROJECT] + j]]
        ahead[k] = tag_of(key, hashed)
        places[k] = _NEW
        prefetch(a64, slots + (ahead[k] & mask))
    is_any_new = False
    for k in range(many):
        if places[k] == _NEW:
            places[k] = likely(a64, T, group, ahead[k])
            if places[k] == _NEW:
                is_any_new = True
            else:
                prefetch(a64, places[k])
                prefetch(a64, places[k] + N[v, N_SUM])
                prefetch(a64, places[k] + (T[group, T_REFS] >> 1))
    if is_any_new and N[v, N_GUARD]:
        _ask_above(a64, a32, T, N, lists, v, touched, begin, many, key, places, found)
    if N[v, N_OUTPUT]:
        for k in range(many):
            if places[k] >= 0:
                i = begin + k
                row = np.int64(touched[i])
                ask_for_neighbours(a64, a32, T, N, v, row, places[k], old[i] != 0, new[i] != 0)
