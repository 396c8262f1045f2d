"""`dynq mark`, `marks` and `unmark`: named versions, which are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from dynq_cli.storage import commit
from dynq_cli.storage.lock import writing_to
from tests.conftest import ROOT

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
Capture = pytest.CaptureFixture[str]
HEAVY = ("numba", "numpy", "pyarrow", "duckdb", "sqlglot", "yaml", "lark", "pydantic")
SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries: {all: {sql: "SELECT x FROM R"}}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    assert main(["init", "spec.yaml"]) == 0
    apply(1)
    capsys.readouterr()


def apply(number: int) -> None:
    Path(f"R.{number}.csv").write_text(f"x\n{number}\n")
    assert main(["apply", f"R.{number}.csv", "--quiet"]) == 0


def marks(capsys: Capture) -> dict[str, int]:
    capsys.readouterr()
    assert main(["marks", "--json"]) == 0
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return found


def test_a_mark_names_the_version_in_force_or_the_one_that_is_said(dynq: Dynq) -> None:
    run = dynq("mark", "now")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "dynq: now is version 1\n")
    assert dynq("mark", "begin", "--at", "0").stderr == "dynq: begin is version 0\n"
    assert dynq("mark", "again", "--at", "begin").returncode == 0
    run = dynq("marks")
    assert (run.returncode, run.stdout, run.stderr) == (0, "again  0\nbegin  0\nnow    1\n", "")


def test_a_mark_that_is_there_moves(capsys: Capture) -> None:
    assert main(["mark", "hourly"]) == 0
    apply(2)
    assert marks(capsys) == {"hourly": 1}
    assert main(["mark", "hourly"]) == 0
    assert marks(capsys) == {"hourly": 2}


def test_without_marks_nothing_is_printed(capsys: Capture) -> None:
    assert main(["marks"]) == 0
    assert capsys.readouterr() == ("", "")
    assert marks(capsys) == {}


def test_a_mark_can_be_given_up_once(capsys: Capture) -> None:
    assert main(["mark", "hourly"]) == 0
    assert main(["unmark", "hourly"]) == 0
    assert "it was version 1" in capsys.readouterr().err
    assert marks(capsys) == {}
    assert main(["unmark", "hourly"]) == 3
    assert "no mark hourly" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["mark", "7"], 2, "cannot be named '7'"),
        (["mark", "once an hour"], 2, "letters, digits"),
        (["mark", ""], 2, "cannot be named"),
        (["mark"], 2, "NAME"),
        (["mark", "late", "--at", "9"], 3, "no version 9 yet"),
        (["mark", "late", "--at", "nobody"], 3, "no mark nobody"),
        (["mark", "x", "-s", "nowhere"], 10, "no state"),
        (["marks", "-s", "nowhere"], 10, "no state"),
        (["unmark", "x", "-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    args: list[str], code: int, said: str, capsys: Capture
) -> None:
    manifest = Path(".dynq/CURRENT").read_bytes()
    assert main(args) == code
    assert said in capsys.readouterr().err
    assert Path(".dynq/CURRENT").read_bytes() == manifest
    assert not Path("nowhere").exists()


def test_another_writer_is_named_and_marks_can_still_be_read(capsys: Capture) -> None:
    assert main(["mark", "hourly"]) == 0
    with writing_to(Path(".dynq")):
        assert main(["mark", "daily"]) == 11
        assert str(os.getpid()) in capsys.readouterr().err
        assert main(["unmark", "hourly"]) == 11
        assert marks(capsys) == {"hourly": 1}


def test_a_marked_version_outlives_snapshots_and_prunes_until_it_is_given_up(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    assert main(["mark", "early"]) == 0
    for number in range(2, 7):
        apply(number)
    assert main(["prune"]) == 0
    capsys.readouterr()
    assert main(["count", "--at", "early"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert main(["unmark", "early"]) == 0
    assert main(["prune"]) == 0
    assert main(["count", "--at", "1"]) == 3
    assert "version 1 is not kept any more; the oldest is 5" in capsys.readouterr().err


def test_status_says_which_versions_are_kept_for_whom_and_what_that_costs(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    assert main(["mark", "early"]) == 0
    for number in range(2, 5):
        apply(number)
    assert main(["mark", "late"]) == 0
    assert main(["prune"]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["marks"], read["kept_since"], read["needed_since"]) == ({"early": 1, "late": 4}, 1, 1)
    length = sum(path.stat().st_size for path in Path(".dynq").glob("wal-*"))
    assert read["bytes"]["history"] == length > 0, "nothing was applied since the last snapshot"
    assert main(["status"]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert ["mark", "early", "version 1"] in lines
    assert ["mark", "late", "version 4"] in lines
    kept = next(" ".join(line[1:]) for line in lines if line[0] == "kept")
    assert kept == "versions since 1, those since 1 for early"
    assert ["logs", "before", f"{length:,} bytes, for versions before the snapshot"] in lines


def test_marks_load_nothing_heavy() -> None:
    program = (
        "import sys; from dynq_cli.cli.app import main;"
        "codes = [main(['mark', 'a']), main(['marks']), main(['unmark', 'a', '--quiet'])];"
        f"sys.exit(str(codes) if any(codes) else str([n for n in {HEAVY!r} if n in sys.modules]).strip('[]') or 0)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
