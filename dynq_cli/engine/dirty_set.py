"""One side of a change of a result, as it was or as it is: the combinations of rows that have a dirty row.

The side is an arena, and the multiplicities that its nodes are on; see `kernels.dirty` for the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import dirty as d
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.dirty_ranges import climb
from dynq_cli.engine.kernels.fields import Trees, Words
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError, level_above
from dynq_cli.engine.tree_layout import TreeLayout


class Runs(NamedTuple):
    """Combinations of rows, in runs that differ in the innermost level alone; `rows` are those of `dirty_walk`."""

    rows: Words
    many: int
    runs: int


class DirtySet:
    """An arena with room for marks of what is dirty in a tree; between two uses all marks are zeros."""

    def __init__(self, arena: Arena, tree: TreeLayout, ordered: CountedTrees) -> None:
        self.arena = arena
        self._ordered = ordered
        self.root = tree.root
        above = [level_above(arena, tree, node) for node in tree.levels]
        children: dict[int, list[int]] = {level: [] for level in range(-1, len(above))}
        for level, up in enumerate(above):
            children[up].append(level)
        self.roots = len(children[-1])
        self.order = np.array([children[up].index(level) for level, up in enumerate(above)], np.int64)
        self.slots = np.array(_slots(children), np.int64)
        self.below = np.array([child for level in children for child in children[level]], np.int64)
        self.L = np.zeros((len(above), d.L_FIELDS), np.int64)
        # By level the table of its rows, then by level the table of its groups.
        self._tables = arena.N[list(tree.levels)][:, [f.N_TABLE, f.N_LISTS]].T.ravel()
        place = self.roots
        for level, node in enumerate(tree.levels):
            self.L[level, [d.L_NODE, d.L_ABOVE, d.L_FRONTIER]] = node, above[level], tree.frontier[level]
            self.L[level, [d.L_BELOW, d.L_MANY]] = place, len(children[level])
            place += len(children[level])
        self._room = np.full(2 * len(above), -1, np.int64)
        n = len(above)
        self.current, self.cursor = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.modes, self.choices = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
        self.modes[0] = d.DIRTY
        self.lists, self.ends = np.empty(0, np.int64), np.empty(0, np.int64)
        self.work = np.empty(max(2, n) * AHEAD, np.int64)

    def fit(self) -> None:
        """Make room for the marks of all rows and groups that there are, and to put those of ranges in order."""
        self._ordered.fit_notes()
        room = self.arena.T[self._tables, f.T_CAPACITY]
        if (room <= self._room).all():
            return
        self._room = room
        room = room.reshape(2, -1)
        ends = np.cumsum(room, axis=1)
        self.L[:, d.L_ROWS], self.L[:, d.L_GROUPS] = ends - room
        rows, groups = (int(n) for n in ends[:, -1])
        # Zeros that nobody touches cost addresses, not memory.
        self.marks, self.groups = np.zeros(rows, np.int8), np.zeros(groups, np.int8)
        self.changed = np.empty(rows, np.int32)
        self.links, self.heads = np.zeros((rows, d.LINKS), np.int32), np.zeros((groups, 4), np.int32)

    @property
    def trees(self) -> Trees:
        """The counted trees of the arena."""
        return self._ordered.trees

    def list_room(self, many: int) -> None:
        """Make room for so many rows in lists of clean ones."""
        if many > len(self.lists):
            self.lists, self.ends = np.empty(2 * many, np.int64), np.empty(2 * many, np.int64)

    def mark(self, dirty: Sequence[Words | None]) -> None:
        """By level of the frontier, the rows that are not the same on the other side."""
        self.fit()
        a, L, marks, links, heads = self.arena, self.L, self.marks, self.links, self.heads
        for level, rows in enumerate(dirty):
            if rows is not None:
                d.start(a.a64, a.a32, a.T, a.N, L, level, rows, marks, links, heads)
        climb(a.a64, a.a32, a.T, a.N, self.trees, L, marks, links, heads, self.work)
        d.judge(a.a32, a.T, a.N, L, self.below, marks, links, heads, self.groups)
        many = d.ask(a.a32, a.T, a.N, L, self.below, self.root, self.roots, marks, links, heads, self.groups)
        self.list_room(int(many))
        d.list_clean(a.a32, a.T, a.N, L, marks, heads, self.lists, self.ends)

    def copies(self, other: Arena, found: Runs) -> tuple[Words, Words | None]:
        """How often combinations are in the result on this side, and on the other, None if none is.

        OverflowedError past 63 bits.
        """
        a, b = self.arena, other
        here, there = np.empty((2, found.many), np.int64)
        is_any = w.copies_of(a.a64, a.a32, a.T, a.N, b.a64, b.a32, b.T, b.N, self.L, self.marks, *found, here, there)
        if is_any < 0:
            raise OverflowedError
        return here, there if is_any else None

    def codes(self, tree: TreeLayout, found: Runs, variables: Sequence[str]) -> Words:
        """The codes of combinations, a row of them per variable."""
        a = self.arena
        codes = np.empty((len(variables), found.many), np.int64)
        for i, variable in enumerate(variables):
            level, position = tree.places[variable].level, tree.places[variable].position
            w.gather(a.a64, a.T, a.N, tree.levels[level], position, level, *found, codes[i])
        return codes

    def combinations(self, block: int) -> Iterator[Runs]:
        """Every combination that has a dirty row. What is given holds until the next is asked for."""
        a = self.arena
        out: NDArray[np.int64] = np.empty((len(self.L) + 2, block), np.int64)
        more, started = True, False
        while more:
            filled, runs, more = w.walk(
                a.a32,
                a.T,
                a.N,
                self.L,
                self.below,
                self.order,
                self.slots,
                self.root,
                self.roots,
                self.marks,
                self.links,
                self.heads,
                self.groups,
                self.lists,
                self.ends,
                self.current,
                self.modes,
                self.choices,
                self.cursor,
                started,
                out,
                self.work,
            )
            started = True
            if filled:
                yield Runs(out, filled, runs)


def _slots(children: dict[int, list[int]]) -> list[tuple[int, int]]:
    """The wheels of the walk: the rows of each level, and before the children of a row the choice of one."""
    slots = [(-1, 1)]
    for level in range(len(children) - 1):
        slots.append((level, 0))
        if children[level]:
            slots.append((level, 1))
    return slots
