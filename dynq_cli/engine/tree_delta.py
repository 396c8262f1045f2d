"""The delta of a tree that is read as a result, within the commit that changes it.

    TreeDelta(arena, ordered, journals, tree).blocks(before, after)    rows that came and went, with signed copies

The combinations with a changed row are enumerated twice: in the new state, and in the old one, which journals put back
for as long as that takes. What has as many copies in both is added up to nothing. O(rows in the delta + changed rows of
the tree); nothing depends on the size of the result. In trees that feed derived relations, `delta` does the same from
records that have room for it, and their lists need no order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.consolidate import consolidated
from dynq_cli.engine.dirty_set import DirtySet
from dynq_cli.engine.journals import Journals
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_layout import TreeLayout
from dynq_cli.engine.twins import without_twins

BLOCK = 65536
# Rows, one per variable of the tree's head, and signed copies.
Signed = tuple[Words, Words]


class TreeDelta:
    """Reads the delta of one tree in each commit, in the variables of its head."""

    def __init__(self, layout: Layout, arena: Arena, ordered: CountedTrees, journals: Journals, name: str) -> None:
        self._layout = layout
        self._arena = arena
        self._journals = journals
        self._name = name
        self._tree: TreeLayout = layout.trees[name]
        self.variables = list(self._tree.plan.query.head)
        self._is_set = self._tree.plan.query.semantics == "set"
        self._side = DirtySet(arena, self._tree, ordered) if self._tree.levels else None

    def rows(self, before: int, after: int) -> Signed:
        """Return every row of the delta once. `before` and `after` are the row counts of the result.

        OverflowedError if a row has more than 2^63 - 1 copies.
        """
        if self._side is None:
            return self._nullary(before, after)
        none = np.empty((len(self.variables), 0), np.int64), np.empty(0, np.int64)
        dirty = [
            self._changed(node) if is_frontier else None
            for node, is_frontier in zip(self._tree.levels, self._tree.frontier, strict=True)
        ]
        if not any(rows is not None and len(rows) for rows in dirty):
            return none
        came = list(self._combinations(self._side, dirty)) if after else []
        went: list[Signed] = []
        if before:
            with self._journals.put_back(self._name):
                went = [(codes, -copies) for codes, copies in self._combinations(self._side, dirty)]
        both = [*came, *went] or [none]
        codes, copies = (np.concatenate(parts, axis=-1) for parts in zip(*both, strict=True))
        if not came or not went:
            return codes, copies  # in one state every combination is another row
        rows, net = consolidated(codes.T, copies)
        return rows.T, net

    def _nullary(self, before: int, after: int) -> Signed:
        if self._is_set:
            before, after = min(before, 1), min(after, 1)
        if abs(after - before) >= 2**63:
            raise OverflowedError
        many = int(before != after)
        return np.zeros((0, many), np.int64), np.full(many, after - before, np.int64)

    def _changed(self, node: int) -> Words:
        """Return the rows of a frontier node that have other copies than before; a row under two ids is unchanged."""
        rows, was = self._journals.changed(node)
        if not len(rows):
            return rows
        now = np.empty((2, len(rows)), np.int64)
        w.values_of(self._arena.store, node, rows, now)
        same = (was == now).all(axis=0)
        changed: Words = rows[~same]
        had, has = rows[was.any(axis=0) & ~now.any(axis=0)], rows[now.any(axis=0) & ~was.any(axis=0)]
        return without_twins(self._layout, node, changed, (self._arena, had), (self._arena, has))

    def _combinations(self, side: DirtySet, dirty: list[Words | None]) -> Iterator[Signed]:
        """Yield the combinations with a changed row in the state that is there."""
        try:
            side.mark(dirty)
            for found in side.combinations(BLOCK):
                copies, _ = side.copies(self._arena, found)
                if self._is_set:
                    copies = np.minimum(copies, 1)
                yield side.codes(self._tree, found, self.variables), copies
        finally:
            side.clear()
