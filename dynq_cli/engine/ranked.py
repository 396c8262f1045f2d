"""Rows of a result by position, as Arrow: the j-th, pages, samples, and the position of a row.

    ranked = Ranked(live, "q")
    ranked.jth([7, 3])              the rows at these positions, in this order
    ranked.page(offset, limit)      positions offset + 1 … offset + limit, fewer at the end
    ranked.sample(many, seed)       distinct positions, all equally likely, in random order
    ranked.rank(row)                the position of a row's first copy: jth([rank(row)]) is the row

Positions count from 1 in the order of `enum`. Of a bag they count copies, which stand together; of a set, rows.
What is asked beyond the result is refused before anything is read. Each row costs what the plan's guarantee for `jth`
says; rows that are asked for together share the walks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa

from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.positions import Found, Selection
from dynq_cli.engine.sequential_select import SequentialSelect
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError


class Ranked:
    """A query's result by position, as it is now; not to be used after the next change."""

    def __init__(self, live: Views, query: str, block: int = BLOCK) -> None:
        self.count = live.count(query)[0]
        schema = live.schema(query)
        self.schema = schema.remove(len(schema) - 1) if schema.names[-1:] == ["_count"] else schema
        self._live = live
        self._query = query
        self._variables = live.variables(query)
        select = SequentialSelect if query in live.engine.combined else Selection
        self._selection: Selection | SequentialSelect = select(live.engine, query, self._variables)
        self._block = block

    def jth(self, positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows at these positions, in the order asked. RejectedError if the result has no such position."""
        for position in positions:
            if not 1 <= position <= self.count:
                raise RejectedError(
                    f"there is no row at position {position}: {self._size()}\n  hint: positions count from 1"
                )
        return self._rows(positions)

    def page(self, offset: int, limit: int) -> Iterator[pa.RecordBatch]:
        """The rows behind the first `offset`, at most `limit`. RejectedError if there are not that many to skip."""
        if offset > self.count:
            raise RejectedError(
                f"{offset:,} rows cannot be skipped: {self._size()}\n"
                f"  hint: offsets go from 0 to {self.count}, where the page is empty"
            )
        return self._rows(range(offset + 1, min(offset + limit, self.count) + 1))

    def after(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """The rows behind the last copy of a row. RejectedError if the result does not have it and has no order.

        In an order, the rows that are greater, whether the result has the row or not; if only the first columns of the
        order are given, those that are greater in these.
        """
        return self.page(self._found_for_page(row).last, limit)

    def before(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """The rows up to the last copy of a row, that one included, the last `limit` of them.

        In an order, the largest rows that are not greater; see `after`.
        """
        last = self._found_for_page(row).last
        return self._rows(range(max(last - limit, 0) + 1, last + 1))

    def sample(self, many: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows at distinct positions, each set of positions and each order of it equally likely; O(many) memory.

        The same seed gives the same positions of a result of the same size, and a smaller sample the first of them.
        RejectedError if the result has fewer.
        """
        if many > self.count:
            raise RejectedError(
                f"{many:,} rows cannot be drawn without drawing one twice: {self._size()}\n"
                f"  hint: a sample has at most {self.count} rows"
            )
        return self._rows(draw(self.count, many, Random(seed)))

    def rank(self, row: Mapping[str, Any]) -> int:
        """The position of a row's first copy. RejectedError if the result does not have the row."""
        found = self._find(row)
        if found is None:
            raise RejectedError(f"the row is not in the result of {self._query}, so it has no position")
        return found.first

    def _size(self) -> str:
        return f"the result of {self._query} has {self.count:,} row{'s' if self.count != 1 else ''}"

    def _found_for_page(self, row: Mapping[str, Any]) -> Found:
        if self._selection.is_ordered:
            return self._selection.place(self._live.bounds_of(self._query, row))
        found = self._find(row)
        if found is None:
            raise RejectedError(
                f"the row is not in the result of {self._query}, so no page begins or ends there\n"
                "  hint: pages beside rows that may be gone need order_by in the spec; --offset needs no row"
            )
        return found

    def _find(self, row: Mapping[str, Any]) -> Found | None:
        codes = self._live.codes_of(self._query, row)
        if not self._live.is_told_apart(self._query):
            raise RejectedError(
                f"rows of {self._query} do not tell its groups apart, so a row has no position of its own\n"
                "  hint: select all columns of the GROUP BY"
            )
        return None if codes is None else self._selection.find(codes)

    def _rows(self, positions: Iterable[int]) -> Iterator[pa.RecordBatch]:
        live, query = self._live, self._query
        for some in _blocks(positions, self._block):
            columns = live.decoded(query, self._variables, self._selection.at(some), len(some))
            if columns:
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            else:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(some), pa.struct([])))


def draw(total: int, many: int, chance: Random) -> Iterator[int]:
    """`many` of the numbers 1 … total without one twice, one after the other. O(many) time and memory.

    The first steps of a Fisher–Yates shuffle, of which only the places that are not as at first are stored.
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
        # Not len(positions), which is bounded by 63 bits; nor is a range of numbers taken apart.
        start = 0
        while some := positions[start : start + block]:
            yield some
            start += block
        return
    rest = iter(positions)
    while some := list(islice(rest, block)):
        yield some
