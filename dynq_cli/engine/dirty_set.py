"""Enumerate the combinations of rows with at least one dirty (changed) row, in the old or the new state of a tree.

The state is an arena, and for each node the place of its old or new multiplicities; `kernels.dirty` has the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import dirty as d
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels.delta_join_ranges import clean
from dynq_cli.engine.kernels.dirty_ranges import climb
from dynq_cli.engine.kernels.fields import Words, rows_of
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.memory import WORD, scratch
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError, level_above
from dynq_cli.engine.tree_layout import TreeLayout

Item = TypeVar("Item", np.int8, np.int32)


class Runs(NamedTuple):
    """Combinations of rows, in runs that differ only in the innermost level; `rows` is as in `dirty_walk`."""

    rows: Words
    many: int
    runs: int


class DirtySet:
    """The marks of dirty rows and groups of a tree; between two uses all marks are zero."""

    def __init__(self, arena: Arena, tree: TreeLayout, ordered: CountedTrees) -> None:
        self.arena = arena
        self._ordered = ordered
        self.root = tree.root
        above = [level_above(arena, tree, node) for node in tree.levels]
        children: dict[int, list[int]] = {level: [] for level in range(-1, len(above))}
        for level, up in enumerate(above):
            children[up].append(level)
        levels, root = np.zeros(len(above), d.LEVEL), np.zeros(1, d.LEVEL)
        root["node"], root["above"], root["children"] = tree.root, -1, len(children[-1])
        place = len(children[-1])
        for level, node in enumerate(tree.levels):
            here = levels[level]
            here.node, here.above, here.frontier = node, above[level], tree.frontier[level]
            here.below, here.children = place, len(children[level])
            place += here.children
        below = np.array([child for level in children for child in children[level]], np.int64)
        # By level the table of its rows, then by level the table of its groups.
        nodes = arena.nodes[list(tree.levels)]
        self._tables = np.concatenate([nodes["table"], nodes["list_table"]])
        n = len(above)
        self._room = np.full(2 * n, -1, np.int64)
        none, halves = np.zeros(0, np.int8), np.zeros((0, 1), np.int32)
        work = np.empty(max(2, n) * AHEAD, np.int64)
        self.marks = d.Marks(levels, root, below, none, halves, halves, none, np.zeros(0, np.int32), work)
        order = np.array([children[up].index(level) for level, up in enumerate(above)], np.int64)
        current, cursor = np.zeros(n, np.int64), np.zeros(n, np.int64)
        modes, choices = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
        modes[0] = d.DIRTY
        slots, empty = rows_of(d.WHEEL, np.array(_slots(children), np.int64)), np.empty(0, np.int64)
        self.wheels = d.Odometer(order, slots, empty, empty, current, modes, choices, cursor)

    def fit(self) -> None:
        """Make room to mark all rows and groups, and to sort those of ranges."""
        self._ordered.fit_notes()
        room = self.arena.tables["capacity"][self._tables]
        if (room <= self._room).all():
            return
        self._room = room
        room = room.reshape(2, -1)
        ends = np.cumsum(room, axis=1)
        levels = self.marks.levels
        levels["rows"], levels["groups"] = ends - room
        rows, groups = (int(n) for n in ends[:, -1])
        # Zeros that nobody touches cost addresses, not memory.
        self.marks = self.marks._replace(
            flags=_zeros(rows, np.int8),
            links=_zeros(rows * d.LINKS, np.int32).reshape(rows, d.LINKS),
            heads=_zeros(groups * d.HEADS, np.int32).reshape(groups, d.HEADS),
            groups=_zeros(groups, np.int8),
            changed=_zeros(rows, np.int32),
        )

    def list_room(self, many: int) -> None:
        """Make room for so many rows in lists of clean ones."""
        if many > len(self.wheels.lists):
            self.wheels = self.wheels._replace(lists=np.empty(2 * many, np.int64), ends=np.empty(2 * many, np.int64))

    def mark(self, dirty: Sequence[Words | None]) -> None:
        """Mark dirty rows, given per level of the frontier, and everything above them."""
        self.fit()
        store, marks = self.arena.store, self.marks
        for level, rows in enumerate(dirty):
            if rows is not None:
                d.start(store, marks, level, rows)
        climb(store, marks)
        d.judge(store, marks)
        self.list_room(int(d.ask(store, marks)))
        d.list_clean(store, marks, self.wheels)

    def clear(self) -> None:
        """Make all marks zeros again. O(marks)."""
        clean(self.arena.store, self.marks)

    def copies(self, other: Arena, found: Runs) -> tuple[Words, Words | None]:
        """Return the multiplicities of combinations here, and in the other state; None if all are 0 there.

        OverflowedError beyond 63 bits.
        """
        here, there = np.empty((2, found.many), np.int64)
        is_any = w.copies_of(self.arena.store, other.store, self.marks, *found, here, there)
        if is_any < 0:
            raise OverflowedError
        return here, there if is_any else None

    def codes(self, tree: TreeLayout, found: Runs, variables: Sequence[str]) -> Words:
        """The codes of combinations, a row of them per variable."""
        codes = np.empty((len(variables), found.many), np.int64)
        for i, variable in enumerate(variables):
            level, position = tree.places[variable].level, tree.places[variable].position
            w.gather(self.arena.store, tree.levels[level], position, level, *found, codes[i])
        return codes

    def combinations(self, block: int) -> Iterator[Runs]:
        """Every combination that has a dirty row. What is given holds until the next is asked for."""
        out: NDArray[np.int64] = np.empty((len(self.marks.levels) + 2, block), np.int64)
        more, started = True, False
        while more:
            filled, runs, more = w.walk(self.arena.store, self.marks, self.wheels, started, out)
            started = True
            if filled:
                yield Runs(out, filled, runs)


def _zeros(many: int, kind: type[Item]) -> NDArray[Item]:
    items = np.dtype(kind).itemsize
    return scratch(-(-many * items // WORD) + 1, 1).reshape(-1).view(kind)[:many]


def _slots(children: dict[int, list[int]]) -> list[tuple[int, int]]:
    """Return the steps of the walk: the rows of each level, and before a row's children the choice of one of them."""
    slots = [(-1, 1)]
    for level in range(len(children) - 1):
        slots.append((level, 0))
        if children[level]:
            slots.append((level, 1))
    return slots
