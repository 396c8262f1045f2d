"""A file that `-o` names appears whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dynq_cli.cli import output
from dynq_cli.errors import EXIT_RUNTIME, EXIT_USAGE, DynqError, UsageError


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    output.deliver("new", str(target))
    assert target.read_text() == "new\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DynqError, match="No space left on device") as caught:
        output.deliver("new", str(target))
    assert caught.value.exit_code == EXIT_RUNTIME
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_permissions_are_those_of_the_old_file_or_of_the_umask(tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("x")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        output.deliver("y", str(old))
        output.deliver("y", str(new))
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    output.deliver("new", str(tmp_path / "link.txt"))
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new\n"


def test_a_device_is_written_and_not_replaced() -> None:
    output.deliver("new", os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(("target", "said"), [("gone/out.txt", "no directory"), (".", "is a directory")])
def test_a_place_that_cannot_hold_a_file_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said) as caught:
        output.deliver("new", target)
    assert caught.value.exit_code == EXIT_USAGE


def test_dash_and_nothing_mean_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    output.deliver("a", None)
    output.deliver("b\n", "-")
    assert capsys.readouterr().out == "a\nb\n"
