"""The difference of two plain tables in one job without a shuffle: each task compares a slice of the keys.

The tasks read and compare rows themselves (`slice_task`); only changes go through Spark, to be sorted and written.
Counts show afterwards whether the output is valid: a join of unique keys yields every row once, and the files have the
number of rows.

Only for local sessions, whose workers have the same files and packages, and for tables that each task can read whole.
Other cases, bad rows and repeated keys are left to `snapshot_diff_shuffle` and `snapshot_diff_checked`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cached_property, partial

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from dynq_cli.spark.columns import value
from dynq_cli.spark.plain_parquet import PlainTable, plain_table
from dynq_cli.spark.slice_task import CAME, ROWS, VOID, WENT, Slices, compare, output_names
from dynq_cli.spark.snapshot_diff_checked import CHANGE_TYPE, DELETE, INSERT, PREIMAGE, UPDATE, Table, seen
from dynq_cli.spark.snapshot_diff_shuffle import Side, VoidError
from dynq_cli.spark.types import to_spark

MOST_SLICES = 3  # each reads everything: measured on two cores, reckoned for more
MOST_BYTES = 1 << 28  # of both snapshots
BYTES_PER_SLICE = 1 << 22  # and at least one slice: a worker that has to be started takes a second
_HERE = re.compile(r"local(\[.*)?")
_REBASE, _AS_IT_IS = "spark.sql.parquet.datetimeRebaseModeInRead", "CORRECTED"
_TIMES = ("date", "timestamp")


class Sliced:
    """The changes of a table with a key; their counts are known after writing them."""

    def __init__(self, spark: SparkSession, before: PlainTable, after: PlainTable, table: Table) -> None:
        self._tables = before, after
        self._observed = Observation()
        worthwhile = 1 + (before.size + after.size) // BYTES_PER_SLICE
        many = min(MOST_SLICES, spark.sparkContext.defaultParallelism, worthwhile)
        width = len(table.names)
        hidden = tuple(i for i in range(width) if table.by_key and i not in table.key)
        slices = Slices(before, after, table.key, table.compared, hidden, many)
        kinds = [t.StringType(), *(to_spark(c.type) for c in before.columns), t.LongType(), t.LongType()]
        # Files that say of the same columns that they may be NULL are the same files.
        may_be_null = [False] + [True] * (len(kinds) - 1)
        fields = zip(output_names(width), kinds, may_be_null, strict=True)
        schema = t.StructType([t.StructField(*field) for field in fields])
        found = spark.range(0, many, 1, many).mapInArrow(partial(compare, slices), schema)
        counted = found.observe(
            self._observed,
            *(f.expr(f"count_if({CHANGE_TYPE} = '{kind}') AS `{kind}`") for kind in (VOID, INSERT, DELETE, PREIMAGE)),
            *(f.expr(f"sum({rows}) AS {rows}") for rows in (WENT, CAME)),
        )
        keys = [value(i) for i in table.key]
        # One file, as the tables are small: the same as by the other ways.
        rows = counted.filter(f"{CHANGE_TYPE} NOT IN ('{ROWS}', '{VOID}')").drop(WENT, CAME).repartition(1, *keys)
        self.changes = rows.sortWithinPartitions(*keys, f.expr(CHANGE_TYPE).desc()).toDF(CHANGE_TYPE, *table.names)

    def check(self) -> None:
        """VoidError if the written output is not valid."""
        _ = self.counts

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Count inserted, deleted and updated rows, after `changes` is written. VoidError if the output is invalid."""
        found = seen(self._observed)
        before, after = self._tables
        if found is None or found[VOID] or (found[WENT], found[CAME]) != (before.rows, after.rows):
            raise VoidError
        return {INSERT: found[INSERT], DELETE: found[DELETE], UPDATE: found[PREIMAGE]}


def plain_tables(spark: SparkSession, before: Side, after: Side) -> tuple[PlainTable, PlainTable] | None:
    """Return both tables if they can be compared in slices, else None."""
    context = spark.sparkContext
    is_here = _HERE.fullmatch(context.master or "") and context.pythonExec == sys.executable
    is_small = before.snapshot.size + after.snapshot.size <= MOST_BYTES
    has_times = any(column.type.name in _TIMES for column in after.columns)
    if not is_here or not is_small or (has_times and spark.conf.get(_REBASE) != _AS_IT_IS):
        return None
    found = []
    for side in (before, after):
        files = side.snapshot.parquet
        table = plain_table(files, side.columns, side.key) if files and side.as_they_are() else None
        if table is None:
            return None
        found.append(table)
    return found[0], found[1]
