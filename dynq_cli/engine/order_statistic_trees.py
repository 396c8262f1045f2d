"""The order-statistic trees of an engine: their descriptions, labels, scratch, and room for their blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels.fields import Trees, Words
from dynq_cli.engine.kernels.ordered import LEVELS
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.ranges import SCRATCH
from dynq_cli.engine.kernels.sort_pending import NOTE_FIELDS
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.memory import scratch
from dynq_cli.engine.order_statistic_tree import CountedTree, reserve, trees_of


class CountedTrees:
    """`trees` is what kernels take, in the store of the arena; it is another one after `label`."""

    def __init__(self, layout: Layout, arena: Arena) -> None:
        self._layout = layout
        self._arena = arena
        notes, marks = np.zeros((NOTE_FIELDS, 1), np.int64), np.zeros((1, 2), np.int64)
        arena.keep_in_order(trees_of(layout.ordered, scratch=SCRATCH)._replace(notes=notes, marks=marks))
        ranges = layout.nodes[layout.nodes["readers"] >= 0]
        self._noted = np.concatenate([ranges["table"], layout.nodes["table"][ranges["parent"]]])
        # By relation, how many groups a change of one row may come into or leave.
        self._groups = {
            name: sum(layout.ordered_above(leaf.node) for leaf in base.leaves) for name, base in layout.bases.items()
        }
        self._tables = np.array([tree.table for tree in layout.ordered], np.int64)

    @property
    def trees(self) -> Trees:
        return self._arena.store.trees

    def label(self, labels: Words, starts: Mapping[str, int]) -> None:
        """Set the labels of all dictionaries, one array with a start for each. O(keys)."""
        for key in self._layout.labelled:
            self.trees.orders["labels"][key.tree, key.key] = starts[key.dictionary]
        self._arena.keep_in_order(self.trees._replace(labels=labels))

    def reserve(self, changes: Mapping[str, int]) -> None:
        """Make room for so many changes of each relation, each touching one row per level. O(trees)."""
        operations = sum(many * self._groups[relation] for relation, many in changes.items())
        if operations:
            self.fit_notes()
            rows = int(self._arena.tables["live"][self._tables].sum()) + operations
            reserve(self._arena, self._layout.first_pool, operations, rows)

    def fit_notes(self) -> None:
        """Make room for a pending update of every row and reader. Unused room takes only address space."""
        if len(self._noted):
            most = int(self._arena.tables["capacity"][self._noted].max()) + 1
            if most > self.trees.notes.shape[1]:
                notes, marks = scratch(NOTE_FIELDS, 2 * most), scratch(2 * most, 2)
                self._arena.keep_in_order(self.trees._replace(notes=notes, marks=marks))

    def make_room(self, rows: int) -> None:
        """More blocks of every size of which too few are left for AHEAD rows, or for more. Amortised O(1) per block."""
        known = int(self._arena.tables["live"][self._tables].sum())
        reserve(self._arena, self._layout.first_pool, rows, known + rows)
        for size in range(b.POOLS):
            pool = self._layout.first_pool + size
            row = self._arena.tables[pool]
            needed = int(row["live"]) + AHEAD * (LEVELS if size >= b.INNER else 1)
            if needed > row["capacity"]:
                self._arena.grow_records(pool, max(needed, self._arena.larger(pool)))

    def tree(self, number: int) -> CountedTree:
        """One of them, to look at."""
        described = self._layout.ordered[number]
        starts = self.trees.orders["labels"][number]
        order = (replace(key, labels=int(start)) for key, start in zip(described.order, starts, strict=False))
        return CountedTree(self._arena, replace(described, order=tuple(order)), self.trees.labels)
