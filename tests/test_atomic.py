"""A file appears whole or not at all, and what killed writers leave is removed by the next one."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.atomic import atomic_directory, atomic_file
from dynq_cli.errors import DynqError, UsageError

WRITER = """
import sys, time
from dynq_cli.atomic import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half" * 100_000)
    print("writing", flush=True)
    time.sleep(60)
"""


def _start_writer(target: Path, root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(target)]
    writer = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writing\n"
    return writer


def test_nothing_is_there_before_the_end_and_everything_after(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with atomic_file(str(target)) as file:
        file.write(b"new" * 100_000)
        assert target.read_bytes() == b"old"
        (temporary,) = (name for name in os.listdir(tmp_path) if name != "out.bin")
        assert temporary.startswith(".out.bin.") and temporary.endswith(".tmp")
    assert target.read_bytes() == b"new" * 100_000
    assert os.listdir(tmp_path) == ["out.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError, FileNotFoundError])
def test_an_error_of_the_block_is_its_own_and_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(error), atomic_file(str(target)) as file:
        file.write(b"new" * 100_000)
        raise error
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_arrow_can_write_to_it_and_a_full_disk_is_said(tmp_path: Path) -> None:
    table = pa.table({"x": range(1000)})
    with atomic_file(str(tmp_path / "t.parquet")) as file:
        pq.write_table(table, file)
    assert pq.read_table(tmp_path / "t.parquet").equals(table)
    with atomic_file(str(tmp_path / "t.arrow")) as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_file(tmp_path / "t.arrow").read_all().equals(table)
    for size in (1, 1_000_000):
        said = r"cannot write /dev/full: No space left on device"
        with pytest.raises(DynqError, match=said), atomic_file("/dev/full") as file:
            file.write(b"x" * size)


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_every_step_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(DynqError, match="Input/output error"), atomic_file(str(target)) as file:
        file.write(b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.bin"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path, root: Path) -> None:
    target = tmp_path / "out.bin"
    writer = _start_writer(target, root)
    writer.kill()
    writer.wait()
    assert len(os.listdir(tmp_path)) == 1
    (tmp_path / ".other.bin.abcdefgh.tmp").write_bytes(b"of another output")
    (tmp_path / ".out.bin.mine.tmp").write_bytes(b"of nobody we know")
    with atomic_file(str(target)) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [".other.bin.abcdefgh.tmp", ".out.bin.mine.tmp", "out.bin"]


def test_what_is_still_written_is_left_alone(tmp_path: Path, root: Path) -> None:
    target = tmp_path / "out.bin"
    writer = _start_writer(target, root)
    try:
        with atomic_file(str(target)) as file:
            file.write(b"new")
        assert len(os.listdir(tmp_path)) == 2
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def test_writers_of_one_file_at_the_same_time_do_not_harm_each_other(tmp_path: Path) -> None:
    target, failed = tmp_path / "out.bin", []

    def write_often(letter: bytes) -> None:
        try:
            for _ in range(40):
                with atomic_file(str(target)) as file:
                    file.write(letter * 1000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write_often, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if target.exists():
            content = target.read_bytes()
            assert content == content[:1] * 1000
        time.sleep(0.001)
    assert failed == []
    assert os.listdir(tmp_path) == ["out.bin"]


def test_a_file_system_without_locks_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(handle: int, operation: int) -> None:
        asked.append(operation)
        assert len(asked) < 100, "it is asked for a lock again and again"
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with atomic_directory(tmp_path / "state") as made, atomic_file(str(made / "file")) as file:
        file.write(b"whole")
    assert (tmp_path / "state" / "file").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["state"]


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    name = "é" * 120 + ".csv"
    with atomic_file(str(tmp_path / name)) as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == [name]


def test_a_file_below_a_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(UsageError, match="there is no directory"), atomic_file(str(tmp_path / "f" / "out.csv")):
        pass
