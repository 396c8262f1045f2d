"""Rows by position over the shards of a group.

With an order, the position of a row is the number of smaller rows in all shards, and the shards' rows are merged.
Without one, the rows of a shard follow those of the shard before it, as `enum` reads them. Where reading merges copies
or groups, rows are walked: O(result).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.ranked import Ranked, draw
from dynq_cli.errors import RejectedError
from dynq_cli.storage.shards.ordered import merged
from dynq_cli.storage.shards.results import Result, equal_rows

_BLOCK = 4096


@dataclass
class ShardedRanked:
    """The result of a query by position, as `Ranked` is for one state; positions start at 1."""

    result: Result
    verb: str = "jth"

    @cached_property
    def _members(self) -> list[Ranked]:
        return [Ranked(views, self.result.query, verb=self.verb) for views in self.result.views]

    @cached_property
    def count(self) -> int:
        if self._is_walked:
            return self.result.counts().rows
        return sum(member.count for member in self._members)

    @property
    def _is_walked(self) -> bool:
        return self.result.merge not in ("none", "whole")

    @property
    def schema(self) -> pa.Schema:
        return self._members[0].schema

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
        return self._page(offset, min(limit, self.count - offset))

    def after(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the last copy of a row, as `Ranked.after` does."""
        return self.page(self._last(row), limit)

    def before(self, row: Mapping[str, Any], limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the last `limit` rows up to the last copy of a row, inclusive."""
        last = self._last(row)
        first = max(last - limit, 0)
        return self._page(first, last - first)

    def sample(self, many: int, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows at distinct random positions, those of `Ranked.sample` for the same seed and size."""
        if many > self.count:
            raise RejectedError(
                f"{many:,} rows cannot be drawn without drawing one twice: {self._size()}\n"
                f"  hint: a sample has at most {self.count} rows"
            )
        return self._rows(list(draw(self.count, many, Random(seed))))

    def rank(self, row: Mapping[str, Any]) -> int:
        """Return the position of a row's first copy. RejectedError if the row is not in the result."""
        missing = RejectedError(f"the row is not in the result of {self.result.query}, so it has no position")
        if self._is_walked:
            found = self._walked_place(row)
            if found is None:
                raise missing
            return found[0]
        ranks: list[int | None] = []
        for member in self._members:
            try:
                ranks.append(member.rank(row))
            except RejectedError as error:
                if not str(error).startswith("the row is not in the result"):
                    raise
                ranks.append(None)
        if all(rank is None for rank in ranks):
            raise missing
        if self.result.order:
            return 1 + sum(member.place(row).first - 1 for member in self._members)
        number = next(i for i, rank in enumerate(ranks) if rank is not None)
        return self._starts[number] + (ranks[number] or 0)

    def _last(self, row: Mapping[str, Any]) -> int:
        """The position of the last copy of a row, or of the last smaller row if it is missing."""
        if self._is_walked:
            found = self._walked_place(row)
            if found is None:
                self._members[0].place(row)  # which says what a page beside a row needs
                raise RejectedError(
                    f"the row is not in the result of {self.result.query}, so no page begins or ends there"
                )
            return found[1]
        if self.result.order:
            return sum(member.place(row).last for member in self._members)
        refused: RejectedError | None = None
        for start, member in zip(self._starts, self._members, strict=False):
            try:
                return start + member.place(row).last
            except RejectedError as error:
                refused = error
        assert refused is not None
        raise refused

    @cached_property
    def _starts(self) -> list[int]:
        """How many rows stand before those of each shard, where there is no order."""
        return [0, *accumulate(member.count for member in self._members)]

    def _rows(self, positions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows at positions, in the order given."""
        for start in range(0, len(positions), _BLOCK):
            some = positions[start : start + _BLOCK]
            found = self._walked(some) if self._is_walked else self._found(some)
            yield from found.to_batches()

    def _found(self, positions: Sequence[int]) -> pa.Table:
        split = [self._split(position - 1) for position in positions] if self.result.order else None
        at: list[tuple[int, int]] = []
        for i, position in enumerate(positions):
            if split is None:
                member = int(np.searchsorted(self._starts, position, "left")) - 1
                at.append((member, position - self._starts[member]))
            else:
                at.append(self._next(split[i]))
        rows: list[pa.Table] = []
        order = np.zeros(len(positions), np.int64)
        done = 0
        for number, ranked in enumerate(self._members):
            mine = [i for i, (member, _) in enumerate(at) if member == number]
            rows.append(pa.Table.from_batches(list(ranked.jth([at[i][1] for i in mine])), self.schema))
            order[mine] = np.arange(done, done + len(mine))
            done += len(mine)
        return pa.concat_tables(rows).take(pa.array(order))

    def _next(self, offsets: Sequence[int]) -> tuple[int, int]:
        """The shard, and the position in it, of the row that follows the first `offsets` rows of the shards."""
        candidates = [
            (i, self._row(i, offset + 1)) for i, offset in enumerate(offsets) if offset < self._members[i].count
        ]
        best = min(candidates, key=lambda item: sum(self._members[j].place(item[1]).first for j in range(len(offsets))))
        return best[0], offsets[best[0]] + 1

    def _row(self, number: int, position: int) -> dict[str, Any]:
        (batch,) = self._members[number].jth([position])
        found: dict[str, Any] = batch.to_pylist()[0]
        return found

    def _page(self, offset: int, limit: int) -> Iterator[pa.RecordBatch]:
        if self._is_walked:
            for start in range(0, limit, _BLOCK):
                some = range(offset + start + 1, offset + min(start + _BLOCK, limit) + 1)
                yield from self._walked(some).to_batches()
            return
        if self.result.order:
            offsets = self._split(offset)
            parts = [m.page(o, min(limit, m.count - o)) for m, o in zip(self._members, offsets, strict=True)]
            yield from _limited(merged(parts, self.result.order, self.schema), limit)
            return
        for start, member in zip(self._starts, self._members, strict=False):
            first, last = max(offset - start, 0), min(offset + limit - start, member.count)
            if first < last:
                yield from member.page(first, last - first)

    def _split(self, offset: int) -> list[int]:
        """How many of the first `offset` rows each shard has. O(shards² · log² n)."""
        low, high = [0] * len(self._members), [member.count for member in self._members]
        while True:
            widths = [b - a for a, b in zip(low, high, strict=True)]
            widest = widths.index(max(widths))
            if not widths[widest]:
                return low
            row = self._row(widest, (low[widest] + high[widest]) // 2 + 1)
            places = [member.place(row) for member in self._members]
            before, until = [p.first - 1 for p in places], [p.last for p in places]
            if offset <= sum(before):
                high = [min(a, b) for a, b in zip(high, before, strict=True)]
            elif offset >= sum(until):
                low = [max(a, b) for a, b in zip(low, until, strict=True)]
            else:
                return _shared(offset - sum(before), before, until)

    def _walked(self, positions: Sequence[int]) -> pa.Table:
        """The rows at positions, by walking all rows."""
        wanted = np.array(positions, np.int64)
        found: dict[int, pa.Table] = {}
        before = 0
        for batch in self.result.enum():
            names = [name for name in batch.schema.names if name != "_count"]
            ends = before + np.cumsum(_copies(batch))
            if len(ends):
                here = np.flatnonzero((wanted > before) & (wanted <= ends[-1]))
                rows = np.searchsorted(ends, wanted[here])
                table = pa.Table.from_batches([batch.select(names)])
                found |= {int(i): table.slice(int(row), 1) for i, row in zip(here, rows, strict=True)}
                before = int(ends[-1])
        rows_in_order = [found[i] for i in range(len(wanted))]
        return pa.concat_tables(rows_in_order) if rows_in_order else self.schema.empty_table()

    def _walked_place(self, row: Mapping[str, Any]) -> tuple[int, int] | None:
        """The first and the last position of a row, by walking all rows; None if it is not there."""
        self.result.views[0].codes_of(self.result.query, row)  # which refuses what is no row
        before = 0
        for batch in self.result.enum():
            copies = _copies(batch)
            here = np.flatnonzero(equal_rows(batch, row))
            if len(here):
                first = before + int(copies[: here[0]].sum())
                return first + 1, first + int(copies[here[0]])
            before += int(copies.sum())
        return None

    def _size(self) -> str:
        return f"the result of {self.result.query} has {self.count:,} row{'s' if self.count != 1 else ''}"


def _copies(batch: pa.RecordBatch) -> Any:
    if "_count" in batch.schema.names:
        return np.asarray(batch.column("_count"))
    return np.ones(batch.num_rows, np.int64)


def _shared(many: int, before: Sequence[int], until: Sequence[int]) -> list[int]:
    """Take `many` of the copies of one row, from the first shards on."""
    taken = []
    for first, last in zip(before, until, strict=True):
        here = min(many, last - first)
        taken.append(first + here)
        many -= here
    return taken


def _limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if limit <= 0:
            return
        yield batch.slice(0, limit)
        limit -= batch.num_rows
