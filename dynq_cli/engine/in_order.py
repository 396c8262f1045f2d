"""Positions in an ordered result, in codes: the rows at positions, and the position of a row, present or not.

    InOrder(engine, query).rows(positions)    the rows of each level of the output set
    InOrder(engine, query).place(bounds)      the number of smaller rows, and of equal rows

O(log n) per row; see `kernels.ranked`. Positions start at 0 here, as two lanes of 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import ranked
from dynq_cli.engine.kernels.codes import NULL, UNKNOWN
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import level_above

# Below all labels.
_BELOW = -(2**62)
_LEAST, _MOST = -(2**63), 2**63 - 1


class Bound(NamedTuple):
    """A value of one variable of the order.

    A value without a code is replaced by the next smaller value with one: -1 if there is no such id; NULL, which is
    smaller than all, if the type has no such value.
    """

    code: int
    is_known: bool = True


class _Key(NamedTuple):
    """The place of a variable of the order: a level, and a key of its order-statistic tree."""

    level: int
    place: int
    labels: int
    is_descending: bool
    shift: int

    def image(self, value: int) -> int:
        """What a value is compared by, as `order_statistic_blocks.image` makes it."""
        return ((~value if self.is_descending else value) + self.shift + 2**63) % 2**64 - 2**63


class Trees(Protocol):
    """Where trees in order are: an engine, or what reads it."""

    @property
    def layout(self) -> Layout: ...

    @property
    def arena(self) -> Arena: ...

    @property
    def ordered(self) -> CountedTrees: ...


class InOrder:
    """Positions of one ordered query. Discard it when the engine applies changes."""

    def __init__(self, engine: Trees, query: str, many: tuple[int, int]) -> None:
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
        each = zip(orders["labels"][:many], orders["flip"][:many], orders["shift"][:many], strict=True)
        return [_Key(level, i, int(labels), bool(flip), int(shift)) for i, (labels, flip, shift) in enumerate(each)]

    def rows(self, positions: Words) -> Words:
        """Return the row of the root and of each level, one column per position. All positions must exist."""
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
        """Return the bounds for a whole row, given by a code per variable."""
        found = []
        for variable, key in zip(self.variables, self._keys, strict=True):
            is_known = key.labels < 0 or row[variable] != UNKNOWN
            found.append(Bound(row[variable], is_known))
        return found

    def place(self, bounds: Sequence[Bound]) -> tuple[int, int, int, int]:
        """Return how many rows come before those with these values of the first variables, and how many have them.

        Both numbers have two lanes.
        """
        a, levels = self._arena, len(self._levels)
        given, meant = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
        for bound, key in zip(bounds, self._keys, strict=False):
            self._targets[key.level, key.place] = key.image(self._compared(bound, key))
            given[key.level] += 1
            if not bound.is_known:
                # Rows with the next smaller value come before it; after it if the order is descending.
                meant[key.level] = ranked.NOT_THERE if key.is_descending else ranked.BEHIND_EQUAL
                if bound.code == NULL and key.shift:
                    # A value below all others lies between them and NULL, which stands at the other end.
                    self._targets[key.level, key.place] = _MOST if key.is_descending else _LEAST
                    meant[key.level] = ranked.BEHIND_EQUAL if key.is_descending else ranked.NOT_THERE
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

    def images(self, codes: Words) -> Words:
        """Return what rows are compared by: one row per variable of the order, as are the codes. O(rows)."""
        made = np.empty_like(codes)
        for i, key in enumerate(self._keys):
            value = codes[i]
            if key.labels >= 0:
                there = value != NULL
                value = np.where(there, self._trees.labels[key.labels + np.where(there, value, 0)], NULL)
            made[i] = (~value if key.is_descending else value) + np.int64(key.shift)
        return made

    def _compared(self, bound: Bound, key: _Key) -> int:
        if key.labels < 0 or bound.code == NULL:
            return bound.code
        return int(self._trees.labels[key.labels + bound.code]) if bound.code >= 0 else _BELOW
