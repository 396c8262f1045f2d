"""`dynq status`: the facts of a state, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynq_cli.cli.app import main
from tests.conftest import ROOT

HEAVY = ("numba", "pyarrow", "duckdb", "sqlglot", "yaml", "lark", "pydantic")
pytestmark = pytest.mark.usefixtures("bag_and_set")


def test_version_counts_and_sizes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    captured = capsys.readouterr()
    lines = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in captured.out.splitlines()}
    assert lines["version"].startswith("1, of 20")
    assert lines["query bag"] == "3 rows, 2 distinct"
    assert lines["query set"] == "2 rows"
    assert lines["outputs"] == "never written"
    assert lines["writer"] == "none"
    assert captured.err == ""


def test_json_has_the_same_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["version"] == 1
    assert read["queries"] == {"bag": {"rows": 3, "distinct": 2}, "set": {"rows": 2, "distinct": 2}}
    assert read["outputs_at"] is None
    assert read["bytes"]["total"] >= read["bytes"]["snapshot"] > 0
    assert [entry["version"] for entry in read["recent"]] == [1, 0]
    assert read["applied"] >= read["made"]


def test_it_does_not_wait_for_an_engine() -> None:
    program = (
        "import sys; from dynq_cli.cli.app import main; code = main(['status']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_where_nothing_is_there_is_no_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-s", "elsewhere"]) == 10
    assert "dynq init" in capsys.readouterr().err


def test_a_damaged_manifest_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(Path(".dynq/CURRENT").read_bytes())
    content[-5] ^= 1
    Path(".dynq/CURRENT").write_bytes(content)
    assert main(["status"]) == 12
    assert "CURRENT" in capsys.readouterr().err
