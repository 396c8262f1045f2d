"""Processes at the same time: one writes, the others are told so at once; readers see committed versions only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from dynq_cli.storage.state import open as open_state
from tests.conftest import ROOT
from tests.crash.history import History, Rows
from tests.crash.runner import Runner
from tests.crash.scenes import Consumer, seen

REAL_KILLS = 12
ROWS = 100
SPEC = """\
version: 1
relations:
  T: {columns: {v: int64, i: int64}}
queries:
  rows: {rule: "rows(v, i) :- T(v, i)"}
"""


def started(folder: Path, *args: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DYNQ_")}
    return subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", *args],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def history(tmp_path: Path) -> History:
    made = History(seed=3, logs=3)
    made.write(tmp_path)
    return made


def test_of_two_cron_jobs_one_works_and_the_other_ends_at_once(
    history: History, runner: Runner, tmp_path: Path
) -> None:
    assert runner.run(tmp_path, history.init).status == 0
    first = started(tmp_path, "run", "logs")
    lock = tmp_path / ".dynq/run-lock"
    while not (lock.exists() and lock.read_text() == str(first.pid)):
        assert first.poll() is None, first.communicate()
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)
    try:
        for command in (["run", "logs"], ["run", "logs"]):
            second = runner.run(tmp_path, command)
            assert second.status == 11
            assert str(first.pid) in second.first.err
    finally:
        first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert seen(runner, tmp_path) == (3, history.seen[3])
    consumer = Consumer(tmp_path, dict(enumerate(history.seen)), history.seen[0])
    consumer.take()
    consumer.has_all(3)


def test_jobs_that_start_together_apply_everything_once(history: History, runner: Runner, tmp_path: Path) -> None:
    assert runner.run(tmp_path, history.init).status == 0
    jobs = [started(tmp_path, "run", "logs") for _ in range(3)]
    codes: Counter[int] = Counter()
    for job in jobs:
        _, said = job.communicate(timeout=600)
        codes[job.returncode] += 1
        assert job.returncode in (0, 11), said
        assert "Traceback" not in said
    assert codes[0] >= 1
    assert seen(runner, tmp_path) == (3, history.seen[3])
    consumer = Consumer(tmp_path, dict(enumerate(history.seen)), history.seen[0])
    consumer.take()
    consumer.has_all(3)


def test_real_processes_that_are_killed_leave_before_or_after(runner: Runner, tmp_path: Path) -> None:
    chance, history = Random(11), History(seed=11, logs=0)
    history.write(tmp_path)
    shows: dict[int, Rows] = {}
    consumer, version, kills = Consumer(tmp_path, shows, history.seen[0]), -1, 0
    for turn in range(REAL_KILLS):
        command: Sequence[str] = ["run", "logs"] if turn % 3 else ["apply", "logs"]
        if version < 0:
            command = history.init
        history.extend(1)
        history.put(tmp_path / "logs", history.logs)
        child = started(tmp_path, *command)
        time.sleep(0.2 + chance.random())
        child.kill()
        child.communicate()
        kills += child.returncode == -9
        shows.update(enumerate(history.seen))
        consumer.take()
        if (tmp_path / ".dynq/CURRENT").exists():
            now, rows = seen(runner, tmp_path)
            assert now >= version
            assert rows == history.seen[now]
            version = now
    last = history.init if version < 0 else ["run", "logs"]
    assert runner.run(tmp_path, last, ["run", "logs"]).status == 0
    consumer.take()
    consumer.has_all(len(history.logs))
    assert kills


def test_readers_beside_a_writer_see_committed_versions_only(runner: Runner, tmp_path: Path) -> None:
    """Version v has ROWS rows for each of 1 … v: whatever mixes two versions has another number of them."""
    versions = 25
    (tmp_path / "spec.yaml").write_text(SPEC)
    for v in range(1, versions + 1):
        lines = [f"{v},{i}" for i in range(ROWS)]
        (tmp_path / f"T.{v}.csv").write_text("v,i\n" + "\n".join(lines) + "\n")
    assert runner.run(tmp_path, ["init", "spec.yaml"]).status == 0
    failed: list[object] = []

    def write() -> None:
        for v in range(1, versions + 1):
            # Each process ends with a snapshot, and now and then the generation before goes.
            done = runner.run(tmp_path, ["apply", f"T.{v}.csv"], *([["prune"]] if v % 3 == 0 else []))
            if done.status:
                failed.append(done)

    writer = threading.Thread(target=write)
    writer.start()
    looks = 0
    view = open_state(tmp_path / ".dynq")
    while writer.is_alive():
        at = view.version
        told = runner.run(tmp_path, ["count", "--json"], ["enum", "--json", "-o", "-"]).told
        assert [t.code for t in told] == [0, 0], told
        counted = json.loads(told[0].out)
        assert counted["rows"] == ROWS * counted["version"]
        of_process = Counter(json.loads(line)["v"] for line in told[1].out.splitlines())
        of_library = Counter(v for batch in view.enum() for v in batch.column("v").to_pylist())
        for rows in (of_process, of_library):
            assert rows == dict.fromkeys(range(1, len(rows) + 1), ROWS)
            assert at <= len(rows) <= view.version
        looks += 1
    writer.join()
    assert not failed
    assert (view.version, view.count()) == (versions, ROWS * versions)
    assert looks >= 3
