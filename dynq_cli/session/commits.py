"""Group the rows of change logs into commits and give them to the engine.

    Commits.add(rows…), then finish(): the engine has applied every row once, ordered by `_commit_version`, then by
    file, and has checked each commit as a whole

Memory is O(largest commit): a commit is applied as soon as it is complete. Rows without a `_commit_version` are one
commit; if there are very many, the rows read so far are applied early, provided that they are valid by themselves.
Logs whose versions decrease, or that spread versions over several files, are held in memory as a whole.

`counted` has the number of rows that each file inserted, replaced and deleted (`engine/effects`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from dynq_cli.engine.codes import Codes
from dynq_cli.engine.engine import BatchError, Changes
from dynq_cli.engine.ingest import RowError, encode_rows, operations, refuse_losses
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.model import LogFile, LogRows
from dynq_cli.query.scalar import ScalarError
from dynq_cli.session.row_counts import RowCounts, Watch
from dynq_cli.session.sourced_changes import SourcedChanges
from dynq_cli.values import change_kinds as k

# Once a commit holds this many rows, try to apply them without the rest.
EARLY = 1_000_000

Take = Callable[[Mapping[str, Changes], Ends | None], None]


class BackwardsError(Exception):
    """A row has a lower `_commit_version` than rows that are already applied."""


class TakesRows(Protocol):
    """What rows of logs are given to, in their order."""

    @property
    def counted(self) -> dict[str, RowCounts]:
        """The rows that each file inserted, replaced and deleted."""

    def take_rows(self, file: LogFile, rows: LogRows) -> None:
        """Take the next rows. RejectedError if one is refused; BackwardsError if a version decreases."""

    def finish(self) -> None:
        """Apply what is left."""


class Commits:
    """Groups rows into commits; see the module. With `hold`, versions may come in any order and wait for `finish`."""

    def __init__(
        self,
        views: Views,
        take: Take,
        *,
        may_miss: bool = False,
        hold: bool = False,
        counts: Callable[[str], bool] = lambda relation: True,
    ) -> None:
        """`counts`: whether the rows of a relation are counted here."""
        self._views = views
        self._counts = counts
        self._take = take
        self._may_miss = may_miss
        self._hold = hold
        self._pending: dict[str, list[SourcedChanges]] = {}
        self._rows = 0
        self._early = EARLY
        self._version: int | None = None
        self._has_versions: bool | None = None
        self.counted: dict[str, RowCounts] = {}
        # Deletes of missing rows, of relations that are counted here.
        self.skipped = 0

    def take_rows(self, file: LogFile, rows: LogRows) -> None:
        """Encode and add rows."""
        self.add(rows.relation, self.encode(file, rows))

    def encode(self, file: LogFile, rows: LogRows) -> SourcedChanges:
        """Encode rows. RejectedError names file, row and column."""
        return encoded(self._views, file, rows)

    def add(self, relation: str, piece: SourcedChanges) -> None:
        """Add the next rows. RejectedError if a commit is refused; BackwardsError if a version decreases."""
        if not len(piece.numbers):
            return
        if self._has_versions not in (None, piece.commits is not None):
            raise RejectedError(
                f"{piece.files[0].path}: some of these rows have a _commit_version and others have none\n"
                "  hint: apply such files one by one"
            )
        self._has_versions = piece.commits is not None
        if piece.commits is None:
            self._keep(relation, piece)
            if self._rows >= self._early:
                self._take_early()
        elif self._hold:
            self._keep(relation, piece)
        else:
            self._add_ordered(relation, piece.in_order())

    def finish(self) -> None:
        """Apply the last commit, or all held rows."""
        if self._hold and self._has_versions:
            self._take_held()
        else:
            self._flush()

    def _add_ordered(self, relation: str, piece: SourcedChanges) -> None:
        versions = piece.commits
        assert versions is not None
        if self._version is not None and versions[0] < self._version:
            raise BackwardsError
        if self._version is not None and versions[0] > self._version:
            self._flush()
        starts = np.flatnonzero(np.diff(versions)) + 1
        if len(starts):
            first, last = int(starts[0]), int(starts[-1])
            self._keep(relation, piece.part(0, first))
            self._flush()
            if last > first:
                self._take_several({relation: piece.part(first, last)}, {relation: starts[1:] - first})
            piece = piece.part(last, len(versions))
        self._keep(relation, piece)
        self._version = int(versions[-1])

    def _keep(self, relation: str, piece: SourcedChanges) -> None:
        self._pending.setdefault(relation, []).append(piece)
        self._rows += len(piece.numbers)

    def _flush(self) -> None:
        pending, self._pending, self._rows = self._pending, {}, 0
        if pending:
            joined = {relation: SourcedChanges.joined(pieces).in_order() for relation, pieces in pending.items()}
            self._take_several(joined, None)

    def _take_early(self) -> None:
        """Apply the rows read so far if they are valid by themselves; else keep them.

        A delete may match a row that is still to come, and an update image its other half.
        """
        joined = {relation: SourcedChanges.joined(pieces) for relation, pieces in self._pending.items()}
        images = any(np.isin(j.changes.ops, (k.PREIMAGE, k.POSTIMAGE)).any() for j in joined.values())
        self._early = 2 * self._rows
        # A later row may sort before the rows read so far.
        if self._may_miss or images or any(j.order is not None for j in joined.values()):
            return
        batch = {relation: self._operations(relation, j, None) for relation, j in joined.items()}
        try:
            self._take_counted(joined, batch, None)
        except BatchError:
            return
        self._pending, self._rows, self._early = {}, 0, EARLY

    def _take_several(self, joined: Mapping[str, SourcedChanges], ends: Ends | None) -> None:
        """Apply one commit, or several with their ends by relation."""
        batch = {
            relation: self._operations(relation, j, None if ends is None else ends[relation])
            for relation, j in joined.items()
        }
        try:
            self._take_counted(joined, batch, ends)
        except BatchError as error:
            raise self._why(error, joined[error.relation], batch) from None

    def _take_held(self) -> None:
        pending, self._pending, self._rows = self._pending, {}, 0
        joined = {relation: SourcedChanges.joined(pieces).in_order() for relation, pieces in pending.items()}
        numbers = {relation: j.commits for relation, j in joined.items() if j.commits is not None}
        if numbers:
            versions = np.unique(np.concatenate([*numbers.values()]))
            ends = {relation: np.searchsorted(each, versions, "right") for relation, each in numbers.items()}
            self._take_several(joined, ends)

    def _take_counted(
        self, joined: Mapping[str, SourcedChanges], batch: Mapping[str, Changes], ends: Ends | None
    ) -> None:
        watches = [
            Watch(self._views, relation, changes, None if ends is None else ends[relation])
            for relation, changes in batch.items()
            if self._counts(relation)
        ]
        missed = self._views.engine.skipped
        self._take(batch, ends)
        if len(watches) == len(batch):
            self.skipped += self._views.engine.skipped - missed
        for watch in watches:
            watch.add_to(self.counted, joined[watch.relation])

    def _operations(self, relation: str, joined: SourcedChanges, ends: Codes | None) -> Changes:
        try:
            base = self._views.base(relation)
            return operations(refuse_losses(joined.changes, base), base, may_miss=self._may_miss, ends=ends)
        except RowError as error:
            file, number = joined.place(error.row)
            raise RejectedError.in_row(file.path, number, error.column, error.reason) from None

    def _why(self, error: BatchError, joined: SourcedChanges, batch: Mapping[str, Changes]) -> RejectedError:
        file, number = joined.place(error.change)
        return self._views.rejected(error, batch, file.path, number)


def encoded(views: Views, file: LogFile, rows: LogRows) -> SourcedChanges:
    """Encode rows; their `ops` are still change kinds. RejectedError names file, row and column."""
    try:
        changes = encode_rows(rows.columns, rows.kinds, rows.counts, views.base(rows.relation), views.dictionaries)
    except RowError as error:
        number = int(rows.numbers[error.row])
        raise RejectedError.in_row(file.path, number, error.column, error.reason) from None
    except ScalarError as error:
        raise RejectedError(f"{file.path}: rows {rows.numbers[0]} to {rows.numbers[-1]}: {error}") from None
    return SourcedChanges.of(file, changes, rows.commits, rows.numbers, rows.order)
