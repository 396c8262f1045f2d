"""`dynq init` checks the spec and refuses; nothing appears on disk."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64}}
queries:
  all_r: {sql: SELECT x FROM R}
"""


def test_a_good_spec_is_refused_in_one_sentence_and_leaves_no_state(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "r.csv").write_text("x\n1\n")
    run = dynq("init", "spec.yaml", "--load", "R=r.csv", "--state", "state")
    assert (run.returncode, run.stdout) == (3, "")
    assert len(run.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.csv", "spec.yaml"]


def test_the_errors_of_a_spec_come_first(dynq: Dynq, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("SELECT x", "SELECT nothing"))
    run = dynq("init", "spec.yaml")
    assert run.returncode == 3
    assert "spec.yaml:5:" in run.stderr


@pytest.mark.parametrize(
    ("load", "said"), [("R", "RELATION=PATH"), ("=r.csv", "RELATION=PATH"), ("R=gone.csv", "there is no gone.csv")]
)
def test_a_wrong_load_is_a_usage_error(dynq: Dynq, tmp_path: Path, load: str, said: str) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    run = dynq("init", "spec.yaml", "--load", load)
    assert run.returncode == 2
    assert said in run.stderr
