"""`--at`: every version that is kept can be counted and enumerated, by number or by mark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from dynq_cli.storage import commit

Capture = pytest.CaptureFixture[str]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: string}, key: [x]}
queries:
  bag: {sql: "SELECT s FROM R"}
  set: {sql: "SELECT DISTINCT s FROM R"}
"""
LOGS = [
    "_change_type,x,s\ninsert,1,a\ninsert,2,a\ninsert,3,b\n",
    "_change_type,x,s\nupdate_postimage,3,a\n",
    "_change_type,x,s\ndelete,1,\ninsert,4,new\n",
]
# By version: the bag, as copies of each text.
BAGS: list[dict[str, int]] = [{}, {"a": 2, "b": 1}, {"a": 3}, {"a": 2, "new": 1}]


@pytest.fixture(autouse=True, params=["logs", "snapshots"])
def _state(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    if request.param == "snapshots":
        monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    Path("spec.yaml").write_text(SPEC)
    assert main(["init", "spec.yaml"]) == 0
    assert main(["mark", "begin"]) == 0
    for number, log in enumerate(LOGS, start=1):
        Path(f"R.{number}.csv").write_text(log)
        assert main(["apply", f"R.{number}.csv"]) == 0
    capsys.readouterr()


def printed(capsys: Capture, *args: str) -> str:
    assert main([*args]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("version", range(4))
def test_counts_and_rows_are_those_of_the_version(version: int, capsys: Capture) -> None:
    at = ["--at", str(version)]
    bag = BAGS[version]
    counts = {"rows": sum(bag.values()), "distinct": len(bag), "version": version}
    assert json.loads(printed(capsys, "count", "-q", "bag", "--json", *at)) == counts
    assert printed(capsys, "count", "-q", "set", *at) == f"{len(bag)}\n"
    rows = printed(capsys, "enum", "-q", "bag", *at).splitlines()
    assert (rows[0], sorted(rows[1:])) == ("s,_count", sorted(f"{s},{many}" for s, many in bag.items()))
    expanded = printed(capsys, "enum", "-q", "bag", "--expand", *at).splitlines()
    assert sorted(expanded[1:]) == sorted(s for s, many in bag.items() for _ in range(many))
    assert len(printed(capsys, "enum", "-q", "set", "--limit", "1", *at).splitlines()) == 1 + min(1, len(bag))


def test_a_mark_stands_for_its_version(capsys: Capture) -> None:
    assert printed(capsys, "count", "-q", "bag", "--at", "begin") == "0\n"
    assert main(["mark", "then", "--at", "1"]) == 0
    assert json.loads(printed(capsys, "count", "-q", "bag", "--at", "then", "--json"))["version"] == 1
    assert main(["enum", "-q", "bag", "--at", "then", "-o", "then.jsonl"]) == 0
    assert sum(json.loads(line)["_count"] for line in Path("then.jsonl").read_text().splitlines()) == 3
    assert "wrote 2 rows to then.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["count", "enum"])
def test_a_version_or_mark_that_is_not_there_is_refused(command: str, capsys: Capture) -> None:
    for at, said in (("4", "no version 4 yet; the last one is 3"), ("hourly", "no mark hourly"), ("-1", "no mark -1")):
        assert main([command, "-q", "bag", "--at", at, "-o", "out.csv"]) == 3
        assert said in capsys.readouterr().err
    assert not Path("out.csv").exists()


def test_reading_changes_nothing(capsys: Capture) -> None:
    before = {path.name: path.read_bytes() for path in Path(".dynq").iterdir()}
    printed(capsys, "enum", "-q", "bag", "--at", "1")
    printed(capsys, "diff", "-q", "bag", "--since", "1")
    assert {path.name: path.read_bytes() for path in Path(".dynq").iterdir()} == before
