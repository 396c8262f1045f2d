"""The papers' TPC-H queries give what DuckDB does after every commit of a stream with deletes and updates."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SPECS = sorted((ROOT / "specs" / "tpch").glob("*.yaml"))
GENERATOR = Path(sys.executable).parent / "tpchgen-cli"


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@pytest.mark.skipif(not GENERATOR.exists(), reason="tpchgen-cli is not installed here: pip install -e .[dev]")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_results_are_those_of_duckdb_after_every_commit(spec: Path, data: Path) -> None:
    options = ["--scale", "0.01", "--chunks", "4", "--check"]
    command = [sys.executable, ROOT / "benchmarks" / "run_tpch.py", spec, data, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"] > 0
