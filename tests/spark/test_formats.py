"""Every format that Spark reads gives the same changes: values of CSV, JSON and partitions by the rules of logs."""

from __future__ import annotations

import gzip
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from dynq_cli.errors import UsageError
from dynq_cli.io.logs import texts
from dynq_cli.spark.columns import typed
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot import SnapshotJob, extract_snapshot
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import parse_type
from dynq_cli.values.convert import CodeError
from tests.spark.snapshots import apply, as_bag, held, new_state, random_history, spec_text, write_snapshot

TEXTS = {
    "int8": ["0", "-128", "128", "007", "1.0", " 1", "+1", "1e1", ""],
    "int64": ["9223372036854775807", "9223372036854775808", "-", "0x1F", "1L"],
    "decimal(9,2)": ["1.50", "-.5", "5.", "1.500", "1.505", "1E-2", "1e3", "1e-3", "12345678.00", ".", "1d", "--1"],
    "decimal(5,0)": ["12345", ".5", "5.0", "5.5", "123456"],
    "float32": ["1.5", "NaN", "-inf", "Infinity", "+INF", "1e39", "1d", "0.1", "-0.0", "1e-50", "infinite"],
    "float64": ["1e308", "1e309", "nan", "-Infinity", "1f", ".5", "5.", "0.1"],
    "bool": ["true", "FALSE", "t", "1", "yes", " true"],
    "date": ["2024-02-29", "2023-02-29", "0001-01-01", "1582-10-10", "2024-2-9", "20240229", "2024-02-29T00:00"],
    "time": ["12:34", "12:34:56", "12:34:56.789012", "24:00:00", "12:34:56.7890120", "12:34:56.7890121", "1:02:03"],
    "timestamp": [
        "2024-02-29",
        "2024-02-29T12:34:56",
        "2024-02-29 12:34:56.5",
        "2024-02-29T12:34:56Z",
        "2024-02-29T12:34:56+0530",
        "2024-02-29T12:34:56-05",
        "2024-02-29T12:34:56.1234560+05:30",
        "2024-02-29T12:34:56.1234567",
        "1883-11-18T12:00:00",
        "2024-02-30T00:00:00",
        "now",
        "2024-02-29T12",
        "2024-02-29T25:00:00",
    ],
    "binary": ["", "YWJj", "YQ==", "YQ", "!", "YW Jj"],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_read_as_they_are_from_change_logs(spark: SparkSession, kind: str) -> None:
    parsed, _ = parse_type(kind)
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(TEXTS[kind])], "i int, c string")
    with settings(spark):
        rows = typed(frame, [Column("c", parsed, nullable=True)], (), {"c"}).toArrow()
    found = [None if bad else value for bad, value in zip(rows["bad"].to_pylist(), rows["v0"], strict=True)]
    for text, value in zip(TEXTS[kind], found, strict=True):
        try:
            expected = texts.parse(pa.array([text]), parsed)
        except CodeError:
            assert value is None, text
            continue
        assert value is not None, f"{text!r} is {expected[0]}"
        assert pa.array([value.as_py()], expected.type).equals(expected) or kind.startswith("float"), text
        assert repr(value.as_py()).replace(", tzinfo=<UTC>", "") == repr(expected[0].as_py()) or "time" in kind, text


@pytest.mark.parametrize("form", ["csv", "json", "orc"])
def test_snapshots_of_other_formats_give_the_same_state(spark: SparkSession, tmp_path: Path, form: str) -> None:
    new_state(tmp_path, spec_text("k, part"))
    relation = load_spec(tmp_path / "spec.yaml").relation("R")
    assert relation is not None
    # By default Spark cuts timestamps of texts to milliseconds, and trims texts.
    exact = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
    as_is = {"header": "true", "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
    before = None
    for i, rows in enumerate(random_history(Random(7), 2, keyed=True)):
        plain, after = write_snapshot(tmp_path / f"plain-{i}", relation, rows), str(tmp_path / f"day-{i}")
        with settings(spark):
            frame = spark.read.parquet(plain)
            if form == "csv":
                frame = frame.withColumn("c_binary_10", f.base64("c_binary_10"))
            frame.write.format(form).options(**exact, **as_is).save(after)
        job = SnapshotJob(after=after, before=before, out=str(tmp_path / f"out-{i}"), relation=relation)
        extract_snapshot(spark, job)
        apply(tmp_path / "state", tmp_path / f"out-{i}")
        assert held(tmp_path / "state", "R") == as_bag(rows)
        before = after


def test_numbers_in_json_are_read_as_they_stand_there(spark: SparkSession, tmp_path: Path) -> None:
    text = """\
version: 1
relations: {R: {columns: {k: int64, price: 'decimal(30,5)', said: string}, key: [k]}}
queries: {q: {sql: "SELECT k, price FROM R"}}
"""
    relation = new_state(tmp_path, text)
    row = '{"k": %d, "price": 1234567890123456789012345.12345, "said": 1.10}'
    files = {
        "lines.json": row % 1,
        "lines.json.gz": row % 2,
        "array.json": f"[{row % 3},\n{row % 4}]",
        "array.json.gz": f"[{row % 5}]",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes((gzip.compress if name.endswith(".gz") else bytes)(content.encode()))

    def extract(name: str, **options: str) -> Path:
        out = tmp_path / f"out-{name}"
        job = SnapshotJob(str(tmp_path / name), str(out), relation, options=options, source=name)
        extract_snapshot(spark, job)
        return out

    outs = [extract("lines.json"), extract("lines.json.gz"), extract("array.json", multiLine="true")]
    apply(tmp_path / "state", *outs)
    price = Decimal("1234567890123456789012345.12345")
    assert held(tmp_path / "state", "R") == as_bag([(k, price, "1.10") for k in range(1, 5)])
    with pytest.raises(UsageError, match="of compressed files Spark reads numbers as floating point"):
        extract("array.json.gz", multiLine="true")
    with pytest.raises(UsageError, match="with --option encoding Spark reads numbers as floating point"):
        extract("lines.json", encoding="UTF-8")


def test_directories_of_partitions_are_columns_and_keep_their_texts(spark: SparkSession, tmp_path: Path) -> None:
    text = """\
version: 1
relations:
  R: {columns: {k: int64, code: string, day: date?}, key: [k]}
queries: {q: {sql: "SELECT k, code, day FROM R"}}
"""
    relation = new_state(tmp_path, text)
    for code, day, k in (("007", "2024-01-01", 1), ("a b", "__HIVE_DEFAULT_PARTITION__", 2)):
        folder = tmp_path / "b" / f"code={code}" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"k": [k]}), folder / "part-0.parquet")
    job = SnapshotJob(after=str(tmp_path / "b"), out=str(tmp_path / "out"), relation=relation)
    assert extract_snapshot(spark, job).inserted == 2
    apply(tmp_path / "state", tmp_path / "out")
    assert held(tmp_path / "state", "R") == {(1, "007", date(2024, 1, 1)): 1, (2, "a b", None): 1}


def test_a_table_of_the_catalog_is_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    text = """\
version: 1
relations:
  R: {columns: {k: int32, moment: timestamp, t: time?, price: 'decimal(9,2)'}, key: [k]}
queries: {q: {sql: "SELECT k, moment, t, price FROM R"}}
"""
    relation = new_state(tmp_path, text)
    with settings(spark):
        rows = "SELECT 1 AS k, timestamp'1500-01-01 00:00:00.000001' AS moment, time'01:02:03' AS t, 1.5BD AS price"
        spark.sql(f"CREATE TABLE some_table USING parquet AS {rows}")
        spark.sql("CREATE TEMP VIEW some_view AS SELECT * FROM some_table")
    try:
        job = SnapshotJob(after="some_table", out=str(tmp_path / "out"), relation=relation)
        assert extract_snapshot(spark, job).inserted == 1
        job = SnapshotJob(after="some_view", out=str(tmp_path / "out2"), relation=relation)
        assert extract_snapshot(spark, job).batch.stop
        live = spark.range(3).selectExpr("id AS k")
        live.createOrReplaceTempView("no_files")
        job = SnapshotJob(after="no_files", out=str(tmp_path / "out3"), relation=relation)
        with pytest.raises(UsageError, match="--after-name"):
            extract_snapshot(spark, job)
    finally:
        spark.sql("DROP VIEW IF EXISTS some_view")
        spark.sql("DROP TABLE some_table")
    apply(tmp_path / "state", tmp_path / "out")
    expected = (1, datetime(1500, 1, 1, 0, 0, 0, 1), time(1, 2, 3), Decimal("1.50"))
    assert held(tmp_path / "state", "R") == {expected: 1}


def test_rows_of_csv_that_cannot_be_read_are_bad(spark: SparkSession, tmp_path: Path) -> None:
    text = """\
version: 1
relations:
  R: {columns: {k: int64, name: string?}, key: [k]}
queries: {q: {sql: "SELECT k, name FROM R"}}
"""
    relation = new_state(tmp_path, text)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "rows.csv").write_text('k,name\n1,""\n2,\n3,a,b\nx,y\n4,"a\nb"\n', "utf-8")
    job = SnapshotJob(
        after=str(tmp_path / "b"), out=str(tmp_path / "out"), relation=relation, reject_to=str(tmp_path / "bad")
    )
    done = extract_snapshot(spark, job)
    assert (done.inserted, done.bad) == (3, 2)
    apply(tmp_path / "state", tmp_path / "out")
    assert held(tmp_path / "state", "R") == {(1, ""): 1, (2, None): 1, (4, "a\nb"): 1}
