"""Enumerate the combinations with a dirty row, in one state; `dirty` has marked them.

Levels advance like the wheels of an odometer. Where the children of a row must have a dirty combination, one more wheel
chooses the first child with a dirty row: children before it enumerate clean combinations, the child itself dirty ones,
children behind it all. Every step of every loop yields a row.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.dirty import (
    ANY,
    CLEAN,
    DIRTY,
    IS_DIRTY,
    NEXT,
    NO_CLEAN,
    Marks,
    Odometer,
    first_of,
    group_below,
    has_clean,
    next_of,
    queued,
)
from dynq_cli.engine.kernels.enumeration_pipeline import LARGEST
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.multiplicity import value_of
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record

# Larger than any number of copies there may be, and no infinity: times zero it is zero.
HUGE = 1e30


@kernel
def _group_at(store: Store, marks: Marks, level: Int, wheels: Odometer) -> Int:
    """Return the group that a level enumerates below the current row above it."""
    here = marks.levels[level]
    up = here.above
    above = marks.levels[up] if up >= 0 else marks.root[0]
    return group_below(store, here.node, store.nodes[above.node].table, wheels.current[up] if up >= 0 else np.int64(0))


@kernel
def _first_row(store: Store, marks: Marks, level: Int, wheels: Odometer) -> None:
    """Put a level on its first row; there is one."""
    heads = marks.heads
    here = marks.levels[level]
    up = here.above
    mode = wheels.modes[up + 1]
    if mode == DIRTY:
        chosen = wheels.choices[up + 1]
        mode = CLEAN if wheels.order[level] < chosen else (DIRTY if wheels.order[level] == chosen else ANY)
    wheels.modes[level + 1] = mode
    g = _group_at(store, marks, level, wheels)
    at = here.groups + g
    wheels.cursor[level] = -1
    if mode == DIRTY:
        wheels.current[level] = heads[at, 0] - 1
        # The dirty rows below the root are those of the queue, the last one first.
        wheels.cursor[level] = here.queued - 1
    elif mode == CLEAN and heads[at, 1] > 0 and store.nodes[here.node].readers < 0:
        wheels.cursor[level] = wheels.ends[heads[at, 2] - 2] if heads[at, 2] > 1 else np.int64(0)
        wheels.current[level] = wheels.lists[wheels.cursor[level]]
    else:
        node_id = here.node
        row = first_of(store, node_id, g)
        while mode == CLEAN and marks.flags[here.rows + row] & NO_CLEAN:
            row = next_of(store, node_id, g, row)
        wheels.current[level] = row


@kernel
def _next_row(store: Store, marks: Marks, level: Int, wheels: Odometer) -> Int:
    """Put a level on its next row; False if there is none."""
    heads = marks.heads
    here = marks.levels[level]
    row = wheels.current[level]
    following: Int = np.int64(-1)
    if wheels.modes[level + 1] == DIRTY:
        wheels.cursor[level] -= 1
        following = np.int64(marks.links[here.rows + row, NEXT]) - 1
        if store.nodes[here.node].readers >= 0:
            # The dirty rows of a group are in one list, of which ranges have parts.
            at = here.groups + _group_at(store, marks, level, wheels)
            if row == heads[at, 3] - 1:
                following = np.int64(-1)
    elif wheels.cursor[level] >= 0:
        place = heads[here.groups + _group_at(store, marks, level, wheels), 2] - 1
        wheels.cursor[level] += 1
        following = wheels.lists[wheels.cursor[level]] if wheels.cursor[level] < wheels.ends[place] else np.int64(-1)
    else:
        node_id = here.node
        is_part = store.nodes[node_id].end >= 0 or store.nodes[node_id].waits >= 0
        g = _group_at(store, marks, level, wheels) if is_part else np.int64(-1)
        following = next_of(store, node_id, g, row)
        while wheels.modes[level + 1] == CLEAN and following >= 0 and marks.flags[here.rows + following] & NO_CLEAN:
            following = next_of(store, node_id, g, following)
    if following < 0:
        return False
    wheels.current[level] = following
    return True


@kernel
def _next_choice(store: Store, marks: Marks, level: Int, after: Int, wheels: Odometer) -> Int:
    """Return the next child, behind number `after`, that can be the first with a dirty row, or -1."""
    heads = marks.heads
    here = marks.levels[level] if level >= 0 else marks.root[0]
    table_id = store.nodes[here.node].table
    row = wheels.current[level] if level >= 0 else np.int64(0)
    for k in range(here.children):
        child = marks.below[here.below + k]
        child_level = marks.levels[child]
        at = child_level.groups + group_below(store, child_level.node, table_id, row)
        if k > after and heads[at, 0] > 0:
            return np.int64(k)
        # Children before the chosen one go through clean combinations only.
        if heads[at, 1] > 0 and not has_clean(store, marks, child, at - child_level.groups):
            return np.int64(-1)
    return np.int64(-1)


@kernel
def _follow(store: Store, node_id: Int, level: Int, wheels: Odometer, out: Words, filled: Int) -> Int:
    """Write a level's current row and the rows behind it in its list, as far as there is room; return where that
    ends."""
    node = store.nodes[node_id]
    table, size = store.tables[node.table], out.shape[1]
    start, stride = 2 * table.rows + node.next, 2 * table.stride
    row: Int = wheels.current[level]
    following: Int = row
    while following >= 0 and filled < size:
        row = following
        out[level, filled] = row
        filled += 1
        following = np.int64(store.halves[start + row * stride])
    wheels.current[level] = row
    return filled


@kernel
def _ask_below(store: Store, marks: Marks, last: Int) -> None:
    """Prefetch what combinations of the next dirty rows of the first level read first.

    That is row number `last` of its queue and the rows marked before it, as far as `last` is from a multiple of AHEAD.
    """
    heads = marks.heads
    many = last % AHEAD + 1
    for k in range(many):
        marks.work[k] = queued(marks, np.int64(0), last - k)
        _ask_for(store, store.nodes[marks.levels[0].node].table, marks.work[k])
    for level in range(1, len(marks.levels)):
        this = marks.levels[level]
        node_id, up, here = this.node, this.above, level * AHEAD
        node = store.nodes[node_id]
        is_known = up >= 0 and node.readers < 0
        for k in range(many):
            row = marks.work[up * AHEAD + k] if is_known else np.int64(-1)
            marks.work[here + k] = row
            if row >= 0:
                g = group_below(store, node_id, store.nodes[marks.levels[up].node].table, row)
                prefetch(heads, this.groups + g)
                prefetch(store.halves, 2 * record(store.tables[node.list_table], g) + node.begin)
                marks.work[here + k] = g
        for k in range(many):
            g = marks.work[here + k]
            if g >= 0:
                row = np.int64(heads[this.groups + g, 0]) - 1
                marks.work[here + k] = row if row >= 0 else first_of(store, node_id, g)
                _ask_for(store, node.table, max(marks.work[here + k], np.int64(0)))


@kernel(inline="always")
def _ask_for(store: Store, table_id: Int, row: Int) -> None:
    """Prefetch the whole record of a row."""
    table = store.tables[table_id]
    at = record(table, row)
    for place in range(at, at + table.stride, 8):
        prefetch(store.halves, 2 * place)


@kernel
def walk(store: Store, marks: Marks, wheels: Odometer, started: Int, out: Words) -> tuple[Int, Int, Int]:
    """Fill `out` with combinations that have a dirty row: (how many, in how many runs, whether more follow).

    A run is of combinations that differ in the innermost level alone. `out` has a row of ids per level: for the
    innermost level by combination, for the others by run. Behind them it has where each run begins, and where a run
    with the same rows of the innermost level begins, which may be the run itself. At first `started` is 0; later calls
    continue where the one before stopped.
    """
    last = len(wheels.slots) - 1
    inner = wheels.slots[last].level
    inner_level = marks.levels[inner]
    filled, size, runs = 0, out.shape[1], 0
    # The last list that was followed to its end: the row that it was followed from, and where it stands.
    head, like, length = np.int64(-1), 0, 0
    slot = last if started else 0
    fresh = not started
    while True:
        # Wheels from `slot` on are set: to their first value if fresh, else this one to its next.
        while slot <= last:
            level = wheels.slots[slot].level
            if wheels.slots[slot].chooses:
                found = wheels.modes[level + 1] != DIRTY and fresh
                if wheels.modes[level + 1] == DIRTY:
                    after = np.int64(-1) if fresh else wheels.choices[level + 1]
                    wheels.choices[level + 1] = _next_choice(store, marks, level, after, wheels)
                    found = wheels.choices[level + 1] >= 0
            elif fresh:
                _first_row(store, marks, level, wheels)
                found = True
            else:
                found = _next_row(store, marks, level, wheels)
            if found:
                if (
                    slot == 1
                    and wheels.modes[1] == DIRTY
                    and wheels.cursor[0] >= 0
                    and (fresh or wheels.cursor[0] % AHEAD == AHEAD - 1)
                ):
                    _ask_below(store, marks, wheels.cursor[0])
                slot += 1
                fresh = True
            elif slot == 0:
                return filled, runs, False
            else:
                slot -= 1
                fresh = False
        out[inner + 1, runs] = filled
        for level in range(inner):
            out[level, runs] = wheels.current[level]
        out[inner + 2, runs] = filled
        runs += 1
        if wheels.modes[inner + 1] != DIRTY and wheels.cursor[inner] < 0 and store.nodes[inner_level.node].readers < 0:
            if wheels.current[inner] == head and filled + length <= size:
                out[inner + 2, runs - 1] = like
                for i in range(length):
                    out[inner, filled + i] = out[inner, like + i]
                filled += length
                wheels.current[inner] = out[inner, filled - 1]
            else:
                head, like = wheels.current[inner], filled
                filled = _follow(store, inner_level.node, inner, wheels, out, filled)
                length = filled - like
        else:
            while True:
                out[inner, filled] = wheels.current[inner]
                filled += 1
                if filled == size:
                    break
                if not _next_row(store, marks, inner, wheels):
                    break
        if filled == size:
            return filled, runs, True
        slot, fresh = last - 1, False
        if slot < 0:
            return filled, runs, False


@kernel
def expand(out: Words, many: Int, runs: Int) -> None:
    """Expand a row id per run, as `walk` gives them, to one per combination, in place."""
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


@kernel
def values_of(store: Store, node_id: Int, rows: Words, values: Words) -> None:
    """Return the two lanes of `value_of` for each row."""
    for i in range(len(rows)):
        values[0, i], values[1, i] = value_of(store, node_id, rows[i])


@kernel
def _outer_factors(store: Store, other: Store, marks: Marks, rows: Words, run: Int) -> tuple[Int, Int, float, float]:
    """Return what all levels but the innermost contribute to the copies in a run, in both states; and the same as
    floats, which show where they pass 63 bits."""
    here, there, size, far = np.int64(1), np.int64(1), 1.0, 1.0
    for level in range(len(marks.levels) - 1):
        this = marks.levels[level]
        if this.frontier:
            node_id, row = this.node, rows[level, run]
            lo, hi = value_of(store, node_id, row)
            here, size = here * lo, size * _as_float(lo, hi)
            if marks.flags[this.rows + row] & IS_DIRTY:
                lo, hi = value_of(other, node_id, row)
            there, far = there * lo, far * _as_float(lo, hi)
    return here, there, size, far


@kernel(inline="always")
def _as_float(lo: Int, hi: Int) -> float:
    return HUGE if hi != 0 or lo < 0 else float(lo)


@kernel
def copies_of(
    store: Store, other: Store, marks: Marks, rows: Words, many: Int, runs: Int, here: Words, there: Words
) -> Int:
    """Return the multiplicity of each combination, as `walk` gives them, in this state and in the other (`other`).

    Returns whether any has one in the other state, or -1 if one passes 63 bits. A frontier row without a mark is equal
    in both states, so the other is read for marked rows alone; what the outer levels contribute is found once per run.
    """
    words = store.words
    inner = len(marks.levels) - 1
    inner_level = marks.levels[inner]
    node_id, first, in_frontier = inner_level.node, inner_level.rows, inner_level.frontier
    node = store.nodes[node_id]
    table = store.tables[node.table]
    # The rows that are walked are live here: the record alone says how often.
    is_node, is_clamped = node.degree > 0, node.clamp != 0
    start, stride = table.rows + (node.value if is_node else table.mult), table.stride
    is_any = False
    # The last run that is on this side only, and what its outer levels contribute.
    alone, factor = np.int64(-1), np.int64(0)
    for run in range(runs):
        ours, theirs, size, far = _outer_factors(store, other, marks, rows, run)
        begin, like = rows[inner + 1, run], rows[inner + 2, run]
        end = rows[inner + 1, run + 1] if run + 1 < runs else many
        if far == 0.0 and like == alone and ours == factor:
            for i in range(end - begin):
                here[begin + i], there[begin + i] = here[like + i], 0
            continue
        if far == 0.0 and in_frontier and not is_node and not is_clamped:
            # Most of what came or went as a whole: no row of the run is there, and none has more copies than a word.
            alone, factor = begin, ours
            most = np.int64(0)
            for i in range(begin, end):
                lo = words[start + rows[inner, i] * stride]
                here[i], there[i] = ours * lo, 0
                most = max(most, lo)
            if size * np.float64(most) > LARGEST:
                return np.int64(-1)
            continue
        for i in range(begin, end):
            lo, hi = np.int64(1), np.int64(0)
            row = rows[inner, i]
            if in_frontier:
                lo = words[start + row * stride]
                if is_node:
                    hi = words[start + row * stride + 1]
                if is_clamped and lo > 1:
                    lo = np.int64(1)
            here[i], there[i] = ours * lo, 0
            if size * _as_float(lo, hi) > LARGEST:
                return np.int64(-1)
            if far != 0.0:
                if in_frontier and marks.flags[first + row] & IS_DIRTY:
                    lo, hi = value_of(other, node_id, row)
                there[i] = theirs * lo
                is_any = is_any or lo != 0
                if far * _as_float(lo, hi) > LARGEST:
                    return np.int64(-1)
    return np.int64(is_any)


@kernel
def gather(
    store: Store, node_id: Int, position: Int, level: Int, rows: Words, many: Int, runs: Int, out: Words
) -> None:
    """Gather a code of each combination, as `walk` gives them: of the node's row at a level."""
    words = store.words
    node = store.nodes[node_id]
    start, stride, inner = store.tables[node.table].rows + position, store.tables[node.table].stride, rows.shape[0] - 3
    for run in range(runs):
        begin, end = rows[inner + 1, run], rows[inner + 1, run + 1] if run + 1 < runs else many
        like = rows[inner + 2, run]
        if level != inner:
            code = words[start + rows[level, run] * stride]
            for i in range(begin, end):
                out[i] = code
        elif like != begin:
            for i in range(end - begin):
                out[begin + i] = out[like + i]
        else:
            for i in range(begin, end):
                out[i] = words[start + rows[level, i] * stride]
