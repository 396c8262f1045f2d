"""Apply a sequence of commits of several relations in one call of a kernel (`kernels.commit_sequence`).

    CommitSequence(layout, …).run(commits, first, stop)    commits `first` to `stop`, until one is refused

Commits leave the arena's rows as if each were applied by itself. O(changes) beside the kernel; the numbers of relations
and trees count once per run, not per commit. The deltas of trees that feed derived relations go to an outlet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import DeltaBuffers
from dynq_cli.engine.changes import BatchError, Codes
from dynq_cli.engine.delta_routing import DerivedError
from dynq_cli.engine.derived_relations import DerivedRelations
from dynq_cli.engine.kernels import commit_sequence as k
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Scratch, Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.mixed_commits import MixedCommits
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.sequence_of_deltas import Delta
from dynq_cli.engine.sequence_program import SequenceProgram

# Keep the buffers of runs with up to this many changes.
FEW = 8192
# Rows of deltas that there is room for at first.
ROWS = 1 << 14
# Keep this many for the next run.
MOST_KEPT = 1 << 18


class Outlet(Protocol):
    """Takes the deltas of steps: of many commits together, and of one with more than `most` rows in parts."""

    most: int

    def take(self, deltas: dict[str, Delta]) -> None:
        """Take the deltas of commits by step."""

    def take_part(self, step: str, codes: Codes, copies: Codes) -> None:
        """Take some rows of a commit's delta."""

    def end_part(self) -> None:
        """Go on to the next commit: all rows of the one before have been taken in parts."""


class CommitSequence:
    """The relations and steps of a layout as kernels take them; `taken` are the written relations that can run so.

    One may run while another is on its way. `feeding` are the relations whose base delta is read when their trees are
    through. `reached` has by relation the tables that get rows, each with how many a change may add.
    """

    def __init__(
        self,
        layout: Layout,
        arena: Arena,
        ordered: CountedTrees,
        deriving: DerivedRelations,
        feeding: Collection[str],
        reached: Mapping[str, Sequence[tuple[int, int]]],
    ) -> None:
        self._arena = arena
        self._ordered = ordered
        self._reached = reached
        self._program = SequenceProgram(layout, arena, deriving, feeding)
        self.taken = self._program.taken
        self._numbers = {name: number for number, name in enumerate(self._program.names)}
        self._rows = np.empty((0, 0), np.int64)
        self._spans = np.zeros(len(self._numbers), k.SPAN)
        self._position = np.zeros(1, k.POSITION)
        self._work: DeltaBuffers | None = None

    def run(self, commits: MixedCommits, first: int, stop: int, scratch: Scratch, outlet: Outlet) -> int:
        """Apply some commits; return how many deletes found no row.

        Deltas go to the outlet. Raises SequenceError at the first commit that is refused.
        """
        part = commits.part(first, stop)
        if not part:
            outlet.take({})
            return 0
        self._reserve({name: len(changes) for name, changes in part.items()})
        work = self._buffers(commits.size(first, stop))
        given, places = commits.merged(first, stop, self._numbers)
        for name, changes in part.items():
            self._spans["may_miss"][self._numbers[name]] = changes.may_miss
        at = self._position[0]
        for field in at.dtype.names or ():
            at[field] = 0
        if self._program.width and not len(self._rows):
            self._rows = np.empty((ROWS, k.VALUES + self._program.width), np.int64)
        passing = _Passing(self._program, outlet, stop - first)
        while True:
            store, flows = self._arena.store, self._program.flows(self._rows)
            status = k.run(
                store, self._program.program, given, flows, work.entries, self._spans, scratch, self._position
            )
            if status == f.NO_ROOM:
                self._ordered.make_room(int(scratch.before[0]))
            elif status != k.FULL:
                break
            elif len(self._rows) < outlet.most:
                self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            else:
                left = passing.some(self._rows[: int(at["rows"])], int(at["done"]))
                self._rows[: len(left)], at["rows"] = left, len(left)
        if status == k.TOO_MANY_COPIES:
            raise DerivedError.too_many_copies(self._program.steps[int(at["stage"]) - 1])
        if status == f.OVERFLOW:
            raise OverflowedError
        skipped = int(at["skipped"])
        error = None
        if status != f.OK:
            name, done = self._program.names[int(at["relation"])], int(at["done"])
            # Changes of one relation keep their order in the batch.
            change = int(np.searchsorted(places[name], int(at["change"])))
            error = SequenceError(BatchError(name, status, change, done), skipped)
        passing.rest(self._rows[: int(at["rows"])])
        if len(self._rows) > MOST_KEPT:
            self._rows = self._rows[:0]
        if error is not None:
            raise error
        return skipped

    def _buffers(self, changes: int) -> DeltaBuffers:
        """Return buffers for the base deltas of so many changes, each of which may touch two rows."""
        if changes > FEW:
            return DeltaBuffers(2 * changes)
        self._work = self._work or DeltaBuffers(2 * FEW)
        return self._work

    def _reserve(self, changes: Mapping[str, int]) -> None:
        """Make room for so many changes of each relation."""
        rows: Counter[int] = Counter()
        for name, many in changes.items():
            for table, times in self._reached[name]:
                rows[table] += many * times
        for table, many in rows.items():
            self._arena.reserve(table, many)
        self._ordered.reserve(changes)


class _Passing:
    """Passes rows that were written down on to an outlet; `part` is the commit that is passed on in parts, or -1."""

    def __init__(self, program: SequenceProgram, outlet: Outlet, commits: int) -> None:
        self._program = program
        self._outlet = outlet
        self._commits = commits
        self._part = -1

    def some(self, rows: Words, done: int) -> Words:
        """Pass on the rows of commits before `done`; if there are none, the first of that one. Return those left."""
        own = int(np.searchsorted(rows[:, k.COMMIT], done))
        if own or -1 < self._part < done:
            self.rest(rows[:own])
            return rows[own:].copy()
        self._part = done
        self._pass_part(rows)
        return rows[:0]

    def rest(self, rows: Words) -> None:
        """Pass on the rows of commits that are through."""
        if self._part >= 0:
            own = int(np.searchsorted(rows[:, k.COMMIT], self._part, side="right"))
            self._pass_part(rows[:own])
            self._outlet.end_part()
            self._part, rows = -1, rows[own:]
        self._outlet.take(self._program.deltas(rows, self._commits))

    def _pass_part(self, rows: Words) -> None:
        for step, delta in self._program.deltas(rows, self._commits).items():
            self._outlet.take_part(step, delta.codes, delta.copies)


class SequenceError(Exception):
    """A commit of a sequence is refused: `error` says why, `skipped` how many deletes before it found no row."""

    def __init__(self, error: BatchError, skipped: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.skipped = skipped
