"""Base rows that keep what expressions gave when they came, and their way into other relations without a tree.

A base row has, behind its own fields, the values that leaves compute from it, and whether a filter lets it pass: both
are needed again when it goes, and by then only its codes may be known.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import Flags, Halves, Int, Words
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record


@bare
def store(
    a64: Words,
    T: Words,
    t: Int,
    touched: Halves,
    first: Halves,
    old: Words,
    new: Words,
    n: Int,
    computed: Words,
    stored: Words,
) -> None:
    """Of a settled batch of base table t, rows that came keep what was computed: a column and a word in each row of
    `stored`."""
    for i in range(n):
        if old[i] == 0 and new[i] != 0:
            at = record(T, t, np.int64(touched[i]))
            for k in range(len(stored)):
                a64[at + stored[k, 1]] = computed[first[i], stored[k, 0]]


@bare
def passed(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    touched: Halves,
    first: Halves,
    old: Words,
    new: Words,
    start: Int,
    stop: Int,
    passes: Flags,
    filter_: Int,
    flag: Int,
    sources: Words,
    codes: Words,
    copies: Words,
) -> Int:
    """Entries start … stop of a settled batch of base table t, as rows that came (copies > 0) or went: how many.

    `flag` is the half word that says whether `filter_` holds, both -1 without one; `sources` are the words that make up
    a row. O(1) for each entry.
    """
    n = 0
    for i in range(start, stop):
        if i + AHEAD < stop:
            prefetch(a64, record(T, t, np.int64(touched[i + AHEAD])))
        if old[i] == new[i]:
            continue
        at = record(T, t, np.int64(touched[i]))
        if old[i] == 0 and flag >= 0:
            a32[2 * at + flag] = passes[first[i], filter_]
        if flag < 0 or a32[2 * at + flag] != 0:
            for c in range(len(sources)):
                codes[c, n] = a64[at + sources[c]]
            copies[n] = new[i] - old[i]
            n += 1
    return n
