"""What a commit changes in the rows of output nodes, of trees whose result is the change of other relations.

Such a tree runs in one arena from its old to its new state, and what came and went is read in between:

- while it is updated, `remember` keeps what the multiplicity of a row was before its first change, and lists the row;
  lists of live rows stay as they were;
- `relink` puts lists into the new state;
- `forget` ends it: between commits no row is listed.

A row is in the list of its node exactly if its field CHANGED is not 0. Nothing is allocated and nothing overflows.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.dirty import value_now
from dynq_cli.engine.kernels.fields import (
    N_CHANGED,
    N_FIRST,
    N_GID,
    N_GROUP,
    N_HEAD,
    N_NEXT,
    N_OLD,
    N_PREV,
    N_TABLE,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.table import record


@bare(inline="always")
def remember(a64: Words, a32: Halves, T: Words, N: Words, v: Int, row: Int, old: Words) -> None:
    """The payload of a row of node v changes from `old`, maybe not for the first time in this commit."""
    at = record(T, N[v, N_TABLE], row)
    if a32[2 * at + N[v, N_CHANGED]] == 0:
        a64[at + N[v, N_OLD]], a64[at + N[v, N_OLD] + 1] = old[0], old[1]
        a32[2 * at + N[v, N_CHANGED]] = N[v, N_FIRST] + 2
        N[v, N_FIRST] = row


@bare
def relink(a64: Words, a32: Halves, T: Words, N: Words, v: Int) -> None:
    """Rows of node v that died leave the lists of live rows, and those that came to life join them."""
    t, row = N[v, N_TABLE], N[v, N_FIRST]
    while row >= 0:
        at = record(T, t, row)
        was = a64[at + N[v, N_OLD]] != 0 or a64[at + N[v, N_OLD] + 1] != 0
        lo, hi = value_now(a64, a32, T, N, v, at)
        now = lo != 0 or hi != 0
        head_at = 2 * record(T, N[v, N_GROUP], np.int64(a32[2 * at + N[v, N_GID]])) + N[v, N_HEAD]
        if now and not was:
            link(a32, T, t, row, head_at, N[v, N_NEXT], N[v, N_PREV])
        elif was and not now:
            unlink(a32, T, t, row, head_at, N[v, N_NEXT], N[v, N_PREV])
        row = np.int64(a32[2 * at + N[v, N_CHANGED]]) - 2


@bare
def forget(a32: Halves, T: Words, N: Words, v: Int) -> None:
    """No row of node v has changed."""
    t, row = N[v, N_TABLE], N[v, N_FIRST]
    while row >= 0:
        at = 2 * record(T, t, row) + N[v, N_CHANGED]
        row = np.int64(a32[at]) - 2
        a32[at] = 0
    N[v, N_FIRST] = -1
