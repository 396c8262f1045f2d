"""The delta of a tree's result, read within the commit that changes it.

    Delta.blocks(…) = result after - result before, as rows of codes with signed multiplicities

The tree is updated, its lists are still the old ones, and every changed output row has its old multiplicity
(`kernels.delta_log`). Consider a third state, in which each frontier row has the minimum of its old and new
multiplicity. From the old state to the third, rows are only deleted; from there to the new state, only inserted. So the
deletes are read from the old state, through rows with fewer copies now, and the inserts from the new state. A result
row may occur in both, and several times in each. O(rows in the delta + changed rows of the tree).

In trees without ranges, the delta is joined starting from the changed rows (`kernels.delta_join`). Ranges may share
rows: then changed rows and their ancestors are marked first, and the marked part of the tree is enumerated
(`kernels.delta_join_ranges`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.dirty_set import DirtySet
from dynq_cli.engine.kernels import delta_join
from dynq_cli.engine.kernels import delta_join_ranges as w
from dynq_cli.engine.kernels.delta_log import Block
from dynq_cli.engine.kernels.dirty import LEVEL
from dynq_cli.engine.kernels.fields import Rows, Words, rows_of
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_layout import TreeLayout

BLOCK = 16384
# Entries of a stage: this many changed rows, or lists, are processed at a time.
WIDE = 128


class Delta:
    """Reads the delta of one tree in each commit, in some of its variables."""

    def __init__(
        self,
        arena: Arena,
        ordered: CountedTrees,
        tree: TreeLayout,
        variables: Sequence[str],
        block: int = BLOCK,
        wide: int = WIDE,
    ) -> None:
        self._arena = arena
        self._tree = tree
        self._levels = np.array(tree.levels, np.int64)
        if not tree.levels:
            return
        self._side = DirtySet(arena, tree, ordered)
        places = [tree.places[v] for v in variables]
        columns = np.array([(p.level, p.position) for p in places], np.int64).reshape(-1, 2)
        self._rows = np.empty((len(tree.levels) + 2, block), np.int64)
        self._out = Block(columns, np.empty((len(places), block), np.int64), np.empty(block, np.int64))
        has_ranges = bool((arena.nodes["readers"][self._levels] >= 0).any())
        self._routes = None if has_ranges else _routes(arena, self._side)
        n = len(tree.levels)
        counts, entries = np.zeros((2, n), np.int64), np.empty((5, n, wide), np.int64)
        self._stages = delta_join.Stages(*entries, *counts)

    @property
    def columns(self) -> Words:
        """Per variable: the level and the position in its key where it is read."""
        none = np.zeros((0, 2), np.int64)
        return self._out.columns if self._tree.levels else none

    @property
    def has_ranges(self) -> bool:
        """Whether rows of the tree read ranges."""
        return bool(self._tree.levels) and self._routes is None

    def routes(self) -> tuple[Rows, Rows, Rows]:
        """Return the levels, the root and the routes of a tree without ranges, as `kernels.delta_join` takes them."""
        if not self._tree.levels:
            return np.zeros(0, LEVEL), np.zeros(1, LEVEL), np.zeros(0, delta_join.STEP)
        assert self._routes is not None
        return self._side.marks.levels.copy(), self._side.marks.root.copy(), self._routes

    def blocks(self, before: int, after: int) -> Iterator[tuple[Words, Words]]:
        """Yield codes, one row per variable, and signed multiplicities.

        `before` and `after` are the row counts of the result. Read all blocks: only then is the commit complete for
        this tree. OverflowedError if a row has more than 2^63 - 1 copies.
        """
        if not len(self._levels):
            yield from self._nullary(before, after)
            return
        a, s = self._arena, self._side
        if not a.nodes["listed"][self._levels].any() and a.nodes["first_told"][self._levels].max() < 0:
            return
        s.fit()
        if self._routes is not None:
            yield from self._outward(self._routes, before > 0, after > 0)
            return
        state = np.zeros(w.STATE, np.int64)
        while state[w.PHASE] != w.DONE:
            s.list_room(int(state[w.LISTED]))
            filled = self._fill(before > 0, after > 0, state)
            if filled < 0:
                raise OverflowedError
            if filled:
                yield self._out.codes[:, :filled].copy(), self._out.copies[:filled].copy()

    def _nullary(self, before: int, after: int) -> Iterator[tuple[Words, Words]]:
        if self._tree.plan.query.semantics == "set":
            before, after = min(before, 1), min(after, 1)
        if before != after:
            if abs(after - before) >= 2**63:
                raise OverflowedError
            yield np.zeros((0, 1), np.int64), np.array([after - before], np.int64)

    def _outward(self, routes: Rows, had_rows: bool, has_rows: bool) -> Iterator[tuple[Words, Words]]:
        store, marks, out = self._arena.store, self._side.marks, self._out
        state = np.zeros(delta_join.STATE, np.int64)
        while state[delta_join.PHASE] != delta_join.DONE:
            filled = delta_join.fill(store, marks, routes, self._stages, out, had_rows, has_rows, state)
            if filled < 0:
                raise OverflowedError
            if filled:
                yield out.codes[:, :filled].copy(), out.copies[:filled].copy()

    def _fill(self, had_rows: bool, has_rows: bool, state: Words) -> int:
        s = self._side
        filled: int = w.fill(self._arena.store, s.marks, s.wheels, self._rows, self._out, had_rows, has_rows, state)
        return filled


def _routes(arena: Arena, side: DirtySet) -> Rows:
    """For each level, in which order the others are set from there; see `delta_join`."""
    levels = side.marks.levels
    nodes, above, frontier = levels["node"], levels["above"], levels["frontier"]
    below = [{level} for level in range(len(nodes))]
    for level in range(len(nodes) - 1, -1, -1):
        if above[level] >= 0:
            below[above[level]] |= below[level]
    steps: list[tuple[int, ...]] = []
    for level in range(len(nodes)):
        here, stages = level, {-1: -1, level: 0}
        while above[here] >= 0:
            kind = delta_join.OWN if arena.nodes["guard"][nodes[here]] else delta_join.READERS
            steps.append((kind, int(above[here]), here, stages[here], delta_join.ON_SIDE))
            here = int(above[here])
            stages[here] = len(stages) - 1
        for other in range(len(nodes)):
            if other not in stages:
                # A row that is not live in either state has no combination below it in the minimum.
                is_before = all(each < level for each in below[other] if frontier[each])
                asked = delta_join.ON_SIDE if frontier[other] else delta_join.NOTHING
                up = int(above[other])
                steps.append((delta_join.DOWN, other, up, stages[up], delta_join.ON_BOTH if is_before else asked))
                stages[other] = len(stages) - 1
    return rows_of(delta_join.STEP, np.array(steps, np.int64).reshape(-1, 5))
