"""`extract stream` applies every file that arrives exactly once, whatever happens to the job or to its checkpoint."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dynq_cli.cli.app import main
from dynq_cli.errors import LockedError, RejectedError, UsageError
from dynq_cli.session.apply_logs import Options, apply_logs
from dynq_cli.spark.stream import StreamJob, extract_stream, rehearse_stream
from dynq_cli.storage.lock import holding
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.state import open as open_state
from tests.spark.snapshots import held, new_state

SPEC = """\
version: 1
relations: {R: {columns: {k: int64, n: int64}}}
queries: {q: {sql: "SELECT k, n FROM R"}}
"""
Run = Callable[..., int]


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Apply what is in `in`, a file at a time."""
    new_state(tmp_path, SPEC)
    (tmp_path / "in").mkdir()

    def apply(folder: str) -> None:
        with open_state(tmp_path / "state") as view:
            apply_logs(view, [folder])

    def once(apply: Callable[[str], None] = apply, work: str = "work", files: int = 1, every: str | None = None) -> int:
        options = {"maxFilesPerTrigger": str(files)}
        job = StreamJob(str(tmp_path / "in"), str(tmp_path / "state"), "in", str(tmp_path / work), every, options)
        return extract_stream(spark, job, apply)

    return once


def arrive(folder: Path, name: str, *keys: int) -> None:
    rows = [{"_change_type": "insert", "k": k, "n": k} for k in keys]
    target = folder / "in" / "R" / name
    target.parent.mkdir(exist_ok=True)
    target.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def keys(folder: Path) -> Counter[int]:
    return Counter({row[0]: copies for row, copies in held(folder / "state", "R").items()})


def test_files_are_applied_once_also_after_a_failure_at_any_point(run: Run, tmp_path: Path) -> None:
    arrive(tmp_path, "a b.jsonl", 1)
    arrive(tmp_path, "c.jsonl", 2)
    (tmp_path / "in" / "README").write_text("no log")
    assert run() == 3  # a batch without logs is a version, too: the chain has no gap
    assert keys(tmp_path) == Counter([1, 2])
    assert run() == 0
    arrive(tmp_path, "d.jsonl", 3)

    def fails_before(folder: str) -> None:
        raise RejectedError("not yet")

    def fails_after(folder: str) -> None:
        with open_state(tmp_path / "state") as view:
            apply_logs(view, [folder])
        raise RejectedError("too late")

    with pytest.raises(RejectedError, match="not yet"):
        run(fails_before)
    assert keys(tmp_path) == Counter([1, 2])
    with pytest.raises(RejectedError, match="too late"):
        run(fails_after)
    assert run() == 0
    arrive(tmp_path, "e.jsonl", 4, 4)
    assert run() == 1
    assert keys(tmp_path) == Counter([1, 2, 3, 4, 4])
    assert read_manifest(tmp_path / "state").version == 5
    assert not (tmp_path / "work" / "batch").exists()


def test_a_job_that_goes_on_takes_everything_that_is_there(run: Run, tmp_path: Path) -> None:
    for i in range(5):
        arrive(tmp_path, f"{i}.jsonl", i)

    def fails_at_the_second(folder: str) -> None:
        with open_state(tmp_path / "state") as view:
            if read_manifest(tmp_path / "state").version == 1:
                raise RejectedError("cut short")
            apply_logs(view, [folder])

    with pytest.raises(RejectedError, match="cut short"):
        run(fails_at_the_second)
    assert run() == 4
    assert keys(tmp_path) == Counter(range(5))


def test_files_that_were_seen_and_are_in_no_batch_yet_come_with_the_next_ones(run: Run, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", 1)
    run()
    arrive(tmp_path, "b.jsonl", 2)

    def fails(folder: str) -> None:
        raise RejectedError("not yet")

    with pytest.raises(RejectedError, match="not yet"):
        run(fails)
    # As a kill leaves it that comes between the two: Spark notes files as seen, then as a batch.
    assert (tmp_path / "work/spark/sources/0/1").exists()
    for name in ("1", ".1.crc"):
        (tmp_path / "work/spark/offsets" / name).unlink()
    arrive(tmp_path, "c.jsonl", 3)
    assert run() == 1
    assert (keys(tmp_path), read_manifest(tmp_path / "state").version) == (Counter([1, 2, 3]), 2)


def test_a_job_that_goes_on_takes_what_arrives_later(run: Run, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", 1)

    def until_the_second(folder: str) -> None:
        with open_state(tmp_path / "state") as view:
            apply_logs(view, [folder])
        if read_manifest(tmp_path / "state").version == 2:
            raise RejectedError("that is enough")
        arrive(tmp_path, "b.jsonl", 2)

    with pytest.raises(RejectedError, match="that is enough"):
        run(until_the_second, every="100 milliseconds")
    assert keys(tmp_path) == Counter([1, 2])


def test_the_command_applies_what_is_there(
    spark: SparkSession, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(tmp_path, "a.jsonl", 1)
    stream = ["extract", "stream", str(tmp_path / "in"), "--state", str(tmp_path / "state")]
    assert main(stream) == 0
    counted = "dynq: version 1: 1 inserted, 0 replaced, 0 deleted\n"
    assert capsys.readouterr().err == f"{counted}dynq: {tmp_path}/in: 1 batch applied\n"
    assert main(stream) == 0
    assert capsys.readouterr().err == f"dynq: {tmp_path}/in: nothing new\n"
    assert (tmp_path / "state.streams" / "in").is_dir()
    (tmp_path / "in" / "R" / "b.jsonl").write_text("{")
    assert main(stream) == 3
    assert main([*stream, "--every", "soon"]) == 2
    assert main([*stream, "--every", "1s", "--once"]) == 2


def test_a_checkpoint_and_a_state_that_do_not_belong_together_are_refused(run: Run, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", 1)
    run()
    shutil.copytree(tmp_path / "state", tmp_path / "state-1")
    shutil.copytree(tmp_path / "work", tmp_path / "work-1")
    arrive(tmp_path, "b.jsonl", 2)
    run()
    arrive(tmp_path, "c.jsonl", 3)
    with pytest.raises(RejectedError, match="the state was fed from another one"):
        run(work="new")
    (tmp_path / "in" / "R" / "b.jsonl").unlink()
    with pytest.raises(RejectedError, match="the checkpoint is older than the state, which has batch 1"):
        run(work="work-1")
    shutil.move(tmp_path / "state", tmp_path / "state-2")
    shutil.move(tmp_path / "state-1", tmp_path / "state")
    with pytest.raises(RejectedError, match="the state is older than the checkpoint, and lacks batches up to 1"):
        run()
    assert keys(tmp_path) == Counter([1])


def test_a_refused_file_can_be_mended_in_its_place(run: Run, tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", 1)
    (tmp_path / "in" / "R" / "b.jsonl").write_text('{"_change_type": "insert", "k": "x", "n": 1}\n')
    with pytest.raises(RejectedError, match=r"row 1, column k: `x` is not an int64"):
        run(files=2)
    assert not keys(tmp_path)
    arrive(tmp_path, "b.jsonl", 2)
    assert run(files=2) == 1
    assert keys(tmp_path) == Counter([1, 2])


def test_one_job_at_a_time_and_a_directory_that_is_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with holding(tmp_path / "work" / "lock", "busy"), pytest.raises(LockedError, match="at work on"):
        run()
    (tmp_path / "in").rmdir()
    with pytest.raises(UsageError, match="there is no directory"):
        run()


def test_a_rehearsal_says_what_would_be_applied_and_changes_nothing(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    state, folder = tmp_path / "state", tmp_path / "in"
    job = StreamJob(str(folder), str(state), "in", str(tmp_path / "work"), options={"maxFilesPerTrigger": "1"})
    rows: list[int] = []

    def rehearse(batch: str) -> None:
        with open_state(state) as view:
            rows.extend(outcome.rows for outcome in apply_logs(view, [batch], Options(dry_run=True)))

    def everything() -> list[tuple[str, bytes]]:
        return [(str(p), p.read_bytes()) for p in sorted(tmp_path.rglob("*")) if p.is_file()]

    arrive(tmp_path, "1.jsonl", 1)
    arrive(tmp_path, "2.jsonl", 2, 3)
    before = everything()
    assert rehearse_stream(spark, job, rehearse) == (1, 0)
    assert (rows, everything()) == ([3], before)
    assert run() == 2
    before = everything()
    assert rehearse_stream(spark, job, rehearse) == (0, 0)
    arrive(tmp_path, "3.jsonl", 3, 4)
    arrive(tmp_path, "4.jsonl", 5)
    (folder / "R" / "4.jsonl").write_text('{"_change_type": "delete", "k": 99, "n": 99}', "utf-8")
    before = everything()
    with pytest.raises(RejectedError, match="99"):
        rehearse_stream(spark, job, rehearse)
    assert everything() == before
    with holding(tmp_path / "work" / "lock", "at work"), pytest.raises(LockedError):
        rehearse_stream(spark, job, rehearse)
