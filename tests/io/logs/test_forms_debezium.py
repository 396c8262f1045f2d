"""Debezium's events mean what happened in the database, whatever its settings are."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.columns import typed
from dynq_cli.io.logs.formats.connect import Logical, prepared
from dynq_cli.spec.types import parse_type
from tests.every_case import every_case
from tests.io.logs.changes import changes, json_log, parquet_log

ADA, EVA = {"id": 1, "name": "Ada"}, {"id": 1, "name": "Eva"}


def event(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"table": "customers"}, "op": op, "ts_ms": 1}


def summary(folder: Path, events: list[Any], of: str = "customers") -> list[tuple[int, str, list[Any]]]:
    """Number of the event, what it says, values."""
    found = changes(json_log(folder, events, of)).get(of, [])
    return [(number, kind, list(values.values())) for number, kind, _, _, values in found]


def test_an_update_of_a_keyed_relation_replaces_or_inserts(tmp_path: Path) -> None:
    assert summary(tmp_path, [event("u", ADA, EVA)]) == [(1, "upsert", [1, "Eva"])]
    assert summary(tmp_path, [event("u", None, EVA)]) == [(1, "upsert", [1, "Eva"])]


def test_an_update_that_changes_the_key_takes_the_old_row_away(tmp_path: Path) -> None:
    moved = {"id": 9, "name": "Ada"}
    events = [event("c", None, ADA), event("u", ADA, moved), event("u", moved, moved)]
    expected = [(1, "insert", [1, "Ada"]), (2, "delete", [1, "Ada"]), (2, "upsert", [9, "Ada"])]
    assert summary(tmp_path, events) == [*expected, (3, "upsert", [9, "Ada"])]


def test_an_update_of_a_keyless_relation_is_both_images_under_one_number(tmp_path: Path) -> None:
    old, new = {"page": "/a", "user_id": 1}, {"page": "/b", "user_id": 1}
    events = [event("r", None, old), event("u", old, new), event("d", new)]
    expected = [(1, "insert", ["/a", 1]), (2, "preimage", ["/a", 1]), (2, "postimage", ["/b", 1])]
    assert summary(tmp_path, events, "clicks") == [*expected, (3, "delete", ["/b", 1])]


@pytest.mark.parametrize("before", [{"id": 1}, {"id": 1, "name": None}, {"id": 1, "name": ""}])
def test_a_delete_that_knows_only_the_key_goes_by_the_key(tmp_path: Path, before: dict[str, Any]) -> None:
    (found,) = changes(json_log(tmp_path, [event("d", before)], "customers"))["customers"]
    assert (found[1], found[4].get("id"), found[4].get("name")) == ("delete", 1, None)


def test_tombstones_say_nothing(tmp_path: Path) -> None:
    wrapped = [
        {"schema": None, "payload": event("d", ADA)},
        {"schema": None, "payload": None},
        {"payload": event("c", None, ADA)},
    ]
    assert summary(tmp_path, wrapped) == [(1, "delete", [1, "Ada"]), (3, "insert", [1, "Ada"])]
    bare = [event("d", ADA), {"before": None, "after": None, "op": None}, event("c", None, ADA)]
    assert summary(tmp_path, bare) == [(1, "delete", [1, "Ada"]), (3, "insert", [1, "Ada"])]


def test_lines_that_are_null_are_tombstones(tmp_path: Path) -> None:
    flat = {**ADA, "__op": "d", "__deleted": "true"}
    assert summary(tmp_path, [None, event("d", ADA), None]) == [(2, "delete", [1, "Ada"])]
    assert summary(tmp_path, [flat, None]) == [(1, "delete", [1, "Ada"])]


def test_a_file_of_tombstones_alone_has_no_changes(tmp_path: Path) -> None:
    assert summary(tmp_path, [{"schema": None, "payload": None}]) == []


def test_flat_events_may_be_wrapped_too(tmp_path: Path) -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"type": "int64", "field": "id"},
            {"type": "int32", "name": "io.debezium.time.MicroTime", "field": "at"},
            {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
            {"type": "int64", "name": "io.debezium.time.Timestamp", "field": "seen"},
        ],
    }
    row = {"id": 1, "at": 1_500_000, "day": 1, "seen": 1500, "__op": "c", "__table": "visits"}
    log = json_log(tmp_path, [{"schema": schema, "payload": row}], None)
    assert log.form == "debezium-flat"
    (found,) = changes(log)["visits"]
    assert found[4] == {
        "id": 1,
        "at": dt.time(0, 0, 1, 500_000),
        "day": dt.date(1970, 1, 2),
        "seen": dt.datetime(1970, 1, 1, 0, 0, 1, 500_000),
    }


def test_events_under_different_schemas_are_read_by_their_own(tmp_path: Path) -> None:
    def wrapped(name: str, number: int) -> dict[str, Any]:
        fields = [{"type": "int64", "field": "id"}, {"type": "int64", "name": name, "field": "seen"}]
        schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
        row = {"id": 1, "at": "00:00", "day": "2024-03-01", "seen": number}
        return {"schema": schema, "payload": {"op": "c", "before": None, "after": row}}

    milli, micro = "io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"
    events = [wrapped(milli, 1000), wrapped(milli, 2000), wrapped(micro, 3_000_000), wrapped(milli, 4000)]
    found = changes(json_log(tmp_path, events, "visits"))["visits"]
    assert [change[0] for change in found] == [1, 2, 3, 4]
    assert [change[4]["seen"].second for change in found] == [1, 2, 3, 4]


def test_an_envelope_in_parquet_is_read_from_its_structs(tmp_path: Path) -> None:
    image = pa.struct([("id", pa.int64()), ("name", pa.string())])
    log = parquet_log(
        tmp_path,
        {
            "op": ["c", "u", "d"],
            "before": pa.array([None, ADA, EVA], image),
            "after": pa.array([ADA, EVA, None], image),
            "source": pa.array([{"table": "customers"}] * 3),
        },
        None,
    )
    found = [(number, kind, values["name"]) for number, kind, _, _, values in changes(log)["customers"]]
    assert found == [(1, "insert", "Ada"), (2, "upsert", "Eva"), (3, "delete", "Eva")]


def decimal_bytes(number: int, length: int) -> str:
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


WIDE = 10**37 + 1
VALUES: list[tuple[str, Logical | None, Any, Any]] = [
    ("date", Logical("io.debezium.time.Date"), 19783, dt.date(2024, 3, 1)),
    ("date", Logical("org.apache.kafka.connect.data.Date"), -1, dt.date(1969, 12, 31)),
    ("date", None, 19783, dt.date(2024, 3, 1)),
    ("date", None, "2024-03-01", dt.date(2024, 3, 1)),
    ("date", Logical("io.debezium.time.IsoDate"), "2024-03-01", dt.date(2024, 3, 1)),
    ("timestamp", Logical("io.debezium.time.Timestamp"), 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("timestamp", Logical("org.apache.kafka.connect.data.Timestamp"), 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("timestamp", Logical("io.debezium.time.MicroTimestamp"), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    ("timestamp", Logical("io.debezium.time.NanoTimestamp"), 2000, dt.datetime(1970, 1, 1, 0, 0, 0, 2)),
    (
        "timestamp",
        Logical("io.debezium.time.ZonedTimestamp"),
        "2024-03-01T10:00:00.5Z",
        dt.datetime(2024, 3, 1, 10, 0, 0, 500_000),
    ),
    ("timestamp", None, "2024-03-01T10:00:00Z", dt.datetime(2024, 3, 1, 10)),
    ("time", Logical("io.debezium.time.Time"), 1, dt.time(0, 0, 0, 1000)),
    ("time", Logical("org.apache.kafka.connect.data.Time"), 1, dt.time(0, 0, 0, 1000)),
    ("time", Logical("io.debezium.time.MicroTime"), 1, dt.time(0, 0, 0, 1)),
    ("time", Logical("io.debezium.time.NanoTime"), 1000, dt.time(0, 0, 0, 1)),
    ("time", Logical("io.debezium.time.ZonedTime"), "10:15:30Z", dt.time(10, 15, 30)),
    ("decimal(10,2)", Logical("org.apache.kafka.connect.data.Decimal", 2), "AfQ=", Decimal("5.00")),
    ("decimal(10,2)", Logical("org.apache.kafka.connect.data.Decimal", 2), "/w==", Decimal("-0.01")),
    ("decimal(10,2)", Logical("org.apache.kafka.connect.data.Decimal", 2), "AA==", Decimal("0.00")),
    ("decimal(38,0)", Logical("org.apache.kafka.connect.data.Decimal", 0), decimal_bytes(-WIDE, 16), Decimal(-WIDE)),
    ("decimal(10,2)", Logical("io.debezium.data.VariableScaleDecimal"), {"scale": 1, "value": "Dw=="}, Decimal("1.50")),
    ("decimal(10,2)", None, "1.50", Decimal("1.50")),
    ("int64", Logical("io.debezium.time.MicroTimestamp"), 7, 7),
    ("binary", Logical(""), "AAE=", b"\x00\x01"),
    ("string", Logical("io.debezium.data.Uuid"), "8c0b", "8c0b"),
]


@every_case(("kind", "logical", "value", "expected"), VALUES)
def test_values_are_what_the_schema_says_they_stand_for(
    kind: str, logical: Logical | None, value: Any, expected: Any
) -> None:
    spec_type, _ = parse_type(kind)
    values = prepared(None if logical is None else {"c": logical})("c", [None, value], spec_type)
    assert typed(values, spec_type, is_text=False).to_pylist() == [None, expected]


@pytest.mark.parametrize(
    ("name", "kind", "value", "said"),
    [
        ("io.debezium.time.Date", "day", 2**31, "2147483648 days are out of range"),
        ("io.debezium.time.Date", "day", 1.5, "is no whole number of days"),
        ("io.debezium.time.NanoTimestamp", "seen", 2**63, "nanoseconds are out of range"),
        ("io.debezium.time.NanoTimestamp", "seen", 1, "does not fit timestamp"),
        ("io.debezium.time.MicroTime", "at", 86_400_000_000, "does not fit time"),
        ("io.debezium.time.MicroTime", "at", True, "`True` is no whole number of microseconds"),
    ],
)
def test_a_value_that_cannot_be_what_the_schema_says_is_refused(
    tmp_path: Path, name: str, kind: str, value: Any, said: str
) -> None:
    fields = [{"type": "int64", "name": name, "field": kind}]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    row = {"id": 1, "at": "00:00", "day": "2024-03-01", "seen": None, kind: value}
    with pytest.raises(RejectedError, match=f"row 1, column {kind}: .*{said}"):
        summary(tmp_path, [{"schema": schema, "payload": {"op": "c", "before": None, "after": row}}], "visits")


def test_decimal_bytes_that_are_none_are_refused(tmp_path: Path) -> None:
    field = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    schema = {
        "type": "struct",
        "fields": [{"type": "struct", "fields": [{**field, "field": "price"}], "field": "after"}],
    }
    row = {"order_id": 1, "customer": "", "price": "12.50", "placed": 1, "updated": "2024-03-01T00:00:00Z"}
    with pytest.raises(RejectedError, match=r"row 1, column price: `12.50` is no decimal in bytes"):
        summary(tmp_path, [{"schema": schema, "payload": {"op": "c", "after": row}}], "orders")
