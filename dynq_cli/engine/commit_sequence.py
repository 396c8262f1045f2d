"""Apply a sequence of commits of several relations in one call of a kernel (`kernels.commit_sequence`).

    CommitSequence(layout, …).run(commits, first, stop)    commits `first` to `stop`, until one is refused

Commits leave the arena's rows as if each were applied by itself. O(changes) beside the kernel; the numbers of relations
and trees count once per run, not per commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import DeltaBuffers
from dynq_cli.engine.changes import BatchError
from dynq_cli.engine.kernels import commit_sequence as k
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Rows, Scratch
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.mixed_commits import MixedCommits
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.plan.program import Tree


class CommitSequence:
    """The relations and trees of a layout as kernels take them. `feeding` are relations whose base delta others read.

    `reached` has by relation the tables that get rows, each with how many a change may add.
    """

    def __init__(
        self,
        layout: Layout,
        arena: Arena,
        ordered: CountedTrees,
        feeding: Collection[str],
        reached: Mapping[str, Sequence[tuple[int, int]]],
    ) -> None:
        self._arena = arena
        self._ordered = ordered
        self._reached = reached
        self._names = list(layout.bases)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._program = _program_of(layout, self._names, feeding)
        self._spans = np.zeros(len(self._names), k.SPAN)
        self._position = np.zeros(1, k.POSITION)

    def run(self, commits: MixedCommits, first: int, stop: int, work: DeltaBuffers, scratch: Scratch) -> int:
        """Apply some commits, whose base deltas fit the buffers; return how many deletes found no row.

        Raises BatchError, with the number of these commits that hold, at the first that is refused.
        """
        part = commits.part(first, stop)
        if not part:
            return 0
        self._reserve({name: len(changes) for name, changes in part.items()})
        given, places = commits.merged(first, stop, self._numbers)
        for name, changes in part.items():
            self._spans["may_miss"][self._numbers[name]] = changes.may_miss
        self._position["done"] = self._position["stage"] = 0
        at = self._position[0]
        for field in at.dtype.names or ():
            at[field] = 0
        while True:
            store = self._arena.store
            status = k.run(store, self._program, given, work.entries, self._spans, scratch, self._position)
            if status != f.NO_ROOM:
                break
            self._ordered.make_room(int(scratch.before[0]))
        if status == f.OVERFLOW:
            raise OverflowedError
        if status != f.OK:
            name, done = self._names[int(at["relation"])], int(at["done"])
            # Changes of one relation keep their order in the batch.
            change = int(np.searchsorted(places[name], int(at["change"])))
            raise SequenceError(BatchError(name, status, change, done), int(at["skipped"]))
        return int(at["skipped"])

    def _reserve(self, changes: Mapping[str, int]) -> None:
        """Make room for so many changes of each relation."""
        rows: Counter[int] = Counter()
        for name, many in changes.items():
            for table, times in self._reached[name]:
                rows[table] += many * times
        for table, many in rows.items():
            self._arena.reserve(table, many)
        self._ordered.reserve(changes)


class SequenceError(Exception):
    """A commit of a sequence is refused: `error` says why, `skipped` how many deletes before it found no row."""

    def __init__(self, error: BatchError, skipped: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.skipped = skipped


def _program_of(layout: Layout, names: Sequence[str], feeding: Collection[str]) -> k.Program:
    trees = [step.name for step in layout.steps if isinstance(step, Tree) and step.name in layout.trees]
    relations: Rows = np.zeros(len(names), k.RELATION)
    leaves: list[int] = []
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    last: dict[str, str] = {}
    for row, name in zip(relations, names, strict=True):
        row.table, row.first_leaf = layout.bases[name].table, len(leaves)
        for tree in dict.fromkeys(leaf.query for leaf in layout.bases[name].leaves):
            own = [leaf.node for leaf in layout.bases[name].leaves if leaf.query == tree]
            spans[name, tree] = len(leaves), len(leaves) + len(own)
            leaves += own
            last[name] = tree
        row.stop_leaf = len(leaves)
    steps: Rows = np.zeros(len(trees), k.TREE_STEP)
    readers: list[tuple[int, int, int, int]] = []
    for row, tree in zip(steps, trees, strict=True):
        at = layout.trees[tree]
        row.first_node, row.stop_node, row.first_reader = at.first, at.stop, len(readers)
        for number, name in enumerate(names):
            if (name, tree) in spans:
                readers.append((number, *spans[name, tree], name not in feeding and last[name] == tree))
        row.stop_reader = len(readers)
    read = f.rows_of(k.READER, np.array(readers, np.int64).reshape(-1, len(k.READER.names or ())))
    return k.Program(relations, steps, read, np.array(leaves or [0], np.int64))
