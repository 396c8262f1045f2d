"""The difference of two snapshots in one Spark job with a shuffle, if they have no bad rows and no repeated keys.

Rows are read, joined by key, compared, sorted and written in one job; nothing is cached, and unchanged rows are only
counted. At the end, counts show whether the output is valid:

    a bad row                         has no key, so the join returns it with a key on neither side
    a key repeated on both sides      a join of unique keys returns every row once, so the row counts differ
    a key repeated on one side only   is among the changes, twice in a row after sorting

In each case the output is discarded, and `snapshot_diff_checked` repeats the job.

Expressions are SQL texts: each is one message to Java, and a thousand messages take as long as half a million rows.
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
    """There are, or may be, bad rows or repeated keys."""


@dataclass(frozen=True)
class Side:
    """A snapshot, and its columns to extract."""

    snapshot: Snapshot
    columns: Sequence[Column]
    key: Sequence[str]

    def rows(self) -> DataFrame:
        """Return typed rows; bad ones have no key."""
        found = self.as_they_are()
        if found is None:
            return typed(self.snapshot.frame, self.columns, self.key, self.snapshot.texts).drop(BAD)
        is_good, values = found
        named = [f"{made} AS {value(i)}" for i, made in enumerate(values)]
        first = [column.name for column in self.columns].index(self.key[0])
        # The first key column suffices: other values of a bad row are never used.
        named[first] = f"if({is_good}, {values[first]}, NULL) AS {value(first)}"
        return self.snapshot.frame.selectExpr(*named)

    def as_they_are(self) -> tuple[str, list[str]] | None:
        return as_they_are(self.snapshot.frame, self.columns, self.key, self.snapshot.texts)


class AtOnce:
    """The changes of a table with a key; their counts are known after writing them."""

    def __init__(self, before: Side, after: Side, table: Table) -> None:
        self._table = table
        self._keys = [value(i) for i in table.key]
        self._went, self._came, self._met, self._sorted = (Observation() for _ in range(4))
        joined = self._joined(self._counted(before, "a", self._went), self._counted(after, "b", self._came))
        met = joined.observe(self._met, f.expr("count(*) AS rows"), f.expr(f"count_if({_NEITHER}) AS {_NEITHER}"))
        images = met.filter(f"{_IMAGES} IS NOT NULL").selectExpr(f"inline({_IMAGES})")
        # The number of files depends only on the size of the snapshots, so it is reproducible.
        size = before.snapshot.size + after.snapshot.size
        self.changes = self._in_order(images, max(1, -(-size // BYTES_PER_FILE)))

    def check(self) -> None:
        """VoidError if the written output is not valid."""
        _ = self.counts

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Count inserted, deleted and updated rows, after `changes` is written. VoidError if the output is invalid."""
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
        """Return a row per key, with the images of its change, or none."""
        same_key = " AND ".join(f"a{key} = b{key}" for key in self._keys)
        a, b = (f"{side}{self._keys[0]} IS NOT NULL" for side in "ab")
        same = " AND ".join(f"a{value(i)} <=> b{value(i)}" for i in self._table.compared) or "true"
        images = (
            f"CASE WHEN NOT ({a}) AND {b} THEN array({self._image(INSERT, 'b')})"
            f" WHEN {a} AND NOT ({b}) THEN array({self._image(DELETE, 'a')})"
            f" WHEN {a} AND {b} AND NOT ({same})"
            f" THEN array({self._image(PREIMAGE, 'a')}, {self._image(POSTIMAGE, 'b')}) END AS {_IMAGES}"
        )
        # Unchanged rows, nearly all, have no images: so the counted rows are narrow.
        met = left.join(right, f.expr(same_key), "full")
        return met.selectExpr(f"NOT ({a}) AND NOT ({b}) AS {_NEITHER}", images)

    def _image(self, change: str, side: str) -> str:
        values = self._table.values(side, gone=change in (DELETE, PREIMAGE))
        named = ", ".join(f"'{value(i)}', {sql}" for i, sql in enumerate(values))
        return f"named_struct('{CHANGE_TYPE}', '{change}', {named})"

    def _in_order(self, images: DataFrame, parts: int) -> DataFrame:
        rows = images.repartition(parts, *self._keys)
        rows = rows.sortWithinPartitions(*self._keys, f.col(CHANGE_TYPE).desc())
        # A key that occurs once has one change, or an old image and then a new one.
        before = f"lag({CHANGE_TYPE}) OVER (PARTITION BY {', '.join(self._keys)} ORDER BY {CHANGE_TYPE} DESC)"
        marked = rows.selectExpr("*", f"{before} IS NOT NULL AND {CHANGE_TYPE} <> '{POSTIMAGE}' AS {_AGAIN}")
        counted = marked.observe(
            self._sorted,
            f.expr(f"count_if({_AGAIN}) AS {_AGAIN}"),
            *(f.expr(f"count_if({CHANGE_TYPE} = '{kind}') AS `{kind}`") for kind in (INSERT, DELETE, PREIMAGE)),
        )
        return counted.drop(_AGAIN).toDF(CHANGE_TYPE, *self._table.names)
