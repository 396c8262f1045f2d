"""`dynq init`: a state at version 0, whole or not at all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from dynq_cli.storage.manifest import read_manifest

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}, key: [x]}
  S: {columns: {y: int64}}
queries:
  pairs: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("r.csv").write_text("x,y\n1,10\n2,20\n3,20\n")
    Path("s.csv").write_text("y\n10\n20\n20\n")


def names() -> list[str]:
    return sorted(path.name for path in Path.cwd().iterdir())


def test_a_state_is_made_from_snapshots_and_it_is_said_of_what(dynq: Dynq) -> None:
    made = dynq("init", "spec.yaml", "--load", "R=r.csv", "--load", "S=s.csv")
    assert (made.returncode, made.stdout) == (0, "")
    assert "R: 3 inserted" in made.stderr
    assert "made .dynq at version 0; it keeps pairs (5 rows)" in made.stderr
    counted = dynq("count", "--json")
    assert json.loads(counted.stdout) == {"rows": 5, "distinct": 3, "version": 0}


def test_without_snapshots_the_state_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "spec.yaml", "-s", "here"]) == 0
    assert main(["count", "-s", "here"]) == 0
    assert capsys.readouterr().out == "0\n"


def test_the_environment_names_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNQ_STATE", "there")
    assert main(["init", "spec.yaml"]) == 0
    assert Path("there/CURRENT").exists()
    assert not Path(".dynq").exists()


def test_a_state_that_is_there_is_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "spec.yaml", "--load", "R=r.csv"]) == 0
    before = {path.name: path.read_bytes() for path in Path(".dynq").iterdir()}
    assert main(["init", "spec.yaml", "--load", "S=s.csv"]) == 2
    assert "already; nothing was changed" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in Path(".dynq").iterdir()} == before


def test_another_spec_over_a_state_is_told_what_is_different(capsys: pytest.CaptureFixture[str]) -> None:
    kept = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}, key: [x]}
  S: {columns: {y: string}}
queries:
  q: {sql: "SELECT x FROM R"}
  gone: {sql: "SELECT y FROM S"}
outputs: [{query: q, kind: count, path: n.txt}]
"""
    given = """\
version: 1
relations:
  R: {columns: {x: int32, z: "decimal(5,2)?"}, changes: often}
  T: {columns: {y: string}}
queries:
  q: {sql: "SELECT x FROM R WHERE x > 5", semantics: set}
  new: {rule: "new(y) :- T(y)"}
outputs: [{query: q, kind: enum, path: n.csv}]
"""
    Path("kept.yaml").write_text(kept)
    Path("given.yaml").write_text(given)
    assert main(["init", "kept.yaml", "--quiet"]) == 0
    assert main(["init", "given.yaml"]) == 2
    told = capsys.readouterr().err
    assert told.splitlines()[1:] == [
        "  given.yaml differs from the spec of the state:",
        "    relation T is new",
        "    relation S is gone",
        "    relation R: column z is new",
        "    relation R: column y is gone",
        "    relation R: column x: was int64 and is int32",
        "    relation R: its key was [x] and is none",
        "    relation R: `changes` is different",
        "    query new is new",
        "    query gone is gone",
        "    query q: its text is different",
        "    query q: `semantics` is different",
        "    output n.csv is new",
        "    and 1 more",
        "  hint: `dynq alter SPEC` makes the state follow it; or name another directory with --state",
    ]
    Path("kept.yaml").write_text(kept.replace("SELECT x FROM R", "SELECT   x FROM R") + "# a comment\n")
    assert main(["init", "kept.yaml"]) == 2
    assert "its spec is the same" in capsys.readouterr().err
    Path("kept.yaml").write_text("version: 7\n")
    assert main(["init", "kept.yaml"]) == 2
    assert "differs" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("R", "RELATION=PATH"),
        ("=r.csv", "RELATION=PATH"),
        ("R=gone.csv", "there is no gone.csv"),
        ("T=r.csv", "no relation T"),
    ],
)
def test_a_wrong_load_is_a_usage_error_and_leaves_no_state(
    load: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names()
    assert main(["init", "spec.yaml", "--load", load]) == 2
    assert said in capsys.readouterr().err
    assert names() == before


@pytest.mark.parametrize("again", ["s.csv", "./s.csv", "link.csv", "folder"])
def test_a_file_that_is_loaded_twice_is_a_usage_error_and_leaves_no_state(
    again: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("link.csv").symlink_to("s.csv")
    Path("folder").mkdir()
    Path("s.csv").rename("folder/s.csv")
    Path("s.csv").symlink_to("folder/s.csv")
    before = names()
    assert main(["init", "spec.yaml", "--load", "S=s.csv", "--load", f"S={again}"]) == 2
    told = capsys.readouterr().err
    assert f"--load S={again}: " in told and "is loaded already" in told
    assert names() == before


def test_a_copy_of_a_file_and_a_file_for_two_relations_are_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    Path("copy.csv").write_text(Path("s.csv").read_text())
    assert main(["init", "spec.yaml", "--load", "S=s.csv", "--load", "S=copy.csv", "--load", "S=r.csv"]) == 0
    assert "S: 9 inserted" in capsys.readouterr().err
    assert main(["init", "spec.yaml", "-s", "other", "--load", "S=r.csv", "--load", "R=r.csv"]) == 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [("x,y\n1,10\n1,20\n", "column x"), ("x,y\n1,ten\n", "column y"), ("x,y\n,1\n", "column x"), ("x\n1\n", "y")],
    ids=["key twice", "wrong type", "NULL", "missing column"],
)
def test_bad_rows_are_rejected_with_their_place_and_leave_no_state(
    rows: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").write_text(rows)
    before = names()
    assert main(["init", "spec.yaml", "--load", "S=s.csv", "--load", "R=bad.csv"]) == 3
    told = capsys.readouterr().err
    assert "bad.csv" in told
    assert said in told
    assert names() == before


def test_the_errors_of_a_spec_come_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec.yaml").write_text(SPEC.replace("SELECT x,", "SELECT nothing,"))
    assert main(["init", "spec.yaml"]) == 3
    assert "spec.yaml:6:" in capsys.readouterr().err


def test_an_order_that_no_tree_has_is_kept_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT a.x, a.y, b.x AS z FROM R a, R b WHERE a.y = b.y ORDER BY a.x, z, a.y"
    Path("spec.yaml").write_text(SPEC.replace("SELECT x, R.y FROM R, S WHERE R.y = S.y", sql))
    assert main(["init", "spec.yaml"]) == 0
    capsys.readouterr()
    assert main(["explain", "spec.yaml"]) == 0
    told = capsys.readouterr().out
    assert "its rows are stored in their order" in told
    assert "disruptive trio" in told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM R",
        "SELECT x FROM R, S WHERE R.y < S.y",
        "SELECT x FROM R WHERE y NOT IN (SELECT y FROM S)",
        "SELECT x FROM R UNION SELECT y FROM S",
        "SELECT DISTINCT a.x, b.x AS z FROM R a, R b WHERE a.y = b.y",
    ],
)
def test_queries_that_take_several_steps_are_kept(sql: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec.yaml").write_text(SPEC.replace("SELECT x, R.y FROM R, S WHERE R.y = S.y", sql))
    assert main(["init", "spec.yaml"]) == 0


def test_the_marks_of_outputs_are_made_with_the_state(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [
        '{query: pairs, kind: diff, path: "out/a-{version}.csv", mark: hourly}',
        '{query: pairs, kind: diff, path: "out/b-{version}.csv", mark: hourly}',
        '{query: pairs, kind: diff, path: "out/c-{version}.csv"}',
        "{query: pairs, kind: count, path: out/d.json}",
    ]
    Path("spec.yaml").write_text(SPEC + "outputs:\n" + "".join(f"  - {output}\n" for output in outputs))
    assert main(["init", "spec.yaml"]) == 0
    capsys.readouterr()
    assert main(["marks"]) == 0
    assert capsys.readouterr().out == "_outputs  0\nhourly    0\n"
    # In one step with the state: a prune between the two would let the first diff begin too late.
    assert read_manifest(Path(".dynq")).number == 1
