"""Updating view trees: leaves take over what happened to base rows, then nodes recompute bottom-up.

For a row t of node n, value(n, t) = Π over children c of sum(c, t). A changed value moves the sum of
its group and touches the group: the row of the parent that the group is, or every row of the parent
that reads it. Rows are recomputed, not shifted, so simultaneous changes of several atoms and
self-joins need no special case. A value that stays the same touches nothing.

Payload lanes come in pairs (lo, hi). Column 0 is the multiplicity and alone decides whether a row is
live; column 1, where there is one, counts distinct results: 1 at a live frontier row, products of sums
above it. The lists that enumeration walks hold live rows only; those of a tree that feeds relations stay as they
were until what changed has been read (see `delta_log`).
"""

import numpy as np

from dynq_cli.engine.kernels.delta_log import remember
from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_CHILDREN,
    N_CLAMP,
    N_DEGREE,
    N_FILTER,
    N_FRONTIER,
    N_GID,
    N_GROUP,
    N_HEAD,
    N_LEAF_ROW,
    N_NEXT,
    N_OLD,
    N_OUTPUT,
    N_OWN,
    N_PARENT,
    N_PENDING,
    N_PREV,
    N_READERS,
    N_SOURCE,
    N_SUM,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_VALUE,
    N_VGID,
    N_VHEAD,
    N_VNEXT,
    N_WATCH,
    N_WIDTH,
    NO_ROOM,
    OK,
    OVERFLOW,
    T_ARITY,
    T_MARK,
    T_MULT,
    T_QHEAD,
    T_REFS,
    T_STRIDE,
    Flags,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.group_prefetch import ask_for_groups, ask_for_neighbours
from dynq_cli.engine.kernels.groups import join_group, link, unlink
from dynq_cli.engine.kernels.int128 import multiply, replace
from dynq_cli.engine.kernels.ordered import fits, has_room, move_in_order
from dynq_cli.engine.kernels.pending_updates import note, take_notes
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch, prefetch_all
from dynq_cli.engine.kernels.range_sums import STOP, tell_some
from dynq_cli.engine.kernels.range_sums_bulk import SWEEP, are_many, mark_readers, tell_marked
from dynq_cli.engine.kernels.ranges import begin_reading
from dynq_cli.engine.kernels.table import dequeue, enqueue, find_or_insert, record

# Words to work in: payloads of AHEAD rows, then two numbers for each of them.
WORK = 6 * AHEAD
# Rows in between one that is in turn and the one that is asked for.
_GUESS = 8


@bare(inline="always")
def _add(a64: Words, N: Words, v: Int, at: Int, old: Words, new: Words, start: Int, stop: Int) -> Int:
    """Payloads start … stop of rows in one group, whose record is at `at`, went from old to new: its sum follows."""
    fits = True
    for i in range(0, N[v, N_WIDTH], 2):
        place = at + N[v, N_SUM] + i
        lo, hi = a64[place], a64[place + 1]
        for k in range(4 * start + i, 4 * stop + i, 4):
            lo, hi = replace(lo, hi, old[k], old[k + 1], new[k], new[k + 1])
        a64[place], a64[place + 1] = lo, hi
        fits = fits and hi >= 0
    return fits


@bare
def _follow(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, v: Int, row: Int, at: Int, old: Words, new: Words
) -> None:
    """The payload of a row of the group at `at` went from old to new: what is kept of live rows follows."""
    if N[v, N_READERS] >= 0:
        note(a32, T, N, v, row)
    elif N[v, N_OLD] >= 0:
        remember(a64, a32, T, N, v, row, old)
    elif N[v, N_OUTPUT]:
        was, now = old[0] != 0 or old[1] != 0, new[0] != 0 or new[1] != 0
        if N[v, N_TREE] >= 0:
            move_in_order(a64, a32, T, N, trees, v, row, at, was, now, old, new)
        elif now and not was:
            link(a32, T, N[v, N_TABLE], row, 2 * at + N[v, N_HEAD], N[v, N_NEXT], N[v, N_PREV])
        elif was and not now:
            unlink(a32, T, N[v, N_TABLE], row, 2 * at + N[v, N_HEAD], N[v, N_NEXT], N[v, N_PREV])
    watch = N[v, N_WATCH]
    if watch >= 0:
        if a64[watch] < a64[watch + 1]:
            a64[watch + 2 + a64[watch]] = row
        a64[watch] += 1


@bare
def _move(a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, v: Int, row: Int, old: Words, new: Words) -> Int:
    """The payload of a row went from old to new: sum, live list and queue of its group follow."""
    group = N[v, N_GROUP]
    g = np.int64(a32[2 * record(T, N[v, N_TABLE], row) + N[v, N_GID]])
    at = record(T, group, g)
    fits = _add(a64, N, v, at, old, new, 0, 1)
    _follow(a64, a32, T, N, trees, v, row, at, old, new)
    if N[v, N_READERS] < 0:
        enqueue(a32, T, group, g)
    return fits


@bare
def _move_rows(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    v: Int,
    rows: Words,
    groups: Words,
    many: Int,
    old: Words,
    new: Words,
) -> Int:
    """`_move` for rows of which neighbours may be in one group: those of a root all are."""
    group, start, fits = N[v, N_GROUP], np.int64(0), True
    while start < many:
        at, stop = record(T, group, groups[start]), start + 1
        while stop < many and groups[stop] == groups[start]:
            stop += 1
        fits = _add(a64, N, v, at, old, new, start, stop) and fits
        for k in range(start, stop):
            _follow(a64, a32, T, N, trees, v, rows[k], at, old[4 * k :], new[4 * k :])
        if N[v, N_READERS] < 0:
            enqueue(a32, T, group, groups[start])
        start = stop
    return fits


@bare(inline="always")
def _payload_of_leaf(N: Words, v: Int, many: Int, payload: Words) -> None:
    live = np.int64(many > 0)
    payload[0] = live if N[v, N_CLAMP] else many
    payload[1] = 0
    payload[2] = live
    payload[3] = 0


@bare
def _leaf_row(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    at: Int,
    computed: Words,
    change: Int,
    key: Words,
) -> Int:
    """The row of leaf v for a base row whose record is at `at`, with one more reference."""
    t = N[v, N_TABLE]
    wanted = key[T[t, T_ARITY] :]
    for j in range(T[t, T_ARITY]):
        source = lists[N[v, N_SOURCE] + j]
        wanted[j] = a64[at + source] if source >= 0 else computed[change, -source - 1]
    row, is_new = find_or_insert(a64, a32, T, t, wanted)
    if is_new:
        join_group(a64, a32, T, N, lists, v, row, key, np.int64(-1))
    a32[2 * record(T, t, row) + T[t, T_REFS]] += 1
    return row


@bare
def update_leaf(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    v: Int,
    t: Int,
    touched: Halves,
    first: Halves,
    old: Words,
    new: Words,
    start: Int,
    stop: Int,
    computed: Words,
    passes: Flags,
    key: Words,
    before: Words,
    after: Words,
    ahead: Words,
    trees: Trees,
) -> Int:
    """Entries start … stop of a settled batch of base table t, for leaf v.

    `computed` and `passes` have a row per change: values that the leaf binds to expressions, and
    whether its filters hold. They are looked at for rows that come, never for rows that go.
    """
    shared, leaf_row = N[v, N_TABLE] == t, N[v, N_LEAF_ROW]
    for i in range(start, stop):
        place = (i - start) % AHEAD
        if shared and place == 0:
            end = min(i + AHEAD, stop)
            ask_for_groups(a64, a32, T, N, lists, v, touched, old, new, i, end, key, ahead)
        if old[i] == new[i]:
            continue
        base = np.int64(touched[i])
        at = record(T, t, base)
        row = base
        if old[i] == 0:
            if N[v, N_FILTER] >= 0 and not passes[first[i], N[v, N_FILTER]]:
                a32[2 * at + leaf_row] = -1
                continue
            if shared:
                join_group(a64, a32, T, N, lists, v, base, key, ahead[place])
            else:
                row = _leaf_row(a64, a32, T, N, lists, v, at, computed, first[i], key)
            if leaf_row >= 0:
                a32[2 * at + leaf_row] = row
        elif leaf_row >= 0:
            row = np.int64(a32[2 * at + leaf_row])
            if row < 0:
                continue
        was, now = old[i], new[i]
        if not shared:
            many_at = record(T, N[v, N_TABLE], row) + T[N[v, N_TABLE], T_MULT]
            was = a64[many_at]
            now = was + new[i] - old[i]
            if now < 0:
                return OVERFLOW
            a64[many_at] = now
        _payload_of_leaf(N, v, was, before)
        _payload_of_leaf(N, v, now, after)
        if (before[0] != after[0] or before[2] != after[2]) and not _move(a64, a32, T, N, trees, v, row, before, after):
            return OVERFLOW
    return OK


@bare
def _multiply_sums(
    a64: Words, a32: Halves, T: Words, N: Words, lists: Words, n: Int, rows: Words, many: Int, values: Words
) -> Int:
    """Π of the children's sums for some rows of node n, child by child; False if one does not fit."""
    t = N[n, N_TABLE]
    for p in range(0, N[n, N_WIDTH], 2):
        for k in range(many):
            values[4 * k + p], values[4 * k + p + 1] = 1, 0
        if p == 2 and N[n, N_FRONTIER]:
            for k in range(many):
                values[4 * k + 2] = np.int64(values[4 * k] != 0 or values[4 * k + 1] != 0)
            continue
        for i in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + i]
            group, own, gid, total = N[c, N_GROUP], N[c, N_OWN], N[c, N_VGID], N[c, N_TOTAL] + p
            for k in range(many):
                at = record(T, t, rows[k])
                place = total + (at if own else record(T, group, np.int64(a32[2 * at + gid])))
                lo, hi = multiply(values[4 * k + p], values[4 * k + p + 1], a64[place], a64[place + 1])
                if hi < 0:
                    return False
                values[4 * k + p], values[4 * k + p + 1] = lo, hi
        if N[n, N_CLAMP]:
            for k in range(many):
                values[4 * k + p] = np.int64(values[4 * k + p] != 0 or values[4 * k + p + 1] != 0)
                values[4 * k + p + 1] = 0
    return True


@bare
def _ask_for_sums(a64: Words, a32: Halves, T: Words, N: Words, lists: Words, n: Int, rows: Words, many: Int) -> None:
    """The groups that rows of node n read and are not part of."""
    for i in range(N[n, N_DEGREE]):
        c = lists[N[n, N_CHILDREN] + i]
        if not N[c, N_OWN]:
            for k in range(many):
                g = np.int64(a32[2 * record(T, N[n, N_TABLE], rows[k]) + N[c, N_VGID]])
                prefetch(a64, record(T, N[c, N_GROUP], g) + N[c, N_SUM])


@bare
def _recompute_rows(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    n: Int,
    rows: Words,
    many: Int,
    before: Words,
    after: Words,
    groups: Words,
    trees: Trees,
) -> Int:
    """Recompute some rows of node n and let the groups of those that change follow.

    OVERFLOW if a count does not fit; NO_ROOM if the node's counted tree may need more blocks: the rows are queued then.
    """
    t, group, value, width = N[n, N_TABLE], N[n, N_GROUP], N[n, N_VALUE], N[n, N_WIDTH]
    if N[n, N_READERS] < 0 and not has_room(T, N, trees, n, many):
        for k in range(many):
            enqueue(a32, T, t, rows[k])
        return NO_ROOM
    for k in range(many):
        prefetch_all(a64, record(T, t, rows[k]), T[t, T_STRIDE])
    _ask_for_sums(a64, a32, T, N, lists, n, rows, many)
    if not _multiply_sums(a64, a32, T, N, lists, n, rows, many, after):
        return OVERFLOW
    # Ordered rows are written one by one, when their group follows.
    moved, has_parent, is_written = 0, N[n, N_PARENT] >= 0, N[n, N_TREE] < 0 or N[n, N_READERS] >= 0
    head = N[n, N_HEAD] >> 1 if N[n, N_OUTPUT] else np.int64(0)
    for k in range(many):
        at = record(T, t, rows[k])
        changed = False
        for i in range(width):
            was, now = a64[at + value + i], after[4 * k + i]
            changed = changed or was != now
            before[4 * moved + i], after[4 * moved + i] = was, now
            if is_written:
                a64[at + value + i] = now
        if changed and has_parent:
            groups[moved] = a32[2 * at + N[n, N_GID]]
            place = record(T, group, groups[moved])
            prefetch(a64, place + N[n, N_SUM])
            prefetch(a64, place + head)
            rows[moved] = rows[k]
            moved += 1
    if N[n, N_OUTPUT]:
        for k in range(moved):
            was, now = before[4 * k] != 0 or before[4 * k + 1] != 0, after[4 * k] != 0 or after[4 * k + 1] != 0
            ask_for_neighbours(a64, a32, T, N, n, rows[k], record(T, group, groups[k]), was, now)
    if not _move_rows(a64, a32, T, N, trees, n, rows, groups, moved, before, after):
        return OVERFLOW
    return OK


@bare
def _take_readers(
    a64: Words, a32: Halves, T: Words, N: Words, c: Int, t: Int, walkers: Words, many: Int, rows: Words
) -> tuple[Int, Int]:
    """Up to AHEAD rows of table t, the parent's, that read touched groups of child c.

    The readers of several groups are followed at the same time: `walkers` are the next reader of each. Returns the
    number of rows, and of walkers left.
    """
    group, taken = N[c, N_GROUP], 0
    while many < AHEAD:
        g = np.int64(dequeue(a32, T, group))
        if g < 0:
            break
        row = np.int64(a32[2 * record(T, group, g) + N[c, N_VHEAD]])
        if row >= 0:
            prefetch(a64, record(T, t, row))
            prefetch(a64, record(T, t, row) + (N[c, N_VNEXT] >> 1))
            walkers[many] = row
            many += 1
    while taken < AHEAD and many > 0:
        left = 0
        for k in range(many):
            row = walkers[k]
            if taken < AHEAD:
                rows[taken] = row
                taken += 1
                row = np.int64(a32[2 * record(T, t, row) + N[c, N_VNEXT]])
                if row >= 0:
                    prefetch(a64, record(T, t, row))
                    prefetch(a64, record(T, t, row) + (N[c, N_VNEXT] >> 1))
            if row >= 0:
                walkers[left] = row
                left += 1
        many = left
    return taken, many


@bare
def _tell_readers(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    n: Int,
    c: Int,
    rows: Words,
    before: Words,
    after: Words,
    groups: Words,
    trees: Trees,
) -> Int:
    """Rows of node n follow what their ranges of child c have become; False if a count does not fit."""
    state = after[4 * AHEAD : 4 * AHEAD + SWEEP]
    state[STOP] = 0
    many_notes = take_notes(a64, a32, T, N, trees, c)
    told, row = np.int64(0), np.int64(-1)
    while True:
        if row >= 0:
            many, row = tell_marked(a64, a32, T, N, trees, c, row, rows)
        else:
            many = tell_some(a64, a32, T, N, trees, c, many_notes, state, rows)
            told += many
            if are_many(T, N, trees, c, told):
                mark_readers(a64, a32, T, N, trees, c, many_notes, state)
                row = np.int64(0)
        if many == 0:
            break
        if _recompute_rows(a64, a32, T, N, lists, n, rows, many, before, after, groups, trees) == OVERFLOW:
            return False
    begin_reading(a64, a32, T, N, trees, c)
    N[c, N_PENDING] = 0
    return True


@bare
def propagate(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    lists: Words,
    first: Int,
    stop: Int,
    before: Words,
    after: Words,
    trees: Trees,
) -> Int:
    """Recompute the touched rows of the nodes first … stop, which stand children before parents.

    `before` and `after` are WORK words each to work in. NO_ROOM if counted trees need more blocks: what is left to
    be done is queued, and another call goes on; before[0] says for how many rows.
    """
    rows, groups, walkers = before[4 * AHEAD : 5 * AHEAD], before[5 * AHEAD : WORK], after[4 * AHEAD : 5 * AHEAD]
    for n in range(first, stop):
        if N[n, N_DEGREE] == 0:
            continue
        t, short = N[n, N_TABLE], False
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            if N[c, N_READERS] >= 0 and N[c, N_PENDING] > 0:
                if not fits(T, trees, N[c, N_PENDING]):
                    before[0] = N[c, N_PENDING]
                    return NO_ROOM
                if not _tell_readers(a64, a32, T, N, lists, n, c, rows, before, after, groups, trees):
                    return OVERFLOW
        for k in range(N[n, N_DEGREE]):
            c = lists[N[n, N_CHILDREN] + k]
            left = 0
            while not N[c, N_OWN]:
                many, left = _take_readers(a64, a32, T, N, c, t, walkers, left, rows)
                if many == 0:
                    break
                done = _recompute_rows(a64, a32, T, N, lists, n, rows, many, before, after, groups, trees)
                if done == OVERFLOW:
                    return OVERFLOW
                short = short or done == NO_ROOM
        if short:
            before[0] = AHEAD
            return NO_ROOM
        while T[t, T_QHEAD] >= 0:
            many = 0
            while many < AHEAD and T[t, T_QHEAD] >= 0:
                rows[many] = dequeue(a32, T, t)
                # New rows were queued in the order of their ids.
                following = record(T, t, max(T[t, T_QHEAD], np.int64(0)) + _GUESS)
                prefetch(a64, following + (T[t, T_MARK] >> 1))
                many += 1
            done = _recompute_rows(a64, a32, T, N, lists, n, rows, many, before, after, groups, trees)
            if done != OK:
                before[0] = AHEAD
                return done
    return OK
