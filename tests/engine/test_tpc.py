"""The papers' TPC-H and TPC-DS queries, and all of TPC-H's as DuckDB's kit has them, give what DuckDB does after every
commit of a stream with deletes and updates.

`make tpc` does the same at a larger scale and with more commits (`DYNQ_TPC=0.1`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parent.parent.parent
SCALE = float(os.environ.get("DYNQ_TPC", "0.01"))
CHUNKS = 4 if SCALE <= 0.01 else 20
LISTED = {
    "tpch": ["fq1", "fq2", "fq3", "fq4", "q1", "q3", "q4", "q6", "q9", "q12", "q13", "q16", "q18"],
    "tpcds": ["fq5", "q3", "q7", "q19", "q22"],
}
# At small scales few or no items pass these filters; the value that most items have is tried too.
CHOSEN = {"q3": ("i_manufact_id", "436"), "q19": ("i_manager_id", "7")}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpc")


def needs(benchmark: str) -> None:
    """Skip without the generator, which `make test` installs."""
    if benchmark == "tpch" and not (Path(sys.executable).parent / "tpchgen-cli").exists():
        pytest.skip("tpchgen-cli is not installed here: pip install -e .[dev]")
    if benchmark == "tpcds" and not (ROOT / "benchmarks" / ".environments" / "tpcds" / "installed").exists():
        pytest.skip("the generator of TPC-DS is not installed here: python benchmarks/environments.py tpcds")


def run(benchmark: str, spec: Path, data: Path) -> dict[str, float]:
    needs(benchmark)
    command: list[str | Path] = [sys.executable, ROOT / "benchmarks" / f"run_{benchmark}.py", spec, data]
    options = ["--scale", str(SCALE), "--chunks", str(CHUNKS), "--check"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


@pytest.mark.parametrize("benchmark", LISTED)
def test_every_listed_query_has_a_spec(benchmark: str) -> None:
    assert {p.stem for p in (ROOT / "specs" / benchmark).glob("*.yaml")} == set(LISTED[benchmark])


@pytest.mark.parametrize(
    ("benchmark", "query"), [pytest.param(b, q, id=f"{b}-{q}") for b, queries in LISTED.items() for q in queries]
)
def test_results_are_those_of_duckdb_after_every_commit(benchmark: str, query: str, data: Path) -> None:
    done = run(benchmark, ROOT / "specs" / benchmark / f"{query}.yaml", data)
    assert done["changes"] > 0
    assert done["compared"] > 0


@pytest.mark.parametrize("query", CHOSEN)
def test_filters_that_more_rows_pass_give_the_results_of_duckdb_too(query: str, data: Path, tmp_path: Path) -> None:
    needs("tpcds")
    column, value = CHOSEN[query]
    generate = "import sys, pathlib, tpcds; tpcds.generated(pathlib.Path(sys.argv[1]), float(sys.argv[2]))"
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT}"}
    subprocess.run([sys.executable, "-c", generate, data, str(SCALE)], env=env, check=True)
    items = data / f"tpcds-{SCALE:g}" / "item.parquet"
    by_items = f"SELECT {column} FROM '{items}' GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1"
    ((most,),) = duckdb.execute(by_items).fetchall()
    text = (ROOT / "specs" / "tpcds" / f"{query}.yaml").read_text()
    assert f"{column} = {value}" in text
    spec = tmp_path / f"{query}.yaml"
    spec.write_text(text.replace(f"{column} = {value}", f"{column} = {most}"))
    assert run("tpcds", spec, data)["rows"] > 0


def kit(benchmark: str, data: Path, *options: str) -> dict[str, dict[str, dict[str, float]]]:
    needs("tpcds")
    command: list[str | Path] = [sys.executable, ROOT / "benchmarks" / "run_kit.py", benchmark, data]
    done = subprocess.run([*command, "--scale", "0.01", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, dict[str, float]]] = json.loads(done.stdout)
    assert found["refused"] == {}
    assert {name: said for name, said in found["queries"].items() if "commits" not in said} == {}
    return found


def test_all_queries_of_the_kit_of_tpch_are_taken_as_they_are_and_give_the_results_of_duckdb(data: Path) -> None:
    options = ["--chunks", "2", "--every", "10"] if SCALE <= 0.01 else ["--chunks", "20"]
    assert len(kit("tpch", data, *options)["queries"]) == 22


def test_all_queries_of_the_kit_of_tpcds_are_taken_as_they_are_and_give_the_results_of_duckdb(data: Path) -> None:
    """`make test` runs some of those that have subqueries as values, or conditions over several tables."""
    few = "q02,q09,q13,q30,q41,q44,q78"
    options = ["--chunks", "1", "--every", "20", "--only", few] if SCALE <= 0.01 else ["--chunks", "4"]
    assert len(kit("tpcds", data, *options)["queries"]) == (7 if SCALE <= 0.01 else 99)
