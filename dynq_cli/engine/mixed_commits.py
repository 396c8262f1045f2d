"""Commits of several relations in one batch: what relation each change belongs to, and where each commit ends.

    MixedCommits({"R": changes, "S": changes}, {"R": [1, 1], "S": [0, 2]})    commit 0: a row of R; commit 1: two of S

Within a commit, the relations keep the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dynq_cli.engine.changes import BatchError, Changes, Codes
from dynq_cli.engine.kernels.commit_sequence import PART, Commits
from dynq_cli.engine.kernels.fields import Batch, Rows

# By relation, how many changes there are up to the end of each commit.
Ends = Mapping[str, Codes]


class MixedCommits:
    """`batch` has the changes by relation; commit k has those from `ends[k - 1]` to `ends[k]`, exclusive.

    O(commits × relations) words.
    """

    def __init__(self, batch: Mapping[str, Changes], ends: Ends) -> None:
        self.batch = batch
        self.names = list(batch)
        stops = np.stack([ends[name] for name in self.names], axis=1)
        # Row k has what comes before commit k: the first row is zeros.
        self._stops = np.zeros((len(stops) + 1, len(self.names)), np.int64)
        self._stops[1:] = stops
        self._totals = self._stops.sum(axis=1)

    def __len__(self) -> int:
        return len(self._stops) - 1

    def blocks(self, first: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield runs of commits from `first` on, of up to `most` changes; one with more is a run of its own."""
        while first < len(self):
            stop = int(np.searchsorted(self._totals, self._totals[first] + most, side="right")) - 1
            yield first, (stop := max(first + 1, stop))
            first = stop

    def size(self, first: int, stop: int) -> int:
        """The number of changes of some commits."""
        return int(self._totals[stop] - self._totals[first])

    def part(self, first: int, stop: int) -> dict[str, Changes]:
        """The changes of some commits, by relation."""
        begin, end = self._stops[first].tolist(), self._stops[stop].tolist()
        spans = zip(self.names, begin, end, strict=True)
        return {name: self.batch[name].part(b, e) for name, b, e in spans if b < e}

    def in_batch(self, error: BatchError, first: int, done: int) -> BatchError:
        """Return an error, whose change counts from commit `first` and of which `done` hold, for the whole batch."""
        start = int(self._stops[first, self.names.index(error.relation)])
        return BatchError(error.relation, error.reason, error.change + start, first + done, error.degree)

    def merged(self, first: int, stop: int, numbers: Mapping[str, int]) -> tuple[Commits, dict[str, Codes]]:
        """Return some commits as kernels take them, and by relation the place of each of its changes in the batch.

        `numbers` has the numbers that kernels know relations by.
        """
        part = self.part(first, stop)
        begin, end = self._stops[first:stop], self._stops[first + 1 : stop + 1]
        sizes = end - begin
        flat = np.cumsum(sizes.reshape(-1))
        starts = (flat - sizes.reshape(-1)).reshape(sizes.shape)
        kept = np.flatnonzero(sizes.reshape(-1))
        parts: Rows = np.zeros(len(kept), PART)
        by_column = np.array([numbers[name] for name in self.names], np.int64)
        parts["relation"], parts["stop"] = by_column[kept % len(self.names)], flat[kept]
        ends = np.cumsum(np.count_nonzero(sizes, axis=1))
        places: dict[str, Codes] = {}
        for column, name in enumerate(self.names):
            if name in part:
                offsets = starts[:, column] - begin[:, column]
                rows = np.arange(begin[0, column], end[-1, column])
                places[name] = np.repeat(offsets, sizes[:, column]) + rows
        return Commits(ends, parts, _batch_of(part, places)), places


def _batch_of(part: Mapping[str, Changes], places: Mapping[str, Codes]) -> Batch:
    """Scatter the changes of all relations to their places in one batch, as wide as the widest."""
    if len(part) == 1:
        ((only),) = part.values()
        return only.batch
    many = sum(map(len, part.values()))
    codes = np.empty((many, max((c.codes.shape[1] for c in part.values()), default=1)), np.int64)
    ops, counts = np.zeros(many, np.int8), np.ones(many, np.int64)
    computed = np.zeros((max(many, 1), max((c.computed.shape[1] for c in part.values()), default=1)), np.int64)
    passes = np.ones((max(many, 1), max((c.passes.shape[1] for c in part.values()), default=1)), np.bool_)
    for name, changes in part.items():
        at = places[name]
        codes[at, : changes.codes.shape[1]] = changes.codes
        ops[at], counts[at] = changes.ops, changes.counts
        if len(changes.computed) == len(changes):
            computed[at, : changes.computed.shape[1]] = changes.computed
        if len(changes.passes) == len(changes):
            passes[at, : changes.passes.shape[1]] = changes.passes
    return Batch(codes, ops, counts, computed, passes)
