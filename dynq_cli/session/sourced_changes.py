"""Changes of one relation that still know where each of them stands: in which file, in which row."""

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
    """Changes, their `ops` still kinds, with their `_commit_version` if there is one, and their place in its order.

    `order` has sort keys, a row of them per change. Row i stands in `files[of_file[i]]` as its row `numbers[i]`.
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
        """Changes of one file."""
        return SourcedChanges(changes, commits, (file,), np.zeros(len(numbers), np.int32), numbers, order)

    @staticmethod
    def joined(pieces: Sequence[SourcedChanges]) -> SourcedChanges:
        """Pieces one after the other; all have versions, or none has."""
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
        """The file and the number of a row."""
        return self.files[int(self.of_file[row])], int(self.numbers[row])

    def part(self, start: int, stop: int) -> SourcedChanges:
        """Rows start … stop."""
        return self.only(slice(start, stop))

    def only(self, rows: slice | Codes | NDArray[np.bool_]) -> SourcedChanges:
        """Some of the rows, in the order given."""
        commits = None if self.commits is None else self.commits[rows]
        order = None if self.order is None else self.order[rows]
        return SourcedChanges(
            self.changes.only(rows), commits, self.files, self.of_file[rows], self.numbers[rows], order
        )

    def in_order(self) -> SourcedChanges:
        """By version, then in the order that the log gives, then as they stand."""
        orders = [] if self.order is None else list(self.order.T[::-1])
        keys = [*orders, *([] if self.commits is None else [self.commits])]
        if all((np.diff(key) >= 0).all() for key in keys) and len(keys) < 2:
            return self
        return self.only(np.lexsort(keys))


def _refuse_two_orders(pieces: Sequence[SourcedChanges]) -> None:
    """RejectedError if rows of one commit say their order in different ways, so that nothing orders them together."""
    kinds = {None if piece.order is None else piece.order.shape[1]: piece for piece in pieces if len(piece)}
    if len(kinds) > 1:
        first, other = list(kinds.values())[:2]
        raise RejectedError(
            f"{other.files[0].path}: its rows and those of {first.files[0].path} are ordered in different ways\n"
            "  hint: apply such files one by one"
        )
