"""Sums over triangles, kept by IVM-ε: pairs of heavy values beside the rows of the atoms, in lists by their ends.

    CycleSums.blocks(resolved) = result after - result before

The result is the empty row, as often as there are triangles; or one row of sums (`HeavyPairs.totals`), while there is a
triangle. O(N^max(ε, 1−ε)) per changed row, amortised, for edges with N rows: see `kernels.cycle_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.check import record
from dynq_cli.engine.codes import NULL
from dynq_cli.engine.cycle_layout import CycleLayout, EdgeLayout
from dynq_cli.engine.delta_routing import DerivedError
from dynq_cli.engine.kernels import cycle_pairs as p
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.kernels.table import find_or_insert
from dynq_cli.engine.pairs import split_number
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.plan.program import high, low

_LARGEST = 9.2e18
# Words of a key, before the values that a route binds (`cycle_pairs`).
_KEY = 8


class CycleSums:
    """Keeps the sums of one cycle, within `budget` pairs.

    `scanned` counts the rows that lists have given since the engine is there, for sums and for pairs.
    """

    def __init__(self, arena: Arena, layout: CycleLayout, variables: Sequence[str], budget: Callable[[], int]) -> None:
        assert layout.pairs is not None and layout.kept is not None and layout.step.pairs is not None
        self._arena = arena
        self._layout = layout
        self._pairs, self._kept, self._asked = layout.pairs, layout.kept, layout.step.pairs
        self._variables = variables
        self._budget = budget
        self._scans = [BaseDeltaScan(arena, each.rows, (*each.variables, *each.edge.names)) for each in layout.edges]
        numbers = 1 + max(len(each.edge.weights) for each in layout.edges)
        lanes = 2 * len(self._asked.sums)
        self._sums = p.Sums(
            np.zeros(p.STATE, np.int64),
            np.zeros(numbers, np.int64),
            np.zeros(numbers, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(lanes, np.int64),
            np.zeros(_KEY + len(layout.step.query.variables), np.int64),
        )

    @property
    def scanned(self) -> int:
        return int(self._sums.state[p.SCANNED])

    @property
    def rebalanced(self) -> tuple[int, int]:
        """How often values became heavy or light one by one, and all at once."""
        at = self._row()
        return int(self._arena.words[at + self._kept.minor]), int(self._arena.words[at + self._kept.major])

    @property
    def pairs(self) -> int:
        """How many pairs are kept."""
        return int(self._arena.tables["live"][list(self._layout.views)].sum())

    def start(self) -> None:
        """Initialise an empty arena."""
        self._arena.reserve(self._kept.table, 1)
        find_or_insert(self._arena.store, self._kept.table, self._sums.key)
        at, store = self._row(), self._arena.store
        for place in range(self._kept.exponent, self._kept.totals + len(self._sums.totals)):
            store.words[at + place] = 0
        for row in self._layout.joins.indexes:
            store.halves[2 * at + row["heavy_head"]], store.halves[2 * at + row["heavies"]] = -1, 0

    def _row(self) -> int:
        return record(self._arena, self._kept.table, 0)

    def blocks(self, resolved: Mapping[str, BaseDelta]) -> Iterator[tuple[Words, Words]]:
        """Yield codes, one row per variable, and signed multiplicities. Read all blocks.

        OverflowedError if a sum does not fit; DerivedError if more pairs are needed than the budget has.
        """
        sums, before = self._sums, self.pairs
        sums.totals[:] = 0
        for e, edge in enumerate(self._layout.edges):
            if edge.rows.relation in resolved:
                for codes, copies in self._scans[e].blocks(resolved[edge.rows.relation]):
                    self._apply(e, edge, codes, copies)
        if before < self.pairs > self._budget():
            raise DerivedError.too_large(self._layout.step.name, self.pairs, self._budget())
        if self._asked.totals:
            yield from self._totals()
        elif sums.totals.any():
            lower, upper = sums.totals.tolist()[:2]
            if upper != lower >> 63:
                raise OverflowedError
            yield np.ones((len(self._variables), 1), np.int64), np.array([lower], np.int64)

    def _apply(self, e: int, edge: EdgeLayout, codes: Words, copies: Words) -> None:
        """Add what changed rows of an edge change to the totals."""
        arena, sums, state = self._arena, self._sums, self._sums.state
        for table in (edge.table, *(group for group, _ in edge.groups)):
            arena.reserve(table, len(copies))
        values = self._values(edge, codes)
        state[p.ENTRY], state[p.PHASE] = 0, p.ARRIVES
        while True:
            joins = self._layout.joins
            ended = p.sum_changes(arena.store, joins, self._pairs, sums, e, codes, copies, values)
            if ended == p.TOO_MANY:
                raise OverflowedError
            if ended == p.DONE:
                return
            arena.reserve(int(state[p.NEEDS]), int(state[p.ROOM]))
            if self.pairs > 2 * self._budget():
                raise DerivedError.too_large(self._layout.step.name, self.pairs, self._budget())

    def _values(self, edge: EdgeLayout, codes: Words) -> Words:
        """What rows count per copy: one row per weight. OverflowedError if that does not fit 63 bits."""
        made = np.ones((len(edge.edge.weights), codes.shape[1]), np.int64)
        place = {scalar: len(edge.variables) + i for i, scalar in enumerate(edge.edge.values)}
        for values, weight in zip(made, edge.edge.weights, strict=True):
            size = np.ones(codes.shape[1])
            is_null = np.zeros(codes.shape[1], np.bool_)
            for scalar in (*weight.factors, *weight.present):
                is_null |= codes[place[scalar]] == NULL
            for scalar in weight.factors:
                values *= codes[place[scalar]]
                size *= np.abs(codes[place[scalar]].astype(np.float64))
            values[is_null] = 0
            if (size[~is_null] > _LARGEST).any():
                raise OverflowedError
        return made

    def _totals(self) -> Iterator[tuple[Words, Words]]:
        """The row of sums of before, and that of now."""
        at, words = self._row() + self._kept.totals, self._arena.words
        stored = words[at : at + len(self._sums.totals)]
        before = _numbers(stored)
        now = [a + b for a, b in zip(before, _numbers(self._sums.totals), strict=True)]
        if now == before:
            return
        if max(map(abs, now)) >= 1 << 127:
            raise OverflowedError
        stored[:] = [half for number in now for half in (_signed(number), number >> 64)]
        for row, copies in ((before, -1), (now, 1)):
            if row[0]:
                yield self._coded(row), np.array([copies], np.int64)

    def _coded(self, row: Sequence[int]) -> Words:
        """The codes of a row of sums, in the order of the variables."""
        codes = dict.fromkeys(self._variables, 1)
        for total in self._asked.totals:
            number = row[total.sum]
            pair = split_number(number) if row[total.present] else (NULL, NULL)
            codes |= {high(total.name): pair[0], low(total.name): pair[1]}
        return np.array([[codes[v]] for v in self._variables], np.int64)


def _numbers(lanes: Words) -> list[int]:
    """Numbers of 128 bits from their lower and upper halves."""
    halves = lanes.tolist()
    return [(upper << 64) + (lower & (2**64 - 1)) for lower, upper in zip(halves[::2], halves[1::2], strict=True)]


def _signed(number: int) -> int:
    """The lower 64 bits as an int64."""
    lower = number & (2**64 - 1)
    return lower - 2**64 if lower >= 2**63 else lower
