"""How often a row of a node is there, on a side of a commit that is on its way: now, before it, or the less of both.

A row that changed, in a tree that feeds relations, keeps what it was (`delta_log`); any other is what it was.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    LEAST,
    N_CHANGED,
    N_CLAMP,
    N_DEGREE,
    N_LEAF_ROW,
    N_OLD,
    N_SIDE,
    N_TABLE,
    N_VALUE,
    NOW,
    T_MULT,
    T_REFS,
    T_USED,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.int128 import is_less
from dynq_cli.engine.kernels.table import record


@bare
def value_of(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int) -> tuple[Int, Int]:
    """The multiplicity of a row of node v, on the side that the node is on, in two lanes; 0 for a row id that is not
    in use."""
    if row >= T[N[v, N_TABLE], T_USED]:
        return np.int64(0), np.int64(0)
    return value_on(a64, a32, T, N, v, row, N[v, N_SIDE])


@bare
def value_on(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, side: Int) -> tuple[Int, Int]:
    """The multiplicity of a row of node v that is in use, on a side."""
    return value_at(a64, a32, T, N, v, record(T, N[v, N_TABLE], row), side)


@bare(inline="always")
def value_at(a64: Words, a32: Halves, T: Words, N: Words, v: Int, at: Int, side: Int) -> tuple[Int, Int]:
    """The multiplicity of the row of node v whose record is at `at`, on a side."""
    if side == NOW or a32[2 * at + N[v, N_CHANGED]] == 0:
        return value_now(a64, a32, T, N, v, at)
    lo, hi = value_before(a64, N, v, at)
    if side == LEAST:
        now_lo, now_hi = value_now(a64, a32, T, N, v, at)
        if is_less(now_lo, now_hi, lo, hi):
            return now_lo, now_hi
    return lo, hi


@bare(inline="always")
def value_before(a64: Words, N: Words, v: Int, at: Int) -> tuple[Int, Int]:
    """The multiplicity that the row of node v whose record is at `at`, and which changed, had."""
    return a64[at + N[v, N_OLD]], a64[at + N[v, N_OLD] + 1] if N[v, N_DEGREE] > 0 else np.int64(0)


@bare
def value_now(a64: Words, a32: Halves, T: Words, N: Words, v: Int, at: Int) -> tuple[Int, Int]:
    """The multiplicity that the row of node v whose record is at `at` has now."""
    t = N[v, N_TABLE]
    if N[v, N_DEGREE] > 0:
        return a64[at + N[v, N_VALUE]], a64[at + N[v, N_VALUE] + 1]
    many = a64[at + T[t, T_MULT]]
    # A leaf without a table of its own has base rows, of which its filter may keep some out.
    if N[v, N_LEAF_ROW] >= 0 and T[t, T_REFS] < 0 and many > 0 and a32[2 * at + N[v, N_LEAF_ROW]] < 0:
        many = np.int64(0)
    if N[v, N_CLAMP] and many > 1:
        many = np.int64(1)
    return many, np.int64(0)
