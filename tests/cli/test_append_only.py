"""Rows of a relation that the spec declares `append_only` only ever come."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import RejectedError

SPEC = """
version: 1
relations:
  R: {columns: {a: int64, b: int64}, key: [a], append_only: true}
  S: {columns: {a: int64}, append_only: false}
queries:
  q: {rule: "q(a, b) :- R(a, b)"}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    Path("R.csv").write_text("a,b\n1,10\n2,20\n")
    assert main(["init", "spec.yaml"]) == 0
    assert main(["apply", "R.csv"]) == 0


def _count() -> int:
    with dynq_cli.open() as view:
        return view.counts("q").rows


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("_change_type,a,b\ninsert,3,30\ndelete,1,10\n", "row 2: deletes a row of R"),
        ("_change_type,a,b\nupdate_preimage,1,10\nupdate_postimage,1,11\n", "row 1: changes a row of R"),
        ("_change_type,a,b\ninsert,3,30\ndelete,3,30\n", "row 2: deletes a row of R"),
    ],
)
def test_a_log_that_takes_a_row_away_is_refused(log: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.2.csv").write_text(log)
    assert main(["apply", "R.2.csv"]) == 3
    assert message in capsys.readouterr().err
    assert _count() == 2
    assert main(["check"]) == 0


def test_upserts_bring_new_keys_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("R.2.csv").write_text("a,b\n3,30\n")
    assert main(["apply", "--upsert", "R.2.csv"]) == 0
    Path("R.3.csv").write_text("a,b\n3,31\n")
    assert main(["apply", "--upsert", "R.3.csv"]) == 3
    assert _count() == 3


def test_a_dump_without_a_row_that_was_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.csv").write_text("a,b\n1,10\n2,20\n3,30\n")
    assert main(["apply", "--replace", "R=more.csv"]) == 0
    Path("less.csv").write_text("a,b\n1,10\n2,21\n")
    assert main(["apply", "--replace", "R=less.csv"]) == 3
    assert "2 rows of R would go, which the spec declares `append_only`" in capsys.readouterr().err
    assert _count() == 3


def test_the_library_refuses_it_too_and_old_versions_are_read() -> None:
    with dynq_cli.open() as view:
        with pytest.raises(RejectedError, match="append_only"):
            view.apply(pa.table({"_change_type": ["delete"], "a": [1], "b": [10]}), "R")
        view.apply(pa.table({"a": [3], "b": [30]}), "R")
    assert main(["enum", "--at", "1", "-o", "old.csv"]) == 0
    assert sorted(Path("old.csv").read_text().split()) == ["1,10", "2,20", "a,b"]
