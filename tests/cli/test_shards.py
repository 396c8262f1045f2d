"""Commands on a state of shards print what they print on a state without; what is not offered is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}, key: [y]}
queries:
  joined: {sql: "SELECT R.x, R.y, S.z FROM R, S WHERE R.y = S.y"}
  sorted: {rule: "sorted(x, y) :- R(x, y)", order_by: [x desc, y]}
outputs:
  - {query: joined, kind: diff, path: "STATE-{version}.csv", mark: hourly}
  - {query: sorted, kind: count, path: STATE.txt}
"""
READS = (
    ["count"],
    ["count", "-q", "joined", "--json"],
    ["count", "--at", "1"],
    ["count", "-q", "joined", "--at", "2"],
    ["enum", "-q", "sorted", "-o", "-"],
    ["enum", "-q", "joined", "--where", "x = 4", "-o", "-"],
    ["enum", "-q", "joined", "--at", "1", "-o", "-"],
    ["diff", "-q", "joined", "--since", "0", "-o", "-"],
    ["jth", "2", "1", "-q", "sorted"],
    ["page", "--offset", "1", "--limit", "2", "-q", "sorted"],
    ["page", "--after", '{"x": 3}', "-q", "sorted"],
    ["rank", "--row", '{"x": 4, "y": 2}', "-q", "sorted"],
    ["sample", "2", "--seed", "5", "-q", "sorted"],
    ["test", "--row", '{"x": 4, "y": 2, "z": 20}', "-q", "joined", "--count"],
    ["test", "--rows", "rows.csv", "-q", "joined"],
    ["why", "--row", '{"x": 4, "y": 2, "z": 20}', "-q", "joined"],
    ["marks"],
    ["dump", "S"],
    ["verify"],
)
NOT_OFFERED = (
    ["alter", "spec.yaml"],
    ["apply", "--replace", "R=R.csv"],
    ["report", "-o", "report.html"],
    ["serve"],
    ["why", "--not", "--row", '{"x": 9, "y": 2, "z": 20}', "-q", "joined"],
)


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with the states `plain` and `split` at version 3, and the logs that made them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("R.csv").write_text("x,y\n1,1\n2,1\n3,3\n4,2\n4,2\n")
    Path("S.csv").write_text("y,z\n1,10\n2,20\n")
    Path("S.2.csv").write_text("_change_type,y,z\nupdate_postimage,2,21\ndelete,1,\n")
    Path("rows.csv").write_text("x,y,z\n4,2,21\n9,9,9\n")
    for state, shards in (("plain", []), ("split", ["--shards", "3"])):
        Path(f"{state}.yaml").write_text(SPEC.replace("STATE", f"out-{state}"))
        assert main(["init", f"{state}.yaml", "-s", state, *shards]) == 0
        assert main(["apply", "R.csv", "S.csv", "S.2.csv", "-s", state]) == 0
        assert main(["mark", "here", "-s", state]) == 0


@pytest.mark.usefixtures("states")
def test_every_command_prints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for command in READS:
        said = []
        for state in ("plain", "split"):
            assert main([*command, "-s", state]) in (0, 3), command
            out = capsys.readouterr().out
            said.append(sorted(out.splitlines()) if "joined" in command or "dump" in command else out)
        assert said[0] == said[1], command
    Path("inbox").mkdir()
    Path("inbox/R.9.csv").write_text("x,y\n7,2\n")
    for state in ("plain", "split"):
        assert main(["run", "inbox", "-s", state]) == 0
        assert main(["run", "inbox", "-s", state]) == 0
        assert main(["check", "--read-data", "-s", state]) == 0
        assert main(["status", "-s", state, "--json"]) == 0
    assert Path("out-plain.txt").read_text() == Path("out-split.txt").read_text()
    diffs = [sorted(Path(f"out-{state}-4.csv").read_text().splitlines()) for state in ("plain", "split")]
    assert diffs[0] == diffs[1] != []


@pytest.mark.usefixtures("states")
def test_a_backup_of_shards_is_a_state_of_shards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "copy", "-s", "split"]) == 0
    assert main(["apply", "R.csv", "-s", "copy"]) == 0
    assert main(["check", "-s", "copy"]) == 0
    assert main(["prune", "-s", "copy"]) == 0
    assert main(["tick", "-s", "copy"]) == 0
    capsys.readouterr()
    assert main(["count", "-q", "sorted", "-s", "copy"]) == 0
    assert capsys.readouterr().out == "4\n"


@pytest.mark.usefixtures("states")
def test_commands_that_are_not_offered_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec.yaml").write_text(SPEC)
    before = {path: path.read_bytes() for path in Path("split").rglob("*") if path.is_file()}
    for command in NOT_OFFERED:
        capsys.readouterr()
        assert main([*command, "-s", "split"]) == 3, command
        assert "shards" in capsys.readouterr().err, command
    assert {path: path.read_bytes() for path in Path("split").rglob("*") if path.is_file()} == before
    assert main(["init", "spec.yaml", "-s", "split", "--shards", "2"]) == 2
    assert main(["init", "spec.yaml", "-s", "new", "--shards", "0"]) == 2
    Path("mirrored.yaml").write_text(SPEC + '  - {query: joined, kind: mirror, to: "duckdb:///m.db", table: t}\n')
    assert main(["init", "mirrored.yaml", "-s", "new", "--shards", "2"]) == 3
    assert not os.path.exists("new")


@pytest.mark.usefixtures("states")
def test_explain_says_where_rows_go_and_how_often_they_are_stored(capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("plain.yaml", "plain", "split"):
        capsys.readouterr()
        assert main(["explain", place, "--shards", "4", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        (joined,) = (group for group in found["shards"]["groups"] if "joined" in group["queries"])
        assert joined["queries"]["joined"] == {"variables": ["y"], "merges": "none", "reason": ""}
        assert joined["relations"]["S"] == {"columns": ["y"], "replication": 1}
        assert "queries" in found
    assert main(["explain", "plain.yaml", "--shards", "4"]) == 0
    assert "query joined: split by y (share 4)" in capsys.readouterr().out
    assert main(["explain", "plain.yaml", "--shards", "4", "--format", "dot"]) == 2
