"""The line that shows how far a command is: on a terminal, after a second, and gone in the end."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dynq_cli.cli import output, progress
from dynq_cli.cli.progress import Progress


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that goes on when it is told to."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def go_on(seconds: float) -> None:
        now[0] += seconds

    return go_on


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is printed on a terminal."""
    lines: list[str] = []
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setattr(progress.os, "isatty", lambda handle: handle == 2)
    monkeypatch.setattr(output, "fail_plain", lines.append)
    output.prepare()
    yield lines
    output.prepare()


def test_nothing_appears_within_the_first_second(tick: Callable[[float], None], drawn: list[str]) -> None:
    with Progress("applying") as bar:
        bar.add(10)
        tick(0.9)
        bar.add(10)
    assert drawn == []


def test_the_line_is_drawn_anew_ten_times_a_second_at_most_and_goes_away(
    tick: Callable[[float], None], drawn: list[str]
) -> None:
    with Progress("applying") as bar:
        tick(1.0)
        bar.add(1000)
        bar.add(1)
        tick(0.1)
        bar.add(1)
    hide = progress._HIDE
    assert drawn == ["applying: 1,000 rows, 1 s", hide, "applying: 1,002 rows, 1 s", hide]


def test_a_bar_shows_the_part_of_what_is_known(tick: Callable[[float], None], drawn: list[str]) -> None:
    with Progress("writing", "rows", total=200) as bar:
        tick(2)
        bar.add(50)
    assert drawn[0] == "writing [######------------------] 50 of 200 rows, 2 s"
    assert Progress("writing", total=2).line().startswith("writing [-----")


@pytest.mark.parametrize("why", ["quiet", "json", "dumb", "no terminal"])
def test_nothing_appears_where_nobody_wants_it(
    why: str, tick: Callable[[float], None], drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    if why == "no terminal":
        monkeypatch.setattr(progress.os, "isatty", lambda handle: False)
    output.settings.quiet, output.settings.json_log = why == "quiet", why == "json"
    with Progress("applying") as bar:
        tick(5)
        bar.add(1)
    assert drawn == []


@contextmanager
def terminal() -> Iterator[int]:
    outer, inner = pty.openpty()
    before = os.dup(2)
    os.dup2(inner, 2)
    try:
        yield outer
    finally:
        os.dup2(before, 2)
        for handle in (before, inner, outer):
            os.close(handle)


def test_on_a_real_terminal_messages_stand_where_the_line_was(
    tick: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the terminal shows in the end, as far as the moves that are used go."""
    monkeypatch.delenv("TERM", raising=False)
    with terminal() as outer, os.fdopen(os.dup(2), "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        output.prepare()
        output.note("first")
        with Progress("applying") as bar:
            tick(1.5)
            bar.add(7)
            bar.hide()
            output.note("second")
            tick(1)
            bar.add(7)
        output.note("third")
        stderr.flush()
        written = ""
        while "third" not in written:  # a terminal hands on what it has by and by
            written += os.read(outer, 65536).decode()
    assert "applying: 7 rows" in written
    assert shown(written.rstrip()) == ["dynq: first", "dynq: second", "dynq: third"]


def shown(written: str) -> list[str]:
    """A terminal with three tricks: new lines, one line up, and emptying a line."""
    lines, row = [""], 0
    for part in written.replace("\033[1A", "\0U\0").replace("\033[2K", "\0K\0").replace("\r\n", "\0N\0").split("\0"):
        if part == "U":
            row -= 1
        elif part == "K":
            lines[row] = ""
        elif part == "N":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            lines[row] += part
    return [line for line in lines if line]
