"""Rows of a result by position, in codes. Positions start at 1, follow the order of `enum`, and count copies.

    Selection(engine, query, variables).at(positions)    the rows at these positions
    Selection(engine, query, variables).find(row)        the position of a row's first copy, and its multiplicity
    find(row of at([j])) = (i, n) with i ≤ j < i + n

If the query has an order, each takes O(log n); see `in_order`. Otherwise the cost is the length of the lists walked:
per level, at most the rows of one group before the position; see `kernels.positions`. Positions and counts are Python
integers: they may exceed 63 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.engine import Engine
from dynq_cli.engine.in_order import Bound, InOrder
from dynq_cli.engine.kernels import positions as p
from dynq_cli.engine.kernels.fields import Rows, Words, rows_of
from dynq_cli.engine.result_reader import ResultReader, level_above, record_of

_LANE = 2**64 - 1
_LARGEST = 2**63 - 1


class Found(NamedTuple):
    """The positions of a row's copies."""

    first: int
    copies: int

    @property
    def last(self) -> int:
        return self.first + self.copies - 1


class Selection:
    """Reads rows of one query by position, batch after batch.

    A batch of positions that continues the previous one resumes its lists. Discard the object when the engine applies
    changes.
    """

    def __init__(self, engine: Engine, query: str, variables: Sequence[str]) -> None:
        self._engine, self._query = engine, query
        self._arena = engine.arena
        self._tree = tree = engine.layout.trees[query]
        places = [tree.places[v] for v in variables]
        tables = [int(engine.arena.nodes["table"][tree.levels[place.level]]) for place in places]
        starts = [record_of(engine.arena, t, 0) + place.position for t, place in zip(tables, places, strict=True)]
        self._starts = np.array(starts, np.int64).reshape(-1, 1)
        self._strides = engine.arena.tables["stride"][tables].reshape(-1, 1)
        self._column_levels = np.array([place.level + 1 for place in places], np.int64)
        self._levels = np.array(tree.levels, np.int64)
        self._above = np.array([level_above(engine.arena, tree, node) + 1 for node in tree.levels], np.int64)
        self._many = _lanes(engine.count(query)[0])
        self._ordered = InOrder(engine, query, self._many) if tree.plan.order else None
        self._cursors = rows_of(p.CURSOR, np.full((len(tree.levels), 4), -1, np.int64))

    def at(self, positions: Sequence[int]) -> Words:
        """Return the rows at these positions, in the order given: one row of codes per variable. All must exist.

        O(positions × log positions), and one walk of each list; O(positions × log n) if the query has an order.
        """
        if self._ordered is not None:
            return self._codes(self._ordered.rows(_all_lanes(positions)))
        n, a = len(positions), self._arena
        rows = np.zeros((len(self._levels) + 1, n), np.int64)
        state = np.zeros(n, p.POSITION)
        state["at_lo"], state["at_hi"] = _all_lanes(positions)
        state["many_lo"], state["many_hi"] = self._many
        if n == 1:
            order = np.zeros(1, np.int64)
            p.descend(a.store, self._levels, self._above, order, state, self._cursors, rows)
        elif n:
            self._descend(state, rows)
        return self._codes(rows)

    def find(self, row: Mapping[str, int]) -> Found | None:
        """Find the row given by a code per head variable; None if it is not in the result."""
        if self._ordered is not None:
            found = self.place(self._ordered.bounds(row))
            return found if found.copies else None
        if not self._engine.copies(self._query, row):
            return None
        a = self._arena
        reading = ResultReader(self._engine.layout, a, self._engine.ordered)
        rows = np.array([0, *(reading.row_of(self._tree, node, row) for node in self._tree.levels)], np.int64)
        return _found(p.position_of(a.store, self._levels, self._above, rows, *self._many))

    def place(self, bounds: Sequence[Bound]) -> Found:
        """Return the positions of rows with these values of the first order variables, or where they would be.

        O(log n).
        """
        assert self._ordered is not None
        return _found(self._ordered.place(bounds))

    @property
    def is_ordered(self) -> bool:
        return self._ordered is not None

    def _codes(self, rows: Words) -> Words:
        """What stands in the columns asked for, of the rows of each level."""
        codes: Words = self._arena.words[self._starts + rows[self._column_levels] * self._strides]
        return codes

    def _descend(self, state: Rows, rows: Words) -> None:
        a = self._arena
        for s, node in enumerate(self._tree.levels):
            p.aim(a.store, node, rows[self._above[s]], state)
            low = state["place_lo"].astype(np.uint64)
            order = np.lexsort((low, state["place_hi"], state["group"]))
            p.choose(a.store, node, order, state, self._cursors, s, rows[s + 1])


def find(engine: Engine, query: str, row: Mapping[str, int]) -> Found | None:
    """Find the row given by a code per head variable; None if it is not in the result."""
    return Selection(engine, query, ()).find(row)


def _found(lanes: tuple[int, int, int, int]) -> Found:
    lo, hi, copies_lo, copies_hi = lanes
    return Found(_number(lo, hi) + 1, _number(copies_lo, copies_hi))


def _lanes(number: int) -> tuple[int, int]:
    """Split a number below 2^127 for kernels: the lower 64 bits as int64, and the upper ones."""
    low = number & _LANE
    return low if low <= _LARGEST else low - 2**64, number >> 64


def _number(lo: int, hi: int) -> int:
    return (int(hi) << 64) + (int(lo) & _LANE)


def _all_lanes(positions: Sequence[int]) -> Words:
    """Convert positions from 1 to numbers from 0, in two rows of lanes."""
    lanes = np.zeros((2, len(positions)), np.int64)
    if isinstance(positions, range) and positions and positions[-1] <= _LARGEST:
        lanes[0] = np.arange(positions.start - 1, positions.stop - 1, positions.step)
    elif len(positions) == 1:
        lanes[0, 0], lanes[1, 0] = _lanes(positions[0] - 1)
    elif positions:
        lanes[:] = np.array([_lanes(position - 1) for position in positions], np.int64).T
    return lanes
