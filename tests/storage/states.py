"""What the tests of states share: a small spec with its history, random cases as spec files, and comparisons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec
from dynq_cli.storage.state import State, create
from tests.conftest import ROOT
from tests.engine.random_queries import Case
from tests.engine.random_runs import plain

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}}
  S: {columns: {y: string, z: int64?}}
queries:
  pairs: {sql: "SELECT x, R.y, z FROM R, S WHERE R.y = S.y AND z > 0"}
  keys: {rule: "keys(y) :- R(_, y), S(y, _)"}
"""
Tables = dict[str, pa.Table]


def small_state(folder: Path, versions: int = 0) -> State:
    """The small spec in `folder/state`, after some versions."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.yaml").write_text(SPEC, "utf-8")
    state = create(folder / "spec.yaml", folder / "state")
    for version in range(1, versions + 1):
        state.apply(small_batch(version))
    return state


def small_batch(version: int) -> Tables:
    """What version `version` of the small history adds: rows that join, new strings, and a delete."""
    names = [f"name {(version * 7 + i) % 11}" for i in range(20)]
    r = pa.table({"x": list(range(version * 20, version * 20 + 20)), "y": names})
    s = pa.table({"y": [f"name {version % 11}", f"new {version}"], "z": pa.array([version, None], pa.int64())})
    if version == 1:
        return {"R": r, "S": s}
    gone = pa.table({"x": [(version - 1) * 20], "y": [f"name {((version - 1) * 7) % 11}"]})
    kinds = ["insert"] * 20 + ["delete"]
    return {"R": pa.concat_tables([r, gone]).append_column("_change_type", pa.array(kinds)), "S": s}


def small_live(versions: int) -> Views:
    """The small history in memory, which no file has seen."""
    planned = plan_spec(SPEC)
    live = Views(planned.spec, planned.kept)
    for version in range(1, versions + 1):
        live.apply(small_batch(version))
    return live


def rows_of(source: State | Views, queries: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Every result, in the order of its enumeration."""
    rows = {q: [row for batch in source.enum(q) for row in batch.to_pylist()] for q in queries}
    return {q: [{name: plain(value) for name, value in row.items()} for row in found] for q, found in rows.items()}


def small_rows(source: State | Views) -> dict[str, list[dict[str, Any]]]:
    return rows_of(source, ["pairs", "keys"])


def bytes_of(state: State) -> list[bytes]:
    """All that the engine of a state has in memory."""
    views = state.current()
    arena, values = views.engine.arena, views.dictionaries
    flats = [a for d in (values.strings, values.binaries, values.decimals) for a in d.flat]
    return [
        arena.tables.tobytes(),
        arena.words[: arena.top].tobytes(),
        repr(arena.holes).encode(),
        *(a.tobytes() for a in flats),
        values.labels.array.tobytes(),
    ]


HEAVY = ("numba", "numpy", "pyarrow", "pyspark", "duckdb", "sqlglot", "yaml")


def printed_by(code: str, state: Path) -> str:
    """What code prints about a state, `sys.argv[1]`, in a process of its own that imports no large library."""
    check = f"\nheavy = set({HEAVY}) & set(sys.modules)\nsys.exit(f'imported {{heavy}}' if heavy else 0)\n"
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + code + check, str(state)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def spec_text(case: Case) -> str:
    """A random case as a spec file; JSON is YAML."""
    relations: dict[str, Any] = {}
    for r in case.spec.relations:
        columns = {c.name: f"{c.type}{'?' if c.nullable else ''}" for c in r.columns}
        relations[r.name] = {"columns": columns} | ({"key": list(r.key)} if r.key else {})
    queries: dict[str, Any] = {}
    for q in case.queries:
        queries[q.name] = {q.language: q.text} | ({"semantics": q.semantics} if q.semantics else {})
        if q.order_by:
            queries[q.name]["order_by"] = [str(key) for key in q.order_by]
    return json.dumps({"version": 1, "relations": relations, "queries": queries}, ensure_ascii=False, indent=1)
