"""What `extract jdbc` reads of a real PostgreSQL, time after time, makes a state hold what the table holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.spark import progress
from dynq_cli.spark.jdbc import JdbcJob, Pulled, extract_jdbc
from dynq_cli.spark.snapshot import SnapshotJob, extract_snapshot
from dynq_cli.spark.write import Target
from dynq_cli.spec.load import load_spec
from tests.spark.postgres import PASSWORD, Postgres
from tests.spark.snapshots import agrees_with_duckdb, apply, held, new_state

SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, n: int32, name: string?}, key: [k]}
queries: {q: {sql: "SELECT k, n, name FROM R WHERE n > 1"}}
"""
KEYLESS = SPEC.replace(", key: [k]", "")
Run = Callable[..., Pulled]


@dataclass
class Bench:
    """A table `r` in the database, a state of the spec, and jobs from one to the other."""

    spark: SparkSession
    postgres: Postgres
    folder: Path
    outputs: int = 0

    def extract(self, out: str | None = None, **given: Any) -> Pulled:
        self.outputs += out is None
        relation = load_spec(self.folder / "spec.yaml").relation("R")
        assert relation is not None
        job: dict[str, Any] = {"watermark": "changed", "table": "r", "relation": relation} | given
        return extract_jdbc(
            self.spark,
            JdbcJob(
                url=self.postgres.url,
                out=str(self.folder / "inbox" / (out or f"out-{self.outputs:02}")),
                options={"user": "postgres", "password": PASSWORD},
                **job,
            ),
        )

    def apply(self) -> list[tuple[Any, ...]]:
        """What the state holds after all outputs."""
        apply(self.folder / "state", self.folder / "inbox")
        return sorted(held(self.folder / "state", "R").elements(), key=repr)

    def extracted(self, **given: Any) -> list[tuple[Any, ...]]:
        self.extract(**given)
        return self.apply()


@pytest.fixture
def bench(spark: SparkSession, postgres: Postgres, tmp_path: Path) -> Bench:
    postgres.run("DROP TABLE IF EXISTS r; DROP SEQUENCE IF EXISTS changes; CREATE SEQUENCE changes")
    new_state(tmp_path, SPEC)
    (tmp_path / "inbox").mkdir()
    return Bench(spark, postgres, tmp_path)


TABLE = "CREATE TABLE r (k bigint, n int, name text, changed timestamptz, gone boolean);"


def rows(*values: str) -> str:
    """Insert rows: `k, n, second` of 2026, and whether they are gone."""
    made = [value.split() for value in values]
    texts = [f"({k}, {n}, 'row {k}', timestamptz '2026-01-01 00:00:00Z' + {s} * interval '1s')" for k, n, s in made]
    return f"INSERT INTO r (k, n, name, changed) VALUES {', '.join(texts)};"


WATERMARKS = {
    "timestamptz": "clock_timestamp()",
    "timestamp": "(clock_timestamp() AT TIME ZONE 'UTC')",
    "bigint": "nextval('changes')",
    "date": "current_date",
}


@pytest.mark.parametrize("kind", WATERMARKS)
def test_random_changes_of_a_table_are_in_the_state(bench: Bench, kind: str) -> None:
    rng, now, run = Random(kind), WATERMARKS[kind], bench.postgres.run
    run(f"CREATE TABLE r (k bigint PRIMARY KEY, n int NOT NULL, name text, changed {kind} NOT NULL, gone boolean)")
    for turn in range(3):
        run(";".join(random_change(rng, now) for _ in range(rng.randrange(1, 12))))
        overlap = None if turn % 2 else {"bigint": "3", "date": "1d"}.get(kind, "2s")
        found = bench.extracted(deleted_flag="gone", overlap=overlap)
        there = run("SELECT k, n, coalesce(quote_literal(name), '') FROM r WHERE gone IS NOT TRUE")
        quoted = [(str(k), str(n), _quoted(name)) for k, n, name in found]
        assert Counter(quoted) == Counter(map(tuple, there)), f"{kind}, turn {turn}"
    assert agrees_with_duckdb(bench.folder / "state")


def random_change(rng: Random, now: str) -> str:
    k, n, name = rng.randrange(12), rng.randrange(4), rng.choice(["NULL", "''", "'a'", "'é '''"])
    return (
        f"INSERT INTO r VALUES ({k}, {n}, {name}, {now}, {rng.choice(['NULL', 'false', 'true'])})"
        " ON CONFLICT (k) DO UPDATE SET (n, name, changed, gone) ="
        " (excluded.n, excluded.name, excluded.changed, excluded.gone)"
    )


def _quoted(name: str | None) -> str:
    return "" if name is None else "'" + name.replace("'", "''") + "'"


def test_values_of_every_type_arrive_as_they_are(spark: SparkSession, postgres: Postgres, tmp_path: Path) -> None:
    new_state(
        tmp_path,
        """\
version: 1
relations:
  R:
    columns: {k: int64, b: bool?, i: int16?, d: 'decimal(9,2)?', f: float64?, s: string?, x: binary?, day: date?,
              local: timestamp?, moment: timestamp?}
    key: [k]
queries: {q: {sql: "SELECT k, d, day, local, moment FROM R"}}
""",
    )
    postgres.run(
        """
        DROP TABLE IF EXISTS r;
        CREATE TABLE r (k bigint, b boolean, i smallint, d numeric(12,4), f double precision, s varchar(20), x bytea,
                        day date, local timestamp, moment timestamptz, changed int);
        INSERT INTO r VALUES
          (1, true, -32768, 1.5000, 'NaN', 'naïve ☃', '\\x00ff', '0001-01-01', '2026-03-29 02:30:00.000001',
           '2026-03-29 02:30:00.000001+00', 1),
          (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1),
          (3, false, 7, -0.05, '-Infinity', '', '', '2024-02-29', '2026-10-25 02:30:00', '2026-10-25 02:30:00+02', 2);
        """
    )
    relation = load_spec(tmp_path / "spec.yaml").relation("R")
    assert relation is not None
    options = {"user": "postgres", "password": PASSWORD, "url": postgres.url}
    # In zones with summer time these are times that did not exist, or existed twice.
    skipped = datetime(2026, 3, 29, 2, 30, 0, 1)
    twice = (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30))
    expected = [
        (1, True, -32768, Decimal("1.50"), "nan", "naïve ☃", b"\x00\xff", date(1, 1, 1), skipped, skipped),
        (2, *[None] * 9),
        (3, False, 7, Decimal("-0.05"), float("-inf"), "", b"", date(2024, 2, 29), *twice),
    ]
    pulled = JdbcJob(postgres.url, "r", str(tmp_path / "out"), relation, "changed", options=options)
    assert extract_jdbc(spark, pulled).inserted_or_replaced == 3
    taken = SnapshotJob("r", str(tmp_path / "taken"), relation, form="jdbc", options=options, after_name="now")
    assert extract_snapshot(spark, taken).inserted == 3
    new_state(tmp_path / "second", (tmp_path / "spec.yaml").read_text("utf-8"))
    for state, out in ((tmp_path / "state", "out"), (tmp_path / "second" / "state", "taken")):
        apply(state, tmp_path / out)
        assert sorted(held(state, "R"), key=lambda row: int(row[0])) == expected


def test_rows_at_the_watermark_and_with_an_overlap_below_it_come_late(bench: Bench) -> None:
    bench.postgres.run(TABLE + rows("1 1 100", "2 2 200"))
    assert [row[0] for row in bench.extracted()] == [1, 2]
    bench.postgres.run(rows("3 3 200", "4 4 150"))
    assert [row[0] for row in bench.extracted()] == [1, 2, 3]
    assert [row[0] for row in bench.extracted(overlap="1m")] == [1, 2, 3, 4]
    done = bench.extract(overlap="1m")
    assert (done.written, done.inserted_or_replaced) == (True, 3)
    bench.apply()
    assert agrees_with_duckdb(bench.folder / "state")


@pytest.mark.parametrize("kind", ["boolean", "int", "timestamptz"])
def test_flagged_rows_go_whether_or_not_they_were_there(bench: Bench, kind: str) -> None:
    bench.postgres.run(TABLE.replace("gone boolean", f"gone {kind}") + rows("1 1 10", "2 2 20", "3 3 30"))
    on = {"boolean": "true", "int": "1", "timestamptz": "now()"}[kind]
    assert len(bench.extracted(deleted_flag="gone")) == 3
    # The columns of a row that is gone may have been emptied; 9 comes and goes between two extractions.
    bench.postgres.run(
        rows("9 9 40") + f"UPDATE r SET gone = {on}, changed = changed + interval '1m' WHERE k IN (2, 9)"
    )
    bench.postgres.run("UPDATE r SET n = NULL, name = NULL WHERE k = 2")
    done = bench.extract(deleted_flag="gone")
    assert (done.inserted_or_replaced, done.deleted) == (1, 2)
    assert [row[0] for row in bench.apply()] == [1, 3]
    assert [row[0] for row in bench.extracted(deleted_flag="gone", overlap="1h")] == [1, 3]
    assert agrees_with_duckdb(bench.folder / "state")


def test_without_a_key_rows_are_only_added_and_that_is_checked(bench: Bench) -> None:
    (bench.folder / "spec.yaml").write_text(KEYLESS, "utf-8")
    bench.postgres.run(TABLE + rows("1 1 10", "1 1 10"))
    added: dict[str, Any] = {"append_only": True}
    new_state(bench.folder / "keyless", KEYLESS)
    assert bench.extract(**added).inserted_or_replaced == 2
    bench.postgres.run(rows("1 1 20"))
    assert bench.extract(**added).inserted_or_replaced == 1
    assert not bench.extract(**added).written
    apply(bench.folder / "keyless" / "state", bench.folder / "inbox")
    assert held(bench.folder / "keyless" / "state", "R") == Counter({(1, 1, "row 1"): 3})
    for change in (rows("2 2 20"), "DELETE FROM r WHERE k = 2; UPDATE r SET changed = changed + interval '1d'"):
        bench.postgres.run(change)
        with pytest.raises(RejectedError, match="and 3 were extracted: rows came late, changed or went"):
            bench.extract(**added)


def test_what_cannot_be_right_is_refused(bench: Bench) -> None:
    bench.postgres.run(TABLE + rows("1 1 10"))
    for given, said in (
        ({"watermark": "nothing"}, "--watermark nothing: r has no such column; it has k, n, name, changed, gone"),
        ({"watermark": "name"}, "--watermark name is string; it has to be a timestamp"),
        ({"deleted_flag": "name"}, "--deleted-flag name is string"),
        ({"overlap": "soon"}, "--overlap soon: write seconds, minutes, hours or days"),
        ({"watermark": "k", "overlap": "5m"}, "--overlap 5m: the watermark is a number"),
        ({"key": ("n",)}, "--key: rows replace each other by the key of R"),
        ({"append_only": True}, "--append-only: R has a key"),
        ({"table": "nowhere"}, "nowhere"),
    ):
        with pytest.raises((UsageError, RejectedError, DynqError), match=said):
            bench.extract(**given)
    bench.postgres.run("ALTER TABLE r ALTER n TYPE text")
    with pytest.raises(RejectedError, match="r: column n is string, which cannot be int32"):
        bench.extract()
    (bench.folder / "spec.yaml").write_text(KEYLESS, "utf-8")
    without_key: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "R has no key to tell a changed row from a new one"),
        ({"append_only": True, "overlap": "5m"}, "--overlap: R has no key"),
        ({"append_only": True, "deleted_flag": "gone"}, "--deleted-flag: R has no key"),
    )
    for given, said in without_key:
        with pytest.raises(UsageError, match=said):
            bench.extract(**given)
    assert list((bench.folder / "inbox").iterdir()) == []


def test_bad_rows_reject_the_job_or_are_set_aside_and_gone(bench: Bench) -> None:
    bench.postgres.run(TABLE + rows("1 1 10", "2 2 20", "3 3 30", "4 4 40"))
    assert len(bench.extracted()) == 4
    bench.postgres.run(rows("NULL 5 50", "3 33 50", "6 6 50", "7 7 100000000000") + rows("2 22 60", "2 23 60"))
    bench.postgres.run("UPDATE r SET n = NULL WHERE k = 6; UPDATE r SET changed = NULL WHERE k = 1")
    with pytest.raises(RejectedError, match="6 rows of R cannot be taken; nothing was written") as told:
        bench.extract(overlap="1s")
    assert "r: column k: NULL in the key: {" in str(told.value)
    assert [p.name for p in (bench.folder / "inbox").glob("out-02*")] == []
    aside = bench.folder / "bad"
    done = bench.extract(reject_to=str(aside), overlap="1s")
    assert (done.inserted_or_replaced, done.bad) == (2, 6)
    (lines,) = aside.glob("part-*")
    said = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert sorted(line["reason"] for line in said) == [
        "column changed: NULL in the watermark",
        "column changed: the watermark lies in the future",
        "column k: NULL in the key",
        "column k: the key stands 2 times",
        "column k: the key stands 2 times",
        "column n: NULL, but the column is not declared int32?",
    ]
    assert sorted(row[:2] for row in bench.apply()) == [(3, 33), (4, 4)]


def test_an_output_is_extracted_once_and_what_follows_goes_on_from_it(bench: Bench) -> None:
    bench.postgres.run(TABLE + rows("1 1 10"))
    first = bench.extract("one")
    assert first.written
    bench.postgres.run(rows("2 2 20"))
    again = bench.extract("one")
    assert (again.written, again.reason) == (False, "extracted before, nothing was done")
    second = bench.extract("two")
    assert (first.batch.start, second.batch.start) == ("", first.batch.stop)
    assert not bench.extract("one").written
    (bench.folder / "inbox" / "three").mkdir()
    with pytest.raises(UsageError, match="holds something already"):
        bench.extract("three")
    with pytest.raises(UsageError, match="belongs to another table, or to other columns of it: table was r and is"):
        bench.extract("four", table="(SELECT * FROM r) AS t")


@pytest.mark.parametrize("moment", ["announce", "reach"])
def test_a_job_that_ends_at_any_moment_loses_and_repeats_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A step is announced, the output renamed, the step noted: ending before either of the last two."""
    bench.postgres.run(TABLE + rows("1 1 10"))
    bench.extract()
    bench.postgres.run(rows("2 2 20"))

    class Killed(Exception):
        pass

    def end(self: progress.ProgressFile, *given: Any) -> None:
        if moment == "announce":
            real(self, *given)
        raise Killed

    with monkeypatch.context() as patch:
        real = progress.ProgressFile.announce
        patch.setattr(progress.ProgressFile, moment, end)
        with pytest.raises(Killed):
            bench.extract("out-01-cut")
    is_there = (bench.folder / "inbox" / "out-01-cut").exists()
    assert is_there is (moment == "reach")
    bench.postgres.run(rows("3 3 30"))
    assert bench.extract().batch.start.startswith("extraction 2" if is_there else "extraction 1")
    assert [row[0] for row in bench.apply()] == [1, 2, 3]


def test_the_watermark_is_that_of_one_job_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.postgres.run(TABLE + rows("1 1 10"))
    write = Target.write

    def meanwhile(self: Any, *given: Any) -> None:
        monkeypatch.undo()
        bench.extract("other")
        write(self, *given)

    monkeypatch.setattr(Target, "write", meanwhile)
    with pytest.raises(DynqError, match="another job extracted jdbc:R meanwhile; this one wrote nothing"):
        bench.extract("mine")
    assert [row[0] for row in bench.apply()] == [1]
    assert not (bench.folder / "inbox" / "mine").exists()


def test_rows_that_go_from_the_end_of_the_table_do_not_move_the_watermark_back(bench: Bench) -> None:
    bench.postgres.run(TABLE + rows("1 1 10", "2 2 20"))
    bench.extract()
    bench.postgres.run("DELETE FROM r WHERE k = 2")
    assert not bench.extract().written
    bench.postgres.run(rows("3 3 15"))
    assert not bench.extract().written
    bench.postgres.run("DELETE FROM r")
    assert not bench.extract(overlap="1d").written
