"""The delta of a tree that is not stored, because its rows are the filtered rows of one relation.

    BaseDeltaScan.blocks(base_delta) = rows of the relation after - rows before, those that pass the filter

The delta is not consolidated: a row that changes only in unused columns is deleted and inserted. O(changes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.base_layout import PassageLayout
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.kernels.base_delta_scan import Scan, passed
from dynq_cli.engine.kernels.fields import Words

BLOCK = 8192


class BaseDeltaScan:
    """Reads the base delta of one relation in each commit, in some of the variables bound to it."""

    def __init__(self, arena: Arena, layout: PassageLayout, variables: Sequence[str]) -> None:
        self._arena = arena
        self._layout = layout
        sources = np.array([layout.places[v] for v in variables], np.int64)
        self._scan = Scan(np.array([layout.filter, layout.flag], np.int64), sources)
        self._codes, self._copies = np.empty((len(variables), BLOCK), np.int64), np.empty(BLOCK, np.int64)

    def blocks(self, r: BaseDelta) -> Iterator[tuple[Words, Words]]:
        """Yield codes, one row per variable, and signed multiplicities. Read all blocks."""
        for start in range(0, r.n, BLOCK):
            filled = self._fill(r, start, min(start + BLOCK, r.n))
            if filled:
                yield self._codes[:, :filled].copy(), self._copies[:filled].copy()

    def _fill(self, r: BaseDelta, start: int, stop: int) -> int:
        filled: int = passed(
            self._arena.store,
            self._layout.table,
            r.entries,
            start,
            stop,
            r.changes.passes,
            self._scan,
            self._codes,
            self._copies,
        )
        return filled

    def rows(self) -> tuple[Words, Words]:
        """Return all rows that pass, between commits. O(rows), for tests."""
        a, t = self._arena, self._layout.table
        starts = np.array([record(a, t, row) for row in sorted(rows_of(a, t))], np.int64)
        if self._layout.flag >= 0:
            starts = starts[a.halves[2 * starts + self._layout.flag] != 0]
        return a.words[starts + self._scan.sources[:, None]], a.words[starts + int(a.tables["mult"][t])]
