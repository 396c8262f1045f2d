"""One side of a change of a result, as it was or as it is: the combinations of rows that have a dirty row.

The side is an arena, and the multiplicities that its nodes are on; see `kernels.dirty` for the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import dirty as d
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import TreeLayout
from dynq_cli.engine.reading import OverflowedError, level_above


def copies_of(arena: Arena, tree: TreeLayout, rows: Words) -> Words:
    """How often combinations of rows, by level, are in the result on this side. OverflowedError past 63 bits."""
    many = np.empty(rows.shape[1], np.int64)
    frontier = np.array(tree.frontier, np.bool_)
    levels = np.array(tree.levels, np.int64)
    if not w.copies_of(arena.a64, arena.a32, arena.T, arena.N, levels, frontier, rows, many):
        raise OverflowedError
    return many


def codes_of(arena: Arena, tree: TreeLayout, rows: Words, variables: Sequence[str]) -> Words:
    """The codes of combinations of rows, a row of them per variable."""
    codes = np.empty((len(variables), rows.shape[1]), np.int64)
    for i, variable in enumerate(variables):
        place = tree.places[variable]
        w.gather(arena.a64, arena.T, arena.N, tree.levels[place.level], place.position, rows[place.level], codes[i])
    return codes


class Side:
    """An arena with the marks of what is dirty in it: mark first, then go through the combinations, once."""

    def __init__(self, arena: Arena, tree: TreeLayout) -> None:
        self._arena = a = arena
        self._root = tree.root
        above = [level_above(a, tree, node) for node in tree.levels]
        children: dict[int, list[int]] = {level: [] for level in range(-1, len(above))}
        for level, up in enumerate(above):
            children[up].append(level)
        self._roots = len(children[-1])
        self._order = np.array([children[up].index(level) for level, up in enumerate(above)], np.int64)
        self._slots = np.array(_slots(children), np.int64)
        self._below = np.array([child for level in children for child in children[level]], np.int64)
        self._L = np.zeros((len(above), d.L_FIELDS), np.int64)
        rows = groups = 0
        place = self._roots
        for level, node in enumerate(tree.levels):
            self._L[level, [d.L_NODE, d.L_ROWS, d.L_GROUPS, d.L_ABOVE]] = node, rows, groups, above[level]
            self._L[level, [d.L_FRONTIER, d.L_BELOW, d.L_MANY]] = tree.frontier[level], place, len(children[level])
            rows += int(a.T[a.N[node, f.N_TABLE], f.T_USED])
            groups += int(a.T[a.N[node, f.N_GROUP], f.T_USED])
            place += len(children[level])
        # Zeros that nobody touches cost addresses, not memory.
        self._marks, self._groups = np.zeros(rows, np.int8), np.zeros(groups, np.int8)
        self._links, self._heads = np.zeros((rows, 2), np.int32), np.zeros((groups, 3), np.int32)

    def mark(self, dirty: Sequence[Words | None]) -> None:
        """By level of the frontier, the rows that are not the same on the other side."""
        a = self._arena
        for level, rows in enumerate(dirty):
            if rows is not None:
                d.start(a.a64, a.a32, a.T, a.N, self._L, level, rows, self._marks, self._links, self._heads)
        self._mark_above()

    def mark_changed(self) -> None:
        """The rows that the commit changes and that have fewer copies on the other side."""
        a = self._arena
        for level in np.flatnonzero(self._L[:, d.L_FRONTIER]):
            d.start_changed(a.a64, a.a32, a.T, a.N, self._L, int(level), self._marks, self._links, self._heads)
        self._mark_above()

    def _mark_above(self) -> None:
        a, L, marks, links, heads = self._arena, self._L, self._marks, self._links, self._heads
        d.climb(a.a64, a.a32, a.T, a.N, L, marks, links, heads)
        d.judge(a.a32, a.T, a.N, L, self._below, marks, links, heads, self._groups)
        many = d.ask(a.a32, a.T, a.N, L, self._below, self._root, self._roots, marks, links, heads, self._groups)
        self._lists, self._ends = np.empty(int(many), np.int64), np.empty(int(many), np.int64)
        d.list_clean(a.a32, a.T, a.N, L, marks, heads, self._lists, self._ends)

    def combinations(self, block: int) -> Iterator[Words]:
        """The rows of all levels, by level, of every combination that has a dirty row."""
        a, n = self._arena, len(self._L)
        current, cursor = np.zeros(n, np.int64), np.zeros(n, np.int64)
        modes, choices = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
        modes[0] = d.DIRTY
        out: NDArray[np.int64] = np.empty((n, block), np.int64)
        more, started = True, False
        while more:
            filled, more = w.walk(
                a.a32,
                a.T,
                a.N,
                self._L,
                self._below,
                self._order,
                self._slots,
                self._root,
                self._roots,
                self._marks,
                self._links,
                self._heads,
                self._groups,
                self._lists,
                self._ends,
                current,
                modes,
                choices,
                cursor,
                started,
                out,
            )
            started = True
            if filled:
                yield out[:, :filled]


def _slots(children: dict[int, list[int]]) -> list[tuple[int, int]]:
    """The wheels of the walk: the rows of each level, and before the children of a row the choice of one."""
    slots = [(-1, 1)]
    for level in range(len(children) - 1):
        slots.append((level, 0))
        if children[level]:
            slots.append((level, 1))
    return slots
