"""A backup is the state at one version, checked, whatever a writer does meanwhile; what is damaged is not copied."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dynq_cli.errors import DamagedError, NoStateError, UsageError
from dynq_cli.storage import backup as module
from dynq_cli.storage.backup import backup
from dynq_cli.storage.integrity import check
from dynq_cli.storage.layout import write_at
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.prune import prune
from dynq_cli.storage.state import open
from tests.conftest import ROOT

from .states import files_of, rows_of, small_batch, small_live, small_state

QUERIES = ["pairs", "keys"]


def test_a_copy_is_a_state_with_the_same_versions_and_marks(tmp_path: Path) -> None:
    with small_state(tmp_path, 4) as state:
        state.mark("four")
        state.write_snapshot()
        state.apply(small_batch(5))
        copied = state.backup(tmp_path / "copy")
        assert copied.version == 5
        assert copied.length == sum(p.stat().st_size for p in (tmp_path / "copy").iterdir())
        assert copied.files == len(list((tmp_path / "copy").iterdir()))
    before = files_of(tmp_path / "copy")
    with open(tmp_path / "copy") as copy:
        assert rows_of(copy, QUERIES) == rows_of(small_live(5), QUERIES)
        assert [sorted(map(str, b.to_pylist())) for b in copy.enum("keys", at="four")] == [
            sorted(map(str, b.to_pylist())) for b in open(tmp_path / "state").enum("keys", at=4)
        ]
        assert dict(copy.marks) == {"four": 4}
    assert files_of(tmp_path / "copy") == before
    with open(tmp_path / "copy") as copy:
        copy.apply(small_batch(6))
        copy.current()._check()
        assert rows_of(copy, QUERIES) == rows_of(small_live(6), QUERIES)
    assert open(tmp_path / "state").version == 5


def test_a_copy_leaves_holes_where_the_snapshot_has_them(tmp_path: Path) -> None:
    def taken(folder: str) -> int:
        return sum(p.stat().st_blocks for p in (tmp_path / folder).glob("snapshot-*"))

    with small_state(tmp_path, 2) as state:
        state.backup(tmp_path / "copy")
    assert taken("copy") <= taken("state")


def test_a_copy_while_a_process_writes_and_prunes_is_one_version(tmp_path: Path) -> None:
    """The writer makes a snapshot at every other version, so files vanish under the copy."""
    small_state(tmp_path, 1).close()
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from dynq_cli.storage import commit
from dynq_cli.storage.prune import prune
from dynq_cli.storage.state import open
from tests.storage.states import small_batch
folder = Path({str(tmp_path / "state")!r})
with open(folder) as state:
    for version in range(2, 60):
        state.apply(small_batch(version))
        if version % 2:
            state.write_snapshot()
            prune(folder)
"""
    writer = subprocess.Popen([sys.executable, "-c", program])
    versions, at = set(), 0
    try:
        while writer.poll() is None:
            at += 1
            versions.add(backup(tmp_path / "state", tmp_path / f"copy-{at}").version)
            found = open(tmp_path / f"copy-{at}")
            assert rows_of(found, QUERIES) == rows_of(small_live(found.version), QUERIES)
    finally:
        writer.wait()
    assert writer.returncode == 0
    assert len(versions) > 1


def test_a_file_that_vanishes_lets_the_copy_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = small_state(tmp_path, 3)
    real, struck = module._copy, threading.Event()

    def copy(source: Path, target: Path, length: int) -> None:
        if source.name.startswith("snapshot") and not struck.is_set():
            struck.set()
            state.write_snapshot()
            prune(tmp_path / "state")
        real(source, target, length)

    monkeypatch.setattr(module, "_copy", copy)
    assert backup(tmp_path / "state", tmp_path / "copy").version == 3
    assert read_manifest(tmp_path / "copy").generation == 2
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("copy")] == ["copy"]


@pytest.mark.parametrize("name", ["snapshot-0001", "wal-0001", "ledger", "spec.yaml"])
def test_a_damaged_state_is_not_copied(tmp_path: Path, name: str) -> None:
    small_state(tmp_path, 2).close()
    path = tmp_path / "state" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=str(path)):
        backup(tmp_path / "state", tmp_path / "copy")
    path.unlink()
    with pytest.raises(DamagedError, match=str(path)):
        backup(tmp_path / "state", tmp_path / "copy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spec.yaml", "state"]


def test_a_write_that_went_wrong_is_found_before_the_copy_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_state(tmp_path, 2).close()

    def zeros(file: int, place: int, data: bytes) -> None:
        write_at(file, place, bytes(len(data)))

    monkeypatch.setattr(module, "write_at", zeros)
    with pytest.raises(DamagedError, match="the copy differs from the state"):
        backup(tmp_path / "state", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_nothing_is_copied_over_something_or_into_the_state(tmp_path: Path) -> None:
    small_state(tmp_path, 1).close()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    (tmp_path / "empty").mkdir()
    for target, reason in (("state", "a state in"), ("full", "something in"), ("spec.yaml", "something in")):
        with pytest.raises(UsageError, match=reason):
            backup(tmp_path / "state", tmp_path / target)
    with pytest.raises(UsageError, match="inside the state"):
        backup(tmp_path / "state", tmp_path / "state/copy")
    with pytest.raises(NoStateError):
        backup(tmp_path / "empty", tmp_path / "copy")
    assert backup(tmp_path / "state", tmp_path / "empty").version == 1
    assert check(tmp_path / "empty", read_data=True)
