"""Deleted rows are deletes in every format, and columns that may mark them are explained or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynq_cli.errors import RejectedError, SpecError
from dynq_cli.io.logs.model import LogFile
from dynq_cli.io.logs.read import read_log
from dynq_cli.session.apply_logs import Options, apply_logs, make
from dynq_cli.spec.load import parse_spec
from tests.io.logs.changes import changes, csv_log, json_log

SPEC = """
version: 1
relations:
  people:
    columns: {id: int64, name: string?}
    key: [id]
    SOURCE
queries:
  q: {sql: "SELECT id, name FROM people"}
"""


def rows_after(folder: Path, files: dict[str, str], source: str = "", **options: object) -> list[tuple[object, ...]]:
    (folder / "spec.yaml").write_text(SPEC.replace("SOURCE", source), "utf-8")
    paths = []
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
        paths.append(str(folder / name))
    with make(folder / "spec.yaml", folder / "state") as state:
        apply_logs(state, paths, Options(**options))  # type: ignore[arg-type]
        found = [tuple(row.values())[:2] for batch in state.enum("q") for row in batch.to_pylist()]
    return sorted(found, key=str)


LOAD = "id,name\n1,a\n2,b\n3,c\n"
FORMATS = {
    "fivetran": "id,name,_fivetran_deleted,_fivetran_synced\n1,old,false,2024-01-01T00:00:00Z\n"
    "2,b,true,2024-01-02T00:00:00Z\n1,z,false,2024-01-03T00:00:00Z\n9,x,true,2024-01-01T00:00:00Z\n",
    "fivetran out of order": "id,name,_fivetran_deleted,_fivetran_synced\n1,z,false,2024-01-03T00:00:00Z\n"
    "2,b,true,2024-01-02T00:00:00Z\n1,old,false,2024-01-01T00:00:00Z\n",
    "airbyte": "id,name,_ab_cdc_deleted_at,_ab_cdc_lsn\n1,z,,7\n2,,2024-01-02T00:00:00Z,8\n1,old,,6\n",
    "hudi": "id,name,_hoodie_commit_time,_hoodie_is_deleted\n"
    "1,z,20240102,false\n2,b,20240103,true\n1,y,20240101,false\n",
    "sqlserver": "__$start_lsn,__$seqval,__$operation,id,name\n0x01,0x01,3,1,a\n0x01,0x01,4,1,z\n0x02,0x01,1,2,b\n",
    "sqlserver out of order": "__$start_lsn,__$seqval,__$operation,__$command_id,id,name\n0x02,0x01,1,1,2,b\n"
    "0x01,0x01,4,2,1,z\n0x01,0x09,4,1,1,y\n0x01,0x09,3,1,1,a\n0x01,0x01,3,2,1,y\n",
    "airbyte of MySQL": "id,name,_ab_cdc_deleted_at,_ab_cdc_log_file,_ab_cdc_log_pos\n1,z,,bin.000010,7\n"
    "2,,2024-01-02T00:00:00Z,bin.000010,9\n1,old,,bin.000009,800\n2,y,,bin.000010,8\n",
    "airbyte of SQL Server": "id,name,_ab_cdc_deleted_at,_ab_cdc_lsn\n1,z,,0000002d:00000a40:0003\n"
    "2,,2024-01-02T00:00:00Z,0000002d:00000a41:0001\n1,old,,0000002d:00000a3f:ffff\n",
    "airbyte by cursor": "id,name,_ab_cdc_deleted_at,_ab_cdc_lsn,_ab_cdc_cursor\n1,z,,1,12\n"
    "2,,2024-01-02T00:00:00Z,1,13\n1,old,,3,9\n",
    "airbyte by milliseconds": "id,name,_ab_cdc_deleted_at,_ab_cdc_updated_at\n1,z,,2024-01-02T00:00:00Z\n"
    "2,,2024-01-02T00:00:00Z,2024-01-03T00:00:00Z\n1,old,,2024-01-01T00:00:00Z\n",
    "snowflake": "id,name,METADATA$ACTION,METADATA$ISUPDATE\n1,z,INSERT,true\n1,a,DELETE,true\n2,b,DELETE,false\n",
    "bigquery": "id,name,_CHANGE_TYPE,_CHANGE_TIMESTAMP\n"
    "1,z,UPDATE,2024-01-02T00:00:00Z\n2,b,DELETE,2024-01-02T00:00:00Z\n",
    "bigquery by sequence": "id,name,_CHANGE_TYPE,_CHANGE_SEQUENCE_NUMBER\n1,z,UPSERT,ABC\n2,b,DELETE,FFF/ABC\n"
    "2,x,UPSERT,FFF/B\n1,y,UPSERT,BA/FFFFFFFFFFFFFFFF\n",
}


@pytest.mark.parametrize("name", FORMATS)
def test_updates_and_deletes_of_a_format_are_applied_as_such(tmp_path: Path, name: str) -> None:
    files = {"people.0.csv": LOAD, "people.1.csv": FORMATS[name]}
    assert rows_after(tmp_path, files) == [(1, "z"), (3, "c")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "id,name,_CHANGE_TYPE,_CHANGE_SEQUENCE_NUMBER\n1,z,UPSERT,1\n1,y,UPSERT,1/2/3/4/5\n",
            "row 2, column _CHANGE_SEQ",
        ),
        ("id,name,_CHANGE_TYPE,_CHANGE_SEQUENCE_NUMBER\n1,z,UPSERT,1\n1,y,UPSERT,\n", "row 2, column .*: NULL"),
        ("__$start_lsn,__$operation,id,name\n0x01,2,7,b\nnever,2,8,b\n", r"row 2, column __\$start_lsn: `never`"),
        ("id,name,_ab_cdc_lsn\n1,z,7\n1,y,late\n", "row 2, column _ab_cdc_lsn: `late` is no position"),
        ("id,name,_ab_cdc_log_file,_ab_cdc_log_pos\n1,z,a.1,7\n1,y,b.1,9\n", "row 2, column _ab_cdc_log_file"),
        ("id,name,_hoodie_commit_time\n1,z,soon\n", "row 1, column _hoodie_commit_time"),
        (
            "id,name,_fivetran_synced,_fivetran_end\n1,z,,2024-01-01T00:00:00Z\n",
            "row 1, column _fivetran_end: .*history",
        ),
    ],
)
def test_an_order_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RejectedError, match=said):
        rows_after(tmp_path, {"people.csv": text})


def test_rows_are_sorted_across_the_chunks_and_files_of_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynq_cli.io.sizes.cut.__defaults__", (1, 32 << 20))
    heading = "__$start_lsn,__$seqval,__$operation,id,name\n"
    files = {
        "people.1.csv": f"{heading}0x03,0x01,1,1,z\n0x02,0x01,4,1,z\n",
        "people.2.csv": f"{heading}0x02,0x01,3,1,a\n",
    }
    assert rows_after(tmp_path, {"people.0.csv": f"{heading}0x01,0x01,2,1,a\n", **files}, atomic=True) == []
    (tmp_path / "b").mkdir()
    files = {
        "people.1.csv": f"{heading}0x01,0x01,2,1,a\n",
        "people.2.csv": "id,name,_fivetran_synced\n1,z,2024-01-01\n",
    }
    with pytest.raises(RejectedError, match=r"people.2.csv: .* ordered in different ways"):
        rows_after(tmp_path / "b", files, atomic=True)


def test_maxwells_events_are_applied(tmp_path: Path) -> None:
    events = (
        '{"database":"d","table":"people","type":"bootstrap-start","data":{}}\n'
        '{"database":"d","table":"people","type":"update","data":{"id":1,"name":"z"},"old":{"name":"a"}}\n'
        '{"database":"d","table":"people","type":"delete","data":{"id":2,"name":"b"}}\n'
        '{"database":"d","table":"people","type":"update","data":{"id":4,"name":"c"},"old":{"id":3}}\n'
    )
    assert rows_after(tmp_path, {"people.0.csv": LOAD, "people.1.jsonl": events}) == [(1, "z"), (4, "c")]


def test_a_soft_deleted_row_of_a_relation_without_key_is_refused(tmp_path: Path) -> None:
    text = "page,user_id,_fivetran_deleted\n/a,1,false\n"
    assert changes(csv_log(tmp_path, text))["clicks"][0][1] == "insert"
    with pytest.raises(RejectedError, match=r"row 2, column _fivetran_deleted(.|\n)*`key:`"):
        changes(csv_log(tmp_path, text + "/b,2,true\n"))


@pytest.mark.parametrize(
    "column", ["op_type", "cdc_op", "operation", "is_deleted", "deleted_at", "OP", "_gone", "_Change_Type"]
)
def test_a_column_that_looks_like_a_mark_is_refused_unless_taken_as_plain(tmp_path: Path, column: str) -> None:
    text = f"{column},page,user_id\nx,/a,1\n"
    with pytest.raises(RejectedError, match=r"looks like a mark(.|\n)*source(.|\n)*--format snapshot"):
        csv_log(tmp_path, text)
    assert len(changes(csv_log(tmp_path, text, form="snapshot"))["clicks"]) == 1
    with pytest.raises(RejectedError, match="looks like a mark"):
        json_log(tmp_path, [{column: "x", "page": "/a", "user_id": 1}])


@pytest.mark.parametrize(
    ("source", "header", "live", "dead"),
    [
        ("source: {deleted_when: is_deleted}", "is_deleted", "N", "Y"),
        ("source: {deleted_when: deleted_at}", "deleted_at", "", "2024-01-01 00:00:00"),
        ('source: {deleted_when: "flag = 3 AND id > 0"}', "flag", "1", "3"),
        ("source: {op: {column: action, update: [chg], delete: [del]}}", "action", "CHG", "del"),
    ],
)
def test_the_spec_says_which_rows_are_deletes(tmp_path: Path, source: str, header: str, live: str, dead: str) -> None:
    text = f"{header},id,name\n{live},1,z\n{dead},2,b\n"
    canonical = "_change_type,id,name\ninsert,1,a\ninsert,2,b\ninsert,3,c\n"
    assert rows_after(tmp_path, {"people.0.csv": canonical, "people.1.csv": text}, source) == [(1, "z"), (3, "c")]


def test_columns_of_a_log_are_renamed(tmp_path: Path) -> None:
    source = "source: {deleted_when: gone, columns: {id: KEY, name: Label}}"
    text = "gone,KEY,Label\nfalse,1,z\ntrue,2,b\n"
    assert rows_after(tmp_path, {"people.1.csv": text}, source) == [(1, "z")]


def test_a_condition_and_words_go_together_and_unknown_keys_are_refused() -> None:
    both = "source: {deleted_when: is_deleted, op: {column: action, insert: [add], update: [chg], delete: [del]}}"
    relation = parse_spec(SPEC.replace("SOURCE", both), "s.yaml").relation("people")
    assert relation is not None and relation.source is not None and relation.source.deletes == ("del",)
    with pytest.raises(SpecError, match="unknown key `when`"):
        parse_spec(SPEC.replace("SOURCE", "source: {when: x}"), "s.yaml")


def test_a_file_without_rows_needs_the_columns_of_its_relation(tmp_path: Path) -> None:
    for text in ("I,13,8,7.00,paid\n", "colour,size\n"):
        with pytest.raises(RejectedError, match="column page of clicks is missing"):
            changes(csv_log(tmp_path, text))
    assert changes(csv_log(tmp_path, "page,user_id\n")) == {}


def test_dms_files_without_header_are_read_by_position(tmp_path: Path) -> None:
    found = changes(csv_log(tmp_path, "I,1,Ada\nD,1,Ada\n", "customers", form="dms"))["customers"]
    assert [(number, kind, values) for number, kind, _, _, values in found] == [
        (1, "insert", {"id": 1, "name": "Ada"}),
        (2, "delete", {"id": 1, "name": "Ada"}),
    ]
    with pytest.raises(RejectedError, match="no header and 4 fields"):
        csv_log(tmp_path, "I,1,Ada,x\n", "customers", form="dms")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_another_separator_is_named(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(f"id{mark}name\n1{mark}Ada\n", "utf-8")
    with pytest.raises(RejectedError, match="separated by"):
        read_log(LogFile(str(file), "csv", "people"), parse_spec(SPEC.replace("SOURCE", ""), "s.yaml"))
