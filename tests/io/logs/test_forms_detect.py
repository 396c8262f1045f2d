"""The columns of a file give its format away, and never two formats at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.io.logs.formats import FORMS, detect
from tests.every_case import every_case
from tests.io.logs.changes import changes, csv_log, json_log, parquet_log

DATA = ("page", "user_id")
TYPICAL: dict[str, list[tuple[str, ...]]] = {
    "canonical": [
        ("_change_type",),
        ("_change_type", "_commit_version"),
        ("_change_type", "_commit_timestamp", "_count"),
        ("_count",),
        ("_commit_version",),
    ],
    "delta": [("_change_type", "_commit_version", "_commit_timestamp")],
    "iceberg": [
        ("_change_type", "_change_ordinal", "_commit_snapshot_id"),
        ("_change_type", "_change_ordinal"),
        ("_change_type", "_commit_snapshot_id", "_commit_version", "_commit_timestamp"),
    ],
    "debezium": [("before", "after", "source", "op", "ts_ms"), ("after", "op"), ("before", "op")],
    "debezium-flat": [("__op",), ("__deleted",), ("__op", "__deleted", "__table", "__lsn"), ("__op", "op")],
    "flink": [("row_kind",), ("rowkind",), ("_row_kind",), ("op",), ("op", "_commit_version"), ("row_kind", "Op")],
    "dms": [("Op",), ("Op", "_commit_version")],
    "weights": [
        ("_diff",),
        ("mz_diff", "mz_timestamp", "mz_progressed"),
        ("_diff", "_commit_version"),
        ("_diff", "op"),
    ],
    "fivetran": [("_fivetran_deleted", "_fivetran_synced"), ("_fivetran_synced",)],
    "airbyte": [("_ab_cdc_deleted_at", "_ab_cdc_lsn"), ("_airbyte_raw_id", "_airbyte_extracted_at")],
    "hudi": [("_hoodie_commit_time", "_hoodie_record_key"), ("_hoodie_is_deleted",)],
    "maxwell": [("database", "table", "type", "ts", "data", "old")],
    "sqlserver": [("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")],
    "snowflake": [("METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID")],
    "bigquery": [("_CHANGE_TYPE", "_CHANGE_TIMESTAMP")],
    "snapshot": [(), ("_relation",), ("before",), ("after", "source"), ("referrer",), ("shop", "options", "top")],
}


@every_case(("form", "columns"), [(form, c) for form, several in TYPICAL.items() for c in several])
def test_columns_give_one_format_away(form: str, columns: tuple[str, ...]) -> None:
    for order in (columns, columns[::-1]):
        names = (*order, *DATA)
        assert detect("log", names, names).name == form


def test_every_format_has_typical_columns_above() -> None:
    assert sorted(TYPICAL) == sorted(form.name for form in FORMS)


def test_any_set_of_marks_is_one_format_or_refused() -> None:
    marks = ["_change_type", "_change_ordinal", "__op", "_diff", "row_kind", "op", "Op", "after", "_count"]
    for size in range(len(marks) + 1):
        for names in itertools.combinations(marks, size):
            sure = {"__op", "_diff", "row_kind", "_change_type"} & set(names)
            is_envelope = {"op", "after"} <= set(names)
            if len(sure) + is_envelope > 1 or (not sure and not is_envelope and {"op", "Op"} <= set(names)):
                with pytest.raises(RejectedError, match=r"two formats.*\n.*--format"):
                    detect("log", names, names)
            else:
                assert detect("log", names, names).name in TYPICAL


def test_a_format_given_overrides_the_columns(tmp_path: Path) -> None:
    text = "_change_type,op,page,user_id\ndelete,+I,/home,1\n"
    assert changes(csv_log(tmp_path, text))["clicks"][0][1] == "delete"
    assert changes(csv_log(tmp_path, text, form="flink"))["clicks"][0][1] == "insert"
    assert changes(csv_log(tmp_path, text, form="snapshot"))["clicks"][0][1] == "insert"


def test_an_unknown_format_is_a_usage_error_that_lists_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no format `xml`\n  hint: it is one of canonical, delta, "):
        csv_log(tmp_path, "page,user_id\n", form="xml")


def test_a_column_that_the_spec_declares_is_data(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "id,op\n1,+I\n2,oil\n", "jobs")
    assert log.form == "snapshot"
    assert [change[4] for change in changes(log)["jobs"]] == [{"id": 1, "op": "+I"}, {"id": 2, "op": "oil"}]


def test_a_declared_column_does_not_hide_the_envelope_around_it(tmp_path: Path) -> None:
    log = json_log(tmp_path, [{"op": "c", "before": None, "after": {"id": 1, "op": "d"}}], "jobs")
    assert log.form == "debezium"
    assert changes(log) == {"jobs": [(1, "insert", 1, None, {"id": 1, "op": "d"})]}


def test_a_declared_column_is_the_mark_too_if_the_format_given_has_no_other(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "id,op\n1,+I\n2,-D\n", "jobs", form="flink")
    assert [change[1] for change in changes(log)["jobs"]] == ["insert", "delete"]


def test_a_file_with_marks_but_without_change_type_holds_inserts(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "_count,_commit_version,page,user_id\n2,5,/a,1\n,6,/b,2\n")
    assert changes(log)["clicks"] == [
        (1, "insert", 2, 5, {"page": "/a", "user_id": 1}),
        (2, "insert", 1, 6, {"page": "/b", "user_id": 2}),
    ]


def test_the_option_names_the_relation_whatever_the_rows_say(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "_relation,page,user_id\nelsewhere,/a,1\n", "customers", relation="clicks")
    assert list(changes(log)) == ["clicks"]


def test_rows_name_their_relation_before_the_file_does(tmp_path: Path) -> None:
    rows = [
        {"_relation": "clicks", "page": "/a", "user_id": 1},
        {"_relation": None, "id": 1, "name": "Ada"},
        {"_relation": "clicks", "page": "/b", "user_id": 1},
        {"id": 2, "name": "Bob"},
    ]
    found = changes(json_log(tmp_path, rows, "customers"))
    assert {name: [change[0] for change in several] for name, several in found.items()} == {
        "clicks": [1, 3],
        "customers": [2, 4],
    }


def test_dictionary_encoded_marks_are_read_without_their_unused_words(tmp_path: Path) -> None:
    import pyarrow as pa

    kinds = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0], pa.int8()), pa.array(["insert", "nonsense", "DELETE"]))
    log = parquet_log(tmp_path, {"_change_type": kinds, "page": ["/a", "/a", "/b"], "user_id": [1, 1, 2]})
    assert [change[1] for change in changes(log)["clicks"]] == ["insert", "delete", "insert"]


def test_a_log_without_rows_has_no_changes(tmp_path: Path) -> None:
    assert changes(csv_log(tmp_path, "_change_type,page,user_id\n")) == {}
    assert changes(json_log(tmp_path, [])) == {}
