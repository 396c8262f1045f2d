"""`dynq prune`: what is not needed goes, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.storage import commit
from dynq_cli.storage.lock import writing_to

SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries: {q: {sql: "SELECT x FROM R"}}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
        with dynq_cli.create("spec.yaml") as view:
            view.apply({"R": pa.table({"x": [1, 1, 2]})})


def test_the_generation_before_goes_and_the_results_stay(capsys: pytest.CaptureFixture[str]) -> None:
    assert Path(".dynq/PREVIOUS").exists()
    assert main(["prune"]) == 0
    assert "bytes" in capsys.readouterr().err
    assert not Path(".dynq/PREVIOUS").exists()
    assert len(list(Path(".dynq").glob("snapshot-*"))) == 1
    assert main(["check", "--read-data"]) == 0
    capsys.readouterr()
    assert main(["count"]) == 0
    assert capsys.readouterr().out == "3\n"


def test_a_second_time_there_is_nothing_to_remove(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "--quiet"]) == 0
    assert main(["prune"]) == 0
    assert "nothing to remove" in capsys.readouterr().err


def test_versions_that_are_no_longer_kept_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with dynq_cli.open(".dynq") as view:
        for x in range(3):
            view.apply({"R": pa.table({"x": [x]})})
    assert main(["prune"]) == 0
    said = capsys.readouterr().err
    assert "dynq: removed " in said and "; versions 0 to 2 are no longer kept, versions since 3 are kept\n" in said
    with dynq_cli.open(".dynq") as view:
        view.apply({"R": pa.table({"x": [7]})})
    assert main(["prune"]) == 0
    assert capsys.readouterr().err == (
        "dynq: there is no file to remove from .dynq; version 3 is no longer kept, versions since 4 are kept\n"
    )


def test_files_of_others_stay() -> None:
    Path(".dynq/notes.txt").write_text("mine")
    assert main(["prune"]) == 0
    assert Path(".dynq/notes.txt").read_text() == "mine"


def test_where_nothing_is_there_is_no_state() -> None:
    assert main(["prune", "-s", "elsewhere"]) == 10


def test_nothing_goes_while_another_process_writes() -> None:
    with writing_to(Path(".dynq")):
        assert main(["prune"]) == 11
    assert Path(".dynq/PREVIOUS").exists()


def test_what_was_removed_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "PREVIOUS" in said["removed"] and said["bytes"] > 0
    assert main(["prune", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "state": ".dynq",
        "removed": [],
        "bytes": 0,
        "kept_since": said["kept_since"],
    }
