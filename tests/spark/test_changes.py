"""`extract changes` passes a change feed on; where the catalog keeps none, it says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spark.changes import ChangesJob, extract_changes, pass_on
from dynq_cli.spark.session import settings
from tests.spark.snapshots import apply, held, new_state

SPEC = """\
version: 1
relations: {R: {columns: {k: int64, n: int8?}, key: [k]}}
queries: {q: {sql: "SELECT k, n FROM R"}}
"""
# The second commit takes away, changes and adds.
FEED = [
    ("insert", 1, "2026-01-01 00:00:01", 1, 10),
    ("insert", 1, "2026-01-01 00:00:01", 2, 20),
    ("update_postimage", 2, "2026-01-01 00:00:02", 1, 11),
    ("insert", 2, "2026-01-01 00:00:02", 3, None),
    ("update_preimage", 2, "2026-01-01 00:00:02", 1, 10),
    ("delete", 2, "2026-01-01 00:00:02", 2, 20),
]


def feed(spark: SparkSession, rows: list[tuple[Any, ...]], renumber: int = 1) -> DataFrame:
    """Rows as a feed has them, in any order, of a table with a column that the spec does not have."""
    schema = "_change_type string, _commit_version bigint, _commit_timestamp string, k bigint, n int"
    turned = [(row[0], row[1] * renumber, *row[2:]) for row in rows]
    frame = spark.createDataFrame(turned, schema).repartition(2)
    return frame.selectExpr("*", "current_timestamp() AS loaded").withColumn(
        "_commit_timestamp", frame["_commit_timestamp"].cast("timestamp")
    )


@pytest.mark.parametrize("by_time", [False, True], ids=["by-version", "by-time"])
def test_a_feed_is_applied_commit_by_commit(spark: SparkSession, tmp_path: Path, by_time: bool) -> None:
    relation = new_state(tmp_path, SPEC)
    with settings(spark):
        # Iceberg's snapshots have numbers that do not grow.
        frame = feed(spark, FEED, renumber=-1 if by_time else 1)
        job = ChangesJob("lake.r", str(tmp_path / "out"), relation, by_time=by_time)
        done = pass_on(spark, job, frame)
        assert (done.written, done.inserted, done.replaced, done.deleted) == (True, 3, 1, 1)
        assert not pass_on(spark, job, frame).written
        if by_time:
            with pytest.raises(RejectedError, match="its versions do not increase"):
                pass_on(spark, ChangesJob("lake.r", str(tmp_path / "other"), relation), frame)
    assert done.batch is not None
    stop = "2026-01-01T00:00:02+00:00" if by_time else "2"
    assert (done.batch.source, done.batch.start, done.batch.stop) == ("changes:lake.r", "", stop)
    (outcome,) = apply(tmp_path / "state", tmp_path / "out")
    assert outcome.version == 1
    assert held(tmp_path / "state", "R") == Counter([(1, 11), (3, None)])


def test_bad_rows_of_a_feed_are_shown_or_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    relation = new_state(tmp_path, SPEC)
    rows = [*FEED[:2], ("insert", 1, None, 7, 300), ("upsert", 1, None, 8, 1)]
    with settings(spark):
        with pytest.raises(RejectedError) as refused:
            pass_on(spark, ChangesJob("t", str(tmp_path / "out"), relation), feed(spark, rows))
        assert "2 rows of R cannot be taken" in str(refused.value)
        assert "column n: the value does not fit int8" in str(refused.value)
        aside = ChangesJob("t", str(tmp_path / "out"), relation, reject_to=str(tmp_path / "bad"))
        done = pass_on(spark, aside, feed(spark, rows))
        assert (done.inserted, done.bad) == (2, 2)
        nothing = pass_on(spark, ChangesJob("t", str(tmp_path / "none"), relation), feed(spark, rows).limit(0))
        assert nothing.batch is None and not (tmp_path / "none").exists()
        with pytest.raises(RejectedError, match="column k is missing"):
            pass_on(spark, ChangesJob("t", str(tmp_path / "none"), relation), feed(spark, rows).drop("k"))


def test_a_catalog_without_a_feed_is_said(spark: SparkSession, tmp_path: Path) -> None:
    relation = new_state(tmp_path, SPEC)
    spark.range(3).write.saveAsTable("feedless")
    try:
        with pytest.raises(UsageError, match="feedless: its catalog has no change feed\n  hint: use a catalog"):
            extract_changes(spark, ChangesJob("feedless", str(tmp_path / "out"), relation, start="1"))
    finally:
        spark.sql("DROP TABLE feedless")
