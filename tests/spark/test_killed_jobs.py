"""A job that is killed leaves nothing that `apply` takes, and is simply run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dynq_cli.cli.app import main
from tests.conftest import ROOT, Dynq
from tests.spark.snapshots import apply, held, new_state

SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, n: int64, name: string}, key: [k]}
queries: {q: {sql: "SELECT k, n FROM R WHERE n > 10"}}
"""
ROWS = 200_000


def save(folder: Path, rows: int, shift: int) -> None:
    folder.mkdir()
    k = np.arange(rows)
    names = pa.array([f"name {i}" for i in range(100)]).take(pa.array(k % 100))
    pq.write_table(pa.table({"k": k, "n": k % 7 + shift, "name": names}), folder / "part-0.parquet")


@pytest.mark.own_java
def test_killed_jobs_leave_nothing_to_apply_and_are_simply_run_again(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs in one process: when the first has begun to write, the other one is near that point."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        new_state(folder, SPEC)
        save(folder / "day1", ROWS, 0)
        (folder / "inbox").mkdir()
    jobs = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.snapshot_jobs", *map(str, folders)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    parts = "inbox/.out.*.unfinished/R/**/part-*.parquet"
    wait_for(lambda: any(any(folder.glob(parts)) for folder in folders) or jobs.poll() is not None)
    jobs.send_signal(signal.SIGKILL)
    assert jobs.wait(60) == -signal.SIGKILL, jobs.stderr and jobs.stderr.read()
    wait_for(lambda: not is_alive(jobs.pid))
    assert any(path.suffix == ".unfinished" for folder in folders for path in (folder / "inbox").iterdir())
    for folder in folders:
        assert all(path.name.startswith(".out.") for path in (folder / "inbox").iterdir())
        assert apply(folder / "state", folder / "inbox") == []
        assert not held(folder / "state", "R")
    one = tmp_path / "one"
    again = ["extract", "snapshot", "--after", f"{one}/day1", "--relation", "R", "--state", f"{one}/state"]
    assert main([*again, "-o", f"{one}/inbox/out", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == f"dynq: {one}/inbox/out: R, {ROWS:,} inserted, 0 replaced, 0 deleted\n"
    assert json.loads(said.out)["inserted"] == ROWS
    assert main(["apply", f"{one}/inbox", "--state", f"{one}/state"]) == 0
    assert held(one / "state", "R").total() == ROWS


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def is_alive(group: int) -> bool:
    """Whether a process of the group is left: Java ends by itself when its driver is gone."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_wrong_is_said_before_spark_is_started(tmp_path: Path, dynq: Dynq) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    job = ["extract", "snapshot", "--after", "nowhere", "-o", "out", "--spec", "spec.yaml"]
    wrong = dynq(*job, "--relation", "T")
    assert (wrong.returncode, wrong.stderr) == (2, "dynq: --relation T: spec.yaml has no such relation; it has R\n")


def test_check_says_in_a_line_what_is_missing(dynq: Dynq, tmp_path: Path) -> None:
    ready = dynq("extract", "--check")
    assert ready.returncode == 0
    assert ready.stdout.startswith("Spark is ready: pyspark ")
    without = dynq("extract", "--check", JAVA_HOME=str(tmp_path))
    assert without.returncode == 1
    assert without.stderr.startswith("dynq: missing for extraction: Java: install Java 17 or newer")


def test_without_pyspark_the_next_step_is_said(dynq: Dynq, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'pyspark' else find(name, package)\n"
    )
    job = ["extract", "snapshot", "--after", "b", "--relation", "R", "-o", "out"]
    done = dynq(*job, PYTHONPATH=f"{hidden}{os.pathsep}{ROOT}")
    assert done.returncode == 1
    assert "pip install 'dynq-cli[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
