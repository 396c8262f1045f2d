"""The result of a query over the shards of its group, at one version.

    none, whole   the shards' rows one after the other, or merged by the query's order
    copies        a row is read where it is first, with the copies of all shards
    distinct      a row is read where it is first
    groups        groups of all shards are combined in memory: O(groups)

`copies` and `distinct` look each row up in the other shards: O(shards) per row, O(block) memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.engine.frames import table_of
from dynq_cli.engine.row_tests import RowTests, copies_in
from dynq_cli.engine.selected_rows import rows_where
from dynq_cli.engine.views import Views
from dynq_cli.plan.shards.model import Merge, Placed
from dynq_cli.query.normal_form import VariableOrder
from dynq_cli.storage.manifest import Counts
from dynq_cli.storage.shards.ordered import merged

_COUNT = "_count"
_BLOCK = 65536


@dataclass
class Result:
    """A query's result; see the module."""

    query: str
    placed: Placed
    views: Sequence[Views]

    @property
    def merge(self) -> Merge:
        return self.placed.merge

    @property
    def schema(self) -> pa.Schema:
        return self.views[0].schema(self.query)

    @property
    def order(self) -> tuple[VariableOrder, ...]:
        """The order of the rows, by output columns; empty if it is not promised."""
        return self.views[0].queries[self.query].order if self.views[0].is_ordered(self.query) else ()

    def counts(self) -> Counts:
        """Count the rows: O(shards), or O(rows) where several shards may have a row."""
        found = [views.count(self.query) for views in self.views]
        if self.merge in ("none", "whole"):
            return Counts(sum(rows for rows, _ in found), sum(distinct for _, distinct in found))
        distinct = sum(batch.num_rows for batch in self.enum())
        return Counts(self.rows(found) if self.merge == "copies" else distinct, distinct)

    def rows(self, found: Sequence[tuple[int, int]]) -> int:
        """Add up the rows of the shards, which have no row in common."""
        return sum(rows for rows, _ in found)

    def enum(self, block: int = _BLOCK) -> Iterator[pa.RecordBatch]:
        """Yield every distinct row once."""
        return self._merged([views.enum(self.query, block) for views in self.views])

    def where(self, row: Mapping[str, Any], block: int = _BLOCK) -> Iterator[pa.RecordBatch]:
        """Yield the distinct rows with some values, as `enum` does."""
        several = [rows_where(views, self.query, row, block) for views in self.views]
        if self.merge == "groups":
            return (batch.filter(pa.array(equal_rows(batch, row))) for batch in self.enum(block))
        return self._merged(several)

    def _merged(self, several: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        if self.merge == "groups":
            return iter(self._combined.to_batches())
        if self.merge in ("copies", "distinct"):
            return self._first_of_each(several)
        if self.order and len(several) > 1:
            return merged(several, self.order, self.schema)
        return (batch for batches in several for batch in batches)

    def _first_of_each(self, several: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        tests = [RowTests(views, self.query) for views in self.views]
        if not tests[0].columns:
            # A Boolean result: true if one shard has its row.
            yield from (batch for batches in several for batch in list(batches)[:1])
            return
        for i, batches in enumerate(several):
            for batch in batches:
                rows = batch.select(tests[0].columns)
                is_new = np.ones(batch.num_rows, np.bool_)
                for test in tests[:i]:
                    is_new &= test.copies(rows) == 0
                if self.merge == "distinct":
                    yield batch.filter(pa.array(is_new))
                    continue
                copies = np.asarray(batch.column(batch.num_columns - 1)).copy()
                for test in tests[i + 1 :]:
                    copies += test.copies(rows)
                columns = [*batch.columns[:-1], pa.array(copies)]
                yield pa.RecordBatch.from_arrays(columns, schema=batch.schema).filter(pa.array(is_new))

    @cached_property
    def _combined(self) -> pa.Table:
        """The groups of all shards; counts and sums are added, of extremes the least or greatest is taken."""
        kinds, schema = self.placed.functions, self.schema
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for views in self.views:
            for batch in views.enum(self.query):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    key = tuple(_comparable(v) for v, kind in zip(row, kinds, strict=True) if not kind)
                    held = groups.get(key)
                    if held is None:
                        groups[key] = list(row)
                    else:
                        held[:] = map(_both, kinds, held, row)
        rows = list(groups.values())
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        return pa.Table.from_arrays(columns, schema=schema)

    def test(self, row: Mapping[str, Any]) -> int:
        """Return the multiplicity of a row. O(shards); of combined groups O(groups)."""
        found = [views.test(self.query, row) for views in self.views]
        if self.merge == "groups":
            return sum(int(np.count_nonzero(equal_rows(batch, row))) for batch in self._combined.to_batches())
        return min(sum(found), 1) if self.merge == "distinct" else sum(found)

    def tests(self, rows: Any) -> NDArray[np.int64]:
        """Return the multiplicity of each row of a table or frame."""
        if self.merge == "groups":
            copies_in(self.views[0], self.query, rows)  # which refuses what are no rows
            found = [self.copies(batch) for batch in table_of(rows).to_batches()]
            return np.concatenate([np.zeros(0, np.int64), *found])
        return self._total([copies_in(views, self.query, rows) for views in self.views])

    def copies(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the multiplicity of each row of a batch."""
        if self.merge == "groups":
            held = {tuple(map(_comparable, row.values())) for row in self._combined.to_pylist()}
            asked = rows.select(self.schema.names).to_pylist()
            return np.array([tuple(map(_comparable, row.values())) in held for row in asked], np.int64)
        return self._total([RowTests(views, self.query).copies(rows) for views in self.views])

    def _total(self, found: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.sum(found, axis=0, dtype=np.int64)
        return np.minimum(total, 1) if self.merge == "distinct" else total


class ShardedTests(RowTests):
    """Tests batches of rows in all shards."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.views[0], result.query)
        self._result = result

    def copies(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        return self._result.copies(rows)


def _both(kind: str, one: Any, other: Any) -> Any:
    """Combine what two shards have in a column of one group; `kind` is the aggregate, empty for a key."""
    if not kind or other is None:
        return one
    if one is None:
        return other
    if kind in ("count", "sum"):
        return one + other
    # NaN is the greatest value.
    one_is_greater = (one != one) or (other == other and one > other)
    return one if one_is_greater == (kind == "max") else other


def _comparable(value: Any) -> Any:
    """A value by which groups are told apart: NaN equals NaN."""
    return "NaN" if value != value else value


def equal_rows(batch: pa.RecordBatch, row: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return which rows have these values; NULL equals NULL, and NaN equals NaN. O(rows)."""
    found = np.ones(batch.num_rows, np.bool_)
    for name, value in row.items():
        column = batch.column(name)
        wanted = _comparable(pa.scalar(value, column.type).as_py())
        found &= np.array([_comparable(each) == wanted for each in column.to_pylist()], np.bool_)
    return found
