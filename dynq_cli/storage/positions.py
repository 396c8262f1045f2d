"""Rows of a state by position: the j-th row, pages, samples, and the position of a row.

Positions start at 1 and follow the order of `State.enum`, which is the query's order if it has one. A bag counts every
copy, a set every row. Positions are stable within a version. RejectedError if a position is out of range, before a row
is read. UsageError if the state changes to another version before all rows are read. The cost per row is the plan's
guarantee for `jth`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dynq_cli.engine.ranked import Ranked
from dynq_cli.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.engine.views import Views

PAGE = 100


class Readable(Protocol):
    """What rows are read of: a state, which offers these functions as methods."""

    @property
    def version(self) -> int: ...

    def reading(self, query: str | None) -> tuple[Views, str]: ...

    def version_of(self, named: str | int) -> int: ...

    def views_at(self, at: str | int) -> Views: ...

    def named_at(self, views: Views, query: str | None, at: str | int) -> str: ...

    def read_whole(self, views: Views, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def jth(state: Readable, positions: Sequence[int], query: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows at these positions, in the order given."""
    return _read(state, query, lambda ranked: ranked.jth(positions), "jth")


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
    """Yield at most `limit` rows: after the first `offset` rows, after the row `after`, or up to the row `before`.

    The row `before` itself is included. With `at`, read that version or mark; O(changes since) before the first row.

    If the query has an order, the given row need not be in the result; the first columns of the order suffice.
    """
    if sum(given is not None for given in (offset, after, before)) > 1:
        raise UsageError("a page has one start: give only one of offset, after and before")
    if limit < 0 or (offset or 0) < 0:
        raise UsageError("the offset and the limit of a page must not be negative")

    def rows(ranked: Ranked) -> Iterator[pa.RecordBatch]:
        if after is not None:
            return ranked.after(after, limit)
        if before is not None:
            return ranked.before(before, limit)
        return ranked.page(offset or 0, limit)

    if at is not None and state.version_of(at) != state.version:
        views = state.views_at(at)
        return rows(Ranked(views, state.named_at(views, query, at), verb="page"))
    return _read(state, query, rows, "page")


def sample(state: Readable, many: int, query: str | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
    """Rows at `many` distinct positions, all equally likely; those of a seed stay the same for a version."""
    if many < 0:
        raise UsageError("the number of rows of a sample must not be negative")
    return _read(state, query, lambda ranked: ranked.sample(many, seed), "sample")


def is_ordered(state: Readable, query: str | None = None) -> bool:
    """Whether a query has an order. Then a page may start at a row that is not in the result."""
    views, name = state.reading(query)
    return views.is_ordered(name)


def rank(state: Readable, row: Mapping[str, Any], query: str | None = None) -> int:
    """Return the position of the first copy of a row."""
    return Ranked(*state.reading(query), verb="rank").rank(row)


def _read(
    state: Readable, query: str | None, read: Callable[[Ranked], Iterator[pa.RecordBatch]], verb: str
) -> Iterator[pa.RecordBatch]:
    views, name = state.reading(query)
    # Called here, not in the generator, so that errors are raised at once.
    return state.read_whole(views, read(Ranked(views, name, verb=verb)))
