"""Pruning frees what the version in force does not need, and nothing else, wherever it is stopped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dynq_cli.errors import LockedError
from dynq_cli.storage import commit, ledger
from dynq_cli.storage.integrity import check
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.prune import Pruned, prune
from dynq_cli.storage.state import open
from tests.storage.dying import STEPS, Died, dying_after
from tests.storage.states import files_of, small_batch, small_live, small_rows, small_state


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state of two generations, with what killed processes leave behind."""
    state = small_state(tmp_path, 3)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "DUE_SECONDS", -1.0)
        state.close()
    open(tmp_path / "state").apply(small_batch(4))
    for name in ("CURRENT.tmp", "snapshot-0003.tmp", "wal-0003", "ledger-index-0007", "mine.txt", "wal-0001.bak"):
        (tmp_path / "state" / name).write_bytes(b"12345")
    return tmp_path / "state"


def test_what_is_not_in_force_goes_and_the_rest_stays(folder: Path) -> None:
    before = files_of(folder)
    gone = [
        "PREVIOUS",
        "ledger-index-0007",
        "snapshot-0001",
        "snapshot-0003.tmp",
        "wal-0001",
        "wal-0003",
    ]
    done = prune(folder)
    assert done == Pruned(tuple(gone), sum(len(before[name]) for name in gone), kept_since=3, given_up=range(3))
    # The manifest that keeps fewer logs was written by way of CURRENT.tmp, and it has what the log's tail had alone.
    changed = {"CURRENT", "CURRENT.tmp", "ledger"}
    kept = {name: content for name, content in before.items() if name not in {*gone, *changed}}
    assert {name: content for name, content in files_of(folder).items() if name not in changed} == kept
    assert small_rows(open(folder)) == small_rows(small_live(4))
    assert open(folder).apply(small_batch(5)) == 5
    assert prune(folder) == Pruned((), 0, kept_since=4, given_up=range(3, 4))
    assert prune(folder) == Pruned((), 0, kept_since=4)


def test_an_index_of_the_ledger_that_pruning_itself_writes_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "TAIL_KEYS", 2)
    prune(folder)
    assert (folder / "ledger-index-0001").exists()
    check(folder, read_data=True)
    assert open(folder).apply(small_batch(5)) == 5


def test_a_reader_that_is_in_the_midst_goes_on(folder: Path) -> None:
    rows = open(folder).enum("pairs", block=2)
    first = next(rows).to_pylist()
    prune(folder)
    assert first + [row for batch in rows for row in batch.to_pylist()] == small_rows(small_live(4))["pairs"]


def test_while_another_process_writes_nothing_is_removed(folder: Path) -> None:
    with writing_to(folder):
        before = files_of(folder)
        with pytest.raises(LockedError, match=str(os.getpid())):
            prune(folder)
        assert files_of(folder) == before


def test_dying_before_any_step_leaves_a_sound_state_that_can_be_pruned(folder: Path, tmp_path: Path) -> None:
    for steps in range(50):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(folder, copy)
        with pytest.MonkeyPatch.context() as patch:
            dying_after(patch, steps, STEPS)
            try:
                prune(copy)
                died = False
            except Died:
                died = True
        check(copy, read_data=True)
        assert small_rows(open(copy)) == small_rows(small_live(4))
        prune(copy)
        assert prune(copy) == Pruned((), 0, kept_since=3)
        if not died:
            break
    assert steps > 8 and not died, "all steps were tried"
