"""Convert the current rows of a table to idempotent changes: afterwards, a state has these rows.

    there   update_postimage: an upsert by key
    gone    update_postimage, then delete: deletes by key, whether the row existed or not

So rows may be read again, and the changes may be applied again. That needs a key; rows of a table without one become
inserts, and must not be read again. A bad row is treated as gone if its key can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from dynq_cli.spark.columns import BAD, raw, reasons_against, row_as_json, typed_value, value
from dynq_cli.spark.snapshot_diff_checked import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE
from dynq_cli.spark.types import to_spark
from dynq_cli.spec import model
from dynq_cli.spec.types import Type

_KIND, _REASON, _ROW, _TIMES, _AMISS = "kind", "reason", "row", "times", "amiss"
THERE, GONE = "there", "gone"
# Temporary values of a deleted row, for columns that do not allow NULL.
_ZEROS = {
    "bool": "false",
    "string": "",
    "binary": "",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
}


@dataclass(frozen=True)
class Upserts:
    """The rows read, cached by Spark until `close`. `counts`: rows by there, gone, bad."""

    found: DataFrame
    columns: Sequence[model.Column]
    key: Sequence[str]
    counts: Mapping[str, int]

    def changes(self) -> DataFrame:
        """Return the change log: `_change_type` and the columns."""
        change = POSTIMAGE if self.key else INSERT
        values = [f.col(value(i)).alias(c.name) for i, c in enumerate(self.columns)]
        there = self.found.filter(f.col(_KIND) == THERE).select(f.lit(change).alias(CHANGE_TYPE), *values)
        return there.unionAll(self._gone()) if self.key else there

    def rows(self) -> int:
        """Return the maximum number of rows of `changes`."""
        return self.counts.get(THERE, 0) + 2 * (self.counts.get(GONE, 0) + self.counts.get(BAD, 0))

    def order(self) -> list[Column]:
        """Return the sort order of `changes`: by key, the upsert before the delete."""
        return [*(raw(name) for name in self.key or [c.name for c in self.columns]), f.col(CHANGE_TYPE).desc()]

    def bad(self) -> DataFrame:
        """Return the bad rows, in the form of `rejects`."""
        return self.found.filter(f.col(_KIND) == BAD).select(
            f.lit("table").alias("snapshot"), _REASON, _ROW, f.lit(1).alias("copies")
        )

    def within(self) -> int:
        """Rows that nothing was amiss with but, it may be, their values."""
        return self.found.filter(~f.col(_AMISS)).count()

    def close(self) -> None:
        self.found.unpersist()

    def _gone(self) -> DataFrame:
        """Return both changes of every gone key, once: a second delete would find no row."""
        keys = {c.name: f.col(value(i)) for i, c in enumerate(self.columns) if c.name in self.key}
        is_gone = (f.col(_KIND) == GONE) | ((f.col(_KIND) == BAD) & next(iter(keys.values())).isNotNull())
        rows = self.found.filter(is_gone).select(*keys.values()).distinct()

        def image(change: str) -> Column:
            others = {c.name: _nothing(c, change) for c in self.columns if c.name not in keys}
            values = [(keys | others)[c.name].alias(c.name) for c in self.columns]
            return f.struct(f.lit(change).alias(CHANGE_TYPE), *values)

        return rows.select(f.inline(f.array(image(POSTIMAGE), image(DELETE))))


def upserts(
    frame: DataFrame, columns: Sequence[model.Column], key: Sequence[str], gone: Column, amiss: Column
) -> Upserts:
    """Classify the rows of a frame: `gone` is true for deleted rows, `amiss` is the reason against a bad row, or NULL.

    One pass over the rows, and a shuffle by the key.
    """
    fields = {field.name: field.dataType for field in frame.schema.fields}
    values: list[Column] = []
    against_key: list[Column] = []
    against_rest: list[Column] = []
    for column in columns:
        made, wrong = typed_value(column.name, fields[column.name], column.type, is_text=False)
        values.append(made)
        in_key = column.name in key
        (against_key if in_key else against_rest).extend(reasons_against(column, made, wrong, in_key=in_key))
    no_key = _first(against_key)
    # Of a gone row, only the key matters.
    reason = f.coalesce(no_key, amiss, f.when(~gone, _first(against_rest)))
    known = [f.when(no_key.isNull(), made) if c.name in key else made for c, made in zip(columns, values, strict=True)]
    judged = frame.select(
        *(made.alias(value(i)) for i, made in enumerate(known)),
        gone.alias(GONE),
        amiss.isNotNull().alias(_AMISS),
        reason.alias(_REASON),
        f.when(reason.isNotNull(), row_as_json({c.name: raw(c.name) for c in columns})).alias(_ROW),
    )
    found = _with_kinds(_without_duplicates(judged, columns, key) if key else judged).persist()
    counted = found.groupBy(_KIND).count().collect()
    return Upserts(found, columns, key, {row[_KIND]: row["count"] for row in counted})


def _with_kinds(judged: DataFrame) -> DataFrame:
    kind = f.when(f.col(_REASON).isNotNull(), f.lit(BAD)).when(f.col(GONE), f.lit(GONE)).otherwise(f.lit(THERE))
    return judged.withColumn(_KIND, kind).drop(GONE)


def _without_duplicates(judged: DataFrame, columns: Sequence[model.Column], key: Sequence[str]) -> DataFrame:
    """Mark all rows with a repeated key as bad."""
    positions = [i for i, c in enumerate(columns) if c.name in key]
    times = f.count("*").over(Window.partitionBy(*(f.col(value(i)) for i in positions)))
    said = f.concat(f.lit(f"column {', '.join(key)}: the key stands "), f.col(_TIMES).cast("string"), f.lit(" times"))
    shown = row_as_json({c.name: f.col(value(i)) for i, c in enumerate(columns)})
    is_twice = f.col(_REASON).isNull() & (f.col(_TIMES) > 1)
    return (
        judged.withColumn(_TIMES, times)
        .withColumn(_ROW, f.when(is_twice, shown).otherwise(f.col(_ROW)))
        .withColumn(_REASON, f.when(is_twice, said).otherwise(f.col(_REASON)))
        .drop(_TIMES)
    )


def _first(reasons: Sequence[Column]) -> Column:
    return f.coalesce(*reasons) if reasons else f.lit(None).cast("string")


def _nothing(column: model.Column, change: str) -> Column:
    """Return the value of a column in a deleted row."""
    kind = to_spark(column.type)
    if change == DELETE or column.nullable:
        return f.lit(None).cast(kind)
    return f.lit(_zero(column.type)).cast(kind)


def _zero(kind: Type) -> str:
    return "0" if kind.is_numeric else _ZEROS[kind.name]
