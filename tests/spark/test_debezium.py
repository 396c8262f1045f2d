"""What `extract debezium` writes turns a state into what the database held, however the events arrived."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.spark.debezium.images import Schemaless
from dynq_cli.spark.debezium.job import DebeziumJob, EventsExtracted, extract_debezium
from dynq_cli.spec.load import load_spec, parse_spec
from tests.spark.debezium_source import CONNECTORS, Source, scatter
from tests.spark.snapshots import agrees_with_duckdb, apply, as_bag, held, new_state, spec_text


def with_keyless(text: str) -> str:
    """The spec of random snapshots, with a relation `T` that has no key."""
    return text.replace("  S: {", "  T: {columns: {n: int32, s: string?}}\n  S: {")


@pytest.mark.parametrize("connector", CONNECTORS)
def test_random_events_become_what_the_database_held(spark: SparkSession, tmp_path: Path, connector: str) -> None:
    seed = CONNECTORS.index(connector)
    rng = Random(seed)
    new_state(tmp_path, with_keyless(spec_text("k, part")))
    relations = load_spec(tmp_path / "spec.yaml").relations
    source = Source(rng, connector)
    for i, has_schema in enumerate((seed % 2 == 0, seed % 2 == 1)):
        source.has_schema = has_schema
        scatter(rng, tmp_path / f"in-{i}", source.transactions(12), repeat=connector != "oracle")
        job = DebeziumJob(str(tmp_path / f"in-{i}"), str(tmp_path / f"out-{i}"), relations)
        done = extract_debezium(spark, job)
        assert (done.written, done.bad, done.skipped) == (True, 0, {"other": 1})
        (outcome,) = apply(tmp_path / "state", tmp_path / f"out-{i}")
        assert outcome.version == i + 1
        assert held(tmp_path / "state", "R") == as_bag(list(source.keyed.values())), f"seed {seed}, extraction {i}"
        assert held(tmp_path / "state", "T") == source.keyless
    assert not extract_debezium(spark, job).written
    assert agrees_with_duckdb(tmp_path / "state")


SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, price: 'decimal(9,2)?', at: timestamp?, name: string?}, key: [k]}
  T: {columns: {n: int64}}
queries: {q: {sql: "SELECT k, price, at, name FROM R"}}
"""
Extract = Callable[..., EventsExtracted]


@pytest.fixture
def extract(spark: SparkSession, tmp_path: Path) -> Extract:
    """Extract events that are given as objects or lines, to `out`."""
    relations = tuple(parse_spec(SPEC, "spec.yaml").relations)

    def run(*events: Any, out: str = "out", **given: Any) -> EventsExtracted:
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        folder = tmp_path / f"in-{out}"
        folder.mkdir(exist_ok=True)
        (folder / "events.json").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return extract_debezium(spark, DebeziumJob(str(folder), str(tmp_path / out), relations, **given))

    return run


def event(op: str, at: int, after: Any = None, before: Any = None, **source: Any) -> dict[str, Any]:
    """An event of PostgreSQL."""
    return {"op": op, "before": before, "after": after, "source": {"table": "R", "lsn": at} | source}


def logged(folder: Path, relation: str = "R") -> list[dict[str, Any]]:
    parts = sorted((folder / relation).glob("part-*.parquet"))
    found: list[dict[str, Any]] = pa.concat_tables([pq.read_table(part) for part in parts]).to_pylist()
    return found


def test_a_truncation_is_refused_whatever_is_set_aside(extract: Extract, tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=r"R was truncated at 2; which rows went is not in the log\n  hint: delete"):
        extract(event("c", 1, {"k": 1}), event("t", 2), reject_to=str(tmp_path / "bad"))
    assert not (tmp_path / "out").exists()


def test_bad_events_are_counted_shown_and_can_be_set_aside(extract: Extract, tmp_path: Path) -> None:
    events = [
        event("c", 1, {"k": 1, "price": "1.50"}),
        event("c", 2, {"k": 2, "price": "1.505"}),
        event("u", 3, {"k": None}),
        event("d", 4),
        event("x", 5),
        event("c", 6, {"k": 6, "at": 1_700_000_000_000}),
        event("u", 7, {"k": 8, "name": "__debezium_unavailable_value"}, {"k": 1}),
        "{broken",
        {"k": 1},
    ]
    with pytest.raises(RejectedError) as refused:
        extract(*events)
    assert str(refused.value).startswith("8 rows of events cannot be taken; nothing was written\n")
    assert "and 3 more" in str(refused.value)
    done = extract(*events, reject_to=str(tmp_path / "bad"))
    assert (done.inserted, done.replaced, done.deleted, done.bad) == (1, 0, 0, 8)
    (aside,) = (tmp_path / "bad").glob("part-*")
    reasons = sorted(json.loads(line)["reason"] for line in aside.read_text("utf-8").splitlines())
    for reason, said in zip(
        reasons,
        [
            "column at: 1700000000000 has no unit",
            "column before: the row as it was is not in the event",
            "column k: NULL in the key of R",
            "column name: the event leaves out this value",
            "column price: `1.505` does not fit decimal(9,2)",
            "no change event of Debezium's: it has no op",
            "op: x is not one of c, r, u, d, t",
            "the line is no JSON",
        ],
        strict=True,
    ):
        assert reason.startswith(said)
    assert [(row["_change_type"], row["_commit_version"], row["k"]) for row in logged(tmp_path / "out")] == [
        ("insert", 1, 1)
    ]


def test_values_without_a_schema_are_what_options_say(extract: Extract, tmp_path: Path) -> None:
    row = {"k": 1, "price": "AJY=", "at": 1_700_000_000_123}
    extract(event("c", 1, row), rules=Schemaless("ms", decimal_bytes=True))
    (found,) = logged(tmp_path / "out")
    assert found["price"] == Decimal("1.50")
    assert found["at"].replace(tzinfo=None) == datetime(2023, 11, 14, 22, 13, 20, 123000)


def test_the_batch_goes_from_the_first_position_to_the_last(extract: Extract, tmp_path: Path) -> None:
    events = [event("c", lsn, {"k": lsn}) for lsn in (20, 10, 30)]
    done = extract(*events)
    assert done.batch is not None
    assert (done.batch.source, done.batch.start, done.batch.stop) == ("debezium", "9", "30")
    later = extract(*events, out="later", after=10, start=15, source="shop")
    assert later.batch is not None
    assert (later.inserted, later.batch.source, later.batch.start) == (2, "shop", "15")
    nothing = extract(*events, out="nothing", after=30)
    assert nothing.batch is None and not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([event("c", 1, {"k": 1}), event("c", 2, {"k": 2}, lsn=None, scn="5")], "several kinds of databases"),
        (
            [event("c", 1, {"k": n}, lsn=None, file="b.1", pos=n, server_id=n) for n in (1, 2)],
            "events of several servers",
        ),
        ([event("c", n, {"k": n}, schema=f"s{n}") for n in (1, 2)], r"R stands for several tables: s1\.R, s2\.R"),
    ],
)
def test_events_without_a_common_order_or_table_are_refused(extract: Extract, events: list[Any], why: str) -> None:
    with pytest.raises(DynqError, match=why):
        extract(*events)
