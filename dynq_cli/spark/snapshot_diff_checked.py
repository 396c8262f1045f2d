"""The difference of two snapshots of a table, with handling of bad rows.

    keyed     a key on one side only: insert or delete; on both, some compared column not null-safe equal: an update
    keyless   per row, copies after - copies before: that many copies are inserted, or deleted

Both sides are typed rows (`columns`). Bad rows come out as such and are not there for the difference, on either side: a
state that holds the good rows of one snapshot has those of the next after the changes.

A key that stands twice is found without looking for it: a join of unique keys gives out every row once, so counts that
do not match give it away; keys that stand twice on one side only are among the changes. Only then does a second, slower
pass set all rows of such keys aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as f

from dynq_cli.spark.columns import BAD, bad_because, only_if_good, row_as_json, value

INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
CHANGE_TYPE, COUNT = "_change_type", "_count"
UPDATE = "update"
_KIND = "kind"
_BEFORE, _AFTER = "before", "after"


@dataclass(frozen=True)
class Table:
    """What the columns of typed rows are: their names, the positions of the key, and of those that are compared.

    With `by_key` rows that go are known by their key alone, and their other columns are NULL.
    """

    names: tuple[str, ...]
    key: tuple[int, ...]
    compared: tuple[int, ...]
    by_key: bool = False

    def values(self, side: str, *, gone: bool = False) -> list[str]:
        """The columns of one side, in SQL: each text is one message to Java, where a `Column` takes ten."""
        hidden = set(range(len(self.names))) - set(self.key) if gone and self.by_key else set()
        return [
            f"if(false, {side}{value(i)}, NULL)" if i in hidden else side + value(i) for i in range(len(self.names))
        ]

    def rows(self, side: str, *, gone: bool = False) -> list[Column]:
        """The columns of one side under their own names."""
        return [f.expr(sql).alias(name) for sql, name in zip(self.values(side, gone=gone), self.names, strict=True)]


@dataclass(frozen=True)
class Difference:
    """The result of a comparison, cached by Spark until `close`. `counts`: rows by insert, delete, update, bad."""

    found: DataFrame
    table: Table
    counts: Mapping[str, int]

    def changes(self) -> DataFrame:
        """Return the change log: `_change_type`, `_count` if the table has no key, and the columns."""
        return _keyed_changes(self) if self.table.key else _keyless_changes(self)

    def order(self) -> list[Column]:
        """Return the sort order of `changes`: an old image comes before its new one."""
        names = [self.table.names[i] for i in self.table.key] or list(self.table.names)
        return [*(f.col(f"`{name}`") for name in names), f.col(CHANGE_TYPE).desc()]

    def bad(self) -> DataFrame:
        """Return the bad rows: `snapshot` (before or after), `reason`, `row`, and `copies`."""
        bad = self.found.filter(f.col(_KIND) == BAD)
        if not self.table.key:
            return bad.select("snapshot", "reason", "row", f.abs("copies").alias("copies"))
        side = f.when(f.col("a" + BAD).isNotNull(), f.lit(_BEFORE)).otherwise(f.lit(_AFTER))
        what = f.coalesce(f.col("a" + BAD), f.col("b" + BAD))
        return bad.select(
            side.alias("snapshot"), what["reason"].alias("reason"), what["row"].alias("row"), f.lit(1).alias("copies")
        )

    def close(self) -> None:
        self.found.unpersist()


def difference(before: DataFrame | None, after: DataFrame, table: Table) -> Difference:
    """Compare two snapshots; without `before`, all rows are inserts. One pass over both."""
    if not table.key:
        return _counted(_keyless(before, after, table), table)[0]
    first, suspicious = _keyed(before, after, table)
    if not suspicious:
        return first
    first.close()
    flagged = before and _without_duplicates(before, table)
    return _keyed(flagged, _without_duplicates(after, table), table)[0]


def _keyed(before: DataFrame | None, after: DataFrame, table: Table) -> tuple[Difference, bool]:
    """Return the difference, and whether a key may be repeated."""
    key = table.key[0]
    came, went, met = Observation(), Observation(), Observation()
    right = prefixed(after, "b").observe(came, f.count("b" + value(key)).alias("rows"))
    if before is None:
        left = prefixed(after.limit(0), "a")
        joined = right.select(*(f.lit(None).cast(field.dataType).alias(field.name) for field in left.schema), "*")
    else:
        left = prefixed(before, "a").observe(went, f.count("a" + value(key)).alias("rows"))
        same_key = reduce(and_, (f.col("a" + value(i)) == f.col("b" + value(i)) for i in table.key))
        joined = left.join(right, same_key, "full")
        joined = joined.observe(met, *(f.count(side + value(key)).alias(side) for side in "ab"))
    kind = (
        f.when(f.col("a" + BAD).isNotNull() | f.col("b" + BAD).isNotNull(), f.lit(BAD))
        .when(f.col("a" + value(key)).isNull(), f.lit(INSERT))
        .when(f.col("b" + value(key)).isNull(), f.lit(DELETE))
        .when(~all_equal(table.compared), f.lit(UPDATE))
    )
    found, suspicious = _counted(joined.withColumn(_KIND, kind).filter(f.col(_KIND).isNotNull()), table)
    if before is not None and not suspicious:
        given = [(seen(side) or {}).get("rows") for side in (went, came)]
        suspicious = None in given or seen(met) != dict(zip("ab", given, strict=True))
    return found, suspicious


def prefixed(rows: DataFrame, side: str) -> DataFrame:
    """Rename the columns of typed rows for one side of a join."""
    return rows.toDF(*(side + name for name in rows.columns))


def all_equal(positions: Sequence[int]) -> Column:
    """Whether columns of both sides are equal, with NULL = NULL."""
    equal = [f.col("a" + value(i)).eqNullSafe(f.col("b" + value(i))) for i in positions]
    return reduce(and_, equal) if equal else f.lit(True)


def seen(observation: Observation) -> dict[str, int] | None:
    """Return the counts; None if Spark optimised counting away, as for empty tables."""
    try:
        return dict(observation.get)
    except (Py4JError, PySparkException):
        return None


def _counted(found: DataFrame, table: Table) -> tuple[Difference, bool]:
    """Compute and cache the difference; return also whether a key is repeated among the inserts or deletes."""
    kept = found.persist()
    if table.key:
        keys = [f.coalesce(f.col("a" + value(i)), f.col("b" + value(i))).alias(value(i)) for i in table.key]
        copies = kept.groupBy(_KIND, *keys).agg(f.count("*").alias("copies"))
    else:
        copies = kept.select(_KIND, f.abs("copies").alias("copies"))
    rows = copies.groupBy(_KIND).agg(f.sum("copies").alias("rows"), f.max("copies").alias("most")).collect()
    is_twice = any(row["most"] > 1 for row in rows if row[_KIND] in (INSERT, DELETE))
    return Difference(kept, table, {row[_KIND]: int(row["rows"]) for row in rows}), is_twice


def _without_duplicates(rows: DataFrame, table: Table) -> DataFrame:
    """Mark all rows with a repeated key as bad."""
    times = f.count("*").over(Window.partitionBy(*(f.col(value(i)) for i in table.key)))
    key = ", ".join(table.names[i] for i in table.key)
    reason = f.concat(f.lit(f"column {key}: the key stands "), f.col("times").cast("string"), f.lit(" times"))
    row = row_as_json({name: f.col(value(i)) for i, name in enumerate(table.names)})
    twice = f.when(f.col("times") > 1, bad_because(reason, row))
    marked = rows.withColumn("times", times).withColumn(BAD, f.coalesce(f.col(BAD), twice)).drop("times")
    return only_if_good(marked, len(table.names))


def _keyless(before: DataFrame | None, after: DataFrame, table: Table) -> DataFrame:
    sides = [after.select("*", f.lit(1).alias("copies"), f.lit(_AFTER).alias("side"))]
    if before is not None:
        sides.append(before.select("*", f.lit(-1).alias("copies"), f.lit(_BEFORE).alias("side")))
    both = reduce(DataFrame.unionAll, sides)
    # Good rows of both sides are grouped; bad ones have no values and form their own groups.
    snapshot = f.when(f.col(BAD).isNotNull(), f.col("side"))
    values = [f.col(value(i)) for i in range(len(table.names))]
    grouped = both.groupBy(
        *values, snapshot.alias("snapshot"), f.col(BAD)["reason"].alias("reason"), f.col(BAD)["row"].alias("row")
    )
    summed = grouped.agg(f.sum("copies").alias("copies")).filter("copies != 0")
    kind = f.when(f.col("snapshot").isNotNull(), f.lit(BAD)).when(f.col("copies") > 0, f.lit(INSERT))
    return summed.withColumn(_KIND, kind.otherwise(f.lit(DELETE)))


def _keyed_changes(of: Difference) -> DataFrame:
    def image(change: str, side: str) -> Column:
        gone = change in (DELETE, PREIMAGE)
        return f.struct(f.lit(change).alias(CHANGE_TYPE), *of.table.rows(side, gone=gone))

    images = (
        f.when(f.col(_KIND) == INSERT, f.array(image(INSERT, "b")))
        .when(f.col(_KIND) == DELETE, f.array(image(DELETE, "a")))
        .otherwise(f.array(image(PREIMAGE, "a"), image(POSTIMAGE, "b")))
    )
    return of.found.filter(f.col(_KIND) != BAD).select(f.inline(images))


def _keyless_changes(of: Difference) -> DataFrame:
    return of.found.filter(f.col(_KIND) != BAD).select(
        f.col(_KIND).alias(CHANGE_TYPE), f.abs("copies").cast("bigint").alias(COUNT), *of.table.rows("")
    )
