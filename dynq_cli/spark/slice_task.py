"""What a task does that compares a slice of two plain tables: the changes of the keys that are its own.

    changes(i of n) = the changes of the keys whose digest is i modulo n

A task reads both tables whole and keeps its slice: to decode Parquet takes less than to hand rows to another task.
The digest only deals keys out; rows are compared column by column, NULL being the same as NULL, NaN as NaN and -0.0 as
0.0. Memory is a slice of one side; if that is more than `MEMORY` the slice is void.

Runs in the workers of Spark. Whatever goes wrong comes out as a row that says `void`, never as a failed task.
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
    """Two tables of the same columns, and what is to be compared: positions of the key, and of other columns.

    Of rows that go, `hidden` columns are left out.
    """

    before: PlainTable
    after: PlainTable
    key: tuple[int, ...]
    compared: tuple[int, ...]
    hidden: tuple[int, ...]
    many: int

    def changes(self, which: int) -> Iterator[pa.RecordBatch]:
        """The changes of a slice, and a row with how many rows of it stand in each table; or a row that it is void.

        The columns: what it is, the values, rows of `before`, rows of `after`. Not in order.
        """
        try:
            found = list(self._changes(which))
        except Exception:
            # Whoever reads that does it again in another way, which says what is wrong if there is something.
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
        """Whether a key stands twice: it would, in one table, if it is not in the other."""
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
    """The names of what `changes` gives."""
    return [CHANGE_TYPE, *(value(i) for i in range(width)), WENT, CAME]


def compare(slices: Slices, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The changes of the slices with these numbers, as `mapInArrow` asks for them."""
    for batch in numbers:
        for which in batch.column(0).to_pylist():
            yield from slices.changes(which)


def spark_type(kind: Type) -> pa.DataType:
    """The Arrow type in which Spark takes values of a type."""
    if kind.name == "time":
        return pa.time64("ns")
    return pa.timestamp("us", "UTC") if kind.name == "timestamp" else arrow_type(kind)


def _as_spark(values: pa.Array, kind: Type) -> pa.Array:
    if kind.name == "time":
        return values.view(arrow_type(kind)).cast(spark_type(kind))
    return values.view(spark_type(kind))


def _reader(table: PlainTable) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema(), table.batches())
