"""`dynq test --rows`: the rows of a file with a last column `_count`; and the commands that `keep: test` refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
  V: {columns: {x: int64, m: "decimal(25,2)"}}
queries:
  bag: {sql: "SELECT x, s FROM R"}
  tested: {sql: "SELECT R.x, V.m FROM R, V WHERE R.x = V.x", keep: test}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        decimals = pa.array(["1.50", "2.00"]).cast(pa.decimal128(25, 2))
        view.apply(
            {"R": pa.table({"x": [1, 1, 2], "s": ["a", "a", None]}), "V": pa.table({"x": [1, 2], "m": decimals})}
        )


def _out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*args]) == 0
    return capsys.readouterr().out


def test_a_csv_comes_back_with_its_other_columns_in_its_order(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.csv").write_text('note,s,x,_count\nfirst,a,1,9\nsecond,,2,9\nthird,"",2,9\n,a,2,9\n')
    said = _out(capsys, "test", "-q", "bag", "--rows", "rows.csv")
    assert said == 'note,s,x,_count\nfirst,a,1,2\nsecond,,2,1\nthird,"",2,0\n,a,2,0\n'


def test_parquet_and_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3], "m": ["1.5", "1.50", "2"], "z": [True, None, False]}), "rows.parquet")
    assert main(["test", "-q", "tested", "--rows", "rows.parquet", "-o", "out.parquet"]) == 3
    assert "column `m`" in capsys.readouterr().err
    decimals = pa.array(["1.50", "1.50", "2.00"]).cast(pa.decimal128(25, 2))
    pq.write_table(pa.table({"x": [1, 2, 3], "m": decimals, "z": [True, None, False]}), "rows.parquet")
    assert main(["test", "-q", "tested", "--rows", "rows.parquet", "-o", "out.parquet"]) == 0
    found = pq.read_table("out.parquet")
    assert found.column_names == ["x", "m", "z", "_count"]
    assert found["_count"].to_pylist() == [2, 0, 0]
    assert found["z"].to_pylist() == [True, None, False]
    lines = [{"x": "2", "m": 2, "z": {"a": 1}, "k": 5}, {"x": 1, "m": None, "z": None, "k": None}]
    Path("rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = _out(capsys, "test", "-q", "tested", "--rows", "rows.jsonl", "--json").splitlines()
    assert [json.loads(line) for line in said] == [
        {"x": 2, "m": "2.00", "z": '{"a": 1}', "k": 5, "_count": 1},
        {"x": 1, "m": None, "z": None, "k": None, "_count": 0},
    ]


def test_an_empty_file_has_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.csv").write_text("x,s,other\n")
    assert _out(capsys, "test", "-q", "bag", "--rows", "rows.csv") == "x,s,other,_count\n"


@pytest.mark.parametrize(
    ("args", "content", "code", "said"),
    [
        (["--rows", "rows.csv"], "x\n1\n", 3, "rows.csv has no column `s`"),
        (["--rows", "rows.csv"], "x,s\n1,a\none,a\n", 3, "rows.csv: row 2, column `x`"),
        (["--rows", "nowhere.csv"], "", 2, "there is no file nowhere.csv"),
        (["--rows", "."], "", 2, "is a directory"),
        (["--rows", "rows.csv", "--row", "{}"], "x,s\n", 2, "either --row JSON or --rows FILE"),
        (["--rows", "rows.csv", "--count"], "x,s\n", 2, "--count is for --row"),
        (["--row", "{}", "-o", "a.csv"], "x,s\n", 2, "--rows FILE"),
    ],
)
def test_what_cannot_be_tested_is_refused(
    capsys: pytest.CaptureFixture[str], args: list[str], content: str, code: int, said: str
) -> None:
    Path("rows.csv").write_text(content)
    assert main(["test", "-q", "bag", *args]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out in ("", "x,s,_count\n"), "rows before the one that is wrong may be out"


@pytest.mark.parametrize(
    "args",
    [
        ["count"],
        ["enum"],
        ["diff"],
        ["jth", "1"],
        ["page"],
        ["sample", "1"],
        ["rank", "--row", '{"x": 1, "m": "1.50"}'],
        ["apply", "more.csv", "--diff", "d.csv"],
    ],
)
def test_every_other_command_is_refused_with_a_hint(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    Path("more.csv").write_text("_relation,x,s\nR,5,a\n")
    assert main([*args, "-q", "tested"]) == 3
    said = capsys.readouterr().err
    assert "serves test alone" in said and "hint:" in said
    assert dynq_cli.open().version == 1, "nothing was applied"


def test_commands_of_all_queries_leave_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert _out(capsys, "count") == "bag  3\n"
    assert "tested: 3 rows (2 distinct) agree" in _out(capsys, "verify")
    assert "rows not counted" in _out(capsys, "status")
    assert json.loads(_out(capsys, "status", "--json"))["queries"]["tested"]["rows"] is None
    assert "every count and every row holds" in _out(capsys, "check", "--read-data")


def test_a_restart_and_a_snapshot_keep_it(capsys: pytest.CaptureFixture[str]) -> None:
    with dynq_cli.open() as view:
        view.apply(pa.table({"x": [2], "s": ["b"]}), "R")
    assert _out(capsys, "test", "-q", "tested", "--row", '{"x": 2, "m": 2}', "--count") == "2\n"


def test_explain_tells_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(_out(capsys, "explain", "spec.yaml", "--json"))["queries"]["tested"]
    assert said["strategy"] == "lookups"
    assert said["guarantees"]["update"] == said["guarantees"]["test"] == "O(1)"
    assert said["guarantees"]["count"] == said["guarantees"]["delay"] == "not kept"
    assert said["guarantees"]["space"] == "O(n)"
    assert "tested" in _out(capsys, "explain", "spec.yaml", "--format", "dot")


def test_a_refused_query_leaves_no_state(capsys: pytest.CaptureFixture[str]) -> None:
    Path("no.yaml").write_text(SPEC.replace("SELECT R.x, V.m FROM", "SELECT V.m FROM"))
    assert main(["init", "no.yaml", "-s", "other"]) == 3
    said = capsys.readouterr().err
    assert "no.yaml:7:" in said and "t-hierarchical" in said and "hint" in said
    assert not Path("other").exists()
