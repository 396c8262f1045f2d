"""Batches: the interval of a source that an extracted log covers. Decide whether a batch is new, applied, or refused.

A batch (source, start, stop) holds all changes of a source after `start`, up to and including `stop`.
Bounds are whole numbers, ISO dates and times (UTC unless they name a zone), or names such as the digest of
a table. All batches of a source use the same kind. An empty `start` is the beginning of the source.

- **Numbers and times** are ordered: batches may come in any order and leave gaps, but must not overlap.
- **Names** have no order: batches form a chain, each starts where the one before it stopped. A name must stand for
  one moment of the source only.

The manifest keeps the applied batches of a source as few intervals: adjacent ones are merged. The ledger keeps every
batch, and tells whether exactly this one was applied.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from dynq_cli.errors import RejectedError

# The applied intervals of one source: pairs (start, stop), ascending and not adjacent; tuples, or lists from JSON.
Intervals = Sequence[Sequence[str]]

Kind = Literal["number", "time", "name"]
# At most 19 digits, to fit 64 bits: a digest that happens to be all digits is longer.
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:?\d\d.*)?", re.ASCII)


@dataclass(frozen=True)
class Batch:
    """All changes of a source after `start`, up to and including `stop`."""

    source: str
    start: str
    stop: str

    def __str__(self) -> str:
        return f"{self.source} from {self.start or 'the beginning'} to {self.stop}"


def check_batch(intervals: Intervals, batch: Batch, *, is_known: bool) -> Literal["new", "applied"]:
    """Decide whether a batch is new or applied; `is_known`: the ledger has exactly this batch. O(log intervals).

    RejectedError if the batch does not stop after its start, has other bounds than its source, overlaps an applied
    batch, or, with names as bounds, does not start where the last batch stopped.
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
    """Return the applied intervals with a batch that `check_batch` calls new. O(intervals)."""
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
    """Return the index at which a batch would be inserted into the intervals."""
    return bisect_left(intervals, _value(batch.start), key=lambda i: _value(i[0]))


def _kind_of(batch: Batch) -> Kind:
    """Return the kind of a batch's bounds. RejectedError if the kinds differ or the bounds are in the wrong order."""
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
    """Return a sort key for a number or a time; the empty bound, the beginning, sorts first."""
    if not bound:
        return (0, 0)
    if _kind(bound) == "number":
        return (1, int(bound))
    moment = datetime.fromisoformat(bound)
    return (1, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _applied(batch: Batch, interval: Sequence[str]) -> str:
    return f"the batch applied already, {Batch(batch.source, *interval)}"


def _refused(batch: Batch, why: str) -> RejectedError:
    return RejectedError(
        f"the batch {batch} {why}; nothing was changed\n  hint: extract the changes after the last applied batch"
    )
