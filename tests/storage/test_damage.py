"""What is not as it was written is found and never returned as data."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from dynq_cli.errors import DamagedError, NoStateError
from dynq_cli.storage import commit, manifest
from dynq_cli.storage.layout import FORMAT, checksum_of
from dynq_cli.storage.state import State, open
from tests.storage.states import files_of, small_batch, small_live, small_rows, small_state

IN_FORCE = ["CURRENT", "spec.yaml", "snapshot-0002", "wal-0002"]
VERSIONS = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with a snapshot and some records behind it."""
    folder = tmp_path_factory.mktemp("made")
    state = small_state(folder, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "DUE_SECONDS", -1.0)
        state.close()
    with open(folder / "state") as state:
        for version in range(4, VERSIONS + 1):
            state.apply(small_batch(version))
    return folder / "state"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "state")
    return tmp_path / "state"


def read_all(state: State) -> object:
    return [state.counts("pairs"), state.counts("keys"), small_rows(state)]


def test_the_undamaged_state_is_read(folder: Path) -> None:
    assert small_rows(open(folder)) == small_rows(small_live(VERSIONS))
    assert set(IN_FORCE) <= set(files_of(folder))


@pytest.mark.parametrize("name", IN_FORCE)
def test_a_flipped_bit_is_found(folder: Path, name: str) -> None:
    path, chance = folder / name, Random(name)
    whole = path.read_bytes()
    places = [*range(32), len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(40))]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(DamagedError, match=name):
            read_all(open(folder))
    path.write_bytes(whole)
    read_all(open(folder))


@pytest.mark.parametrize("name", IN_FORCE)
def test_a_file_that_is_cut_or_lengthened_is_found(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError, match=name):
            read_all(open(folder))
    if not name.startswith("wal"):
        path.write_bytes(whole + b"\0")
        with pytest.raises(DamagedError, match=name):
            read_all(open(folder))


@pytest.mark.parametrize("name", IN_FORCE[1:])
def test_a_file_that_is_gone_is_found(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DamagedError, match=f"{name} is missing"):
        read_all(open(folder))


def test_where_nothing_is_there_is_no_state(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nowhere", folder / "spec.yaml"):
        with pytest.raises(NoStateError, match="there is no state"):
            open(place)


def test_a_state_without_its_manifest_is_damaged(folder: Path) -> None:
    (folder / "CURRENT").unlink()
    with pytest.raises(DamagedError, match="CURRENT is missing"):
        open(folder)


@pytest.mark.parametrize("swapped", [("snapshot-0001", "snapshot-0002"), ("wal-0001", "wal-0002")])
def test_files_of_another_generation_are_not_taken_for_this_one(folder: Path, swapped: tuple[str, str]) -> None:
    shutil.copyfile(folder / swapped[0], folder / swapped[1])
    with pytest.raises(DamagedError, match=swapped[1]):
        read_all(open(folder))


@pytest.mark.parametrize("tail", [b"\0", b"torn", bytes(65536), "the last record"])
def test_a_torn_tail_is_no_part_of_the_state_and_is_cut_by_the_next_writer(folder: Path, tail: bytes | str) -> None:
    wal = folder / "wal-0002"
    committed = wal.read_bytes()
    wal.write_bytes(committed + (committed[-700:-3] if isinstance(tail, str) else tail))
    assert small_rows(open(folder)) == small_rows(small_live(VERSIONS))
    with open(folder) as state:
        state.apply(small_batch(VERSIONS + 1))
    assert wal.read_bytes().startswith(committed)
    assert wal.stat().st_size == manifest.read_manifest(folder).wal.length
    assert small_rows(open(folder)) == small_rows(small_live(VERSIONS + 1))


def rewrite(folder: Path, old: bytes, new: bytes) -> None:
    """Change the manifest as another version would have written it: with a checksum that fits."""
    text = (folder / "CURRENT").read_bytes().partition(b"\n")[2].replace(old, new)
    (folder / "CURRENT").write_bytes(checksum_of(text).encode() + b"\n" + text)


def test_another_format_is_refused(folder: Path) -> None:
    rewrite(folder, b'"format": %d' % FORMAT, b'"format": %d' % (FORMAT + 1))
    with pytest.raises(NoStateError, match=f"has format {FORMAT + 1}"):
        open(folder)
