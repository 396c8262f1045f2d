"""How often the result of a tree has rows, many at once.

A row of the result is one row of each level of the output set, and these are found by their codes; it is in the result
if each of them is live and in the range that the row of its parent reads, and its copies are the product of what the
frontier says. O(levels) per row, whatever the size of the result.

`fields` says where the codes of a level stand: for each of its variables the column of the rows that are looked for,
and the place in the key of the level's table.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.kernels.cache import bare
from dynq_cli.engine.kernels.fields import (
    N_CLAMP,
    N_DEGREE,
    N_PARENT,
    N_READERS,
    N_TABLE,
    N_TREE,
    N_VALUE,
    T_ARITY,
    T_MULT,
    Flags,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.int128 import multiply
from dynq_cli.engine.kernels.table import find, next_with_key, record

# Per level: its node, the place of its parent's row among the rows found, the half word of base rows that says whether
# its filter holds (or -1), and where its fields begin and end.
L_NODE, L_ABOVE, L_FILTER, L_FIRST, L_STOP, L_FIELDS = range(6)
F_COLUMN, F_PLACE = range(2)


@bare
def _row(a64: Words, T: Words, t: Int, key: Words, fields: Words, first: Int, stop: Int) -> Int:
    """The row of a table with these codes, or -1; base rows are found by their key if not all columns are given."""
    if stop - first == T[t, T_ARITY]:
        return find(a64, T, t, key)
    place = np.int64(-1)
    while True:
        row, place = next_with_key(a64, T, t, key, place)
        if row < 0:
            return row
        at, agrees = record(T, t, row), True
        for k in range(first, stop):
            if a64[at + fields[k, F_PLACE]] != key[fields[k, F_PLACE]]:
                agrees = False
        if agrees:
            return row


@bare
def _value(a64: Words, T: Words, N: Words, v: Int, row: Int) -> tuple[Int, Int]:
    """The multiplicity of a row of an output node, 0 if it is not live."""
    t = N[v, N_TABLE]
    if N[v, N_DEGREE] == 0:
        many = a64[record(T, t, row) + T[t, T_MULT]]
        return min(many, np.int64(1)) if N[v, N_CLAMP] else many, np.int64(0)
    at = record(T, t, row) + N[v, N_VALUE]
    return a64[at], a64[at + 1]


@bare
def copies_of(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    levels: Words,
    frontier: Flags,
    fields: Words,
    counted: Int,
    codes: Words,
    key: Words,
    rows: Words,
    copies: Words,
) -> Int:
    """Copies of the rows whose codes stand in the columns of `codes`, 1 at most unless they are counted.

    False if a row has more than 2^63 - 1 of them. `rows` has room for a row of each level behind the root's.
    """
    rows[0] = 0
    for i in range(codes.shape[1]):
        lo, hi = np.int64(1), np.int64(0)
        for s in range(len(levels)):
            v = levels[s, L_NODE]
            t = N[v, N_TABLE]
            for k in range(levels[s, L_FIRST], levels[s, L_STOP]):
                key[fields[k, F_PLACE]] = codes[fields[k, F_COLUMN], i]
            row = _row(a64, T, t, key, fields, levels[s, L_FIRST], levels[s, L_STOP])
            if row < 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            rows[s + 1] = row
            at = record(T, t, row)
            if levels[s, L_FILTER] >= 0 and a32[2 * at + levels[s, L_FILTER]] < 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            if N[v, N_READERS] >= 0:
                above = record(T, N[N[v, N_PARENT], N_TABLE], rows[levels[s, L_ABOVE]])
                if not is_in_range(a64, trees.C, trees.labels, N[v, N_READERS], above, N[v, N_TREE], at):
                    lo, hi = np.int64(0), np.int64(0)
                    break
            vlo, vhi = _value(a64, T, N, v, row)
            if vlo == 0 and vhi == 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            if frontier[s] and counted:
                lo, hi = multiply(lo, hi, vlo, vhi)
        if hi != 0 or lo < 0:
            return False
        copies[i] = lo
    return True
