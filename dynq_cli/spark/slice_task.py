"""The task that compares a slice of two plain tables: the changes of the keys in its slice.

    changes(i of n) = the changes of the keys whose digest is i modulo n

A task reads both tables and keeps its slice: decoding Parquet is cheaper than sending rows to other tasks. The digest
only distributes keys. Rows are compared column by column, with NULL = NULL, NaN = NaN and -0.0 = 0.0. Memory is a slice
of one table; if that exceeds `MEMORY`, the slice is void.

Runs in Spark's workers. Any error yields a row `void`, never a failed task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.query.duck import Duck
from dynq_cli.spark.columns import value
from dynq_cli.spark.plain_parquet import PlainTable, is_sound
from dynq_cli.spark.snapshot_diff_checked import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import arrow_type

ROWS, VOID, WENT, CAME = "rows", "void", "went", "came"
MEMORY = "1GB"
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Slices:
    """Two tables with the same columns, and the positions of key columns and compared columns.

    Deletes omit the `hidden` columns.
    """

    before: PlainTable
    after: PlainTable
    key: tuple[int, ...]
    compared: tuple[int, ...]
    hidden: tuple[int, ...]
    many: int

    def changes(self, which: int) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a slice, and a row with its numbers of rows in each table; or a row that it is void.

        Columns: the change type, the values, rows of `before`, rows of `after`. The order is not promised.
        """
        try:
            found = list(self._changes(which))
        except Exception:
            # The caller then uses another way, which reports the problem, if there is one.
            found = [self._remark(VOID, 0, 0)]
        for batch in found:
            for start in range(0, len(batch), _ROWS_AT_ONCE):
                yield batch.slice(start, _ROWS_AT_ONCE)

    def _changes(self, which: int) -> Iterator[pa.RecordBatch]:
        files = (*self.before.files, *self.after.files)
        if not all(is_sound(path) for path in files[which :: self.many]):
            yield self._remark(VOID, 0, 0)
            return
        old, new = _reader(self.before), _reader(self.after)
        with Duck(threads=1, memory=MEMORY) as duck, duck.seeing("old", old), duck.seeing("new", new):
            found = duck.table(self._sql(which))
        met = found.column("met").combine_chunks().flatten()
        first = self.key[0]
        came, went = (pc.is_null(pc.struct_field(met, [side, first])) for side in (0, 1))
        changed = pc.invert(pc.or_(came, went))
        inserts, deletes = self._side(met.filter(came), 1), self._side(met.filter(went), 0)
        if self._is_twice(inserts) or self._is_twice(deletes):
            yield self._remark(VOID, 0, 0)
            return
        images = met.filter(changed)
        yield self._remark(ROWS, *(found.column(name)[0].as_py() for name in (WENT, CAME)))
        yield self._images(INSERT, inserts)
        yield self._images(DELETE, self._gone(deletes))
        yield self._images(PREIMAGE, self._gone(self._side(images, 0)))
        yield self._images(POSTIMAGE, self._side(images, 1))

    def _sql(self, which: int) -> str:
        keys = [value(i) for i in self.key]
        mine = f"hash({', '.join(keys)}) % {self.many} = {which}"
        same_key = " AND ".join(f"a.{key} = b.{key}" for key in keys)
        differs = [f"a.{keys[0]} IS NULL", f"b.{keys[0]} IS NULL"]
        differs += [f"a.{value(i)} IS DISTINCT FROM b.{value(i)}" for i in self.compared]
        return (
            f"SELECT count(a.{keys[0]}) AS {WENT}, count(b.{keys[0]}) AS {CAME},"
            f" coalesce(list({{'a': a, 'b': b}}) FILTER ({' OR '.join(differs)}), []) AS met"
            f" FROM (SELECT * FROM old WHERE {mine}) a FULL JOIN (SELECT * FROM new WHERE {mine}) b ON {same_key}"
        )

    @staticmethod
    def _side(met: pa.StructArray, side: int) -> list[pa.Array]:
        width = met.type.field(side).type.num_fields
        return [pc.struct_field(met, [side, i]) for i in range(width)]

    def _is_twice(self, rows: Sequence[pa.Array]) -> bool:
        """Whether a key is repeated among rows of one table that are not in the other."""
        keys = pa.table([rows[i] for i in self.key], names=[value(i) for i in self.key])
        return bool(keys.group_by(keys.column_names).aggregate([]).num_rows < len(keys))

    def _gone(self, rows: Sequence[pa.Array]) -> list[pa.Array]:
        return [pa.nulls(len(row), row.type) if i in self.hidden else row for i, row in enumerate(rows)]

    def _images(self, change: str, rows: Sequence[pa.Array]) -> pa.RecordBatch:
        values = [_as_spark(row, column.type) for row, column in zip(rows, self.before.columns, strict=True)]
        many = len(values[0])
        none = pa.nulls(many, pa.int64())
        return self._batch([pa.array([change] * many, pa.string()), *values, none, none])

    def _remark(self, what: str, went: int, came: int) -> pa.RecordBatch:
        values = [pa.nulls(1, spark_type(column.type)) for column in self.before.columns]
        return self._batch([pa.array([what]), *values, pa.array([went]), pa.array([came])])

    def _batch(self, values: Sequence[pa.Array]) -> pa.RecordBatch:
        return pa.record_batch(list(values), names=output_names(len(self.before.columns)))


def output_names(width: int) -> list[str]:
    """Return the column names of `changes`."""
    return [CHANGE_TYPE, *(value(i) for i in range(width)), WENT, CAME]


def compare(slices: Slices, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the slices with these numbers, for `mapInArrow`."""
    for batch in numbers:
        for which in batch.column(0).to_pylist():
            yield from slices.changes(which)


def spark_type(kind: Type) -> pa.DataType:
    """Return the Arrow type in which Spark accepts values of a type."""
    if kind.name == "time":
        return pa.time64("ns")
    return pa.timestamp("us", "UTC") if kind.name == "timestamp" else arrow_type(kind)


def _as_spark(values: pa.Array, kind: Type) -> pa.Array:
    if kind.name == "time":
        return values.view(arrow_type(kind)).cast(spark_type(kind))
    return values.view(spark_type(kind))


def _reader(table: PlainTable) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema(), table.batches())
