"""`dynq check`: a line per file, or the damage."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main

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
    with dynq_cli.create("spec.yaml") as view:
        view.apply({"R": pa.table({"x": [1, 1, 2]})})


def flip(name: str) -> None:
    content = bytearray((Path(".dynq") / name).read_bytes())
    content[len(content) // 2] ^= 1
    (Path(".dynq") / name).write_bytes(content)


@pytest.mark.parametrize("options", [[], ["--read-data"]], ids=["quick", "all"])
def test_a_state_as_it_was_written_has_a_line_per_file(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *options]) == 0
    captured = capsys.readouterr()
    files = {line.split()[1].rstrip(":") for line in captured.out.splitlines()}
    assert {"CURRENT", "spec.yaml", "snapshot-0001", "wal-0001", "ledger"} <= files
    assert captured.err == ""


def test_damage_is_named_and_has_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    flip("spec.yaml")
    flip("wal-0001")
    assert main(["check"]) == 12
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "spec.yaml" in captured.err
    assert "wal-0001" in captured.err


def test_only_reading_all_finds_what_is_wrong_inside_a_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    flip("snapshot-0001")
    assert main(["check"]) == 0
    assert "not read" in capsys.readouterr().out
    assert main(["check", "--read-data"]) == 12
    assert "snapshot-0001" in capsys.readouterr().err


def test_where_nothing_is_there_is_no_state() -> None:
    assert main(["check", "-s", "elsewhere"]) == 10


def test_the_findings_are_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["state"] == ".dynq"
    assert {"file": "CURRENT", "level": "ok", "what": "version 1, generation 1"} in said["findings"]
