"""The difference of two snapshots in one job, as long as there is nothing out of the ordinary in them.

Rows are read, brought together by their keys, compared, sorted and written in one go; nothing is kept in between, and a
row that did not change is at most counted. The counts tell at the end whether the output stands:

    a bad row                        has no values, so it comes out of the join with a key on neither side
    a key twice on both sides        a join of unique keys gives out every row once: rows in and out are not as many
    a key twice on one side only     is among the changes, and follows itself once they are sorted

If there is any of it, what was written is void, and `difference` does it again with care.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as f

from dynq_cli.spark.columns import BAD, value
from dynq_cli.spark.difference import (
    CHANGE_TYPE,
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    UPDATE,
    Table,
    all_equal,
    prefixed,
    seen,
)

BYTES_PER_FILE = 1 << 29  # of the snapshots; what changes is less
_IMAGES, _AGAIN = "images", "again"


class VoidError(Exception):
    """There are bad rows or keys that stand twice, or they cannot be ruled out."""


class AtOnce:
    """The changes of a table with a key, and what they amount to once they are written."""

    def __init__(self, before: DataFrame, after: DataFrame, table: Table, size: int) -> None:
        """`size` is that of both snapshots in bytes: the number of files goes by it, and so is always the same."""
        self._went, self._came, self._met, self._sorted = (Observation() for _ in range(4))
        self._table = table
        self._keys = [f.col(value(i)) for i in table.key]
        images = self._compared(before, after).filter(f.col(_IMAGES).isNotNull()).select(f.inline(_IMAGES))
        self.changes = self._in_order(images, max(1, -(-size // BYTES_PER_FILE)))

    def check(self) -> None:
        """VoidError if what was written does not stand."""
        self.counts()

    def counts(self) -> Mapping[str, int]:
        """How many rows came, went and changed; asked for when `changes` is written. VoidError if that is void."""
        went, came, met, twice = map(seen, (self._went, self._came, self._met, self._sorted))
        if went is None or came is None or met is None or twice is None:
            raise VoidError
        if (met["a"], met["b"]) != (went["rows"], came["rows"]) or met["neither"] or twice["rows"]:
            raise VoidError
        return {INSERT: met["b"] - met["both"], DELETE: met["a"] - met["both"], UPDATE: met["changed"]}

    def _compared(self, before: DataFrame, after: DataFrame) -> DataFrame:
        """A row per key, with the images of what happened to it, or nothing."""
        left, right = (
            prefixed(rows.drop(BAD), side).observe(counter, f.count(side + value(self._table.key[0])).alias("rows"))
            for rows, side, counter in ((before, "a", self._went), (after, "b", self._came))
        )
        same_key = reduce(and_, (f.col("a" + value(i)) == f.col("b" + value(i)) for i in self._table.key))
        a, b = (f.col(side + value(self._table.key[0])).isNotNull() for side in "ab")
        images = (
            f.when(~a & b, f.array(self._image(INSERT, "b")))
            .when(a & ~b, f.array(self._image(DELETE, "a")))
            .when(
                a & b & ~all_equal(self._table.compared),
                f.array(self._image(PREIMAGE, "a"), self._image(POSTIMAGE, "b")),
            )
        )
        # What is counted is narrow: rows that did not change, nearly all, have no images.
        met = left.join(right, same_key, "full").select(a.alias("a"), b.alias("b"), images.alias(_IMAGES))
        a, b = f.col("a"), f.col("b")
        many = {"a": a, "b": b, "both": a & b, "neither": ~a & ~b, "changed": a & b & f.col(_IMAGES).isNotNull()}
        return met.observe(self._met, *(f.count_if(which).alias(name) for name, which in many.items()))

    def _image(self, change: str, side: str) -> Column:
        gone = change in (DELETE, PREIMAGE)
        return f.struct(f.lit(change).alias(CHANGE_TYPE), *self._table.values(side, gone=gone))

    def _in_order(self, images: DataFrame, parts: int) -> DataFrame:
        change = f.col(CHANGE_TYPE)
        rows = images.repartition(parts, *self._keys).sortWithinPartitions(*self._keys, change.desc())
        before = f.lag(CHANGE_TYPE).over(Window.partitionBy(*self._keys).orderBy(change.desc()))
        # Of a key that stands once there is one change, or the old image and then the new one.
        marked = rows.withColumn(_AGAIN, before.isNotNull() & (change != POSTIMAGE))
        counted = marked.observe(self._sorted, f.count_if(_AGAIN).alias("rows"))
        return counted.select(change, *(f.col(value(i)).alias(name) for i, name in enumerate(self._table.names)))
