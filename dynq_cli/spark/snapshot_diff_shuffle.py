"""The difference of two snapshots in one job, as long as there is nothing out of the ordinary in them.

Rows are read, brought together by their keys, compared, sorted and written in one go; nothing is kept in between, and a
row that did not change is at most counted. The counts tell at the end whether the output stands:

    a bad row                        has no key, so it comes out of the join with a key on neither side
    a key twice on both sides        a join of unique keys gives out every row once: rows in and out are not as many
    a key twice on one side only     is among the changes, and follows itself once they are sorted

If there is any of it, what was written is void, and `snapshot_diff_checked` does it again with care.

Expressions are texts of SQL: each is one message to Java, and a thousand messages take as long as half a million rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from dynq_cli.spark.columns import BAD, as_they_are, typed, value
from dynq_cli.spark.snapshot_diff_checked import (
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
from dynq_cli.spark.sources import Snapshot
from dynq_cli.spec.model import Column

BYTES_PER_FILE = 1 << 29  # of the snapshots; what changes is less
_IMAGES, _NEITHER, _AGAIN = "images", "neither", "again"


class VoidError(Exception):
    """There are bad rows or keys that stand twice, or they cannot be ruled out."""


@dataclass(frozen=True)
class Side:
    """A snapshot, and which of its columns are taken."""

    snapshot: Snapshot
    columns: Sequence[Column]
    key: Sequence[str]

    def rows(self) -> DataFrame:
        """Typed rows of which the bad ones have no key."""
        found = self.as_they_are()
        if found is None:
            return typed(self.snapshot.frame, self.columns, self.key, self.snapshot.texts).drop(BAD)
        is_good, values = found
        named = [f"{made} AS {value(i)}" for i, made in enumerate(values)]
        first = [column.name for column in self.columns].index(self.key[0])
        # No more than that has to go: nothing of a bad row is ever kept.
        named[first] = f"if({is_good}, {values[first]}, NULL) AS {value(first)}"
        return self.snapshot.frame.selectExpr(*named)

    def as_they_are(self) -> tuple[str, list[str]] | None:
        return as_they_are(self.snapshot.frame, self.columns, self.key, self.snapshot.texts)


class AtOnce:
    """The changes of a table with a key, and what they amount to once they are written."""

    def __init__(self, before: Side, after: Side, table: Table) -> None:
        self._table = table
        self._keys = [value(i) for i in table.key]
        self._went, self._came, self._met, self._sorted = (Observation() for _ in range(4))
        joined = self._joined(self._counted(before, "a", self._went), self._counted(after, "b", self._came))
        met = joined.observe(self._met, f.expr("count(*) AS rows"), f.expr(f"count_if({_NEITHER}) AS {_NEITHER}"))
        images = met.filter(f"{_IMAGES} IS NOT NULL").selectExpr(f"inline({_IMAGES})")
        # The number of files goes by the size of the snapshots, and so is always the same.
        size = before.snapshot.size + after.snapshot.size
        self.changes = self._in_order(images, max(1, -(-size // BYTES_PER_FILE)))

    def check(self) -> None:
        """VoidError if what was written does not stand."""
        _ = self.counts

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows came, went and changed; asked for when `changes` is written. VoidError if that is void."""
        went, came, met, found = (seen(counter) for counter in (self._went, self._came, self._met, self._sorted))
        if went is None or came is None or met is None or found is None:
            raise VoidError
        both = met["rows"] - found[INSERT] - found[DELETE]
        if (
            (both + found[DELETE], both + found[INSERT]) != (went["rows"], came["rows"])
            or met[_NEITHER]
            or found[_AGAIN]
        ):
            raise VoidError
        return {INSERT: found[INSERT], DELETE: found[DELETE], UPDATE: found[PREIMAGE]}

    def _counted(self, rows: Side, side: str, counter: Observation) -> DataFrame:
        return prefixed(rows.rows(), side).observe(counter, f.expr(f"count({side}{self._keys[0]}) AS rows"))

    def _joined(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """A row per key, with the images of what happened to it, or nothing."""
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
        met = left.join(right, f.expr(same_key), "full")
        return met.selectExpr(f"NOT ({a}) AND NOT ({b}) AS {_NEITHER}", images)

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
        counted = marked.observe(
            self._sorted,
            f.expr(f"count_if({_AGAIN}) AS {_AGAIN}"),
            *(f.expr(f"count_if({CHANGE_TYPE} = '{kind}') AS `{kind}`") for kind in (INSERT, DELETE, PREIMAGE)),
        )
        return counted.drop(_AGAIN).toDF(CHANGE_TYPE, *self._table.names)
