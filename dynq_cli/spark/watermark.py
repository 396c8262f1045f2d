"""Watermarks: the largest extracted value of a column that increases with every change of a table.

A watermark is a whole number, a date, or a timestamp with or without a zone. It is stored as text and compared as an
SQL literal, so it is exact. An overlap moves it back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import types as t

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spark.types import from_spark

# Clocks may run ahead, and times without a zone may be in any zone; times further ahead are not times of changes.
AHEAD = timedelta(days=1)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True)
class Kind:
    """The kind of a watermark: `name` is number, date, moment (with a zone) or local (without)."""

    name: str

    def literal(self, text: str) -> str:
        """Write a value as an SQL literal. A quoted one gets the type of the column that it is compared with."""
        return text if self.name == "number" else f"'{text}'"

    def newest(self) -> str | None:
        """Return the largest value that a change made now can have; None for numbers."""
        if self.name == "number":
            return None
        return self._text(datetime.now(UTC) + AHEAD)

    def back(self, text: str, overlap: str | None) -> str:
        """Move a value back by an overlap.

        >>> Kind("moment").back("2026-03-01 00:00:00.000001+00:00", "90s")
        '2026-02-28 23:58:30.000001+00:00'
        >>> Kind("number").back("1000", "10")
        '990'
        """
        if overlap is None:
            return text
        if self.name == "number":
            return str(int(text) - _number(overlap))
        try:
            return self._text(self._value(text) - _duration(overlap))
        except OverflowError:
            raise UsageError(f"--overlap {overlap} goes back to before there were dates") from None

    def largest(self, one: str, other: str) -> str:
        if self.name == "number":
            return str(max(int(one), int(other)))
        return max(one, other, key=self._value)

    def check(self, overlap: str) -> None:
        """Raise UsageError if an overlap is not valid for this kind."""
        if self.name == "number":
            _number(overlap)
        else:
            _duration(overlap)

    def _value(self, text: str) -> datetime:
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise RejectedError(f"the watermark {text} is no time of a change") from None
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    def _text(self, value: datetime) -> str:
        if self.name == "date":
            return date.isoformat(value.date())
        return (value if self.name == "moment" else value.replace(tzinfo=None)).isoformat(" ")


def kind_of(column: str, found: t.DataType) -> Kind:
    """Return the kind of a watermark column; RejectedError if its type cannot be a watermark."""
    if isinstance(found, t.TimestampType):
        return Kind("moment")
    if isinstance(found, t.TimestampNTZType):
        return Kind("local")
    if isinstance(found, t.DateType):
        return Kind("date")
    mine = from_spark(found)
    if mine is not None and (mine.is_integer or (mine.name == "decimal" and mine.scale == 0)):
        return Kind("number")
    raise RejectedError(
        f"--watermark {column} is {found.simpleString()}; it has to be a timestamp, a date or a whole number"
    )


def as_text(kind: Kind, column: str) -> str:
    """Return the Spark expression for the text of a value, in a session in UTC."""
    return f"concat(cast({column} as string), '+00:00')" if kind.name == "moment" else f"cast({column} as string)"


def _number(overlap: str) -> int:
    if not re.fullmatch(r"\d{1,18}", overlap):
        raise UsageError(f"--overlap {overlap}: the watermark is a number, so write how far to go back as one")
    return int(overlap)


def _duration(overlap: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,9})([smhd])", overlap)
    if found is None:
        raise UsageError(f"--overlap {overlap}: write seconds, minutes, hours or days: 90s, 5m, 2h, 1d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
