"""`dynq explain` on the command line: every form, and what is refused."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dynq_cli
from dynq_cli.cli.app import main
from tests.conftest import ROOT

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
queries:
  full:
    rule: "full(x, y, z) :- R(x, y), S(y, z)"
  ends:
    rule: "ends(x, z) :- R(x, y), S(y, z)"
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return "spec.yaml"


def test_control_characters_of_a_constant_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "\"q(x) :- R(x, '\\e[31mred')\""
    (tmp_path / "s.yaml").write_text(
        f"version: 1\nrelations: {{R: {{columns: {{x: int64, s: string}}}}}}\nqueries: {{q: {{rule: {query}}}}}\n"
    )
    assert main(["explain", str(tmp_path / "s.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[31mred" in shown
    assert "\x1b" not in shown


def test_an_empty_name_is_no_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", ""]) == 2
    assert "there is no spec file" in capsys.readouterr().err


def test_json_has_the_facts_that_the_contract_fixes(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", spec, "--json"]) == 0
    queries = json.loads(capsys.readouterr().out)["queries"]
    assert list(queries) == ["full", "ends"]
    for facts in queries.values():
        assert {"q_hierarchical", "t_hierarchical", "free_connex", "acyclic"} <= facts.keys()
        assert {"strategy", "guarantees", "witness", "tree"} <= facts.keys()
        assert {"update", "delay", "count", "jth", "space"} <= facts["guarantees"].keys()
    assert queries["full"]["q_hierarchical"] is True
    assert (queries["ends"]["acyclic"], queries["ends"]["free_connex"]) == (True, False)


def test_one_query_can_be_asked_for(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", spec, "-q", "ends", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["queries"]) == ["ends"]
    assert main(["explain", spec, "--query", "ends"]) == 0
    text = capsys.readouterr().out
    assert "ends" in text
    assert "full" not in text


def test_an_unknown_query_is_a_usage_error_that_names_those_there_are(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", spec, "--query", "end"]) == 2
    said = capsys.readouterr().err
    assert "full" in said
    assert "ends" in said


@pytest.mark.parametrize(
    ("name", "option", "start"),
    [
        ("tree.json", "--json", "{"),
        ("tree.mmd", "--format=mermaid", "flowchart"),
        ("tree.dot", "--format=dot", "digraph"),
        ("tree.gv", "--format=dot", "digraph"),
        ("tree.txt", "--format=text", ""),
        ("tree.md", "--format=text", ""),
    ],
)
def test_the_extension_chooses_the_form(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, option: str, start: str
) -> None:
    assert main(["explain", spec, option]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(start)
    assert main(["explain", spec, "-o", name]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / name).read_text() == printed
    assert main(["explain", spec, "-o", name, option]) == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--json", "--format", "dot"], "two forms"),
        (["--json", "-o", "tree.dot"], "two forms"),
        (["--format", "dot", "-o", "tree.txt"], "two forms"),
        (["--format", "text", "-o", "tree.svg"], "two forms"),
        (["-o", "tree.gif"], ".svg"),
        (["-o", "tree"], ".svg"),
    ],
)
def test_forms_that_conflict_or_do_not_exist_are_refused(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    assert main(["explain", spec, *args]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["spec.yaml"]


def test_a_picture_needs_graphviz(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert main(["explain", spec, "-o", "tree.svg"]) == 2
    assert "needs Graphviz" in capsys.readouterr().err
    assert not (tmp_path / "tree.svg").exists()


def test_a_picture_is_what_graphviz_makes_of_the_dot_source(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "dot"
    stand_in.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1], sys.stdin.read())\n")
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["explain", spec, "--format", "dot"]) == 0
    source = capsys.readouterr().out
    assert main(["explain", spec, "-o", "tree.png"]) == 0
    assert (tmp_path / "tree.png").read_text().split() == ["-Tpng", *source.split()]
    stand_in.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('syntax error in line 1')\n")
    assert main(["explain", spec, "-o", "broken.pdf"]) == 1
    assert "syntax error in line 1" in capsys.readouterr().err
    assert not (tmp_path / "broken.pdf").exists()


def test_a_state_is_explained_as_its_spec_is(dynq: Dynq, tmp_path: Path) -> None:
    spec = str(ROOT / "specs" / "shop_lines.yaml")
    assert dynq("init", spec).returncode == 0
    assert dynq("explain", ".dynq").stdout == dynq("explain", spec).stdout


def test_a_directory_that_is_no_state_has_its_exit_code(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / ".dynq").mkdir()
    run = dynq("explain", ".dynq")
    assert (run.returncode, run.stdout) == (10, "")
    assert "there is no state in .dynq" in run.stderr


def test_a_missing_and_a_broken_spec_have_the_exit_codes_of_the_contract(dynq: Dynq, tmp_path: Path) -> None:
    assert dynq("explain", "gone.yaml").returncode == 2
    (tmp_path / "broken.yaml").write_text("version: 1\nrelations: {}\n")
    run = dynq("explain", "broken.yaml")
    assert (run.returncode, run.stdout) == (3, "")
    assert "broken.yaml:" in run.stderr
    assert "Traceback" not in run.stderr


def test_without_an_argument_the_state_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    assert main(["explain"]) == 10
    capsys.readouterr()
    Path("s.yaml").write_text(
        'version: 1\nrelations: {R: {columns: {x: int64}}}\nqueries: {q: {rule: "q(x) :- R(x)"}}\n'
    )
    dynq_cli.create("s.yaml").close()
    assert main(["explain"]) == 0
    of_state = capsys.readouterr().out
    assert main(["explain", "s.yaml"]) == 0
    assert capsys.readouterr().out == of_state
    dynq_cli.create("s.yaml", "other").close()
    assert main(["explain", "-s", "other"]) == 0
    assert capsys.readouterr().out == of_state
