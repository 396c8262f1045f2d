"""Files appear whole or not at all, and only the state's own are ever removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dynq_cli.storage.layout import remove_others, write_whole


def test_a_file_that_cannot_be_made_durable_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "CURRENT"
    write_whole(path, b"before")

    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output error"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"


def test_only_files_of_the_state_that_nothing_needs_are_removed(tmp_path: Path) -> None:
    ours = ["snapshot-0001", "snapshot-0002.tmp", "wal-0001", "CURRENT.tmp", "PREVIOUS.tmp"]
    ours += ["spec-0002.yaml", "plans.json", "plans-0002.json", "era-0001"]
    others = ["CURRENT", "PREVIOUS", "spec-old.yaml", "lock", "notes.txt", "snapshot-0001.bak", "my-wal-0001"]
    for name in (*ours, *others, "wal-0002", "spec.yaml"):
        (tmp_path / name).touch()
    remove_others(tmp_path, {"wal-0002", "spec.yaml"})
    assert {path.name for path in tmp_path.iterdir()} == {*others, "wal-0002", "spec.yaml"}
