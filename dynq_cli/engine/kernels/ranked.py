"""Positions in an ordered result: as in `positions`, but each group is a counted tree, and no list is walked.

The levels stand in the order of the result, so of the rows that agree with what is chosen for the levels before one,
those below a row t of the group in turn come before all those below the next. The row at a place, and the values
before a row, take one descent of the group's tree. A level that adds no variable has one row in each group: nothing is
chosen there. A range is a part of its group's tree: what the rows before it count is added to a place in it, and taken
from one in the tree.

Nothing here passes 127 bits if the count of the result does not.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_GROUP,
    N_GUARD,
    N_HEAD,
    N_PARENT,
    N_READERS,
    N_ROOT,
    N_TABLE,
    N_TOTAL,
    N_TREE,
    N_VGID,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.int128 import is_less, multiply, replace
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_KEYS,
    C_ORDER,
    C_TABLE,
    NONE,
    O_FIELDS,
    O_POSITION,
    TARGET,
    image,
    row_at,
)
from dynq_cli.engine.kernels.order_statistic_search import (
    AFTER_EQUAL,
    BEFORE_EQUAL,
    seek,
    select,
    sum_before,
    sum_before_row,
)
from dynq_cli.engine.kernels.positions import divide, value_of
from dynq_cli.engine.kernels.table import record

# How the keys of a level are meant: rows with all of them go on to the next level; or no row has the last one, and
# those before it in the order are the rows before, or the rows before and all that are equal.
EXACT, NOT_THERE, BEHIND_EQUAL = range(3)


@bare
def _group(a32: Halves, T: Words, N: Words, v: Int, above: Int) -> Int:
    """Where the record of the group of node v is that belongs to a row of its parent."""
    at = record(T, N[N[v, N_PARENT], N_TABLE], above)
    if N[v, N_GUARD]:
        return at
    return record(T, N[v, N_GROUP], np.int64(a32[2 * at + N[v, N_VGID]]))


@bare
def _list(
    a64: Words, a32: Halves, T: Words, N: Words, trees: Trees, v: Int, above: Int, out: Words
) -> tuple[Int, Int, Int, Int]:
    """What belongs to a row of the parent of v, in its tree: where the sum of it stands, the root of the tree, and what
    the rows before a range count."""
    group = _group(a32, T, N, v, above)
    root = np.int64(a32[2 * group + N[v, N_ROOT]])
    if N[v, N_READERS] < 0:
        return group + N[v, N_TOTAL], root, np.int64(0), np.int64(0)
    at = record(T, N[N[v, N_PARENT], N_TABLE], above)
    first = np.int64(a32[2 * at + N[v, N_BEGIN]])
    sum_before_row(a64, a32, T, trees.C, N[v, N_TREE], trees.labels, trees.work, root, first, out)
    return at + N[v, N_TOTAL], root, out[0], out[1]


@bare
def _inside(lo: Int, hi: Int, skipped_lo: Int, skipped_hi: Int, total_lo: Int, total_hi: Int) -> tuple[Int, Int, Int]:
    """A place in a tree as one in a range of it, at most its ends; and whether it is before the last row's end."""
    zero = np.int64(0)
    if is_less(lo, hi, skipped_lo, skipped_hi):
        return zero, zero, False
    lo, hi = replace(lo, hi, skipped_lo, skipped_hi, zero, zero)
    if is_less(lo, hi, total_lo, total_hi):
        return lo, hi, True
    return total_lo, total_hi, False


@bare
def select_rows(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    levels: Words,
    above: Words,
    positions: Words,
    many_lo: Int,
    many_hi: Int,
    rows: Words,
    out: Words,
) -> None:
    """The rows of all levels at some positions, which count from 0 and have two lanes. O(log n) each.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's. The whole
    result has `many` rows; `out` is four words to work in.
    """
    C = trees.C
    for i in range(positions.shape[1]):
        lo, hi, mlo, mhi = positions[0, i], positions[1, i], many_lo, many_hi
        for s in range(len(levels)):
            v = levels[s]
            c = N[v, N_TREE]
            if c < 0:
                rows[s + 1, i] = a32[2 * _group(a32, T, N, v, rows[above[s], i]) + N[v, N_HEAD]]
                continue
            total, root, slo, shi = _list(a64, a32, T, N, trees, v, rows[above[s], i], out)
            elo, ehi = divide(mlo, mhi, a64[total], a64[total + 1])
            plo, phi = divide(lo, hi, elo, ehi)
            slo, shi = replace(plo, phi, np.int64(0), np.int64(0), slo, shi)
            code, entry, left_lo, left_hi = select(a64, a32, T, C, c, root, 0, slo, shi)
            row = row_at(a32, T, C, c, code, entry)
            rows[s + 1, i] = row
            plo, phi = replace(plo, phi, left_lo, left_hi, np.int64(0), np.int64(0))
            plo, phi = multiply(plo, phi, elo, ehi)
            lo, hi = replace(lo, hi, plo, phi, np.int64(0), np.int64(0))
            vlo, vhi = value_of(a64, T, N, v, row)
            mlo, mhi = multiply(vlo, vhi, elo, ehi)


@bare
def _is_equal(a64: Words, T: Words, trees: Trees, c: Int, row: Int) -> Int:
    """Whether all keys of a row are those of the target."""
    C = trees.C
    at = record(T, C[c, C_TABLE], row)
    for i in range(C[c, C_KEYS]):
        seen = image(C, c, trees.labels, i, a64[at + C[c, C_ORDER + i * O_FIELDS + O_POSITION]])
        if seen != trees.work[TARGET + i]:
            return False
    return True


@bare
def _values_before(
    a64: Words, a32: Halves, T: Words, trees: Trees, c: Int, root: Int, keys: Int, tie: Int, out: Words
) -> tuple[Int, Int]:
    """What the rows of a group count that are before the target."""
    for lane in range(len(out)):
        out[lane] = 0
    sum_before(a64, a32, T, trees.C, c, trees.labels, trees.work, keys, tie, root, out)
    return out[0], out[1]


@bare
def place_of(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    levels: Words,
    above: Words,
    given: Words,
    meant: Words,
    targets: Words,
    many_lo: Int,
    many_hi: Int,
    rows: Words,
    out: Words,
) -> tuple[Int, Int, Int, Int]:
    """How many rows of the result come before a target, and how many are equal to it. O(log n).

    Of each level so many keys are `given`, their images in `targets`; rows that agree in them are equal once a level
    has fewer than it adds, or none. `meant` says whether any row can be equal there. The whole result has `many` rows;
    `rows` and `out` are one word per level and one more, and four words, to work in.
    """
    C = trees.C
    zero = np.int64(0)
    lo, hi, mlo, mhi = zero, zero, many_lo, many_hi
    if mlo == 0 and mhi == 0:
        return lo, hi, zero, zero
    rows[0] = 0
    for s in range(len(levels)):
        v = levels[s]
        c, keys = N[v, N_TREE], given[s]
        if c < 0:
            rows[s + 1] = a32[2 * _group(a32, T, N, v, rows[above[s]]) + N[v, N_HEAD]]
            continue
        if keys == 0:
            break
        total, root, slo, shi = _list(a64, a32, T, N, trees, v, rows[above[s]], out)
        elo, ehi = divide(mlo, mhi, a64[total], a64[total + 1])
        for i in range(keys):
            trees.work[TARGET + i] = targets[s, i]
        tie = AFTER_EQUAL if meant[s] == BEHIND_EQUAL else BEFORE_EQUAL
        blo, bhi = _values_before(a64, a32, T, trees, c, root, keys, tie, out)
        blo, bhi, is_inside = _inside(blo, bhi, slo, shi, a64[total], a64[total + 1])
        plo, phi = multiply(blo, bhi, elo, ehi)
        lo, hi = replace(lo, hi, zero, zero, plo, phi)
        if meant[s] != EXACT:
            return lo, hi, zero, zero
        if keys < C[c, C_KEYS]:
            alo, ahi = _values_before(a64, a32, T, trees, c, root, keys, AFTER_EQUAL, out)
            alo, ahi, _ = _inside(alo, ahi, slo, shi, a64[total], a64[total + 1])
            alo, ahi = replace(alo, ahi, blo, bhi, zero, zero)
            mlo, mhi = multiply(alo, ahi, elo, ehi)
            break
        code, entry = seek(a64, a32, T, C, c, trees.labels, trees.work, keys, BEFORE_EQUAL, root)
        if code == NONE or not is_inside:
            return lo, hi, zero, zero
        row = row_at(a32, T, C, c, code, entry)
        if not _is_equal(a64, T, trees, c, row):
            return lo, hi, zero, zero
        rows[s + 1] = row
        vlo, vhi = value_of(a64, T, N, v, row)
        mlo, mhi = multiply(vlo, vhi, elo, ehi)
    return lo, hi, mlo, mhi
