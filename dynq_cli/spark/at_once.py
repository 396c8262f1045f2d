"""The difference of two snapshots in one job, as long as there is nothing out of the ordinary in them.

Rows are read, brought together by their keys, compared, sorted and written in one go; nothing is kept in between, and a
row that did not change is at most counted. The counts tell at the end whether the output stands:

    a bad row                        has no values, so it comes out of the join with a key on neither side
    a key twice on both sides        a join of unique keys gives out every row once: rows in and out are not as many
    a key twice on one side only     is among the changes, and follows itself once they are sorted

If there is any of it, what was written is void, and `difference` does it again with care.

Expressions are texts of SQL: each is one message to Java, and a thousand messages take as long as half a million rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Observation
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
        self._keys = [value(i) for i in table.key]
        images = self._compared(before, after).filter(f"{_IMAGES} IS NOT NULL").selectExpr(f"inline({_IMAGES})")
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
            prefixed(rows.drop(BAD), side).observe(counter, f.expr(f"count({side}{self._keys[0]}) AS rows"))
            for rows, side, counter in ((before, "a", self._went), (after, "b", self._came))
        )
        same_key = " AND ".join(f"a{key} = b{key}" for key in self._keys)
        a, b = (f"{side}{self._keys[0]} IS NOT NULL" for side in "ab")
        same = " AND ".join(f"a{value(i)} <=> b{value(i)}" for i in self._table.compared) or "true"
        images = (
            f"CASE WHEN NOT ({a}) AND {b} THEN array({self._image(INSERT, 'b')})"
            f" WHEN {a} AND NOT ({b}) THEN array({self._image(DELETE, 'a')})"
            f" WHEN {a} AND {b} AND NOT ({same})"
            f" THEN array({self._image(PREIMAGE, 'a')}, {self._image(POSTIMAGE, 'b')}) END AS {_IMAGES}"
        )
        # What is counted is narrow: rows that did not change, nearly all, have no images.
        met = left.join(right, f.expr(same_key), "full").selectExpr(f"{a} AS a", f"{b} AS b", images)
        many = {"a": "a", "b": "b", "both": "a AND b", "neither": "NOT a AND NOT b"}
        many["changed"] = f"a AND b AND {_IMAGES} IS NOT NULL"
        return met.observe(self._met, *(f.expr(f"count_if({which}) AS {name}") for name, which in many.items()))

    def _image(self, change: str, side: str) -> str:
        values = self._table.values(side, gone=change in (DELETE, PREIMAGE))
        named = ", ".join(f"'{value(i)}', {sql}" for i, sql in enumerate(values))
        return f"named_struct('{CHANGE_TYPE}', '{change}', {named})"

    def _in_order(self, images: DataFrame, parts: int) -> DataFrame:
        rows = images.repartition(parts, *self._keys)
        rows = rows.sortWithinPartitions(*self._keys, f.col(CHANGE_TYPE).desc())
        # Of a key that stands once there is one change, or the old image and then the new one.
        before = f"lag({CHANGE_TYPE}) OVER (PARTITION BY {', '.join(self._keys)} ORDER BY {CHANGE_TYPE} DESC)"
        marked = rows.selectExpr("*", f"{before} IS NOT NULL AND {CHANGE_TYPE} <> '{POSTIMAGE}' AS {_AGAIN}")
        counted = marked.observe(self._sorted, f.expr(f"count_if({_AGAIN}) AS rows"))
        return counted.drop(_AGAIN).toDF(CHANGE_TYPE, *self._table.names)
