"""A streaming job that is killed again and again, by SIGKILL, neither loses nor repeats a change.

`DYNQ_STREAM_KILLS=N` is the number of kills, 20 under `make crash`. What one kill left is there when the next comes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from dynq_cli.storage.manifest import read_manifest
from tests.conftest import ROOT
from tests.spark.conftest import CONF
from tests.spark.snapshots import agrees_with_duckdb, held, new_state
from tests.spark.test_killed_jobs import is_alive, wait_for

KILLS = int(os.environ.get("DYNQ_STREAM_KILLS", "5"))
FILES = 400
SPEC = """\
version: 1
relations: {R: {columns: {k: int64, n: int64}}}
queries: {q: {sql: "SELECT k, n FROM R WHERE n < 5"}}
"""
# What is written, in this order, in the course of a batch.
STEPS = ("work/spark/offsets", "work/batch/_SUCCESS", "state/CURRENT", "work/progress.json", "work/spark/commits")


def job(folder: Path) -> subprocess.Popen[bytes]:
    command = ["extract", "stream", "in", "--state", "state", "--checkpoint", "work", "--once", "--quiet"]
    options = ["--option", "maxFilesPerTrigger=1", *(f"--conf={name}={value}" for name, value in CONF.items())]
    return subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", *command, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def expected(files: int) -> Counter[tuple[int, int]]:
    """Every file adds two rows, and takes away one of the file before."""
    rows: Counter[tuple[int, int]] = Counter()
    for i in range(files):
        rows.update([(i, 0), (i, 1)])
        rows.subtract([(i - 1, 0)] if i else [])
    return +rows


def put_files(folder: Path) -> None:
    (folder / "in").mkdir()
    for i in range(FILES):
        rows = [("insert", i, 0), ("insert", i, 1), *([("delete", i - 1, 0)] if i else [])]
        lines = [json.dumps({"_change_type": kind, "k": k, "n": n}) for kind, k, n in rows]
        path = folder / "in" / f"R.{i:04}.jsonl"
        path.write_text("\n".join(lines), "utf-8")
        # Spark takes files by age.
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))


def test_kills_at_random_moments_neither_lose_nor_repeat_a_change(tmp_path: Path) -> None:
    rng = Random(KILLS)
    new_state(tmp_path, SPEC)
    put_files(tmp_path)
    version, kills = 0, 0
    while kills < KILLS:
        step = tmp_path / rng.choice(STEPS)
        before = written(step)
        process = job(tmp_path)
        try:
            wait_for(lambda: written(step) != before or process.poll() is not None, 300)  # noqa: B023
            time.sleep(rng.choice([0, rng.random() * 0.05, rng.random()]))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL, process.stderr and process.stderr.read().decode()
        wait_for(lambda: not is_alive(process.pid))  # noqa: B023
        kills += 1
        found = read_manifest(tmp_path / "state").version
        assert found >= version
        version = found
        assert held(tmp_path / "state", "R") == expected(version), f"kill {kills} at {step}"
    assert 0 < version < FILES, "the kills came too early or too late to tell anything"
    for path in sorted((tmp_path / "in").iterdir())[version + 5 :]:
        path.unlink()
    last = job(tmp_path)
    assert last.wait(300) == 0, last.stderr and last.stderr.read().decode()
    assert read_manifest(tmp_path / "state").version == len(list((tmp_path / "in").iterdir()))
    assert held(tmp_path / "state", "R") == expected(version + 5)
    assert agrees_with_duckdb(tmp_path / "state")
