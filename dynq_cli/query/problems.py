"""Problems of a query's text, each at a character, as the front ends report them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class TextProblem:
    """A problem at a character of the query's text; `compile` maps it to a line of the file."""

    offset: int
    message: str
    hint: str = ""


class QueryProblems(Exception):
    """One or more problems found in one query text."""

    def __init__(self, problems: Iterable[TextProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(p.message for p in self.problems))


class UnreadableQueryError(Exception):
    """A query of the spec cannot be read by the one that names it, with a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def refuse(offset: int, message: str, hint: str = "") -> QueryProblems:
    """A single problem, ready to be raised."""
    return QueryProblems([TextProblem(offset, message, hint)])
