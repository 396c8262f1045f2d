"""Rows of a result by position, as Arrow: the j-th, pages, samples, and the position of a row.

    ranked = Ranked(views, "q")
    ranked.jth([7, 3])              the rows at these positions, in this order
    ranked.page(offset, limit)      positions offset + 1 … offset + limit, fewer at the end
    ranked.sample(many, seed)       distinct positions, all equally likely, in random order
    ranked.rank(row)                the position of a row's first copy: jth([rank(row)]) is the row

Positions start at 1 and follow the order of `enum`. A bag counts copies, which are adjacent; a set counts rows.
Positions out of range are refused before any row is read. The cost per row is the plan's guarantee for `jth`; rows
requested together share the walks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa

from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.merged_select import selection_of
from dynq_cli.engine.positions import Found
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError


class Ranked:
    """The current result of a query by position. Do not use it after the next change."""

    def __init__(self, views: Views, query: str, block: int = BLOCK, verb: str = "jth") -> None:
        """RejectedError if the query is not kept for `verb`, one of the commands that read by position."""
        views.require(query, verb)
        self.count = views.count(query)[0]
        schema = views.schema(query)
        self.schema = schema.remove(len(schema) - 1) if schema.names[-1:] == ["_count"] else schema
        self._views = views
        self._query = query
        self._variables = views.variables(query)
        self._selection = selection_of(views.engine, query, self._variables)
        self._block = block

    def jth(self, positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these positions, in the order given. RejectedError if a position does not exist."""
        for position in positions:
            if not 1 <= position <= self.count:
                raise RejectedError(
                    f"there is no row at position {position}: {self._size()}\n  hint: positions count from 1"
                )
        return self._rows(positions)

    def page(self, offset: int, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield at most `limit` rows after the first `offset`. RejectedError if there are not that many to skip."""
        if offset > self.count:
            raise RejectedError(
                f"{offset:,} rows cannot be skipped: {self._size()}\n"
                f"  hint: offsets go from 0 to {self.count}, where the page is empty"
            )
        return self._rows(range(offset + 1, min(offset + limit, self.count) + 1))

    def after(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the last copy of a row. RejectedError if the row is missing and the query has no order.

        With an order, yield the greater rows, whether the row is in the result or not. If only the first columns of the
        order are given, compare only these.
        """
        return self.page(self.place(row).last, limit)

    def before(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the last `limit` rows up to the last copy of a row, inclusive.

        With an order, yield the largest rows that are not greater; see `after`.
        """
        last = self.place(row).last
        return self._rows(range(max(last - limit, 0) + 1, last + 1))

    def sample(self, many: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows at distinct positions; each set and order of positions is equally likely. O(many) memory.

        The same seed gives the same positions for results of the same size; a smaller sample is a prefix.
        RejectedError if the result has fewer rows.
        """
        if many > self.count:
            raise RejectedError(
                f"{many:,} rows cannot be drawn without drawing one twice: {self._size()}\n"
                f"  hint: a sample has at most {self.count} rows"
            )
        return self._rows(draw(self.count, many, Random(seed)))

    def rank(self, row: Mapping[str, Any]) -> int:
        """Return the position of a row's first copy. RejectedError if the row is not in the result."""
        found = self._find(row)
        if found is None:
            raise RejectedError(f"the row is not in the result of {self._query}, so it has no position")
        return found.first

    def _size(self) -> str:
        return f"the result of {self._query} has {self.count:,} row{'s' if self.count != 1 else ''}"

    def place(self, row: Mapping[str, Any]) -> Found:
        """Return the positions of a row, or of the first columns of the order: those that it would have if missing.

        RejectedError if the row is missing and the query has no order.
        """
        if self._selection.is_ordered:
            return self._selection.place(self._views.bounds_of(self._query, row))
        found = self._find(row)
        if found is None:
            raise RejectedError(
                f"the row is not in the result of {self._query}, so no page begins or ends there\n"
                "  hint: pages beside rows that may be gone need order_by in the spec; --offset needs no row"
            )
        return found

    def _find(self, row: Mapping[str, Any]) -> Found | None:
        codes = self._views.codes_of(self._query, row)
        if not self._views.is_told_apart(self._query):
            raise RejectedError(
                f"rows of {self._query} do not tell its groups apart, so a row has no position of its own\n"
                "  hint: select all columns of the GROUP BY"
            )
        return None if codes is None else self._selection.find(codes)

    def _rows(self, positions: Iterable[int]) -> Iterator[pa.RecordBatch]:
        views, query = self._views, self._query
        for some in _blocks(positions, self._block):
            columns = views.decoded(query, self._variables, self._selection.at(some), len(some))
            if columns:
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            else:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(some), pa.struct([])))


def draw(total: int, many: int, chance: Random) -> Iterator[int]:
    """Yield `many` distinct random numbers of 1 … total. O(many) time and memory.

    The first steps of a Fisher–Yates shuffle; only changed places are stored.
    """
    moved: dict[int, int] = {}
    for i in range(many):
        at = chance.randrange(i, total)
        here = moved.pop(i, i)
        if at == i:
            yield here + 1
        else:
            yield moved.get(at, at) + 1
            moved[at] = here


def _blocks(positions: Iterable[int], block: int) -> Iterator[Sequence[int]]:
    if isinstance(positions, Sequence):
        # Do not use len(positions), which is limited to 63 bits; slicing a range does not expand it.
        start = 0
        while some := positions[start : start + block]:
            yield some
            start += block
        return
    rest = iter(positions)
    while some := list(islice(rest, block)):
        yield some
