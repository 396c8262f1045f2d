"""Positions in a result: the row at a position and the position of a row, skipping whole subtrees by their counts.

Enumeration is nested loops over the levels of the output set. Of the rows of the result, `many` agree with what is
chosen for the levels before one, copies counted; there a row t of the group in turn stands for

    value(t) × each,    each = many ÷ sum(group)

of them, one behind the other. So a position among the `many` is in the part of the row at which the values of the
group's rows, added up in their order, pass the *place* position ÷ each; and the position of a row is the sum, over
the levels, of each × the values before the row chosen there. Copies stay together, because what the frontier rows
chosen so far contribute is part of `each`.

Groups are linked lists: finding a place takes the rows before it. Positions that meet in a group are looked for
together, in the order of their places, so that its list is walked once. `choose` and `_before` are all that knows
about lists.

Nothing here passes 127 bits if the count of the result does not.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_BEGIN,
    N_CLAMP,
    N_DEGREE,
    N_GROUP,
    N_NEXT,
    N_OWN,
    N_PARENT,
    N_PREV,
    N_TABLE,
    N_TOTAL,
    N_VALUE,
    N_VGID,
    T_MULT,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.int128 import multiply, replace
from dynq_cli.engine.kernels.table import record

# Per position, counted from 0; numbers have two lanes: where it is among the `many`, the rows of the result that agree
# with what is chosen so far; of the level in turn what a unit stands for, the place, and the record of the group.
P_AT, P_MANY, P_EACH, P_PLACE, P_GROUP, P_FIELDS = 0, 2, 4, 6, 8, 9
# Per level, where a search may go on: the record of a group, one of its rows, and the values before it in two lanes.
C_GROUP, C_ROW, C_BEFORE, C_FIELDS = 0, 1, 2, 4

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TOP = np.uint64(63)
_BITS = 127


@bare(inline="always")
def _is_less(alo: Int, ahi: Int, blo: Int, bhi: Int) -> Int:
    return ahi < bhi or (ahi == bhi and np.uint64(alo) < np.uint64(blo))


# Division by zero, which does not happen, must not raise: kernels that can raise cannot be built.
@bare(error_model="numpy")
def divide(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int]:
    """a ÷ b rounded down, for 0 ≤ a < 2^127 and 0 < b < 2^127."""
    if ahi == 0 and bhi == 0:
        return np.int64(np.uint64(alo) // np.uint64(blo)), np.int64(0)
    # Digit by digit, as on paper: r is what is left of the leading bits of a.
    ulo, uhi, dlo, dhi = np.uint64(alo), np.uint64(ahi), np.uint64(blo), np.uint64(bhi)
    qlo, qhi, rlo, rhi = _ZERO, _ZERO, _ZERO, _ZERO
    for i in range(_BITS, -1, -1):
        bit = uhi >> np.uint64(i - 64) if i >= 64 else ulo >> np.uint64(i)
        rhi = (rhi << _ONE) | (rlo >> _TOP)
        rlo = (rlo << _ONE) | (bit & _ONE)
        qhi = (qhi << _ONE) | (qlo >> _TOP)
        qlo = qlo << _ONE
        if rhi > dhi or (rhi == dhi and rlo >= dlo):
            rhi = rhi - dhi - np.uint64(rlo < dlo)
            rlo = rlo - dlo
            qlo = qlo | _ONE
    return np.int64(qlo), np.int64(qhi)


@bare
def value_of(a64: Words, T: Words, N: Words, v: Int, row: Int) -> tuple[Int, Int]:
    """The multiplicity of a live row of an output node: its part of the sum of its group."""
    t = N[v, N_TABLE]
    if N[v, N_DEGREE] == 0:
        return np.int64(1) if N[v, N_CLAMP] else a64[record(T, t, row) + T[t, T_MULT]], np.int64(0)
    at = record(T, t, row) + N[v, N_VALUE]
    return a64[at], a64[at + 1]


@bare
def _list_at(a32: Halves, T: Words, N: Words, v: Int, above: Int) -> Int:
    """The record that says where the list of node v begins below a row of its parent."""
    at = record(T, N[N[v, N_PARENT], N_TABLE], above)
    if N[v, N_OWN]:
        return at
    return record(T, N[v, N_GROUP], np.int64(a32[2 * at + N[v, N_VGID]]))


@bare
def aim(a64: Words, a32: Halves, T: Words, N: Words, v: Int, above: Words, P: Words) -> None:
    """Groups and places of positions in the level of node v; `above` are the rows chosen for its parent. O(1) each."""
    for i in range(len(above)):
        at = _list_at(a32, T, N, v, above[i])
        total = at + N[v, N_TOTAL]
        lo, hi = divide(P[P_MANY, i], P[P_MANY + 1, i], a64[total], a64[total + 1])
        P[P_GROUP, i], P[P_EACH, i], P[P_EACH + 1, i] = at, lo, hi
        P[P_PLACE, i], P[P_PLACE + 1, i] = divide(P[P_AT, i], P[P_AT + 1, i], lo, hi)


@bare
def choose(
    a64: Words, a32: Halves, T: Words, N: Words, v: Int, order: Words, P: Words, cursor: Words, rows: Words
) -> None:
    """The rows of node v in which the places are that `aim` found, and the positions within the parts of these rows.

    `order` has positions of one group together, places ascending. O(rows up to the last place) per group; `cursor`
    is left at the position with the largest index, and a later search behind it in the same group begins there.
    """
    t, following = N[v, N_TABLE], N[v, N_NEXT]
    group, row = np.int64(-1), np.int64(-1)
    lo, hi, vlo, vhi = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for k in range(len(order)):
        i = order[k]
        plo, phi = P[P_PLACE, i], P[P_PLACE + 1, i]
        if P[P_GROUP, i] != group:
            group = P[P_GROUP, i]
            if group == cursor[C_GROUP] and not _is_less(plo, phi, cursor[C_BEFORE], cursor[C_BEFORE + 1]):
                row, lo, hi = cursor[C_ROW], cursor[C_BEFORE], cursor[C_BEFORE + 1]
            else:
                row, lo, hi = np.int64(a32[2 * group + N[v, N_BEGIN]]), np.int64(0), np.int64(0)
            vlo, vhi = value_of(a64, T, N, v, row)
        while True:
            elo, ehi = replace(lo, hi, np.int64(0), np.int64(0), vlo, vhi)
            if _is_less(plo, phi, elo, ehi):
                break
            lo, hi = elo, ehi
            row = np.int64(a32[2 * record(T, t, row) + following])
            vlo, vhi = value_of(a64, T, N, v, row)
        rows[i] = row
        slo, shi = multiply(lo, hi, P[P_EACH, i], P[P_EACH + 1, i])
        P[P_AT, i], P[P_AT + 1, i] = replace(P[P_AT, i], P[P_AT + 1, i], slo, shi, np.int64(0), np.int64(0))
        P[P_MANY, i], P[P_MANY + 1, i] = multiply(vlo, vhi, P[P_EACH, i], P[P_EACH + 1, i])
        if i == len(order) - 1:
            cursor[C_GROUP], cursor[C_ROW], cursor[C_BEFORE], cursor[C_BEFORE + 1] = group, row, lo, hi


@bare
def descend(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    levels: Words,
    above: Words,
    order: Words,
    P: Words,
    cursors: Words,
    rows: Words,
) -> None:
    """All levels at once, for positions that need no other order on the way: a single one.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's.
    """
    for s in range(len(levels)):
        aim(a64, a32, T, N, levels[s], rows[above[s]], P)
        choose(a64, a32, T, N, levels[s], order, P, cursors[s], rows[s + 1])


@bare
def _before(a64: Words, a32: Halves, T: Words, N: Words, v: Int, first: Int, row: Int) -> tuple[Int, Int]:
    """The values of the rows before one in the list that begins with `first`. O(rows before it)."""
    t, previous = N[v, N_TABLE], N[v, N_PREV]
    lo, hi = np.int64(0), np.int64(0)
    while row != first:
        row = np.int64(a32[2 * record(T, t, row) + previous])
        vlo, vhi = value_of(a64, T, N, v, row)
        lo, hi = replace(lo, hi, np.int64(0), np.int64(0), vlo, vhi)
    return lo, hi


@bare
def position_of(
    a64: Words, a32: Halves, T: Words, N: Words, levels: Words, above: Words, rows: Words, many_lo: Int, many_hi: Int
) -> tuple[Int, Int, Int, Int]:
    """The position, from 0, of the combination that has these live rows, and its copies; `many` is the whole result.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's.
    O(rows before these in their lists).
    """
    lo, hi = np.int64(0), np.int64(0)
    for s in range(len(levels)):
        v, row = levels[s], rows[s + 1]
        at = _list_at(a32, T, N, v, rows[above[s]])
        total = at + N[v, N_TOTAL]
        each_lo, each_hi = divide(many_lo, many_hi, a64[total], a64[total + 1])
        before_lo, before_hi = _before(a64, a32, T, N, v, np.int64(a32[2 * at + N[v, N_BEGIN]]), row)
        skipped_lo, skipped_hi = multiply(before_lo, before_hi, each_lo, each_hi)
        lo, hi = replace(lo, hi, np.int64(0), np.int64(0), skipped_lo, skipped_hi)
        vlo, vhi = value_of(a64, T, N, v, row)
        many_lo, many_hi = multiply(vlo, vhi, each_lo, each_hi)
    return lo, hi, many_lo, many_hi
