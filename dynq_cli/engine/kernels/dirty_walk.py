"""Going through the combinations that have a dirty row, on one side; `dirty` has marked them.

Slots are gone through like the wheels of an odometer: the rows of a level, and, before the children of a row of which
a dirty combination is wanted, the child that is the first with a dirty row. Children before that one go through clean
combinations, it through dirty ones, those after it through any. Every step of every loop yields a row.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import (
    ANY,
    CLEAN,
    DIRTY,
    IS_DIRTY,
    L_ABOVE,
    L_BELOW,
    L_FRONTIER,
    L_GROUPS,
    L_MANY,
    L_NODE,
    L_QUEUE,
    L_ROWS,
    NEXT,
    NO_CLEAN,
    first_of,
    group_below,
    has_clean,
    next_of,
    queued,
)
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CLAMP,
    N_DEGREE,
    N_END,
    N_LISTS,
    N_NEXT,
    N_READERS,
    N_TABLE,
    N_VALUE,
    T_MULT,
    T_ROWS,
    T_STRIDE,
    Bytes,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.multiplicity import value_of
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record

S_LEVEL, S_CHOOSES = 0, 1
# Larger than any number of copies there may be, and no infinity: times zero it is zero.
HUGE = 1e30


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
    marks: Bytes,
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
        # The dirty rows below the root are those of the queue, the last one first.
        cursor[level] = L[level, L_QUEUE] - 1
    elif mode == CLEAN and heads[at, 1] > 0 and N[L[level, L_NODE], N_READERS] < 0:
        cursor[level] = ends[heads[at, 2] - 2] if heads[at, 2] > 1 else np.int64(0)
        current[level] = lists[cursor[level]]
    else:
        v = L[level, L_NODE]
        row = first_of(a32, T, N, v, g)
        while mode == CLEAN and marks[L[level, L_ROWS] + row] & NO_CLEAN:
            row = next_of(a32, T, N, v, g, row)
        current[level] = row


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
    marks: Bytes,
    links: Halves,
    heads: Halves,
    lists: Words,
    ends: Words,
) -> Int:
    """Put a level on its next row; False if there is none."""
    row = current[level]
    following: Int = np.int64(-1)
    if modes[level + 1] == DIRTY:
        cursor[level] -= 1
        following = np.int64(links[L[level, L_ROWS] + row, NEXT]) - 1
        if N[L[level, L_NODE], N_READERS] >= 0:
            # The dirty rows of a group are in one list, of which ranges have parts.
            at = L[level, L_GROUPS] + _group_at(a32, T, N, L, root, level, current)
            if row == heads[at, 3] - 1:
                following = np.int64(-1)
    elif cursor[level] >= 0:
        place = heads[L[level, L_GROUPS] + _group_at(a32, T, N, L, root, level, current), 2] - 1
        cursor[level] += 1
        following = lists[cursor[level]] if cursor[level] < ends[place] else np.int64(-1)
    else:
        v = L[level, L_NODE]
        g = _group_at(a32, T, N, L, root, level, current) if N[v, N_END] >= 0 else np.int64(-1)
        following = next_of(a32, T, N, v, g, row)
        while modes[level + 1] == CLEAN and following >= 0 and marks[L[level, L_ROWS] + following] & NO_CLEAN:
            following = next_of(a32, T, N, v, g, following)
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
def _follow(a32: Halves, T: Words, N: Words, v: Int, level: Int, current: Words, out: Words, filled: Int) -> Int:
    """Write a level's current row and all that follow it in its list, as far as there is room: where that ends."""
    t, size = N[v, N_TABLE], out.shape[1]
    start, stride = 2 * T[t, T_ROWS] + N[v, N_NEXT], 2 * T[t, T_STRIDE]
    row: Int = current[level]
    following: Int = row
    while following >= 0 and filled < size:
        row = following
        out[level, filled] = row
        filled += 1
        following = np.int64(a32[start + row * stride])
    current[level] = row
    return filled


@bare
def _ask_below(a32: Halves, T: Words, N: Words, L: Words, links: Halves, heads: Halves, last: Int, work: Words) -> None:
    """Ask for what combinations of the next dirty rows of the first level meet first: row number `last` of its queue
    and those marked before it, as far as `last` is from a multiple of AHEAD. `work` is AHEAD words per level."""
    many = last % AHEAD + 1
    for k in range(many):
        work[k] = queued(L, np.int64(0), links, last - k)
        _ask_for(a32, T, N[L[0, L_NODE], N_TABLE], work[k])
    for level in range(1, len(L)):
        v, up, here = L[level, L_NODE], L[level, L_ABOVE], level * AHEAD
        is_known = up >= 0 and N[v, N_READERS] < 0
        for k in range(many):
            row = work[up * AHEAD + k] if is_known else np.int64(-1)
            work[here + k] = row
            if row >= 0:
                g = group_below(a32, T, N, v, N[L[up, L_NODE], N_TABLE], row)
                prefetch(heads, L[level, L_GROUPS] + g)
                prefetch(a32, 2 * record(T, N[v, N_LISTS], g) + N[v, N_BEGIN])
                work[here + k] = g
        for k in range(many):
            g = work[here + k]
            if g >= 0:
                row = np.int64(heads[L[level, L_GROUPS] + g, 0]) - 1
                work[here + k] = row if row >= 0 else first_of(a32, T, N, v, g)
                _ask_for(a32, T, N[v, N_TABLE], max(work[here + k], np.int64(0)))


@bare(inline="always")
def _ask_for(a32: Halves, T: Words, t: Int, row: Int) -> None:
    """Ask for the whole record of a row."""
    at = record(T, t, row)
    for place in range(at, at + T[t, T_STRIDE], 8):
        prefetch(a32, 2 * place)


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
    work: Words,
) -> tuple[Int, Int, Int]:
    """Fill `out` with combinations that have a dirty row: (how many, in how many runs, whether more follow).

    A run is of combinations that differ in the innermost level alone. `out` has a row of ids per level, of the
    innermost by combination, of the others by run; and behind them where each run begins, and where a run with the same
    rows of the innermost level does, or again itself. At first `started` is 0; later calls go on from where the one
    before stopped. `work` is AHEAD words per level.
    """
    last = len(slots) - 1
    inner = slots[last, S_LEVEL]
    filled, size, runs = 0, out.shape[1], 0
    # The last list that was followed to its end: the row that it was followed from, and where it stands.
    head, like, length = np.int64(-1), 0, 0
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
                _first_row(a32, T, N, L, root, level, current, modes, choices, cursor, order, marks, heads, lists, ends)
                found = True
            else:
                found = _next_row(a32, T, N, L, root, level, current, modes, cursor, marks, links, heads, lists, ends)
            if found:
                if slot == 1 and modes[1] == DIRTY and cursor[0] >= 0 and (fresh or cursor[0] % AHEAD == AHEAD - 1):
                    _ask_below(a32, T, N, L, links, heads, cursor[0], work)
                slot += 1
                fresh = True
            elif slot == 0:
                return filled, runs, False
            else:
                slot -= 1
                fresh = False
        out[inner + 1, runs] = filled
        for level in range(inner):
            out[level, runs] = current[level]
        out[inner + 2, runs] = filled
        runs += 1
        if modes[inner + 1] != DIRTY and cursor[inner] < 0 and N[L[inner, L_NODE], N_READERS] < 0:
            if current[inner] == head and filled + length <= size:
                out[inner + 2, runs - 1] = like
                for i in range(length):
                    out[inner, filled + i] = out[inner, like + i]
                filled += length
                current[inner] = out[inner, filled - 1]
            else:
                head, like = current[inner], filled
                filled = _follow(a32, T, N, L[inner, L_NODE], inner, current, out, filled)
                length = filled - like
        else:
            while True:
                out[inner, filled] = current[inner]
                filled += 1
                if filled == size:
                    break
                if not _next_row(a32, T, N, L, root, inner, current, modes, cursor, marks, links, heads, lists, ends):
                    break
        if filled == size:
            return filled, runs, True
        slot, fresh = last - 1, False
        if slot < 0:
            return filled, runs, False


@bare
def expand(out: Words, many: Int, runs: Int) -> None:
    """From a row id per run, as `walk` gives them, to one per combination, in place."""
    outer = out.shape[0] - 3
    stop = many
    # From behind: no run begins before its number.
    for back in range(runs):
        run = runs - 1 - back
        begin = out[outer + 1, run]
        for level in range(outer):
            row = out[level, run]
            for i in range(begin, stop):
                out[level, i] = row
        stop = begin


@bare
def values_of(a64: Words, a32: Halves, T: Words, N: Words, v: Int, rows: Words, values: Words) -> None:
    """The two lanes of `value_of` for each row."""
    for i in range(len(rows)):
        values[0, i], values[1, i] = value_of(a64, a32, T, N, v, rows[i])


@bare
def _outer_factors(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    b64: Words,
    b32: Halves,
    U: Words,
    M: Words,
    L: Words,
    marks: Bytes,
    rows: Words,
    run: Int,
) -> tuple[Int, Int, float, float]:
    """What all levels but the innermost contribute to the copies in a run, on both sides; and the same as floats,
    which tell where they pass 63 bits."""
    here, there, size, far = np.int64(1), np.int64(1), 1.0, 1.0
    for level in range(len(L) - 1):
        if L[level, L_FRONTIER]:
            v, row = L[level, L_NODE], rows[level, run]
            lo, hi = value_of(a64, a32, T, N, v, row)
            here, size = here * lo, size * _as_float(lo, hi)
            if marks[L[level, L_ROWS] + row] & IS_DIRTY:
                lo, hi = value_of(b64, b32, U, M, v, row)
            there, far = there * lo, far * _as_float(lo, hi)
    return here, there, size, far


@bare(inline="always")
def _as_float(lo: Int, hi: Int) -> float:
    return HUGE if hi != 0 or lo < 0 else float(lo)


@bare
def copies_of(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    b64: Words,
    b32: Halves,
    U: Words,
    M: Words,
    L: Words,
    marks: Bytes,
    rows: Words,
    many: Int,
    runs: Int,
    here: Words,
    there: Words,
) -> Int:
    """The multiplicity of each combination, as `walk` gives them, on this side (a64 …), and on the other (b64 …):
    whether any has one there, or -1 if one passes 63 bits.

    A row of the frontier without a mark is the same on both sides, so the other is asked for marked rows alone; and
    what all levels but the innermost contribute is found once in a run.
    """
    inner = len(L) - 1
    v, first, in_frontier = L[inner, L_NODE], L[inner, L_ROWS], L[inner, L_FRONTIER]
    t = N[v, N_TABLE]
    # The rows that are walked are live here: the record alone says how often.
    is_node, is_clamped = N[v, N_DEGREE] > 0, N[v, N_CLAMP] != 0
    start, stride = T[t, T_ROWS] + (N[v, N_VALUE] if is_node else T[t, T_MULT]), T[t, T_STRIDE]
    is_any = False
    # The last run that is on this side only, and what its outer levels contribute.
    alone, factor = np.int64(-1), np.int64(0)
    for run in range(runs):
        ours, theirs, size, far = _outer_factors(a64, a32, T, N, b64, b32, U, M, L, marks, rows, run)
        begin, end, like = (
            rows[inner + 1, run],
            rows[inner + 1, run + 1] if run + 1 < runs else many,
            rows[inner + 2, run],
        )
        if far == 0.0 and like == alone and ours == factor:
            for i in range(end - begin):
                here[begin + i], there[begin + i] = here[like + i], 0
            continue
        if far == 0.0 and in_frontier and not is_node and not is_clamped:
            # Most of what came or went as a whole: no row of the run is there, and none has more copies than a word.
            alone, factor = begin, ours
            most = np.int64(0)
            for i in range(begin, end):
                lo = a64[start + rows[inner, i] * stride]
                here[i], there[i] = ours * lo, 0
                most = max(most, lo)
            if size * np.float64(most) > LARGEST:
                return np.int64(-1)
            continue
        for i in range(begin, end):
            lo, hi = np.int64(1), np.int64(0)
            row = rows[inner, i]
            if in_frontier:
                lo = a64[start + row * stride]
                if is_node:
                    hi = a64[start + row * stride + 1]
                if is_clamped and lo > 1:
                    lo = np.int64(1)
            here[i], there[i] = ours * lo, 0
            if size * _as_float(lo, hi) > LARGEST:
                return np.int64(-1)
            if far != 0.0:
                if in_frontier and marks[first + row] & IS_DIRTY:
                    lo, hi = value_of(b64, b32, U, M, v, row)
                there[i] = theirs * lo
                is_any = is_any or lo != 0
                if far * _as_float(lo, hi) > LARGEST:
                    return np.int64(-1)
    return np.int64(is_any)


@bare
def gather(
    a64: Words, T: Words, N: Words, v: Int, position: Int, level: Int, rows: Words, many: Int, runs: Int, out: Words
) -> None:
    """A code of each combination, as `walk` gives them: of the row of node v, which is that of a level."""
    start, stride, inner = T[N[v, N_TABLE], T_ROWS] + position, T[N[v, N_TABLE], T_STRIDE], rows.shape[0] - 3
    for run in range(runs):
        begin, end = rows[inner + 1, run], rows[inner + 1, run + 1] if run + 1 < runs else many
        like = rows[inner + 2, run]
        if level != inner:
            code = a64[start + rows[level, run] * stride]
            for i in range(begin, end):
                out[i] = code
        elif like != begin:
            for i in range(end - begin):
                out[begin + i] = out[like + i]
        else:
            for i in range(begin, end):
                out[i] = a64[start + rows[level, i] * stride]
