"""The counted trees of an engine: their descriptions, labels, scratch, and room for their blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import order_statistic_blocks as b
from dynq_cli.engine.kernels.fields import Trees, Words
from dynq_cli.engine.kernels.ordered import LEVELS
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.ranges import SCRATCH
from dynq_cli.engine.kernels.sort_pending import NOTE_FIELDS
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.memory import scratch
from dynq_cli.engine.order_statistic_tree import CountedTree, reserve


class CountedTrees:
    """`trees` is what kernels take; it is another one after `label`."""

    def __init__(self, layout: Layout, arena: Arena) -> None:
        self._layout = layout
        self._arena = arena
        C = layout.ordered.copy()
        scratch = b.TARGET + C.shape[1] + int(C[:, b.C_WIDTH].max(initial=0)) + SCRATCH
        notes, marks = np.zeros((NOTE_FIELDS, 1), np.int64), np.zeros((1, 2), np.int64)
        self.trees = Trees(C, np.zeros(1, np.int64), np.zeros(scratch, np.int64), notes, marks)
        ranges = layout.nodes[layout.nodes[:, f.N_READERS] >= 0]
        self._noted = np.concatenate([ranges[:, f.N_TABLE], layout.nodes[ranges[:, f.N_PARENT], f.N_TABLE]])
        # By relation, how many groups a change of one row may come into or leave.
        self._groups = {
            name: sum(layout.ordered_above(leaf.node) for leaf in base.leaves) for name, base in layout.bases.items()
        }
        self._tables = C[:, b.C_TABLE]

    def label(self, labels: Words, starts: Mapping[str, int]) -> None:
        """The labels of all dictionaries in one array, and where those of each start. O(keys)."""
        for key in self._layout.labelled:
            self.trees.C[key.tree, key.place] = starts[key.dictionary]
        self.trees = self.trees._replace(labels=labels)

    def reserve(self, relation: str, changes: int) -> None:
        """Blocks for what so many changes of a relation do where each touches one row per level. O(trees)."""
        operations = changes * self._groups[relation]
        if operations:
            self.fit_notes()
            rows = int(self._arena.T[self._tables, f.T_LIVE].sum()) + operations
            reserve(self._arena, self._layout.first_pool, operations, rows)

    def fit_notes(self) -> None:
        """Room for a note about every row that can be noted or begin to read. Unused, it costs addresses only."""
        if len(self._noted):
            most = int(self._arena.T[self._noted, f.T_CAPACITY].max()) + 1
            if most > self.trees.notes.shape[1]:
                self.trees = self.trees._replace(notes=scratch(NOTE_FIELDS, 2 * most), marks=scratch(2 * most, 2))

    def make_room(self, rows: int) -> None:
        """More blocks of every size of which too few are left for AHEAD rows, or for more. Amortised O(1) per block."""
        known = int(self._arena.T[self._tables, f.T_LIVE].sum())
        reserve(self._arena, self._layout.first_pool, rows, known + rows)
        for size in range(b.POOLS):
            pool = self._layout.first_pool + size
            row = self._arena.T[pool]
            needed = int(row[f.T_LIVE]) + AHEAD * (LEVELS if size >= b.INNER else 1)
            if needed > row[f.T_CAPACITY]:
                self._arena.grow_records(pool, max(needed, self._arena.larger(pool)))

    def tree(self, number: int) -> CountedTree:
        """One of them, to look at."""
        return CountedTree(self._arena, self.trees.C[number], self.trees.labels)
