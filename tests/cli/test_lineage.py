"""`dynq run --openlineage`: the logs that were applied, and what was written from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynq_cli.cli.app import main

SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries:
  q: {sql: "SELECT x FROM R"}
outputs:
  - {query: q, kind: count, path: out/q.json}
  - {query: q, kind: mirror, to: "duckdb:///out/q.duckdb", table: rows_of_q}
  - {query: q, kind: mirror, to: "postgresql://nobody:secret@127.0.0.1:1/shop"}
"""


def events() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("run.jsonl").read_text("utf-8").splitlines()]


def test_a_run_tells_what_it_read_and_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC.rsplit("  -", 1)[0], "utf-8")
    Path("inbox").mkdir()
    Path("inbox/R.1.csv").write_text("x\n1\n", "utf-8")
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    assert main(["run", "inbox", "--openlineage", "run.jsonl", "--quiet"]) == 0
    start, end = events()
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"] == end["run"] and start["job"] == {"namespace": "dynq", "name": str(tmp_path / ".dynq")}
    assert end["inputs"] == [{"namespace": "file", "name": str(tmp_path / "inbox/R.1.csv")}]
    assert end["outputs"] == [
        {"namespace": "file", "name": str(tmp_path / "out/q.json")},
        {"namespace": "file", "name": f"{tmp_path}/out/q.duckdb#rows_of_q"},
    ]
    assert main(["run", "inbox", "--openlineage", "run.jsonl", "--quiet"]) == 0
    assert [event["outputs"] for event in events()] == [[], []] and events()[0]["run"] != start["run"]
    assert main(["run", "inbox", "--openlineage", "gone/run.jsonl"]) == 2
    assert main(["run", "inbox", "--openlineage", "run.jsonl", "--dry-run"]) == 2


def test_a_run_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC, "utf-8")
    Path("inbox").mkdir()
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    Path("inbox/R.1.csv").write_text("x\n1\n", "utf-8")
    assert main(["run", "inbox", "--openlineage", "run.jsonl", "--quiet"]) == 1  # nobody listens there
    _, end = events()
    assert end["eventType"] == "FAIL" and len(end["outputs"]) == 2 and len(end["inputs"]) == 1
    assert "secret" not in Path("run.jsonl").read_text("utf-8")
