"""States that several files of command tests start from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli

BAG_AND_SET = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
queries:
  bag: {sql: "SELECT x FROM R"}
  set: {sql: "SELECT DISTINCT x FROM R"}
"""


@pytest.fixture
def bag_and_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a state at version 1: three rows, of which two are one in either result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(BAG_AND_SET)
    with dynq_cli.create("spec.yaml") as view:
        view.apply({"R": pa.table({"x": [1, 1, 2], "y": [5, 6, 5]})})
