"""One error base, one class per layer.

Every error a user can meet is a `DynqError`: a stable `code`, the process exit code that
the documentation promises, and a message that names the place and the next step.
Only `dynq_cli.cli` turns one into text on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EXIT_RUNTIME = 1
EXIT_USAGE = 2
EXIT_REJECTED = 3
EXIT_NO_STATE = 10
EXIT_LOCKED = 11
EXIT_DAMAGED = 12
EXIT_SPEC_DIFFERS = 13
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file: where, what, and what to write instead."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class DynqError(Exception):
    """Base of every error that reaches a user."""

    code = "error"
    exit_code = EXIT_RUNTIME


class UsageError(DynqError):
    """A wrong option, an unknown query, a file that is not there."""

    code = "usage"
    exit_code = EXIT_USAGE


class RejectedError(DynqError):
    """Input that dynq understood and refuses: a bad log, a refused query, out of range."""

    code = "rejected"
    exit_code = EXIT_REJECTED
    # The file or table and the row that were rejected, if it was one row.
    place = ""
    row = 0

    @classmethod
    def in_row(cls, place: str, row: int, column: str, reason: str, hint: str = "") -> RejectedError:
        """Reject a row of a file or table, counted from 1; `column` may name several, or none for the whole row."""
        at = f"{place}: row {row}, column {column}" if column else f"{place}: row {row}"
        made = cls(f"{at}: {reason}\n  hint: {hint}" if hint else f"{at}: {reason}")
        made.place, made.row = place, row
        return made

    def moved(self, row: int) -> RejectedError:
        """Return the same error about another row of the same place."""
        start = f"{self.place}: row "
        rest = str(self).removeprefix(f"{start}{self.row}")
        made = type(self)(f"{start}{row}{rest}")
        made.place, made.row = self.place, row
        return made


class BlockedError(RejectedError):
    """Input that cannot be taken now for a reason outside of its content: a failing disk, a view over its budget."""


class UnfinishedError(RejectedError):
    """A directory whose job, or a file whose writer, has not finished: it may be complete later."""


class NoStateError(DynqError):
    """A directory that holds no state this version can read."""

    code = "no-state"
    exit_code = EXIT_NO_STATE


class LockedError(DynqError):
    """Another process is writing to the state."""

    code = "locked"
    exit_code = EXIT_LOCKED


class DamagedError(DynqError):
    """A state whose files are not what was written."""

    code = "damaged"
    exit_code = EXIT_DAMAGED


class SpecDiffersError(DynqError):
    """A state that was made for other plans than its spec has now."""

    code = "spec-differs"
    exit_code = EXIT_SPEC_DIFFERS


class SpecError(RejectedError):
    """All problems of one spec, in the order of the file."""

    code = "spec"

    def __init__(self, problems: Iterable[Problem]) -> None:
        unique = {(p.place, p.message): p for p in problems}
        self.problems: Sequence[Problem] = sorted(unique.values(), key=lambda p: (p.place, p.message))
        super().__init__("\n".join(str(p) for p in self.problems))
