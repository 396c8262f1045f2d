"""A streaming job that is killed again and again, by SIGKILL, neither loses nor repeats a change.

What is promised is not that a file is a version: files that Spark saw, but had no time to make a batch of, are in the
next batch together with others. So a state holds the changes of the first files, each once, and has at most as many
versions. What one kill left is there when the next comes. `DYNQ_STREAM_KILLS` is the number of jobs that are killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from dynq_cli.storage.manifest import read_manifest
from tests.conftest import ROOT
from tests.spark.snapshots import agrees_with_duckdb, new_state
from tests.spark.stream_files import SPEC, files_held, put_files
from tests.spark.test_killed_jobs import is_alive, wait_for

JOBS = 7  # at a time, in one process: a kill meets each of them somewhere else
KILLS = int(os.environ.get("DYNQ_STREAM_KILLS", "20"))
TIMES = -(-KILLS // JOBS)
FILES = 60 + 10 * TIMES
MORE = TIMES + 1  # each kill may leave one more file that Spark saw and that is in no batch yet
# What is written, in this order, in the course of a batch.
STEPS = ("work/spark/sources/0", "work/spark/offsets", "work/batch", "state/CURRENT", "work/spark/commits")


def started(folders: list[Path]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.stream_jobs", *map(str, folders)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def killed_after(step: Path, seconds: float, folders: list[Path]) -> None:
    """Let the jobs run until something is written, and so long after that."""
    before = written(step)
    process = started(folders)
    try:
        wait_for(lambda: written(step) != before or process.poll() is not None, 300)
        time.sleep(seconds)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL, process.stderr and process.stderr.read().decode()
    wait_for(lambda: not is_alive(process.pid))


def test_kills_at_random_moments_neither_lose_nor_repeat_a_change(tmp_path: Path) -> None:
    rng = Random(KILLS)
    folders = [tmp_path / str(job) for job in range(JOBS)]
    for folder in folders:
        new_state(folder, SPEC)
        put_files(folder / "in", range(FILES))
    files = dict.fromkeys(folders, 0)
    for _ in range(TIMES):
        step = rng.choice(folders) / rng.choice(STEPS)
        killed_after(step, rng.choice([0, rng.random() * 0.05, rng.random()]), folders)
        for folder in folders:
            found, version = files_held(folder / "state"), read_manifest(folder / "state").version
            assert version <= found, f"killed at {step}"
            assert files[folder] <= found < FILES, f"killed at {step}"
            files[folder] = found
    assert all(files.values()), "the kills came too early to tell anything"
    for folder in folders:
        for path in sorted((folder / "in").iterdir())[files[folder] + MORE :]:
            path.unlink()
    last = started(folders)
    assert last.wait(300) == 0, last.stderr and last.stderr.read().decode()
    for folder in folders:
        assert files_held(folder / "state") == files[folder] + MORE
        assert agrees_with_duckdb(folder / "state")


def test_kills_at_every_step_of_a_batch_neither_lose_nor_repeat_a_change(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.stream_steps", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    calls = json.loads(done.stdout)
    assert {"link in/R.0001.jsonl", "replace state/CURRENT.tmp", "create work/commits-1"} <= set(calls)
