"""Rows that come need all columns, rows that go need the key; --upsert goes by the key throughout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.io.logs.changes import changes, csv_log, json_log

CHANGES = (
    "_change_type,id,name\ninsert,1,Ada\nupdate_preimage,1,Ada\nupdate_postimage,1,Eva\ndelete,2,\nupdate_preimage,3,\n"
)


def test_under_upsert_what_comes_replaces_and_images_before_updates_are_left_out(tmp_path: Path) -> None:
    found = changes(csv_log(tmp_path, CHANGES, "customers", upsert=True))["customers"]
    assert [(number, kind, values["id"]) for number, kind, _, _, values in found] == [
        (1, "upsert", 1),
        (3, "upsert", 1),
        (4, "delete", 2),
    ]


def test_a_snapshot_may_be_upserted(tmp_path: Path) -> None:
    found = changes(csv_log(tmp_path, "id,name\n1,Ada\n", "customers", upsert=True))["customers"]
    assert [change[1] for change in found] == ["upsert"]


@pytest.mark.parametrize("kind", ["delete", "update_preimage"])
def test_a_file_of_rows_that_go_may_have_the_key_alone(tmp_path: Path, kind: str) -> None:
    (found,) = changes(csv_log(tmp_path, f"_change_type,id\n{kind},4\n", "customers"))["customers"]
    assert found[4] == {"id": 4}


def test_columns_that_the_spec_does_not_declare_are_passed_over(tmp_path: Path) -> None:
    (found,) = changes(csv_log(tmp_path, "colour,id,name\nred,1,Ada\n", "customers"))["customers"]
    assert found[4] == {"id": 1, "name": "Ada"}


def test_a_key_left_out_of_a_json_line_is_null(tmp_path: Path) -> None:
    row = {"order_id": 1, "customer": "Ada", "price": "1", "placed": "2024-03-01", "updated": "2024-03-01T00:00:00Z"}
    found = changes(json_log(tmp_path, [row, {**row, "order_id": 2, "note": "x"}], "orders"))["orders"]
    assert [change[4]["note"] for change in found] == [None, "x"]
    (alone,) = changes(json_log(tmp_path, [row], "orders"))["orders"]
    assert alone[4]["note"] is None


def test_rows_keep_their_numbers_across_chunks(tmp_path: Path) -> None:
    rows = [{"page": "/", "user_id": i, "_diff": i % 3 - 1} for i in range(30_000)]
    found = changes(json_log(tmp_path, rows))["clicks"]
    assert [(number, change["user_id"]) for number, _, _, _, change in found] == [
        (i + 1, i) for i in range(30_000) if i % 3 != 1
    ]


def test_a_mixed_log_keeps_the_order_within_each_relation(tmp_path: Path) -> None:
    rows = [
        {"_relation": "clicks", "_change_type": "insert", "page": f"/{i}", "user_id": i}
        if i % 3
        else {"_relation": "customers", "_change_type": "delete", "id": i}
        for i in range(20_000)
    ]
    found = changes(json_log(tmp_path, rows, None))
    assert [change[0] for change in found["clicks"]] == [i + 1 for i in range(20_000) if i % 3]
    assert [change[0] for change in found["customers"]] == [i + 1 for i in range(20_000) if not i % 3]


def test_columns_that_may_be_left_out_may_come_up_late_in_json_lines(tmp_path: Path) -> None:
    row = {"_change_type": "insert", "page": "/", "user_id": 1}
    found = changes(json_log(tmp_path, [*[row] * 20_000, {**row, "_count": 3}]))["clicks"]
    assert (found[0][2], found[-1][2]) == (1, 3)
    created = {"op": "c", "after": {"id": 1, "name": "Ada"}}
    removed = {"op": "d", "before": {"id": 1, "name": "Ada"}}
    found = changes(json_log(tmp_path, [*[created] * 20_000, removed], "customers"))["customers"]
    assert (found[-1][1], found[-1][4]) == ("delete", {"id": 1, "name": "Ada"})
