"""A run while other processes write: its outputs are those of one version, and nobody is in its way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dynq_cli.session.apply_logs import make
from dynq_cli.session.run import run
from dynq_cli.storage.state import State, open

SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries: {q: {sql: SELECT x FROM R}}
outputs: [{query: q, kind: enum, path: q.csv}]
"""


def test_a_version_made_while_outputs_are_written_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC, "utf-8")
    Path("inbox").mkdir()
    Path("inbox/R.csv").write_text("x\n1\n", "utf-8")
    make("spec.yaml", "state")
    schema = State.schema

    def another_writes(state: State, query: str | None = None) -> pa.Schema:
        monkeypatch.setattr(State, "schema", schema)
        open("state").apply(pa.table({"x": [2]}))
        return state.schema(query)

    monkeypatch.setattr(State, "schema", another_writes)
    ran = run("state", "inbox")
    assert (ran.version, ran.written) == (2, ("q.csv",))
    assert sorted(Path("q.csv").read_text("utf-8").split()) == ["1,1", "2,1", "x,_count"]
