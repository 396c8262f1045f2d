"""What is wrong with a log is refused, with file, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.errors import RejectedError, UsageError
from tests.io.logs.changes import changes, csv_log, json_log, parquet_log


def refusal(log_maker: Any, folder: Path, content: Any, relation: str | None, **options: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        changes(log_maker(folder, content, relation, **options))
    message = str(caught.value)
    assert str(folder) in message
    return message.replace(f"{folder}/", "")


CSV: dict[str, tuple[str, str, str]] = {
    "unknown change type": (
        "clicks",
        "_change_type,page,user_id\ninsert,/,1\nupsert,/,1\n",
        "row 2, column _change_type: `upsert` is not one of insert, delete, update_preimage, update_postimage",
    ),
    "change type NULL": (
        "clicks",
        "_change_type,page,user_id\n,/,1\n",
        "row 1, column _change_type: NULL is not one of",
    ),
    "iceberg's words under the canonical columns": (
        "clicks",
        "_change_type,page,user_id\nUPDATE_AFTER,/,1\n",
        "row 1, column _change_type: `UPDATE_AFTER` is not one of",
    ),
    "delta with an unknown word": (
        "clicks",
        "_change_type,_commit_version,_commit_timestamp,page,user_id\nmerge,1,2024-01-01T00:00:00Z,/,1\n",
        "row 1, column _change_type: `merge`",
    ),
    "canonical words under iceberg's columns": (
        "clicks",
        "_change_type,_change_ordinal,page,user_id\nupdate_preimage,0,/,1\n",
        "row 1, column _change_type: `update_preimage` is not one of insert, delete, update_before, update_after",
    ),
    "no copies": (
        "clicks",
        "_change_type,_count,page,user_id\ninsert,1,/,1\ninsert,0,/,1\n",
        "row 2, column _count: 0 copies",
    ),
    "negative copies": ("clicks", "_count,page,user_id\n-3,/,1\n", "row 1, column _count: -3 copies"),
    "copies that are no number": ("clicks", "_count,page,user_id\nmany,/,1\n", "row 1, column _count: "),
    "commit version NULL": (
        "clicks",
        "_commit_version,page,user_id\n1,/,1\n,/,1\n",
        "row 2, column _commit_version: NULL",
    ),
    "commit version of the wrong type": (
        "clicks",
        "_commit_version,page,user_id\n1.5,/,1\n",
        "row 1, column _commit_version: ",
    ),
    "ordinal NULL": (
        "clicks",
        "_change_type,_change_ordinal,page,user_id\nINSERT,,/,1\n",
        "row 1, column _change_ordinal: NULL",
    ),
    "wrong type": ("clicks", "page,user_id\n/,1\n/,one\n", "row 2, column user_id: "),
    "out of range": ("clicks", "page,user_id\n/,9223372036854775808\n", "row 1, column user_id: "),
    "too many decimals": (
        "orders",
        "order_id,customer,price,placed,updated,note\n1,Ada,1.005,2024-03-01,2024-03-01T00:00:00Z,\n",
        "row 1, column price: ",
    ),
    "no such day": (
        "orders",
        "order_id,customer,price,placed,updated,note\n1,Ada,1,2024-02-30,2024-03-01T00:00:00Z,\n",
        "row 1, column placed: ",
    ),
    "a missing column": (
        "clicks",
        "_change_type,page\ndelete,/\ninsert,/\n",
        "row 1, column user_id: the column is missing",
    ),
    "a missing column that allows NULL": (
        "orders",
        "order_id,customer,price,placed,updated\n1,Ada,1,2024-03-01,2024-03-01T00:00:00Z\n",
        "row 1, column note: the column is missing",
    ),
    "a missing column of an insert among deletes by key": (
        "customers",
        "_change_type,id\ndelete,1\ninsert,2\n",
        "row 2, column name: the column is missing",
    ),
    "a missing key": ("customers", "_change_type,name\ndelete,Ada\n", "row 1, column id: the column is missing"),
    "a column in other letters": (
        "clicks",
        "Page,user_id\n/,1\n",
        "row 1, column page: the column is missing\n"
        "  hint: the file has Page: names have to agree in upper and lower case too",
    ),
    "a misspelt column": (
        "clicks",
        "page,usr_id\n/,1\n",
        "row 1, column user_id: the column is missing\n"
        "  hint: the file has `usr_id`: if that is the column, `source: {columns: {user_id: usr_id}}` in",
    ),
    "a column after a space": (
        "clicks",
        "page, user_id\n/,1\n",
        "row 1, column user_id: the column is missing\n"
        '  hint: the file has ` user_id`: if that is the column, `source: {columns: {user_id: " user_id"}}`',
    ),
    "no header": (
        "clicks",
        "/,1\n/,2\n",
        "row 1, column page: the column is missing\n"
        "  hint: the first line of a CSV has to name the columns, and this one names none of page, user_id",
    ),
    "NULL in a key": (
        "customers",
        "_change_type,id,name\ndelete,1,\ndelete,,Ada\n",
        "row 2, column id: NULL in the key of customers",
    ),
    "an unknown relation": (
        "clicks",
        "_relation,page,user_id\nclicks,/,1\nclocks,/,1\n",
        "row 2, column _relation: `clocks` is no relation of the spec\n  hint: it has orders, clicks",
    ),
    "an unknown RowKind": (
        "clicks",
        "row_kind,page,user_id\n+I,/,1\n*U,/,1\n",
        "row 2, column row_kind: `*U` is not one of +I, -U, +U, -D, INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE",
    ),
    "a column op that is data": ("clicks", "op,page,user_id\noil,/,1\n", "row 1, column op: `oil` is not one of"),
    "an unknown operation of DMS": (
        "customers",
        "Op,id,name\nI,1,Ada\nX,2,Bob\n",
        "row 2, column Op: `X` is not one of I, U, D",
    ),
    "an update of DMS without a key": (
        "clicks",
        "Op,page,user_id\nI,/,1\nU,/,2\n",
        "row 2, column Op: an update of clicks, which has no key",
    ),
    "a weight NULL": ("clicks", "_diff,page,user_id\n1,/,1\n,/,1\n", "row 2, column _diff: NULL"),
    "a weight that is no whole number": ("clicks", "_diff,page,user_id\n0.5,/,1\n", "row 1, column _diff: "),
    "a weight without an opposite": (
        "clicks",
        "_diff,page,user_id\n-9223372036854775808,/,1\n",
        "row 1, column _diff: ",
    ),
    "weights and copies": (
        "clicks",
        "_diff,_count,page,user_id\n1,2,/,1\n",
        "row 1, column _count: _diff says already how many copies",
    ),
    "a flat update without a key": (
        "clicks",
        "__op,page,user_id\nc,/,1\nu,/,1\n",
        "row 2, column __op: this may be an update of clicks, which has no key",
    ),
    "flat rows without an op and without a key": (
        "clicks",
        "__deleted,page,user_id\nfalse,/,1\n",
        "row 1, column __deleted: this may be an update",
    ),
    "a flat row that is neither deleted nor not": (
        "customers",
        "__deleted,id,name\nmaybe,1,Ada\n",
        "row 1, column __deleted: `maybe` is not one of true, false",
    ),
    "a flat truncation": ("customers", "__op,id,name\nt,1,Ada\n", "row 1, column __op: customers was truncated"),
}


@pytest.mark.parametrize("what", CSV)
def test_a_bad_csv_is_refused_with_row_and_column(tmp_path: Path, what: str) -> None:
    relation, text, said = CSV[what]
    assert refusal(csv_log, tmp_path, text, relation).startswith(f"log.csv: {said}")


def debezium(op: Any, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after}


ADA, BOB = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}
CLICK = {"page": "/", "user_id": 1}
VISIT = {"id": 1, "at": "10:00:00", "day": "2024-03-01", "seen": None}
JSON: dict[str, tuple[str, list[Any], str]] = {
    "an unknown op": (
        "customers",
        [debezium("c", None, ADA), debezium("x", None, ADA)],
        "row 2, column op: `x` is not one of c, r, u, d, t",
    ),
    "an op NULL": ("customers", [debezium(None, None, ADA)], "row 1, column op: NULL is not one of"),
    "a truncation": ("customers", [debezium("t")], "row 1, column op: customers was truncated"),
    "an insert without a row": (
        "customers",
        [debezium("c", None, None)],
        "row 1, column after: the row as it is now is not in the event",
    ),
    "a delete without a row": (
        "customers",
        [debezium("d", None, None)],
        "row 1, column before: the row as it was is not in the event",
    ),
    "an update of a keyless relation without the row as it was": (
        "clicks",
        [debezium("u", None, CLICK)],
        "row 1, column before: the row as it was is not in the event\n"
        "  hint: the database logs rows as they were with REPLICA IDENTITY FULL",
    ),
    "a delete by key of a keyless relation": (
        "clicks",
        [debezium("d", {"user_id": 1}, None)],
        "row 1, column page: the column is missing",
    ),
    "a row that is no object": ("customers", [debezium("c", None, "Ada")], "row 1, column after: an object"),
    "a wrong type inside": (
        "customers",
        [debezium("c", None, ADA), debezium("u", None, {"id": "x", "name": "y"})],
        "row 2, column id: ",
    ),
    "a timestamp without a unit": (
        "visits",
        [debezium("c", None, {**VISIT, "seen": 1709285400250})],
        "row 1, column seen: 1709285400250 has no unit",
    ),
    "a time without a unit": (
        "visits",
        [debezium("c", None, {**VISIT, "at": 36000})],
        "row 1, column at: 36000 has no unit",
    ),
    "a large value that the event leaves out": (
        "customers",
        [debezium("u", None, {"id": 1, "name": "__debezium_unavailable_value"})],
        "row 1, column name: the event leaves out this value",
    ),
    "rows of a table that is no relation": (
        "",
        [{**debezium("c", None, ADA), "source": {"table": "people"}}],
        "row 1, column source.table: `people` is no relation",
    ),
    "rows of an unnamed table": (
        "",
        [{**debezium("c", None, ADA), "source": {"table": "customers"}}, {**debezium("c", None, ADA), "source": {}}],
        "row 2, column source.table: NULL where the name",
    ),
    "nothing names the relation": (
        "",
        [CLICK],
        "nothing says which relation it belongs to\n  hint: call the file or its directory RELATION, as in",
    ),
    "a missing column": ("clicks", [{"page": "/"}], "row 1, column user_id: the column is missing"),
    "a column that allows NULL in other letters": (
        "visits",
        [{"id": 1, "at": "10:00:00", "day": "2024-03-01", "Seen": "2024-03-01T10:00:00"}],
        "row 1, column seen: the column is missing\n  hint: the file has Seen: names have to agree",
    ),
    "a column that allows NULL in other letters, in an event": (
        "visits",
        [{"op": "c", "before": None, "after": {"id": 1, "at": "10:00:00", "day": "2024-03-01", "Seen": "2024-03-01"}}],
        "row 1, column seen: the column is missing\n  hint: the file has Seen: names have to agree",
    ),
    "a boolean for a number": ("clicks", [CLICK, {"page": "/", "user_id": True}], "row 2, column user_id: "),
    "an op that is no text": ("clicks", [{**CLICK, "_change_type": 1}], "row 1, column _change_type: "),
    "a row without its change type": (
        "clicks",
        [{**CLICK, "_change_type": "insert"}, CLICK],
        "row 2, column _change_type: NULL is not one of",
    ),
    "a relation that is no text": ("clicks", [{**CLICK, "_relation": 5}], "row 1, column _relation: "),
}


@pytest.mark.parametrize("what", JSON)
def test_bad_json_lines_are_refused_with_row_and_column(tmp_path: Path, what: str) -> None:
    relation, rows, said = JSON[what]
    assert refusal(json_log, tmp_path, rows, relation or None).startswith(f"log.jsonl: {said}")


def late(first: dict[str, Any], last: dict[str, Any], rows: int = 20_000) -> Sequence[dict[str, Any]]:
    return [first] * rows + [last]


@pytest.mark.parametrize(
    ("first", "last", "column"),
    [
        (CLICK, {**CLICK, "_change_type": "delete"}, "_change_type"),
        (CLICK, {**CLICK, "_diff": -1}, "_diff"),
        (
            {**CLICK, "_change_type": "insert"},
            {**CLICK, "_change_type": "insert", "_commit_version": 3},
            "_commit_version",
        ),
    ],
)
def test_a_mark_that_comes_up_late_in_json_lines_is_not_passed_over(
    tmp_path: Path, first: dict[str, Any], last: dict[str, Any], column: str
) -> None:
    said = refusal(json_log, tmp_path, late(first, last), "clicks")
    assert f"row 20001, column {column}: the column comes up here first" in said


@pytest.mark.parametrize("column", ["_change_type", "_commit_version"])
def test_a_format_given_passes_over_no_late_mark_either(tmp_path: Path, column: str) -> None:
    last = {**CLICK, column: "delete" if column == "_change_type" else 3}
    said = refusal(json_log, tmp_path, late(CLICK, last), "clicks", form="canonical")
    assert f"row 20001, column {column}: the column comes up here first" in said


def test_a_parquet_column_of_another_family_is_refused(tmp_path: Path) -> None:
    said = refusal(parquet_log, tmp_path, {"page": ["/"], "user_id": ["1"]}, "clicks")
    assert said.startswith("log.parquet: row 1, column user_id: ")


def test_a_parquet_change_type_that_is_no_text_is_refused(tmp_path: Path) -> None:
    said = refusal(parquet_log, tmp_path, {"_change_type": [1.5], "page": ["/"], "user_id": [1]}, "clicks")
    assert said.startswith("log.parquet: row 1, column _change_type: ")


def test_integers_of_an_envelope_in_parquet_have_no_unit_either(tmp_path: Path) -> None:
    after = pa.array([VISIT | {"at": None, "seen": None}, {**VISIT, "at": None, "seen": 5}])
    said = refusal(parquet_log, tmp_path, {"op": ["c", "c"], "after": after}, "visits")
    assert said.startswith("log.parquet: row 2, column seen: 5 has no unit")


def test_upserts_need_a_key(tmp_path: Path) -> None:
    said = refusal(csv_log, tmp_path, "page,user_id\n/,1\n", "clicks", upsert=True)
    assert said.startswith("log.csv: --upsert needs a key to go by, and clicks has none")


def test_upserts_are_of_one_row_each(tmp_path: Path) -> None:
    said = refusal(csv_log, tmp_path, "_count,id,name\n1,1,Ada\n2,2,Bob\n", "customers", upsert=True)
    assert said.startswith("log.csv: row 2, column _count: 2 copies of a row that goes by its key")


@pytest.mark.parametrize(
    ("form", "column"),
    [
        ("delta", "_change_type"),
        ("iceberg", "_change_type"),
        ("flink", "row_kind"),
        ("weights", "_diff"),
        ("debezium", "op"),
        ("debezium-flat", "__op"),
    ],
)
def test_a_format_given_to_a_file_without_its_columns_names_the_missing_one(
    tmp_path: Path, form: str, column: str
) -> None:
    said = refusal(csv_log, tmp_path, "id,name\n1,Ada\n", "customers", form=form)
    assert said.startswith(f"log.csv: column {column} is missing\n  hint: ")


def test_an_unknown_relation_on_the_command_line_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the spec has no relation `cliks`\n  hint: it has orders, clicks"):
        csv_log(tmp_path, "page,user_id\n", relation="cliks")
