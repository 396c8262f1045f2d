"""Enumeration: nested loops over the output set, a block of result rows at a time.

A level is a node of the output set; its rows are the live rows of the group that its parent's current
row says, linked through NEXT. No list on the way is empty while the parent's row is live, so every
step of every loop yields a row: constant delay. The innermost level is run through in one go, column by
column.

The state between blocks is the current row of every level.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import (
    N_CLAMP,
    N_DEGREE,
    N_GUARD,
    N_HEAD,
    N_NEXT,
    N_TABLE,
    N_VALUE,
    N_VGID,
    N_WIDTH,
    T_ARITY,
    T_KEYS,
    T_MULT,
)

_LARGEST = 9.2e18


@kernel
def _copies(a64, T, N, v, row):  # type: ignore[no-untyped-def]
    """The multiplicity that a frontier row contributes, or -1 if it does not fit 63 bits."""
    if N[v, N_CLAMP]:
        return np.int64(1)
    if N[v, N_DEGREE] == 0:
        return a64[T[N[v, N_TABLE], T_MULT] + row]
    at = N[v, N_VALUE] + row * N[v, N_WIDTH]
    return a64[at] if a64[at + 1] == 0 and a64[at] >= 0 else np.int64(-1)


@kernel
def _first_row(a32, N, levels, above, i, current, root):  # type: ignore[no-untyped-def]
    """The first live row of level i under the current row of its parent."""
    v = levels[i]
    up = root if above[i] < 0 else current[above[i]]
    g = up if N[v, N_GUARD] else a32[N[v, N_VGID] + up]
    return np.int64(a32[N[v, N_HEAD] + g])


@kernel
def start(a32, N, levels, above, current):  # type: ignore[no-untyped-def]
    """Stand before the first result row; False if there is none."""
    for i in range(len(levels)):
        current[i] = _first_row(a32, N, levels, above, i, current, np.int64(0))
        if current[i] < 0:
            return False
    return True


@kernel
def fill(  # type: ignore[no-untyped-def]
    a64, a32, T, N, levels, above, frontier, current, column_level, column_position, out, rows, copies, counted
):
    """Fill the columns of `out` (and `copies`, if counted) from the current rows on.

    Returns (rows written, whether more follow); (-1, _) if a multiplicity does not fit 63 bits. After
    a full block the current rows are those of the next result row. O(1) per row.
    """
    size, width, last = out.shape[1], len(column_level), len(levels) - 1
    inner = levels[last]
    following, table = N[inner, N_NEXT], N[inner, N_TABLE]
    keys, arity = T[table, T_KEYS], T[table, T_ARITY]
    filled = 0
    while True:
        begin, row = filled, current[last]
        while row >= 0 and filled < size:
            rows[filled] = row
            filled += 1
            row = np.int64(a32[following + row])
        for c in range(width):
            i = column_level[c]
            if i == last:
                at = keys + column_position[c]
                for k in range(begin, filled):
                    out[c, k] = a64[at + rows[k] * arity]
            else:
                t = N[levels[i], N_TABLE]
                out[c, begin:filled] = a64[T[t, T_KEYS] + current[i] * T[t, T_ARITY] + column_position[c]]
        if counted and not _count_run(a64, T, N, levels, frontier, current, rows, copies, begin, filled):
            return -1, False
        current[last] = row
        if row < 0 and not _advance(a32, N, levels, above, current):
            return filled, False
        if filled == size:
            return filled, True


@kernel
def _count_run(a64, T, N, levels, frontier, current, rows, copies, begin, end):  # type: ignore[no-untyped-def]
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
        copies[begin:end] = outer
        return True
    is_leaf = N[v, N_DEGREE] == 0
    at = T[N[v, N_TABLE], T_MULT] if is_leaf else N[v, N_VALUE]
    stride = 1 if is_leaf else N[v, N_WIDTH]
    for k in range(begin, end):
        many = a64[at + rows[k] * stride]
        too_wide = many < 0 or (not is_leaf and a64[at + rows[k] * stride + 1] != 0)
        if too_wide or float(outer) * float(many) > _LARGEST:
            return False
        copies[k] = outer * many
    return True


@kernel
def _advance(a32, N, levels, above, current):  # type: ignore[no-untyped-def]
    """The next combination after the innermost level has run out; False after the last one."""
    i = len(levels) - 2
    while i >= 0:
        current[i] = a32[N[levels[i], N_NEXT] + current[i]]
        if current[i] >= 0:
            break
        i -= 1
    if i < 0:
        return False
    for j in range(i + 1, len(levels)):
        current[j] = _first_row(a32, N, levels, above, j, current, np.int64(0))
    return True
