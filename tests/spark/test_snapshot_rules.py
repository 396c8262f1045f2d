"""What `extract snapshot` promises besides the difference: bad rows, names, formats, and an output that is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.spark.snapshot import Extracted, SnapshotJob, extract_snapshot
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Relation
from tests.spark.snapshots import apply, held, new_state

SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, n: int8?, price: 'decimal(9,2)?', name: string?}, key: [k]}
queries: {q: {sql: "SELECT k, n, price, name FROM R"}}
"""
KEYLESS = SPEC.replace(", key: [k]", "")
Extract = Callable[..., Extracted]


def relation(text: str = SPEC) -> Relation:
    found = parse_spec(text, "spec.yaml").relation("R")
    assert found is not None
    return found


@pytest.fixture
def extract(spark: SparkSession, tmp_path: Path) -> Extract:
    """Run a job below `tmp_path`: from the directory `a` (if it is there) to `b`, into `out`."""

    def run(after: str = "b", out: str = "out", before: str | None = None, **given: Any) -> Extracted:
        if before is None and (tmp_path / "a").exists():
            before = "a"
        job = SnapshotJob(
            after=str(tmp_path / after),
            before=str(tmp_path / before) if before else None,
            out=str(tmp_path / out),
            **({"relation": relation()} | given),
        )
        return extract_snapshot(spark, job)

    return run


def save(folder: Path, k: list[Any], n: list[Any] | None = None, **columns: pa.Array) -> None:
    folder.mkdir(parents=True)
    size = len(k)
    table = {
        "k": pa.array(k, pa.int64()),
        "n": pa.array(n or [None] * size, pa.int64()),
        "price": pa.nulls(size, pa.decimal128(20, 4)),
        "name": pa.nulls(size, pa.string()),
    }
    pq.write_table(pa.table(table | columns), folder / f"{folder.name}.parquet")


def rows(folder: Path) -> list[dict[str, Any]]:
    parts = sorted((folder / "R").glob("part-*.parquet"))
    found: list[dict[str, Any]] = pa.concat_tables([pq.read_table(part) for part in parts]).to_pylist()
    return found


def test_changes_are_sorted_and_an_old_image_comes_before_its_new_one(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "a", [4, 1, 2], [40, 10, 20])
    save(tmp_path / "b", [3, 2, 1], [30, 21, 10])
    done = extract()
    assert (done.inserted, done.replaced, done.deleted) == (1, 1, 1)
    assert [(row["_change_type"], row["k"], row["n"]) for row in rows(tmp_path / "out")] == [
        ("update_preimage", 2, 20),
        ("update_postimage", 2, 21),
        ("insert", 3, 30),
        ("delete", 4, 40),
    ]


def test_only_the_columns_of_the_spec_are_extracted_in_its_types(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "b", [1], [7], extra=pa.array(["x"]), nested=pa.array([[1, 2]]))
    extract()
    (part,) = (tmp_path / "out" / "R").glob("part-*.parquet")
    assert pq.read_schema(part).remove_metadata() == pa.schema(
        [
            pa.field("_change_type", pa.string(), nullable=False),
            ("k", pa.int64()),
            ("n", pa.int8()),
            ("price", pa.decimal128(9, 2)),
            ("name", pa.string()),
        ]
    )


def test_bad_rows_reject_the_job_with_examples_or_are_set_aside(tmp_path: Path, extract: Extract) -> None:
    bad = [
        (None, 1, "1.00", "column k: NULL in the key"),
        (2, 300, "1.00", "column n: the value does not fit int8"),
        (-(1 << 63), 1, "1.00", "column k: the value does not fit int64"),
        (4, 1, "0.0010", "column price: the value does not fit decimal(9,2)"),
        (5, 1, "1.00", "column k: the key stands 2 times"),
        (5, 2, "1.00", "column k: the key stands 2 times"),
    ]
    k, n, price, reasons = map(list, zip((1, 1, "1.00", ""), *bad, strict=True))
    save(tmp_path / "a", [1, 3, 9])
    save(tmp_path / "b", k, n, price=pa.array(price).cast(pa.decimal128(20, 4)))
    with pytest.raises(RejectedError, match="6 rows of R cannot be taken; nothing was written") as told:
        extract()
    assert f"{tmp_path}/b: column k: NULL in the key: {{" in str(told.value)
    assert "and 1 more" in str(told.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]
    done = extract(reject_to=str(tmp_path / "bad"))
    assert (done.bad, done.replaced, done.deleted) == (6, 1, 2)
    (lines,) = (tmp_path / "bad").glob("part-*")
    said = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert sorted((line["snapshot"], line["reason"]) for line in said) == sorted(("after", r) for r in reasons if r)
    assert all(set(line["row"]) == {"k", "n", "price", "name"} for line in said)


def test_what_is_set_aside_is_not_there_for_either_snapshot(tmp_path: Path, extract: Extract) -> None:
    new_state(tmp_path, SPEC)
    save(tmp_path / "day1", [1, 2, 2, 3], [1, 2, 2, 3])
    save(tmp_path / "day2", [1, 2, 3, 4], [1, 2, 300, 4])
    aside = {"reject_to": str(tmp_path / "bad1")}
    assert extract(after="day1", out="out1", **aside).bad == 2
    aside = {"reject_to": str(tmp_path / "bad2")}
    assert extract(before="day1", after="day2", out="out2", **aside).bad == 3
    apply(tmp_path / "state", tmp_path / "out1", tmp_path / "out2")
    assert sorted(row[:2] for row in held(tmp_path / "state", "R")) == [(1, 1), (2, 2), (4, 4)]


def test_without_bad_rows_everything_is_done_at_once(
    tmp_path: Path, extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynq_cli.spark.snapshot.difference", None)
    save(tmp_path / "a", [4, 1, 2, 5], [40, 10, 20, None])
    save(tmp_path / "b", [3, 2, 1, 5, 6], [30, 21, 10, None, 60])
    done = extract()
    assert (done.inserted, done.replaced, done.deleted) == (2, 1, 1)
    assert [(row["_change_type"], row["k"]) for row in rows(tmp_path / "out")] == [
        ("update_preimage", 2),
        ("update_postimage", 2),
        ("insert", 3),
        ("delete", 4),
        ("insert", 6),
    ]


def test_a_key_that_stands_twice_in_both_snapshots_alike_is_found(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "a", [1, 2, 2])
    save(tmp_path / "b", [1, 2, 2])
    with pytest.raises(RejectedError, match="4 rows of R cannot be taken"):
        extract()


def test_columns_are_checked_before_any_row_and_all_at_once(tmp_path: Path, extract: Extract) -> None:
    (tmp_path / "b").mkdir()
    table = pa.table({"k": ["one"], "n": [1.5], "Price": ["x"], "name": ["x"]})
    pq.write_table(table, tmp_path / "b" / "part-0.parquet")
    with pytest.raises(RejectedError) as told:
        extract()
    assert "column k is string, which cannot be int64" in str(told.value)
    assert "column n is double, which cannot be int8" in str(told.value)
    assert "column price is missing; there is Price" in str(told.value)


def test_copies_are_counted_without_a_key(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "a", [1, 1, 1, 2, 3], [None, None, 1, 2, 3])
    save(tmp_path / "b", [1, 2, 2, 2, 3], [None, 2, 2, 2, 3])
    done = extract(relation=relation(KEYLESS))
    assert (done.inserted, done.deleted) == (2, 2)
    found = [(row["_change_type"], row["_count"], row["k"], row["n"]) for row in rows(tmp_path / "out")]
    assert found == [("delete", 1, 1, None), ("delete", 1, 1, 1), ("insert", 2, 2, 2)]


def test_a_change_of_an_ignored_column_alone_is_none_and_later_changes_still_apply(
    tmp_path: Path, extract: Extract
) -> None:
    new_state(tmp_path, SPEC)
    for day, (numbers, name) in enumerate([([1, 2], "x"), ([1, 2], "y"), ([1, 3], "z")]):
        save(tmp_path / f"day{day}", [1, 2], numbers, name=pa.array([name, name]))
    extract(after="day0", out="out0")
    assert extract(before="day0", after="day1", out="out1", ignored=("name",)).replaced == 0
    assert extract(before="day1", after="day2", out="out2", ignored=("name",)).replaced == 1
    apply(tmp_path / "state", tmp_path / "out0", tmp_path / "out1", tmp_path / "out2")
    assert sorted((row[0], row[1], row[3]) for row in held(tmp_path / "state", "R")) == [(1, 1, "x"), (2, 3, "z")]


def test_what_does_not_go_together_is_refused(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "b", [1])
    for given, said in (
        ({"key": ("nokey",)}, "--key nokey"),
        ({"ignored": ("k",)}, "--ignore k: it is part of the key"),
        ({"ignored": ("nothing",)}, "--ignore nothing: there is no such column"),
        ({"ignored": ("n",), "relation": relation(KEYLESS)}, "--ignore n: rows can be deleted without their n only by"),
        ({"after": "nowhere"}, "there is no"),
    ):
        with pytest.raises(UsageError, match=said):
            extract(**given)
    assert not (tmp_path / "out").exists()


def test_running_a_job_again_gives_the_same_changes_and_apply_skips_them(tmp_path: Path, extract: Extract) -> None:
    new_state(tmp_path, SPEC)
    save(tmp_path / "b", list(range(100)), list(range(100)))
    assert extract().written
    assert not extract().written
    again = extract(out="again")
    assert again.written
    parts = [[p.read_bytes() for p in sorted((tmp_path / out / "R").glob("part-*"))] for out in ("out", "again")]
    assert parts[0] == parts[1]
    first, second = apply(tmp_path / "state", tmp_path / "out", tmp_path / "again")
    assert (first.version, second.version) == (1, None)
    assert "was applied before" in second.reason


def test_an_output_that_is_there_is_not_touched(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "b", [1])
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="holds something already"):
        extract()
    extract(out="done")
    with pytest.raises(UsageError, match="holds another extraction already"):
        extract(out="done", key=("k", "n"))


def test_snapshots_are_named_by_their_files_wherever_they_lie(tmp_path: Path, extract: Extract) -> None:
    new_state(tmp_path, SPEC)
    save(tmp_path / "current", [1, 2])
    first = extract(after="current", out="out1")
    (tmp_path / "current").rename(tmp_path / "a b%20c")
    save(tmp_path / "current", [1, 3])
    second = extract(before="a b%20c", after="current", out="out2")
    assert (first.batch.start, second.batch.start) == ("", first.batch.stop)
    assert second.batch.stop != first.batch.stop
    apply(tmp_path / "state", tmp_path / "out1", tmp_path / "out2")
    assert sorted(row[0] for row in held(tmp_path / "state", "R")) == [1, 3]


def test_a_snapshot_without_changes_is_a_version_and_the_same_one_is_none(tmp_path: Path, extract: Extract) -> None:
    new_state(tmp_path, SPEC)
    save(tmp_path / "day1", [1])
    save(tmp_path / "day2", [1])
    extract(after="day1", out="out1")
    assert extract(before="day1", after="day2", out="out2").written
    assert not extract(before="day1", after="day1", out="out3").written
    assert not (tmp_path / "out3").exists()
    applied = apply(tmp_path / "state", tmp_path / "out1", tmp_path / "out2")
    assert [outcome.version for outcome in applied] == [1, 2]


def test_snapshots_that_look_alike_are_compared_and_refused_if_they_differ(tmp_path: Path, extract: Extract) -> None:
    for folder, numbers in (("a", [1, 2]), ("b", [1, 3]), ("c", [2, 1])):
        save(tmp_path / folder, numbers)
        (part,) = (tmp_path / folder).iterdir()
        part = part.rename(part.with_name("part-0.parquet"))
        os.utime(part, (1_700_000_000, 1_700_000_000))
    sizes = {(tmp_path / folder / "part-0.parquet").stat().st_size for folder in "abc"}
    assert len(sizes) == 1
    with pytest.raises(UsageError, match="differ, but have the same name"):
        extract(before="a", after="b")
    assert not extract(before="a", after="c").written
    assert not (tmp_path / "out").exists()
    assert extract(before="a", after="b", before_name="2026-01-01", after_name="2026-01-02").written


def test_an_unfinished_snapshot_is_refused(tmp_path: Path, extract: Extract) -> None:
    save(tmp_path / "b", [1])
    (tmp_path / "b" / "_temporary").mkdir()
    with pytest.raises(RejectedError, match="has no _SUCCESS"):
        extract()


@pytest.mark.parametrize(
    ("mark", "form"),
    [("_delta_log/0.json", "delta"), (".hoodie/x", "hudi"), ("metadata/v1.metadata.json", "iceberg")],
)
def test_a_table_of_a_lake_format_is_not_read_as_plain_files(
    tmp_path: Path, extract: Extract, mark: str, form: str
) -> None:
    save(tmp_path / "b", [1])
    (tmp_path / "b" / mark).parent.mkdir()
    (tmp_path / "b" / mark).write_text("{}")
    with pytest.raises(UsageError, match=f"say --format {form}, and give Spark its package"):
        extract()


def test_a_session_that_was_handed_in_is_left_as_it_came(tmp_path: Path, spark: SparkSession, extract: Extract) -> None:
    save(tmp_path / "b", [1])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        extract()
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.conf.get("spark.sql.caseSensitive") == "false"
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
