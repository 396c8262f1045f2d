"""Positions in a result that is kept in order, in codes: rows at positions, and where a row stands or would stand.

    InOrder(engine, query).rows(positions)    by level the rows of the output set there
    InOrder(engine, query).place(bounds)      how many rows come before, and how many are equal

All O(log n) per row: see `kernels.ranked`. Positions count from 0 here, in two lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.engine import Engine
from dynq_cli.engine.kernels import ranked
from dynq_cli.engine.kernels.codes import NULL, UNKNOWN
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.result_reader import level_above

# Below all labels.
_BELOW = -(2**62)


class Bound(NamedTuple):
    """A value of one variable of the order. One that has no code is said by that of the next smaller value that has
    one: -1 if there is no such id; NULL, which is smaller than all, if the type has no such value."""

    code: int
    is_known: bool = True


class _Key(NamedTuple):
    """Where a variable of the order is looked for: a level and a key of its tree."""

    level: int
    place: int
    labels: int
    is_descending: bool


class InOrder:
    """One ordered query of an engine. To be thrown away when the engine takes changes."""

    def __init__(self, engine: Engine, query: str, many: tuple[int, int]) -> None:
        self._arena = a = engine.arena
        self._trees = engine.ordered.trees
        tree = engine.layout.trees[query]
        self.variables = tuple(o.variable for o in tree.plan.order)
        self._many = many
        self._levels = np.array(tree.levels, np.int64)
        self._above = np.array([level_above(a, tree, node) + 1 for node in tree.levels], np.int64)
        self._keys: list[_Key] = []
        for level, node in enumerate(tree.levels):
            number = int(a.nodes["tree"][node])
            if number >= 0:
                self._keys += self._keys_of(level, number)
        self._targets = np.zeros((len(tree.levels), len(self._keys) + 1), np.int64)
        self._one, self._out = np.zeros(len(tree.levels) + 1, np.int64), np.zeros(4, np.int64)

    def _keys_of(self, level: int, tree: int) -> list[_Key]:
        many, orders = int(self._trees.forest["keys"][tree]), self._trees.orders[tree]
        each = zip(orders["labels"][:many], orders["flip"][:many], strict=True)
        return [_Key(level, place, int(labels), bool(flip)) for place, (labels, flip) in enumerate(each)]

    def rows(self, positions: Words) -> Words:
        """The root's row and below it those of the levels, a column for each position, all of which are there."""
        a = self._arena
        rows = np.zeros((len(self._levels) + 1, positions.shape[1]), np.int64)
        ranked.select_rows(
            a.store,
            self._levels,
            self._above,
            positions,
            *self._many,
            rows,
            self._out,
        )
        return rows

    def bounds(self, row: Mapping[str, int]) -> list[Bound]:
        """A whole row given by a code per variable."""
        found = []
        for variable, key in zip(self.variables, self._keys, strict=True):
            is_known = key.labels < 0 or row[variable] != UNKNOWN
            found.append(Bound(row[variable], is_known))
        return found

    def place(self, bounds: Sequence[Bound]) -> tuple[int, int, int, int]:
        """How many rows come before those with the values of the first variables of the order, and how many have them;
        two lanes each."""
        a, levels = self._arena, len(self._levels)
        given, meant = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        for bound, key in zip(bounds, self._keys, strict=False):
            value = self._compared(bound, key)
            self._targets[key.level, key.place] = ~value if key.is_descending else value
            given[key.level] += 1
            if not bound.is_known:
                # Rows with the next smaller value come before it, or, descending, behind it.
                meant[key.level] = ranked.NOT_THERE if key.is_descending else ranked.BEHIND_EQUAL
                break
        found: tuple[int, int, int, int] = ranked.place_of(
            a.store,
            self._levels,
            self._above,
            given,
            meant,
            self._targets,
            *self._many,
            self._one,
            self._out,
        )
        return found

    def _compared(self, bound: Bound, key: _Key) -> int:
        if key.labels < 0 or bound.code == NULL:
            return bound.code
        return int(self._trees.labels[key.labels + bound.code]) if bound.code >= 0 else _BELOW
