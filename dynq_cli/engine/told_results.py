"""The results whose deltas are told: read within each commit, and added up until they are taken.

    told.tell(["q"])             from the next commit on
    told.take()                  by query, the rows that came and went since the last time, with signed copies

A result that is read from several trees changes only where one of them does. Its multiplicity before a commit is what
the trees have now, less their deltas; so the old state is needed in no tree. O(changed rows · trees).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.consolidate import consolidated
from dynq_cli.engine.journals import Journals
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.multi_tree_result import MultiTreeResult
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_delta import Signed, TreeDelta


class ToldResults:
    """None at first."""

    def __init__(
        self,
        layout: Layout,
        arena: Arena,
        ordered: CountedTrees,
        journals: Journals,
        combined: Mapping[str, MultiTreeResult],
    ) -> None:
        self._layout = layout
        self._arena = arena
        self._ordered = ordered
        self._journals = journals
        self._combined = combined
        self.queries: tuple[str, ...] = ()
        self._trees: dict[str, TreeDelta] = {}
        # By tree; None where a row has more copies than a delta can say, and of trees whose old state is not there.
        self._read: dict[str, list[Signed] | None] = {}

    def __contains__(self, tree: str) -> bool:
        return tree in self._trees

    def tell(self, queries: Sequence[str]) -> frozenset[str]:
        """Choose the results; return the trees that they are read from, which need journals. O(nodes)."""
        self.queries, old = tuple(queries), self._trees
        read = [tree for query in queries for tree in self._layout.trees_of(query)]
        self._trees = {
            tree: old.get(tree) or TreeDelta(self._layout, self._arena, self._ordered, self._journals, tree)
            for tree in read
            if not self._waits(tree)
        }
        self._read = {tree: [] if tree in self._trees else None for tree in read}
        return frozenset(self._trees)

    def _waits(self, tree: str) -> bool:
        """Whether ends of ranges are searched in order-statistic trees, which have no old state (`waiting_sums`)."""
        laid = self._layout.trees[tree]
        return bool((self._layout.nodes["waits"][laid.first : laid.stop] >= 0).any())

    def read(self, tree: str, before: int, after: int) -> None:
        """Read the delta of a tree in the commit that has just changed it; the row counts of its result."""
        read = self._read[tree]
        if read is None:
            return
        try:
            rows = self._trees[tree].rows(before, after)
        except OverflowedError:
            self._read[tree] = None
        else:
            if len(rows[1]):
                read.append(rows)

    def forget(self) -> None:
        """Drop what was read since the last `take`. O(trees)."""
        self._read = {tree: [] if tree in self._trees else None for tree in self._read}

    def take(self) -> dict[str, Signed | None]:
        """Return what came and went since the last call, one row of codes per head variable; begin anew.

        None for a result of which a row has more than 2^63 - 1 copies, or whose old state is not there (`_waits`).
        """
        found = {query: self._net(query) for query in self.queries}
        self.forget()
        return found

    def _net(self, query: str) -> Signed | None:
        if query not in self._combined:
            return self._net_of(query)
        try:
            return self._net_together(self._combined[query])
        except OverflowedError:
            return None

    def _net_of(self, tree: str) -> Signed | None:
        """Add up the deltas of a tree, in the variables of its head."""
        read = self._read[tree]
        if read is None or len(read) == 1:
            return None if read is None else read[0]
        if not read:
            return np.empty((len(self._trees[tree].variables), 0), np.int64), np.empty(0, np.int64)
        codes, copies = (np.concatenate(parts, axis=-1) for parts in zip(*read, strict=True))
        rows, net = consolidated(codes.T, copies)
        return rows.T, net

    def _net_together(self, result: MultiTreeResult) -> Signed | None:
        """Compare the multiplicities after, looked up in all trees, with those before: less the trees' deltas."""
        changes: list[Signed] = []
        for member in result.step.read:
            net = self._net_of(member.tree)
            if net is None:
                return None
            head = self._trees[member.tree].variables
            places = [head.index(v) for v in member.variables]
            changes.append((net[0][places], net[1]))
        every = np.unique(np.concatenate([codes for codes, _ in changes], axis=1), axis=1)
        after = result.copies_by_tree(every)
        before = [many - _of(every, *change) for many, change in zip(after, changes, strict=True)]
        copies = result.combined(every, after) - result.combined(every, before)
        kept = np.flatnonzero(copies)
        return every[:, kept], copies[kept]


def _of(every: Words, codes: Words, copies: Words) -> Words:
    """Return the signed copies of each of some rows, which include all that have any; both without repeats."""
    found = np.zeros(every.shape[1], np.int64)
    if len(copies):
        _, inverse = np.unique(np.concatenate([every, codes], axis=1), axis=1, return_inverse=True)
        place = np.empty(every.shape[1], np.int64)
        inverse = inverse.reshape(-1)
        place[inverse[: every.shape[1]]] = np.arange(every.shape[1])
        found[place[inverse[every.shape[1] :]]] = copies
    return found
