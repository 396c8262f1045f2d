"""Damage anywhere in a state is found by looking, a sound state passes, and looking disturbs nobody."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from dynq_cli.errors import DamagedError, NoStateError
from dynq_cli.storage import commit, integrity, ledger
from dynq_cli.storage.integrity import check
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.prune import prune
from dynq_cli.storage.state import open
from tests.storage.states import files_of, small_batch, small_state

IN_FORCE = ["CURRENT", "spec.yaml", "snapshot-0002", "wal-0002", "ledger"]
BEFORE = ["PREVIOUS", "snapshot-0001", "wal-0001"]
VERSIONS = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state with two generations, records behind the snapshot, and indexes of its ledger."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "TAIL_KEYS", 3)
        state = small_state(folder, 5)
        patch.setattr(commit, "DUE_SECONDS", -1.0)
        state.close()
        patch.setattr(commit, "DUE_SECONDS", 10.0)
        with open(folder / "state") as state:
            for version in range(6, VERSIONS + 1):
                state.apply(small_batch(version))
    return folder / "state"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "state")
    return tmp_path / "state"


def index_of(folder: Path) -> str:
    return max(read_manifest(folder).ledger.files)


@pytest.mark.parametrize("read_data", [False, True])
def test_a_sound_state_passes_and_is_left_as_it_is(folder: Path, read_data: bool) -> None:
    before = files_of(folder)
    found = check(folder, read_data=read_data)
    assert {f.file for f in found} == {*IN_FORCE, *BEFORE, "plans.json"}
    assert {f.level for f in found} == {"ok"}
    assert found[0].what == f"version {VERSIONS}, generation 2"
    assert files_of(folder) == before


@pytest.mark.parametrize("name", [*IN_FORCE, *BEFORE, "plans.json", "ledger-index"])
def test_a_flipped_bit_in_any_file_is_found_by_reading_the_data(folder: Path, name: str) -> None:
    path, chance = folder / (index_of(folder) if name == "ledger-index" else name), Random(name)
    whole = path.read_bytes()
    for place in [0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(10))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(DamagedError, match=path.name) as told:
            check(folder, read_data=True)
        assert told.value.exit_code == 12
    path.write_bytes(whole)
    check(folder, read_data=True)


@pytest.mark.parametrize("name", ["spec.yaml", "wal-0002", "wal-0001", "PREVIOUS"])
def test_what_is_small_is_read_by_a_quick_look_too(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(DamagedError, match=name):
        check(folder)


@pytest.mark.parametrize("name", [*IN_FORCE[1:], *BEFORE[1:], "ledger-index"])
def test_a_quick_look_finds_files_that_are_cut_or_gone(folder: Path, name: str) -> None:
    path = folder / (index_of(folder) if name == "ledger-index" else name)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedError, match=path.name):
        check(folder)
    path.unlink()
    with pytest.raises(DamagedError, match=f"{path.name} is missing"):
        check(folder)


def test_all_damaged_files_are_named_at_once(folder: Path) -> None:
    for name in ("spec.yaml", "wal-0002", "snapshot-0001"):
        (folder / name).write_bytes(b"")
    with pytest.raises(DamagedError) as told:
        check(folder, read_data=True)
    assert all(name in str(told.value) for name in ("spec.yaml", "wal-0002", "snapshot-0001"))
    assert str(told.value).count("hint:") == 1


def test_data_that_contradicts_itself_is_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynq_cli.engine.views import Views

    def broken(_: Views) -> None:
        raise AssertionError("a base row without a copy")

    with monkeypatch.context() as patch:
        patch.setattr(Views, "_check", broken)
        with pytest.raises(DamagedError, match=r"snapshot-0002 violates an invariant .a base row without a copy"):
            check(folder, read_data=True)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "counts_of", lambda live: {})
        with pytest.raises(DamagedError, match="another count of pairs"):
            check(folder, read_data=True)


def test_rows_are_looked_at_one_by_one_in_small_states_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(folder, read_data=True)[-1].what == f"opened: version {VERSIONS}, every count and every row holds"
    monkeypatch.setattr(integrity, "WALKED_BYTES", 1)
    assert check(folder, read_data=True)[-1].what == f"opened: version {VERSIONS}, every count holds"


def test_a_ledger_of_another_version_than_the_state_is_damage(folder: Path) -> None:
    from dataclasses import replace

    from dynq_cli.storage.checkpoint import checkpoint

    checkpoint(folder, replace(read_manifest(folder), version=VERSIONS + 1))
    with pytest.raises(DamagedError, match=f"ledger ends with version {VERSIONS}, not {VERSIONS + 1}"):
        check(folder)


def test_what_was_left_behind_is_told_and_is_no_damage(folder: Path) -> None:
    left = ["CURRENT.tmp", "ledger-index-0999", "snapshot-0003.tmp", "wal-0003"]
    for name in (*left, "notes.txt"):
        (folder / name).write_bytes(b"half")
    with (folder / "ledger").open("ab") as file:
        file.write(b"torn")
    found = check(folder, read_data=True)
    assert [f.file for f in found if f.level == "info"] == left
    prune(folder)
    assert {f.level for f in check(folder, read_data=True)} == {"ok"}


def test_a_state_without_a_generation_before_is_sound(folder: Path) -> None:
    prune(folder)
    assert {f.file for f in check(folder, read_data=True)} == {*IN_FORCE, "plans.json"}


def during(patch: pytest.MonkeyPatch, event: Callable[[], object]) -> None:
    """Let something happen once in the midst of a look, before logs are read."""
    real, left = integrity._wal, [event]

    def interrupted(*args: object) -> str:
        if left:
            left.pop()()
        return real(*args)  # type: ignore[arg-type]

    patch.setattr(integrity, "_wal", interrupted)


def test_a_writer_or_a_prune_meanwhile_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)

    def go_on() -> None:
        for version in (VERSIONS + 1, VERSIONS + 2, VERSIONS + 3):
            with open(folder) as state:
                state.apply(small_batch(version))

    during(monkeypatch, go_on)
    assert check(folder, read_data=True)[0].what.startswith(f"version {VERSIONS + 3},")
    during(monkeypatch, lambda: prune(folder))
    assert {f.level for f in check(folder)} == {"ok"}


def test_where_there_is_no_state_there_is_nothing_to_check(tmp_path: Path) -> None:
    for act in (check, prune):
        with pytest.raises(NoStateError):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_data", [False, True])
def test_logs_that_lead_back_to_a_mark_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_data: bool
) -> None:
    state, folder = small_state(tmp_path, 1), tmp_path / "state"
    state.mark("first")
    monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
    for version in (2, 3, 4):
        state.apply(small_batch(version))
    log = folder / "wal-0001"
    assert log.name in {f.file for f in check(folder, read_data=read_data)}
    content = bytearray(log.read_bytes())
    content[-9] ^= 1
    log.write_bytes(content)
    with pytest.raises(DamagedError, match=log.name):
        check(folder, read_data=read_data)
    log.unlink()
    with pytest.raises(DamagedError, match=f"{log.name} is missing"):
        check(folder, read_data=read_data)
