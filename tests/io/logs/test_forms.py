"""Every producer's log says what its producer means by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.every_case import every_case
from tests.io.logs import make_fixtures
from tests.io.logs.changes import changes, log_of

FIXTURES = Path(__file__).parent / "fixtures"


def naive(row: dict[str, Any]) -> dict[str, Any]:
    """Timestamps are UTC and have no zone inside."""
    return {**row, "updated": row["updated"].replace(tzinfo=None)}


FIRST, SECOND, SECOND_LATER = map(naive, (make_fixtures.FIRST, make_fixtures.SECOND, make_fixtures.SECOND_LATER))
ONLY_KEY = dict.fromkeys(FIRST)


def click(page: str, user: int) -> dict[str, Any]:
    return {"page": page, "user_id": user}


EXPECTED: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "debezium_schema.jsonl": (
        "debezium",
        {
            "orders": [
                (1, "upsert", 1, None, FIRST),
                (2, "insert", 1, None, SECOND),
                (3, "upsert", 1, None, SECOND_LATER),
                (4, "delete", 1, None, {**ONLY_KEY, "order_id": 2}),
            ]
        },
    ),
    "debezium_full.jsonl": (
        "debezium",
        {
            "orders": [
                (1, "insert", 1, None, FIRST),
                (2, "insert", 1, None, SECOND),
                (3, "upsert", 1, None, SECOND_LATER),
                (4, "delete", 1, None, FIRST),
            ]
        },
    ),
    "debezium_flat.jsonl": (
        "debezium-flat",
        {
            "orders": [
                (1, "upsert", 1, None, FIRST),
                (2, "insert", 1, None, SECOND),
                (3, "upsert", 1, None, SECOND_LATER),
                (4, "delete", 1, None, FIRST),
            ]
        },
    ),
    "delta_cdf.parquet": (
        "delta",
        {
            "orders": [
                (1, "preimage", 1, 8, SECOND),
                (2, "postimage", 1, 8, SECOND_LATER),
                (3, "insert", 1, 7, FIRST),
                (4, "insert", 1, 7, SECOND),
                (5, "delete", 1, 8, FIRST),
            ]
        },
    ),
    "iceberg_changelog.parquet": (
        "iceberg",
        {
            "orders": [
                (1, "insert", 1, 0, FIRST),
                (2, "insert", 1, 0, SECOND),
                (3, "preimage", 1, 1, SECOND),
                (4, "postimage", 1, 1, SECOND_LATER),
                (5, "delete", 1, 2, FIRST),
            ]
        },
    ),
    "paimon_audit_log.parquet": (
        "flink",
        {
            "orders": [
                (1, "insert", 1, None, FIRST),
                (2, "insert", 1, None, SECOND),
                (3, "preimage", 1, None, SECOND),
                (4, "postimage", 1, None, SECOND_LATER),
                (5, "delete", 1, None, FIRST),
            ]
        },
    ),
    "flink_to_changelog.csv": (
        "flink",
        {
            "clicks": [
                (1, "insert", 1, None, click("/home", 1)),
                (2, "insert", 1, None, click("/cart", 2)),
                (3, "preimage", 1, None, click("/cart", 2)),
                (4, "postimage", 1, None, click("/pay", 2)),
                (5, "delete", 1, None, click("/home", 1)),
            ]
        },
    ),
    "dms_load.csv": ("snapshot", {"orders": [(1, "insert", 1, None, FIRST)]}),
    "dms_cdc.csv": (
        "dms",
        {
            "orders": [
                (1, "insert", 1, None, SECOND),
                (2, "upsert", 1, None, SECOND_LATER),
                (3, "delete", 1, None, {**ONLY_KEY, "order_id": 1}),
            ]
        },
    ),
    "dms_cdc.parquet": (
        "dms",
        {
            "orders": [
                (1, "insert", 1, None, FIRST),
                (2, "insert", 1, None, SECOND),
                (3, "upsert", 1, None, SECOND_LATER),
                (4, "delete", 1, None, FIRST),
            ]
        },
    ),
    "materialize_subscribe.csv": (
        "weights",
        {
            "clicks": [
                (1, "insert", 1, 1709285400000, click("/home", 1)),
                (2, "insert", 3, 1709285400000, click("/cart", 2)),
                (4, "delete", 2, 1709285401000, click("/cart", 2)),
            ]
        },
    ),
    "weights.jsonl": (
        "weights",
        {
            "clicks": [
                (1, "insert", 2, None, click("/home", 1)),
                (3, "delete", 1, None, click("/home", 1)),
            ]
        },
    ),
    "canonical.csv": (
        "canonical",
        {
            "clicks": [
                (1, "insert", 2, 1, click("/home", 1)),
                (2, "insert", 1, 1, click("/cart", 2)),
                (3, "delete", 1, 2, click("/home", 1)),
                (4, "preimage", 1, 2, click("/cart", 2)),
                (5, "postimage", 1, 2, click("/pay", 2)),
            ]
        },
    ),
    "snapshot.csv": (
        "snapshot",
        {
            "clicks": [
                (1, "insert", 1, None, click("/home", 1)),
                (2, "insert", 1, None, click("/home", 1)),
                (3, "insert", 1, None, click("", 2)),
            ]
        },
    ),
    "mixed.jsonl": (
        "snapshot",
        {
            "clicks": [(1, "insert", 1, None, click("/home", 1)), (3, "insert", 1, None, click("/cart", 1))],
            "customers": [(2, "insert", 1, None, {"id": 7, "name": "Ada"})],
        },
    ),
}


@every_case("name", EXPECTED)
def test_a_producers_log_is_detected_and_read_as_it_means(name: str) -> None:
    form, expected = EXPECTED[name]
    relation = None if name == "mixed.jsonl" else next(iter(expected))
    log = log_of(FIXTURES / name, relation)
    assert (log.form, changes(log)) == (form, expected)


@pytest.mark.parametrize("name", ["debezium_schema.jsonl", "debezium_full.jsonl", "debezium_flat.jsonl"])
def test_debeziums_rows_say_their_table_where_the_file_is_named_after_none(name: str) -> None:
    assert changes(log_of(FIXTURES / name)) == EXPECTED[name][1]


@every_case("name", EXPECTED)
def test_a_format_given_is_the_one_detected(name: str) -> None:
    form, expected = EXPECTED[name]
    relation = None if name == "mixed.jsonl" else next(iter(expected))
    assert changes(log_of(FIXTURES / name, relation, form=form)) == expected


def test_only_ordinals_of_iceberg_begin_anew_in_each_file() -> None:
    begin_anew = {
        name for name, (_, expected) in EXPECTED.items() if not log_of(FIXTURES / name, next(iter(expected))).continues
    }
    assert begin_anew == {"iceberg_changelog.parquet"}


def test_every_fixture_is_read_by_a_test_and_written_by_the_script(tmp_path: Path) -> None:
    make_fixtures.write(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in FIXTURES.iterdir()) == sorted(EXPECTED)
    for name in written:
        if name.endswith(".parquet"):
            assert pq.read_table(tmp_path / name).equals(pq.read_table(FIXTURES / name))
        else:
            assert (tmp_path / name).read_bytes() == (FIXTURES / name).read_bytes()
