"""Files that Spark really wrote, by default and with older options, are read by `dynq apply` as what they were."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dynq_cli.errors import RejectedError
from dynq_cli.spark.session import settings
from tests.spark.snapshots import apply, held, new_state

VALUES = """\
version: 1
relations:
  R:
    columns:
      k: int64
      b: bool?
      f: float64?
      d: decimal(9,2)?
      w: decimal(25,3)?
      s: string?
      x: binary?
      day: date?
      moment: timestamp?
queries: {q: {sql: "SELECT k, s FROM R"}}
"""
TEXTS = """\
version: 1
relations: {R: {columns: {k: int64, s: string?, t: string?}}}
queries: {q: {sql: "SELECT k, s, t FROM R"}}
"""
COLUMNS = (
    "k bigint, b boolean, f double, d decimal(9,2), w decimal(25,3), s string, x binary, day date, moment timestamp"
)
ROWS: list[tuple[Any, ...]] = [
    (
        1,
        True,
        1.5,
        Decimal("-1.50"),
        Decimal("1234567890123456789012.345"),
        "a",
        b"\x00\xff",
        date(1500, 2, 28),
        datetime(1500, 3, 1, 1, 2, 3, 4000),
    ),
    (2, None, None, None, None, None, None, None, None),
    (
        3,
        False,
        float("inf"),
        Decimal("9999999.99"),
        Decimal("0.001"),
        "",
        b"",
        date(1970, 1, 1),
        datetime(2024, 2, 29, 23, 59, 59, 999000),
    ),
]


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Rows as a frame, moments in UTC."""
    texts = COLUMNS.replace("moment timestamp", "moment string")
    spelled = [(*row[:-1], None if row[-1] is None else row[-1].isoformat(" ")) for row in rows]
    return spark.createDataFrame(spelled, texts).selectExpr(
        "k", "b", "f", "d", "w", "s", "x", "day", "cast(moment as timestamp) as moment"
    )


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.parametrize("legacy", ["false", "true"])
def test_parquet_with_every_kind_of_timestamp_and_legacy_decimals(
    spark: SparkSession, tmp_path: Path, kind: str, legacy: str
) -> None:
    new_state(tmp_path, VALUES)
    with settings(spark):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", legacy)
        frame_of(spark, ROWS).repartition(2).write.parquet(str(tmp_path / "R"))
    (outcome,) = apply(tmp_path / "state", tmp_path / "R")
    assert outcome.version == 1
    assert held(tmp_path / "state", "R") == Counter(ROWS)


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_days_of_the_old_calendar_are_refused_and_later_ones_are_not(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    new_state(tmp_path, VALUES)
    with settings(spark):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        for name in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
            spark.conf.set(f"spark.sql.parquet.{name}", "LEGACY")
        frame_of(spark, ROWS[1:]).write.parquet(str(tmp_path / "new" / "R"))
        frame_of(spark, ROWS[:1]).write.parquet(str(tmp_path / "old" / "R"))
    apply(tmp_path / "state", tmp_path / "new" / "R")
    assert held(tmp_path / "state", "R") == Counter(ROWS[1:])
    with pytest.raises(RejectedError, match="Julian calendar"):
        apply(tmp_path / "state", tmp_path / "old" / "R")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd", "lz4_raw", "none"])
def test_parquet_of_every_codec(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    new_state(tmp_path, VALUES)
    with settings(spark):
        frame_of(spark, ROWS).coalesce(1).write.option("compression", codec).parquet(str(tmp_path / "R"))
    apply(tmp_path / "state", tmp_path / "R")
    assert held(tmp_path / "state", "R") == Counter(ROWS)


@pytest.mark.parametrize("codec", ["none", "gzip", "bzip2"])
def test_json_lines_without_the_fields_that_are_null(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    new_state(tmp_path, VALUES)
    with settings(spark):
        frame_of(spark, ROWS).coalesce(1).write.option("compression", codec).json(str(tmp_path / "R"))
    apply(tmp_path / "state", tmp_path / "R")
    assert held(tmp_path / "state", "R") == Counter(ROWS)


@pytest.mark.parametrize("trims", [True, False])
def test_csv_with_quotes_backslashes_and_lines_inside(spark: SparkSession, tmp_path: Path, trims: bool) -> None:
    new_state(tmp_path, TEXTS)
    rng = Random(int(trims))

    def text() -> str | None:
        return None if rng.random() < 0.1 else "".join(rng.choices("\\\",\n\ra #'", k=rng.randrange(6)))

    def written(text: str | None) -> str | None:
        return text.strip() if trims and text is not None else text

    rows = [(k, text(), text()) for k in range(1000)]
    with settings(spark):
        frame = spark.createDataFrame(rows, "k bigint, s string, t string").coalesce(2)
        writer = frame.write.options(header=True, compression="none" if trims else "gzip")
        # By default Spark trims texts; what is left has to come back as it was.
        writer.csv(str(tmp_path / "R"), ignoreLeadingWhiteSpace=trims, ignoreTrailingWhiteSpace=trims)
    apply(tmp_path / "state", tmp_path / "R")
    assert held(tmp_path / "state", "R") == Counter((k, written(s), written(t)) for k, s, t in rows)


def test_change_logs_of_many_parts_are_one_version_if_the_job_finished(spark: SparkSession, tmp_path: Path) -> None:
    new_state(tmp_path, TEXTS)
    log = "_change_type string, _commit_version bigint, k bigint, s string, t string"
    rows = [("insert", 1, k, "x", None) for k in range(50)] + [("delete", 2, k, "x", None) for k in range(0, 50, 2)]
    with settings(spark):
        frame = spark.createDataFrame(rows, log).repartition(5)
        frame.write.csv(str(tmp_path / "one" / "R"), header=True)
        frame.write.json(str(tmp_path / "two" / "R"))
        frame.write.partitionBy("k").parquet(str(tmp_path / "three" / "R"))
    (outcome,) = apply(tmp_path / "state", tmp_path / "one")
    assert (outcome.version, outcome.inserted, outcome.deleted) == (1, 50, 25)
    (tmp_path / "two" / "R" / "_SUCCESS").unlink()
    with pytest.raises(RejectedError, match="has no _SUCCESS"):
        apply(tmp_path / "state", tmp_path / "two")
    with pytest.raises(RejectedError, match="write without partitionBy"):
        apply(tmp_path / "state", tmp_path / "three")
    assert held(tmp_path / "state", "R") == Counter((k, "x", None) for k in range(1, 50, 2))


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_a_job_without_rows_changes_nothing(spark: SparkSession, tmp_path: Path, form: str) -> None:
    new_state(tmp_path, TEXTS)
    with settings(spark):
        frame = spark.createDataFrame([], "_change_type string, k bigint, s string, t string")
        frame.write.format(form).option("header", "true").save(str(tmp_path / "R"))
    apply(tmp_path / "state", tmp_path / "R")
    assert not held(tmp_path / "state", "R")
