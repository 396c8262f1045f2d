"""Rows of a state by position: the j-th, pages, samples, and the position of a row, of the version in force.

Positions count from 1 in the order of `State.enum`, the query's own if it has one; in a bag every copy, in a set every
row. They stay as they are until the next version. What is out of range raises RejectedError before a row is read; rows
that are not all read when the state moves on to another version end in a UsageError. What a row costs is in the plan's
guarantee for `jth`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dynq_cli.engine.ranked import Ranked
from dynq_cli.errors import UsageError
from dynq_cli.storage.manifest import query_name

if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.engine.views import Views
    from dynq_cli.storage.recover import Opened

PAGE = 100


class Readable(Protocol):
    """What rows are read of: a state, which offers these functions as methods."""

    @property
    def version(self) -> int: ...

    def current(self) -> Opened: ...

    def version_of(self, named: str | int) -> int: ...

    def live_at(self, at: str | int) -> Views: ...

    def read_whole(self, opened: Opened, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def jth(state: Readable, positions: Sequence[int], query: str | None = None) -> Iterator[pa.RecordBatch]:
    """The rows at these positions, in the order asked."""
    return _read(state, query, lambda ranked: ranked.jth(positions))


def page(
    state: Readable,
    query: str | None = None,
    *,
    offset: int | None = None,
    after: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    limit: int = PAGE,
    at: str | int | None = None,
) -> Iterator[pa.RecordBatch]:
    """At most `limit` rows: those behind the first `offset`, those after a row, or the last up to a row, with it.

    With `at`, a version or mark, of that version; O(changes since) before the first row.

    In an order, the row need not be there, and may have the first columns of the order alone.
    """
    if sum(given is not None for given in (offset, after, before)) > 1:
        raise UsageError("a page has one place: give only one of offset, after and before")
    if limit < 0 or (offset or 0) < 0:
        raise UsageError("the offset and the limit of a page are not negative")

    def rows(ranked: Ranked) -> Iterator[pa.RecordBatch]:
        if after is not None:
            return ranked.after(after, limit)
        if before is not None:
            return ranked.before(before, limit)
        return ranked.page(offset or 0, limit)

    if at is not None and state.version_of(at) != state.version:
        return rows(Ranked(state.live_at(at), query_name(state.current().manifest, query)))
    return _read(state, query, rows)


def sample(state: Readable, many: int, query: str | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
    """Rows at `many` distinct positions, all equally likely; those of a seed stay the same for a version."""
    if many < 0:
        raise UsageError("the number of rows of a sample is not negative")
    return _read(state, query, lambda ranked: ranked.sample(many, seed))


def is_ordered(state: Readable, query: str | None = None) -> bool:
    """Whether a query has an order: then pages may begin and end beside rows that the result does not have."""
    opened = state.current()
    return opened.live.is_ordered(query_name(opened.manifest, query))


def rank(state: Readable, row: Mapping[str, Any], query: str | None = None) -> int:
    """The position of a row, of its first copy."""
    opened = state.current()
    return Ranked(opened.live, query_name(opened.manifest, query)).rank(row)


def _read(
    state: Readable, query: str | None, read: Callable[[Ranked], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    opened = state.current()
    # Asked here, not in the generator: what is refused is refused at once.
    batches = read(Ranked(opened.live, query_name(opened.manifest, query)))
    return state.read_whole(opened, batches)
