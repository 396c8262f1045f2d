"""The clock of a state: a hidden relation with one row, the time of the version in force.

A spec whose SQL says now(), current_date or current_timestamp has the relation. Every version moves the clock, and it
never goes back, so the same log gives the same results whenever it is replayed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from dynq_cli.errors import UsageError
from dynq_cli.spec.model import CLOCK, Column, QuerySpec, Relation
from dynq_cli.spec.types import Type

NOW = "now"
CLOCK_RELATION = Relation(CLOCK, (Column(NOW, Type("timestamp")),), changes="often")
# Functions without arguments, in lower case, and what each is of the clock.
CALLS = {
    "now": "timestamp",
    "current_timestamp": "timestamp",
    "get_current_timestamp": "timestamp",
    "transaction_timestamp": "timestamp",
    "localtimestamp": "timestamp",
    "current_localtimestamp": "timestamp",
    "current_date": "date",
    "today": "date",
}
_SAID = re.compile(rf"\b({'|'.join(CALLS)})\b", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1)


def with_clock(relations: tuple[Relation, ...], queries: Iterable[QuerySpec]) -> tuple[Relation, ...]:
    """The relations, and the clock if SQL of the queries may read it."""
    reads = any(_SAID.search(text.value) for query in queries if query.language == "sql" for text in query.texts)
    return (*relations, CLOCK_RELATION) if reads else relations


def system_time() -> int:
    """The time, in microseconds since 1970, in UTC."""
    return time.time_ns() // 1000


def moment(text: str) -> int:
    """Microseconds since 1970 of an ISO date or timestamp, in UTC where it names no zone. UsageError if it is none.

    >>> moment("1970-01-01T00:00:01Z"), moment("1970-01-02")
    (1000000, 86400000000)
    """
    try:
        made = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"--now {text}: this is no timestamp; write it as 2024-05-01T12:30:00") from None
    plain = made.astimezone(UTC).replace(tzinfo=None) if made.tzinfo is not None else made
    return (plain - _EPOCH) // timedelta(microseconds=1)


def shown(microseconds: int) -> str:
    """A time as it is written: `2024-05-01 12:30:00`."""
    return str(_EPOCH + timedelta(microseconds=microseconds))
