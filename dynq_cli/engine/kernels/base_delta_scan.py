"""Pass the base delta of a relation on to other relations without a tree.

A base row keeps, behind its own fields, the values that leaves compute from it, and whether a filter lets it pass: both
are needed again when the row is deleted, and then only its codes may be known.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import DeltaEntries, Flags, Int, Store, Words
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import record


class Scan(NamedTuple):
    """Which rows are passed on, and which of their columns."""

    filter: (
        Words  # the column of the batch's filters that applies, and the half word of base rows that keeps it; or -1s
    )
    sources: Words  # the words that make up a row


@kernel
def keep_computed(store: Store, table_id: Int, delta: DeltaEntries, n: Int, computed: Words, stored: Words) -> None:
    """Store what was computed for the inserted rows of a settled batch: a column and a word in each row of
    `stored`."""
    for i in range(n):
        if delta.old[i] == 0 and delta.new[i] != 0:
            at = record(store.tables[table_id], np.int64(delta.touched[i]))
            for k in range(len(stored)):
                store.words[at + stored[k, 1]] = computed[delta.first[i], stored[k, 0]]


@kernel
def passed(
    store: Store,
    table_id: Int,
    delta: DeltaEntries,
    start: Int,
    stop: Int,
    passes: Flags,
    scan: Scan,
    codes: Words,
    copies: Words,
) -> Int:
    """Write entries start … stop of a settled batch as inserted (copies > 0) or deleted rows; return how many.

    O(1) for each entry.
    """
    filter_, flag = scan.filter[0], scan.filter[1]
    words, halves = store.words, store.halves
    table = store.tables[table_id]
    n = 0
    for i in range(start, stop):
        if i + AHEAD < stop:
            prefetch(words, record(table, np.int64(delta.touched[i + AHEAD])))
        if delta.old[i] == delta.new[i]:
            continue
        at = record(table, np.int64(delta.touched[i]))
        if delta.old[i] == 0 and flag >= 0:
            halves[2 * at + flag] = passes[delta.first[i], filter_]
        if flag < 0 or halves[2 * at + flag] != 0:
            for c in range(len(scan.sources)):
                codes[c, n] = words[at + scan.sources[c]]
            copies[n] = delta.new[i] - delta.old[i]
            n += 1
    return n
