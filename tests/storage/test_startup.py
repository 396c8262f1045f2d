"""Opening a state loads what it needs and nothing else: neither compilers nor parsers, from the first command on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FRONT_END = ["duckdb", "lark", "sqlglot", "yaml"]
HEAVY = [*FRONT_END, "numba", "importlib.metadata", "pyarrow.dataset", "pyarrow.parquet", "pyspark"]
PLAIN = """
version: 1
relations:
  R: {columns: {x: int64, y: string}}
  S: {columns: {y: string, z: int64}}
queries:
  q: {sql: "SELECT x, R.y, z FROM R, S WHERE R.y = S.y"}
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state of a query without filters and computed columns, with a few versions."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "spec.yaml").write_text(PLAIN, "utf-8")
    code = """
import dynq_cli, pyarrow as pa
with dynq_cli.create("spec.yaml", "state") as state:
    state.apply({"R": pa.table({"x": [1, 2], "y": ["a", "b"]}), "S": pa.table({"y": ["a"], "z": [1]})})
"""
    loaded_by(folder, code)
    return folder


def loaded_by(folder: Path, code: str, **env: str) -> set[str]:
    """The modules that a process has loaded after some code."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


ENUM = 'import dynq_cli\nassert sum(map(len, dynq_cli.open("state").enum())) > 0'
APPLY = """
import dynq_cli, pyarrow as pa
with dynq_cli.open("state") as state:
    state.apply(pa.table({"x": [3], "y": ["a"]}), "R")
    state.apply(pa.table({"x": [3], "y": ["a"], "_change_type": ["delete"]}), "R")
"""
TEST = 'import dynq_cli\nassert dynq_cli.open("state").test({"x": 1, "y": "a", "z": 1}) == 1'


@pytest.mark.parametrize("code", [ENUM, APPLY, TEST], ids=["enum", "apply", "test"])
def test_a_command_loads_no_compiler_and_no_parser(plain: Path, code: str) -> None:
    assert loaded_by(plain, code) & set(HEAVY) == set()


EVERYTHING = """
version: 1
relations:
  R: {columns: {x: int64, y: string, v: float64?}}
  S: {columns: {y: string, z: int64, w: string}}
queries:
  ordered: {sql: "SELECT x, R.y, w FROM R, S WHERE R.y = S.y", order_by: [y desc, w]}
  ranges: {sql: "SELECT R.x, S.z FROM R, S WHERE R.x < S.z AND R.y = S.y"}
  groups: {sql: "SELECT y, SUM(v) AS s, MIN(x) AS m, COUNT(DISTINCT v) AS d FROM R GROUP BY y", order_by: [s, y]}
  words: {sql: "SELECT R.x, MAX(S.w) AS w FROM R, S WHERE R.y = S.y GROUP BY R.x"}
  either: {rule: ["either(x) :- R(x, y, v)", "either(z) :- S(y, z, w)"]}
"""
FILL = """
import dynq_cli, pyarrow as pa
for i in range(2):
    with (dynq_cli.create("spec.yaml", "state") if i == 0 and HOW == "create" else dynq_cli.open("state")) as state:
        state.apply({
            "R": pa.table({"x": [i, 2], "y": ["a", f"b{i}"], "v": [1.5, None]}),
            "S": pa.table({"y": ["a", "b1"], "z": [1, 5], "w": [f"p{i}", "q"]}),
        })
state = dynq_cli.open("state")
for query in ("ordered", "ranges", "groups", "words", "either"):
    assert sum(map(len, state.enum(query))) > 0
    list(state.diff(query).batches)
    assert sum(map(len, state.enum(query, at=1))) > 0
    assert sum(map(len, state.jth([1], query))) == 1
assert state.rank({"x": 1, "y": "a", "w": "p1"}, "ordered") > 0
assert sum(map(len, state.page("ordered", after={"y": "az"}, limit=5))) > 0
"""


def test_the_first_command_does_what_the_second_does(tmp_path: Path) -> None:
    """No kernel of any query is compiled, and nothing is kept that would make a later command quicker."""
    (tmp_path / "spec.yaml").write_text(EVERYTHING, "utf-8")
    (home := tmp_path / "home").mkdir()
    nowhere = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    first = loaded_by(tmp_path, f"HOW = 'create'\n{FILL}", **nowhere)
    second = loaded_by(tmp_path, f"HOW = 'open'\n{FILL}", **nowhere)
    assert (first | second) & {"numba", "llvmlite", "dynq_cli.engine.kernels.jit"} == set()
    assert list(home.iterdir()) == []


def test_reading_rows_loads_neither_pandas_nor_arrow_functions(plain: Path) -> None:
    assert loaded_by(plain, ENUM) & {"pandas", "pyarrow.compute"} == set()


def test_counting_loads_no_arrays(plain: Path) -> None:
    counted = loaded_by(plain, 'import dynq_cli\nassert dynq_cli.open("state").count() == 1')
    assert counted & {*HEAVY, "numpy", "pyarrow", "llvmlite"} == set()


@pytest.mark.parametrize(
    ("condition", "loaded"), [("z > 0", set()), ("y LIKE 'q%'", set()), ("z % 7 = 5", {"duckdb"})], ids=str
)
def test_filters_load_duckdb_when_rows_come_and_codes_do_not_tell(
    tmp_path: Path, condition: str, loaded: set[str]
) -> None:
    (tmp_path / "spec.yaml").write_text(PLAIN.replace("R.y = S.y", f"R.y = S.y AND S.{condition}"), "utf-8")
    made = """
import dynq_cli, pyarrow as pa
with dynq_cli.create("spec.yaml", "state") as state:
    state.apply({"R": pa.table({"x": [1], "y": ["q"]}), "S": pa.table({"y": ["q"], "z": [12]})})
"""
    loaded_by(tmp_path, made)
    assert loaded_by(tmp_path, ENUM) & set(HEAVY) == set()
    code = """
import dynq_cli, pyarrow as pa
with dynq_cli.open("state") as state:
    state.apply(pa.table({"y": ["q"], "z": [5]}), "S")
"""
    assert loaded_by(tmp_path, code) & set(FRONT_END) == loaded
