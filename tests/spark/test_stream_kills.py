"""A streaming job that is killed again and again, by SIGKILL, neither loses nor repeats a change.

What is promised is not that a file is a version: files that Spark saw, but had no time to make a batch of, are in the
next batch together with others. So a state holds the changes of the first files, each once, and has at most as many
versions. What one kill left is there when the next comes. `DYNQ_STREAM_KILLS` is the number of jobs that are killed.

Starting Spark takes longer than anything else here. So ten jobs run in one process, a kill meets each of them somewhere
else, and the next process starts while the states that the last one left are looked at.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from dynq_cli.storage.manifest import read_manifest
from tests.conftest import ROOT
from tests.spark.snapshots import agrees_with_duckdb, new_state
from tests.spark.stream_files import SPEC, files_held, put_files
from tests.spark.test_killed_jobs import is_alive, wait_for

JOBS = 10  # at a time, in one process
KILLS = int(os.environ.get("DYNQ_STREAM_KILLS", "20"))
TIMES = -(-KILLS // JOBS)
FILES = 60 + 10 * TIMES
MORE = TIMES + 1  # each kill may leave one more file that Spark saw and that is in no batch yet
# What is written, in this order, in the course of a batch.
STEPS = ("work/spark/sources/0", "work/spark/offsets", "work/batch", "state/synced", "work/spark/commits")


class Jobs:
    """A process with all jobs. Spark starts at once, the jobs begin with `go`."""

    def __init__(self, folders: list[Path]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stream_jobs", *map(str, folders)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> int:
        """Kill what is left of it; how it ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait(60)
        wait_for(lambda: not is_alive(self.process.pid))
        return status

    def said(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode(errors="replace")


@contextmanager
def started(folders: list[Path]) -> Iterator[Jobs]:
    jobs = Jobs(folders)
    try:
        yield jobs
    finally:
        jobs.end()


def written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def kill_after(step: Path, seconds: float, jobs: Jobs, all_at_work: Sequence[Path]) -> None:
    """Let the jobs run until all these files are there, then until something is written, and so long after that."""
    jobs.go()
    wait_for(lambda: all(path.exists() for path in all_at_work) or jobs.ended(), 300)
    before = written(step)
    wait_for(lambda: written(step) != before or jobs.ended(), 300)
    time.sleep(seconds)
    assert jobs.end() == -signal.SIGKILL, jobs.said()


def check(folders: dict[Path, int], step: Path) -> None:
    """What a kill left: of each state, not less than before."""
    for folder, before in folders.items():
        found, version = files_held(folder / "state"), read_manifest(folder / "state").version
        assert version <= found, f"killed at {step}"
        assert before <= found < FILES, f"killed at {step}"
        folders[folder] = found


@pytest.mark.own_java
def test_kills_at_random_moments_neither_lose_nor_repeat_a_change(tmp_path: Path) -> None:
    rng = Random(KILLS)
    folders = {tmp_path / str(job): 0 for job in range(JOBS)}
    with ExitStack() as stack:
        jobs = stack.enter_context(started(list(folders)))
        for folder in folders:
            new_state(folder, SPEC)
            put_files(folder / "in", range(FILES))
        for turn in range(1, TIMES + 1):
            step = rng.choice(list(folders)) / rng.choice(STEPS)
            # The first kills may come before some job has begun; after the last, each has applied something.
            all_at_work = [folder / "work/spark/commits/0" for folder in folders] if turn == TIMES else []
            kill_after(step, rng.choice([0, rng.random() * 0.05, rng.random()]), jobs, all_at_work)
            jobs = stack.enter_context(started(list(folders)))
            check(folders, step)
        assert all(folders.values())
        for folder, found in folders.items():
            for path in sorted((folder / "in").iterdir())[found + MORE :]:
                path.unlink()
        jobs.go()
        assert jobs.process.wait(300) == 0, jobs.said()
    for folder, found in folders.items():
        assert files_held(folder / "state") == found + MORE
        assert agrees_with_duckdb(folder / "state")


@pytest.mark.own_java
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
    assert {"link in/R.0001.jsonl", "fdatasync state/wal-0001", "create work/commits-1"} <= set(calls)
