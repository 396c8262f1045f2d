"""Batches: what extracted logs say about themselves, and whether one is new, known, or in the way of another.

A batch (source, start, stop) is everything that happened to a source after `start` up to and including `stop`.
Bounds are whole numbers, or ISO dates and times (UTC where they say nothing else), or names such as the digest of
a table; a source keeps to one of the three. An empty `start` is the beginning of the source.

- **Numbers and times** are ordered: batches may come in any order, with gaps, and no two may overlap.
- **Names** are not, so nothing can be said about what lies between two of them: batches form a chain, each starting
  where the one before stopped. A name has to stand for one moment of the source only.

What was applied is kept as few intervals, since those that touch are merged. Whether a very batch was applied is
looked up in the ledger, which has them all.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from dynq_cli.errors import RejectedError

# What was applied of one source: pairs (start, stop), ascending, apart from each other. As JSON gives them, too.
Intervals = Sequence[Sequence[str]]

Kind = Literal["number", "time", "name"]
# Up to what 64 bits hold: a digest that happens to be all digits is longer.
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:?\d\d.*)?", re.ASCII)


@dataclass(frozen=True)
class Batch:
    """Everything of a source after `start` up to `stop`."""

    source: str
    start: str
    stop: str

    def __str__(self) -> str:
        return f"{self.source} from {self.start or 'the beginning'} to {self.stop}"


def check_batch(intervals: Intervals, batch: Batch, *, is_known: bool) -> Literal["new", "applied"]:
    """Whether a batch is still to be applied; `is_known`: the ledger has this very batch.

    RejectedError if it goes backwards, is not of the source's kind, overlaps what was applied, or does not go on
    from it where the bounds are names. O(log intervals).
    """
    kind = _kind_of(batch)
    if is_known:
        return "applied"
    if not intervals:
        return "new"
    kept = _kind(intervals[-1][1])
    if kept != kind:
        raise _refused(batch, f"has bounds that are {kind}s where {_applied(batch, intervals[-1])} has {kept}s")
    if kind == "name":
        start, stop = intervals[-1]
        if batch.start != stop:
            raise _refused(batch, f"does not go on from {_applied(batch, (start, stop))}")
        return "new"
    place = _place(intervals, batch)
    for interval in intervals[max(0, place - 1) : place + 1]:
        if _value(interval[0]) < _value(batch.stop) and _value(batch.start) < _value(interval[1]):
            raise _refused(batch, f"overlaps {_applied(batch, interval)}")
    return "new"


def add_batch(intervals: Intervals, batch: Batch) -> tuple[tuple[str, str], ...]:
    """What was applied after a batch that `check_batch` calls new. O(intervals)."""
    if _kind_of(batch) == "name":
        return ((intervals[0][0] if intervals else batch.start, batch.stop),)
    place, kept = _place(intervals, batch), tuple((start, stop) for start, stop in intervals)
    start, stop, before, after = batch.start, batch.stop, kept[:place], kept[place:]
    if before and _value(before[-1][1]) == _value(start):
        start, before = before[-1][0], before[:-1]
    if after and _value(after[0][0]) == _value(stop):
        stop, after = after[0][1], after[1:]
    return (*before, (start, stop), *after)


def _place(intervals: Intervals, batch: Batch) -> int:
    """Where a batch belongs among the intervals."""
    return bisect_left(intervals, _value(batch.start), key=lambda i: _value(i[0]))


def _kind_of(batch: Batch) -> Kind:
    """What the bounds of a batch are. RejectedError if they are not of one kind, or in the wrong order."""
    if not batch.stop:
        raise _refused(batch, "does not say where it stops")
    kinds: set[Kind] = {_kind(bound) for bound in (batch.start, batch.stop) if bound}
    if len(kinds) > 1:
        raise _refused(batch, f"has bounds of two kinds, a {' and a '.join(sorted(kinds))}")
    (kind,) = kinds
    backwards = batch.start == batch.stop if kind == "name" else not _value(batch.start) < _value(batch.stop)
    if backwards:
        raise _refused(batch, "does not stop after its start")
    return kind


def _kind(bound: str) -> Kind:
    if _NUMBER.fullmatch(bound):
        return "number"
    if _TIME.fullmatch(bound):
        try:
            datetime.fromisoformat(bound)
        except ValueError:
            return "name"
        return "time"
    return "name"


def _value(bound: str) -> tuple[int, int | datetime]:
    """A bound that compares as what it is; the beginning comes before all."""
    if not bound:
        return (0, 0)
    if _kind(bound) == "number":
        return (1, int(bound))
    moment = datetime.fromisoformat(bound)
    return (1, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _applied(batch: Batch, interval: Sequence[str]) -> str:
    return f"what was applied already, {Batch(batch.source, *interval)}"


def _refused(batch: Batch, why: str) -> RejectedError:
    return RejectedError(
        f"the batch {batch} {why}; nothing was changed\n  hint: extract what comes after the last batch applied"
    )
