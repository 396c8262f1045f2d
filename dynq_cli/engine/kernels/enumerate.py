"""Enumeration: nested loops over the output set, a block of result rows at a time.

A level is a node of the output set; its rows are the live rows of the group that its parent's current
row says, linked through NEXT. No list on the way is empty while the parent's row is live, so every
step of every loop yields a row: constant delay. The innermost level is run through in one go, column by
column; where it begins with the same row as before, as under every combination of its siblings, the run
before is copied.

The state between blocks is the current row of every level.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_CLAMP,
    N_DEGREE,
    N_GROUP,
    N_GUARD,
    N_HEAD,
    N_NEXT,
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

_LARGEST = 9.2e18


@bare
def _copies(a64: Words, T: Words, N: Words, v: Int, row: Int) -> Int:
    """The multiplicity that a frontier row contributes, or -1 if it does not fit 63 bits."""
    if N[v, N_CLAMP]:
        return np.int64(1)
    t = N[v, N_TABLE]
    if N[v, N_DEGREE] == 0:
        return a64[record(T, t, row) + T[t, T_MULT]]
    at = record(T, t, row) + N[v, N_VALUE]
    return a64[at] if a64[at + 1] == 0 and a64[at] >= 0 else np.int64(-1)


@bare
def _first_row(a32: Halves, T: Words, N: Words, levels: Words, above: Words, i: Int, current: Words) -> Int:
    """The first live row of level i under the current row of its parent; the root has row 0."""
    v = levels[i]
    g = np.int64(0) if above[i] < 0 else current[above[i]]
    if not N[v, N_GUARD]:
        g = np.int64(a32[2 * record(T, N[N[v, N_PARENT], N_TABLE], g) + N[v, N_VGID]])
    return np.int64(a32[2 * record(T, N[v, N_GROUP], g) + N[v, N_HEAD]])


@bare
def start(a32: Halves, T: Words, N: Words, levels: Words, above: Words, current: Words) -> Int:
    """Stand before the first result row; False if there is none."""
    for i in range(len(levels)):
        current[i] = _first_row(a32, T, N, levels, above, i, current)
        if current[i] < 0:
            return False
    return True


@bare
def fill(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    frontier: Flags,
    current: Words,
    column_level: Words,
    column_position: Words,
    out: Words,
    rows: Words,
    copies: Words,
    counted: Int,
) -> tuple[Int, Int]:
    """Fill the columns of `out` (and `copies`, if counted) from the current rows on.

    Returns (rows written, whether more follow); (-1, _) if a multiplicity does not fit 63 bits. After
    a full block the current rows are those of the next result row. O(1) per row.
    """
    size, width, last = out.shape[1], len(column_level), len(levels) - 1
    inner = levels[last]
    table, following = N[inner, N_TABLE], N[inner, N_NEXT]
    records, stride = T[table, T_ROWS], T[table, T_STRIDE]
    filled = 0
    run_head, run_begin, run_end = np.int64(-1), 0, 0
    while True:
        begin, row = filled, current[last]
        again = row == run_head and filled + run_end - run_begin <= size
        if again:
            for k in range(run_begin, run_end):
                rows[filled] = rows[k]
                filled += 1
            row = np.int64(-1)
        else:
            run_head, run_begin = row, begin
            while row >= 0 and filled < size:
                rows[filled] = row
                filled += 1
                row = np.int64(a32[2 * (records + row * stride) + following])
            run_end = filled
            if row >= 0:
                run_head = np.int64(-1)
        for c in range(width):
            i = column_level[c]
            if i == last:
                if again:
                    for k in range(filled - begin):
                        out[c, begin + k] = out[c, run_begin + k]
                else:
                    at = records + column_position[c]
                    for k in range(begin, filled):
                        out[c, k] = a64[at + rows[k] * stride]
            else:
                code = a64[record(T, N[levels[i], N_TABLE], current[i]) + column_position[c]]
                for k in range(begin, filled):
                    out[c, k] = code
        if counted and not _count_run(a64, T, N, levels, frontier, current, rows, copies, begin, filled):
            return -1, False
        current[last] = row
        if row < 0 and not _advance(a64, a32, T, N, levels, above, current):
            return filled, False
        if filled == size:
            return filled, True


@bare
def _count_run(
    a64: Words,
    T: Words,
    N: Words,
    levels: Words,
    frontier: Flags,
    current: Words,
    rows: Words,
    copies: Words,
    begin: Int,
    end: Int,
) -> Int:
    """The multiplicities of a run of the innermost level; False if one does not fit 63 bits."""
    last = len(levels) - 1
    outer = np.int64(1)
    for i in range(last):
        if frontier[i]:
            many = _copies(a64, T, N, levels[i], current[i])
            if many < 0 or float(outer) * float(many) > _LARGEST:
                return False
            outer *= many
    v = levels[last]
    if N[v, N_CLAMP]:
        for k in range(begin, end):
            copies[k] = outer
        return True
    t, is_leaf = N[v, N_TABLE], N[v, N_DEGREE] == 0
    at = T[t, T_ROWS] + (T[t, T_MULT] if is_leaf else N[v, N_VALUE])
    stride = T[t, T_STRIDE]
    for k in range(begin, end):
        many = a64[at + rows[k] * stride]
        too_wide = many < 0 or (not is_leaf and a64[at + rows[k] * stride + 1] != 0)
        if too_wide or float(outer) * float(many) > _LARGEST:
            return False
        copies[k] = outer * many
    return True


@bare
def _advance(a64: Words, a32: Halves, T: Words, N: Words, levels: Words, above: Words, current: Words) -> Int:
    """The next combination after the innermost level has run out; False after the last one."""
    i = len(levels) - 2
    while i >= 0:
        v = levels[i]
        t, following = N[v, N_TABLE], N[v, N_NEXT]
        row = np.int64(a32[2 * record(T, t, current[i]) + following])
        current[i] = row
        if row >= 0:
            # The row after this one is wanted when the levels below have run out.
            after = np.int64(a32[2 * record(T, t, row) + following])
            prefetch(a64, record(T, t, max(after, np.int64(0))))
            break
        i -= 1
    if i < 0:
        return False
    for j in range(i + 1, len(levels)):
        current[j] = _first_row(a32, T, N, levels, above, j, current)
    return True
