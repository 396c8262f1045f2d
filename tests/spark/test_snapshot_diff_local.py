"""Tasks that read plain Parquet themselves find the very changes that Spark does, and leave to it what is not plain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.errors import DynqError
from dynq_cli.spark import slice_task
from dynq_cli.spark import snapshot_diff_local as slicing
from dynq_cli.spark.plain_parquet import is_sound, plain_table
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot import Extracted, SnapshotJob, extract_snapshot
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Relation
from tests.spark.snapshots import COLUMNS, POOLS, Row, as_bag, as_table, random_history, spec_text

Found = list[tuple[Extracted, list[bytes]]]
Ways = Callable[..., Found]


def relation_of(text: str) -> Relation:
    relation = parse_spec(text, "spec.yaml").relation("R")
    assert relation is not None
    return relation


RELATION = relation_of(spec_text("k, part"))
OTHER_KEY = ("c_binary_10", "c_decimal_8", "c_timestamp_13", "c_time_12")


@pytest.fixture
def both_ways(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ways:
    """Extract by slices, and then as if nothing were plain; what was found, and the files."""
    monkeypatch.setattr(slicing, "BYTES_PER_SLICE", 1)

    def run(
        before: str, after: str, relation: Relation = RELATION, **given: Any
    ) -> list[tuple[Extracted, list[bytes]]]:
        found = []
        for without in ("AtOnce", "plain_tables"):
            with monkeypatch.context() as patched:
                patched.setattr(f"dynq_cli.spark.snapshot.{without}", lambda *_: None)
                patched.setattr("dynq_cli.spark.snapshot.difference", None)
                out = tmp_path / f"{Path(before).name}-{Path(after).name}-{without}"
                job = SnapshotJob(before=before, after=after, out=str(out), relation=RELATION, **given)
                done = extract_snapshot(spark, job)
                found.append((done, [part.read_bytes() for part in sorted((out / "R").glob("part-*"))]))
        return found

    return run


def save(folder: Path, rows: list[Row], parts: int = 3, **options: Any) -> str:
    folder.mkdir(parents=True)
    for part in range(parts):
        pq.write_table(as_table(RELATION, rows[part::parts]), folder / f"part-{part}.parquet", **options)
    return str(folder)


def counts(done: Extracted) -> tuple[int, int, int]:
    return done.inserted, done.replaced, done.deleted


@pytest.mark.parametrize("seed", range(2))
def test_the_files_are_the_same_in_slices_and_by_a_shuffle(tmp_path: Path, both_ways: Ways, seed: int) -> None:
    history = random_history(Random(seed), 3, keyed=True)
    places = [save(tmp_path / f"day{i}", rows, parts=1 + i, row_group_size=5) for i, rows in enumerate([*history, []])]
    ignored: Mapping[str, Any] = {"ignored": ("c_float32_5", "c_string_9")} if seed == 1 else {}
    for before, after in pairwise(places):
        (sliced, files), (shuffled, others) = both_ways(before, after, **ignored)
        assert counts(sliced) == counts(shuffled)
        assert files == others


def test_a_row_changed_if_one_column_did(tmp_path: Path, both_ways: Ways) -> None:
    """Every value of every type to every other one, and to NULL; NaN stays NaN, and 0.0 does as -0.0."""
    none = [None] * len(POOLS)
    old: list[tuple[Any, ...]] = []
    new: list[tuple[Any, ...]] = []
    for i, pool in enumerate(POOLS.values()):
        for x, y in product([None, *pool], repeat=2):
            for rows, value in ((old, x), (new, y)):
                rows.append((len(rows), "a", *none[:i], value, *none[i + 1 :]))
    changed = as_bag(new) - as_bag(old)
    (sliced, files), (shuffled, others) = both_ways(save(tmp_path / "old", old), save(tmp_path / "new", new))
    assert counts(sliced) == counts(shuffled) == (0, changed.total(), 0)
    assert files == others


def test_any_columns_are_a_key_but_floats(tmp_path: Path, both_ways: Ways) -> None:
    rng = Random(4)
    key = [[column.name for column in RELATION.columns].index(name) for name in OTHER_KEY]
    places = []
    for i, rows in enumerate(random_history(rng, 3, keyed=True)[1:]):
        whole = {tuple(row[j] for j in key): row for row in rows if None not in [row[j] for j in key]}
        places.append(save(tmp_path / f"day{i}", list(whole.values())))
    (sliced, files), (shuffled, others) = both_ways(*places, key=OTHER_KEY)
    assert counts(sliced) == counts(shuffled) != (0, 0, 0)
    assert files == others


def test_files_of_spark_itself_and_of_large_texts_are_plain(
    spark: SparkSession, tmp_path: Path, both_ways: Ways
) -> None:
    old, new = random_history(Random(11), 2, keyed=True)
    assert old
    assert new
    wide = as_table(RELATION, new)
    for i, field in enumerate(wide.schema):
        large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(field.type, field.type)
        wide = wide.set_column(i, field.with_type(large), wide.column(i).cast(large))
    (tmp_path / "large").mkdir()
    pq.write_table(wide, tmp_path / "large" / "part-0.parquet")
    arrow = save(tmp_path / "arrow", old)
    with settings(spark):
        spark.read.parquet(arrow).repartition(2).write.parquet(str(tmp_path / "spark"))
    assert list((tmp_path / "spark").glob(".part-*.crc"))
    (sliced, files), (shuffled, others) = both_ways(str(tmp_path / "spark"), str(tmp_path / "large"))
    assert counts(sliced) == counts(shuffled)
    assert files == others


def test_what_spark_would_read_in_another_way_is_not_plain(tmp_path: Path) -> None:
    rows = [(1, "a", *[None] * len(COLUMNS))]
    table = as_table(RELATION, rows)

    def is_plain(changed: pa.Table, **options: Any) -> bool:
        pq.write_table(changed, tmp_path / "part-0.parquet", **options)
        return plain_table([f"file://{tmp_path}/part-0.parquet"], RELATION.columns, RELATION.key) is not None

    assert is_plain(table)
    assert not is_plain(table, use_deprecated_int96_timestamps=True)
    assert not is_plain(table.drop_columns(["c_bool_0"]))
    assert not is_plain(table.set_column(0, "k", table["k"].cast(pa.int32())))
    assert not is_plain(table.set_column(0, "k", table["k"].cast(pa.uint64())))
    assert not is_plain(table.append_column("k", table["k"]))
    assert not is_plain(table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}))
    assert is_plain(table.replace_schema_metadata({"org.apache.spark.version": "3.5.0"}))
    said = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    assert not is_plain(table.replace_schema_metadata(said))
    assert plain_table(["s3a://lake/part-0.parquet"], RELATION.columns, RELATION.key) is None
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    assert plain_table([f"file://{tmp_path}/part-0.parquet"], RELATION.columns, RELATION.key) is None


def flip_unnoticed(part: Path) -> None:
    """Flip a bit of a file so that Arrow reads other values, and sees nothing wrong with them."""
    content, rows = part.read_bytes(), repr(pq.read_table(part).to_pylist())
    for place in range(4, len(content)):
        part.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with suppress(OSError, pa.ArrowException):
            if repr(pq.read_table(part).to_pylist()) != rows:
                return


def test_a_file_that_is_not_what_hadoop_wrote_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = random_history(Random(2), 2, keyed=True)[1]
    before, after = save(tmp_path / "before", rows), tmp_path / "after"
    with settings(spark):
        spark.read.parquet(before).coalesce(1).write.option("compression", "none").parquet(str(after))
    (part,) = after.glob("part-*.parquet")
    assert is_sound(str(part))
    flip_unnoticed(part)
    assert not is_sound(str(part))
    with pytest.raises(DynqError):
        extract_snapshot(
            spark, SnapshotJob(before=before, after=str(after), out=str(tmp_path / "out"), relation=RELATION)
        )
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_into_memory_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for day, rows in enumerate(random_history(Random(3), 2, keyed=True)):
        files = sorted(Path(save(tmp_path / f"day{day}", rows)).iterdir())
        tables.append(plain_table([f"file://{path}" for path in files], RELATION.columns, RELATION.key))
    assert tables[0]
    assert tables[1]
    slices = slice_task.Slices(tables[0], tables[1], key=(0, 1), compared=(2,), hidden=(), many=1)
    assert slice_task.VOID not in next(slices.changes(0)).column(0).to_pylist()
    monkeypatch.setattr(slice_task, "MEMORY", "1KB")
    (told,) = slices.changes(0)
    assert told.column(0).to_pylist() == [slice_task.VOID]


@pytest.mark.parametrize("text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\xe2\x82"])
def test_bytes_that_are_no_text_are_none_in_slices(tmp_path: Path, text: bytes) -> None:
    table = as_table(RELATION, [(1, "a", *[None] * len(COLUMNS))])
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([text], pa.binary()).buffers())
    place = tmp_path / "part-0.parquet"
    pq.write_table(table.set_column(1, "part", bad), place)
    found = plain_table([f"file://{place}"], RELATION.columns, RELATION.key)
    assert found is not None
    with pytest.raises(pa.ArrowException):
        list(found.batches())
