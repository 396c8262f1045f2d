"""Every command on results that are read from several trees: a union, and a join with !=."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynq_cli.cli.app import main
from dynq_cli.plan import lower
from dynq_cli.storage import plans
from dynq_cli.storage.state import create

Capture = pytest.CaptureFixture[str]
SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, x: string?}}
  S: {columns: {k: int64, y: string?}}
queries:
  either: {sql: "SELECT k, x FROM R UNION SELECT k, y FROM S"}
  both: {sql: "SELECT k, x FROM R UNION ALL SELECT k, y FROM S"}
  other: {sql: "SELECT R.k, x, y FROM R, S WHERE R.k = S.k AND x <> y"}
outputs:
  - {query: either, kind: enum, path: "out/either.csv"}
  - {query: other, kind: diff, path: "out/other-{version}.csv", mark: m}
  - {query: both, kind: count, path: "out/both.json"}
"""
NEXT = """\
version: 1
relations: {either: {columns: {k: int64, x: string?}}, other: {columns: {k: int64, x: string, y: string}}}
queries: {either2: {sql: "SELECT k, x FROM either"}, other2: {sql: "SELECT k, x, y FROM other"}}
"""
FIRST = {"R": "k,x\n1,a\n1,a\n1,b\n2,\n", "S": "k,y\n1,a\n1,c\n2,\n3,d\n"}
SECOND = {"R": "k,x,_change_type\n1,a,delete\n1,a,delete\n3,d,insert\n", "S": "k,y,_change_type\n1,b,insert\n"}
EITHER_1 = {(1, "a"), (1, "b"), (2, None), (1, "c"), (3, "d")}
OTHER_1 = {(1, "a", "c"): 2, (1, "b", "a"): 1, (1, "b", "c"): 1}
OTHER_2 = {(1, "b", "a"): 1, (1, "b", "c"): 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    for number, logs in enumerate((FIRST, SECOND)):
        for name, text in logs.items():
            Path(f"{name}.{number}.csv").write_text(text)
    ran("init", "spec.yaml")
    ran("apply", "--atomic", "R.0.csv", "S.0.csv")
    ran("apply", "--atomic", "R.1.csv", "S.1.csv")
    return tmp_path


def ran(*args: str, code: int = 0) -> None:
    assert main(list(args)) == code, args


def printed(capsys: Capture, *args: str, code: int = 0) -> str:
    capsys.readouterr()
    ran(*args, code=code)
    return capsys.readouterr().out


def rows(capsys: Capture, *args: str) -> list[tuple[Any, ...]]:
    ran(*args, "-o", "rows.jsonl")
    return [tuple(json.loads(line).values()) for line in Path("rows.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("folder")
def test_counts(capsys: Capture) -> None:
    assert printed(capsys, "count", "-q", "either") == "5\n"
    assert json.loads(printed(capsys, "count", "-q", "both", "--json"))["rows"] == 8
    said = json.loads(printed(capsys, "count", "-q", "other", "--at", "1", "--json"))
    assert (said["rows"], said["distinct"]) == (4, 3)


@pytest.mark.usefixtures("folder")
def test_enum_and_test(capsys: Capture) -> None:
    assert set(rows(capsys, "enum", "-q", "either", "--at", "1")) == EITHER_1
    assert set(rows(capsys, "enum", "-q", "either")) == EITHER_1
    assert {r[:-1]: r[-1] for r in rows(capsys, "enum", "-q", "other")} == OTHER_2
    assert {r[:-1]: r[-1] for r in rows(capsys, "enum", "-q", "other", "--at", "1")} == OTHER_1
    assert len(rows(capsys, "enum", "-q", "both", "--expand")) == 8
    assert len(rows(capsys, "enum", "-q", "both", "--limit", "2")) == 2
    assert printed(capsys, "test", "-q", "either", "--row", '{"k": 2, "x": null}') == "true\n"
    assert printed(capsys, "test", "-q", "both", "--count", "--row", '{"k": 2, "x": null}') == "2\n"
    assert printed(capsys, "test", "-q", "other", "--row", '{"k": 1, "x": "a", "y": "a"}') == "false\n"
    for kind in ("csv", "parquet", "arrow"):
        ran("enum", "-q", "other", "-o", f"rows.{kind}")
        assert Path(f"rows.{kind}").stat().st_size


@pytest.mark.usefixtures("folder")
def test_positions(capsys: Capture) -> None:
    for query in ("either", "both", "other"):
        expanded = rows(capsys, "enum", "-q", query, "--expand")
        places = [str(i) for i in range(len(expanded), 0, -1)]
        assert rows(capsys, "jth", "-q", query, *places) == expanded[::-1]
        assert rows(capsys, "page", "-q", query, "--offset", "1", "--limit", "2") == expanded[1:3]
        assert sorted(rows(capsys, "sample", str(len(expanded)), "-q", query), key=repr) == sorted(expanded, key=repr)
        names = {"either": ("k", "x"), "both": ("k", "x"), "other": ("k", "x", "y")}[query]
        row = json.dumps(dict(zip(names, expanded[-1], strict=True)))
        assert int(printed(capsys, "rank", "-q", query, "--row", row)) == expanded.index(expanded[-1]) + 1
        ran("jth", "-q", query, str(len(expanded) + 1), code=3)
        ran("page", "-q", query, "--after", json.dumps(dict.fromkeys(names, 77) | {"x": "z"}), code=3)


@pytest.mark.usefixtures("folder")
def test_a_diff_is_a_log_for_another_state(capsys: Capture) -> None:
    Path("next.yaml").write_text(NEXT)
    ran("init", "next.yaml", "-s", "next")
    for query in ("either", "other"):
        ran("diff", "-q", query, "--since", "0", "-o", f"{query}.parquet")
        ran("apply", "-s", "next", "--relation", query, f"{query}.parquet")
    Path("S.3.csv").write_text("k,y,_change_type\n1,a,delete\n1,q,insert\n")
    ran("apply", "S.3.csv", "--diff", "either.2.parquet", "-q", "either")
    ran("diff", "-q", "other", "-o", "other.2.parquet")
    for query in ("either", "other"):
        ran("apply", "-s", "next", "--relation", query, f"{query}.2.parquet")
        found = sorted(rows(capsys, "enum", "-s", "next", "-q", f"{query}2", "--expand"), key=repr)
        assert found == sorted(rows(capsys, "enum", "-q", query, "--expand"), key=repr)


@pytest.mark.usefixtures("folder")
def test_run_verify_check_and_explain(capsys: Capture) -> None:
    Path("inbox").mkdir()
    ran("run", "inbox")
    assert len(Path("out/either.csv").read_text().splitlines()) == 6
    assert json.loads(Path("out/both.json").read_text())["rows"] == 8
    ran("verify")
    ran("check", "--read-data")
    text = printed(capsys, "explain", ".dynq")
    assert "without a table" in text and "|other/1| - |other/2|" in text
    said = json.loads(printed(capsys, "explain", ".dynq", "--json"))["queries"]
    assert {q["guarantees"]["count"] for q in said.values()} == {"O(1)"}
    assert {q["guarantees"]["space"] for q in said.values()} == {"O(n)"}
    assert said["either"]["guarantees"]["delay"] == "O(1)" and said["other"]["guarantees"]["delay"] == "O(|other/2|)"


def test_a_state_that_kept_the_results_in_tables_gets_trees(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with monkeypatch.context() as patch:
        tables = ("inclusion_exclusion", "read_by_subtraction")
        patch.setattr(lower, "PASSES", tuple(p for p in lower.PASSES if p.name not in tables))
        patch.setattr(plans, "code_version", lambda: "another")
        create("spec.yaml", "old").close()
        for number in (0, 1):
            ran("apply", "-s", "old", "--atomic", f"R.{number}.csv", f"S.{number}.csv")
    for query in ("either", "both", "other"):
        for version in ("1", "2"):
            found = rows(capsys, "enum", "-s", "old", "-q", query, "--at", version)
            assert sorted(found, key=repr) == sorted(rows(capsys, "enum", "-q", query, "--at", version), key=repr)
    Path("R.2.csv").write_text("k,x\n9,z\n")
    ran("apply", "-s", "old", "R.2.csv")
    ran("verify", "-s", "old")
    assert "without a table" in printed(capsys, "explain", "old")
