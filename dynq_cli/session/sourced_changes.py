"""Changes of one relation, each with its file and row number, for error messages and counts by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.codes import Codes
from dynq_cli.engine.engine import Changes
from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.model import LogFile


@dataclass(frozen=True)
class SourcedChanges:
    """Changes of one relation and their sources; `ops` are still change kinds.

    `commits` has the `_commit_version` of each change, `order` a row of sort keys per change; None if the log has none.
    Change i is row `numbers[i]` of `files[of_file[i]]`.
    """

    changes: Changes
    commits: Codes | None
    files: tuple[LogFile, ...]
    of_file: NDArray[np.int32]
    numbers: Codes
    order: Codes | None = None

    @staticmethod
    def of(
        file: LogFile, changes: Changes, commits: Codes | None, numbers: Codes, order: Codes | None = None
    ) -> SourcedChanges:
        """Build from the changes of one file."""
        return SourcedChanges(changes, commits, (file,), np.zeros(len(numbers), np.int32), numbers, order)

    @staticmethod
    def joined(pieces: Sequence[SourcedChanges]) -> SourcedChanges:
        """Concatenate pieces; either all of them have versions, or none."""
        if len(pieces) == 1:
            return pieces[0]
        files: list[LogFile] = []
        of_file = []
        for piece in pieces:
            of_file.append(piece.of_file + np.int32(len(files)))
            files += piece.files
        commits = [p.commits for p in pieces if p.commits is not None]
        orders = [p.order for p in pieces if p.order is not None]
        _refuse_two_orders(pieces)
        return SourcedChanges(
            Changes.joined([p.changes for p in pieces]),
            np.concatenate(commits) if commits else None,
            tuple(files),
            np.concatenate(of_file),
            np.concatenate([p.numbers for p in pieces]),
            np.concatenate(orders) if orders else None,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> tuple[LogFile, int]:
        """Return the file and the row number of a change."""
        return self.files[int(self.of_file[row])], int(self.numbers[row])

    def part(self, start: int, stop: int) -> SourcedChanges:
        """Return the changes from `start` to `stop`, exclusive."""
        return self.only(slice(start, stop))

    def only(self, rows: slice | Codes | NDArray[np.bool_]) -> SourcedChanges:
        """Select changes, in the order given."""
        commits = None if self.commits is None else self.commits[rows]
        order = None if self.order is None else self.order[rows]
        return SourcedChanges(
            self.changes.only(rows), commits, self.files, self.of_file[rows], self.numbers[rows], order
        )

    def in_order(self) -> SourcedChanges:
        """Sort stably by `_commit_version`, then by the log's sort keys."""
        orders = [] if self.order is None else list(self.order.T[::-1])
        keys = [*orders, *([] if self.commits is None else [self.commits])]
        if all((np.diff(key) >= 0).all() for key in keys) and len(keys) < 2:
            return self
        return self.only(np.lexsort(keys))


def _refuse_two_orders(pieces: Sequence[SourcedChanges]) -> None:
    """RejectedError if pieces have different numbers of sort keys, so that they have no common order."""
    kinds = {None if piece.order is None else piece.order.shape[1]: piece for piece in pieces if len(piece)}
    if len(kinds) > 1:
        first, other = list(kinds.values())[:2]
        raise RejectedError(
            f"{other.files[0].path}: its rows and those of {first.files[0].path} are ordered in different ways\n"
            "  hint: apply such files one by one"
        )
