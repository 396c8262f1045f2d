"""The quick ways to a difference: void as soon as a row is out of the ordinary."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.spark import snapshot_diff_local
from dynq_cli.spark.session import settings
from dynq_cli.spark.snapshot_diff_checked import DELETE, INSERT, UPDATE, Table
from dynq_cli.spark.snapshot_diff_local import Sliced, plain_tables
from dynq_cli.spark.snapshot_diff_shuffle import AtOnce, Side, VoidError
from dynq_cli.spark.sources import open_snapshot
from dynq_cli.spec.load import parse_spec
from dynq_cli.values.convert import arrow_type

SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, part: string, n: int8?, price: 'decimal(9,2)?', day: date?, at: timestamp?, name: string},
      key: [part, k]}
queries: {q: {sql: "SELECT k, part FROM R"}}
"""
(RELATION,) = parse_spec(SPEC, "spec.yaml").relations
SCHEMA = pa.schema([(column.name, arrow_type(column.type)) for column in RELATION.columns])
TABLE = Table(tuple(SCHEMA.names), (1, 0), (2, 3, 4, 5, 6))
SHUFFLED, SLICED = WAYS = "shuffled", "sliced"
Row = tuple[Any, ...]


def random_row(rng: Random, k: int, part: str) -> Row:
    n, cents = rng.choice([None, 0, 7]), rng.choice([None, Decimal("0.00"), Decimal("-12.50")])
    day, at = rng.choice([None, date(1582, 10, 4), date(2024, 2, 29)]), rng.choice([None, datetime(1883, 11, 18, 12)])
    return (k, part, n, cents, day, at, rng.choice(["", "a", "naïve ☃"]))


def save(folder: Path, rows: list[Row], columns: dict[str, pa.Array] | None = None) -> str:
    """Snapshots in two files each, so that a slice comes out of several."""
    folder.mkdir(parents=True)
    half = len(rows) // 2
    for part, some in enumerate((rows[:half], rows[half:])):
        table = pa.table([pa.array(c, f.type) for c, f in zip(zip(*some, strict=True), SCHEMA, strict=True)], SCHEMA)
        pq.write_table(table, folder / f"part-{part}.parquet")
    if columns:
        pq.write_table(pa.table(columns), folder / "part-2.parquet")
    return str(folder)


def way(spark: SparkSession, before: Side, after: Side, how: str) -> AtOnce | Sliced:
    if how == SHUFFLED:
        return AtOnce(before, after, TABLE)
    tables = plain_tables(spark, before, after)
    assert tables is not None
    return Sliced(spark, *tables, TABLE)


def is_void(spark: SparkSession, before: str, after: str, how: str) -> bool:
    with settings(spark):
        sides = [Side(open_snapshot(spark, place), RELATION.columns, RELATION.key) for place in (before, after)]
        found = way(spark, sides[0], sides[1], how)
        found.changes.write.format("noop").mode("overwrite").save()
        try:
            assert found.counts == {INSERT: 0, DELETE: 0, UPDATE: 0}
        except VoidError:
            return True
        return False


ROWS = [random_row(Random(8), k, "x") for k in range(20)]
WHOLE: Row = (77, "x", None, None, None, None, "a")


@pytest.mark.parametrize("how", WAYS)
def test_a_key_that_stands_twice_makes_it_void(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(snapshot_diff_local, "BYTES_PER_SLICE", 1)
    none, once, alike, twice = (
        save(tmp_path / name, ROWS + [WHOLE] * copies)
        for name, copies in (("none", 0), ("once", 1), ("alike", 1), ("twice", 2))
    )
    assert not is_void(spark, once, alike, how)
    assert is_void(spark, twice, twice, how)
    assert is_void(spark, once, twice, how)
    assert is_void(spark, twice, once, how)
    assert is_void(spark, none, twice, how)
    assert is_void(spark, twice, none, how)


@pytest.mark.parametrize("how", WAYS)
def test_a_bad_row_makes_it_void(spark: SparkSession, tmp_path: Path, how: str) -> None:
    binary = pa.array([b"\xff"], pa.binary())
    no_text = {name: pa.array([WHOLE[i]], SCHEMA.field(name).type) for i, name in enumerate(SCHEMA.names)}
    no_text["name"] = pa.Array.from_buffers(pa.string(), 1, binary.buffers())
    for what, bad, columns in (
        ("NULL in the key", [(None, *WHOLE[1:])], None),
        ("NULL in the key's other column", [(77, None, *WHOLE[2:])], None),
        ("NULL where none may be", [(*WHOLE[:6], None)], None),
        ("a number that stands for NULL", [(-(1 << 63), *WHOLE[1:])], None),
        ("bytes that are no text", [], no_text),
    ):
        place = save(tmp_path / what, ROWS + bad, columns)
        assert is_void(spark, place, place, how), what
