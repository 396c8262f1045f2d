"""The line that shows how far a command is: on a terminal, after a second, and gone in the end."""

from __future__ import annotations

import os
import pty
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.cli import output, progress
from dynq_cli.cli.app import main
from dynq_cli.cli.progress import Progress
from dynq_cli.phases import phase
from dynq_cli.storage import commit


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that goes on when it is told to."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_TICK", 3600)

    def go_on(seconds: float) -> None:
        now[0] += seconds

    return go_on


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is printed on a terminal."""
    lines: list[str] = []
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setattr(os, "isatty", lambda handle: handle == 2)
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
        monkeypatch.setattr(os, "isatty", lambda handle: False)
    output.settings.quiet, output.settings.json_log = why == "quiet", why == "json"
    with Progress("applying") as bar:
        tick(5)
        bar.add(1)
    assert drawn == []


def test_every_phase_of_an_apply_is_shown_with_its_total(
    drawn: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    for name, seconds in (("_FIRST", 0), ("_AGAIN", 0), ("_TICK", 3600)):
        monkeypatch.setattr(progress, name, seconds)
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    Path("spec.yaml").write_text(SPEC)
    pq.write_table(pa.table({"x": list(range(1000))}), "R.1.parquet")
    assert main(["init", "spec.yaml"]) == 0
    assert main(["apply", "R.1.parquet"]) == 0
    told = "\n".join(drawn)
    for shown_phase in (
        "reading R.1.parquet",
        "applying R.1.parquet [------------------------] 0 of 1,000 rows",
        "reading the snapshot [",
        "updating the views with 1,000 changes",
        "writing version 1 to disk",
        "writing the snapshot [",
        "syncing the snapshot of",
    ):
        assert shown_phase in told, shown_phase
    assert drawn.count(progress._HIDE) == len(drawn) / 2, "every line goes away"
    drawn.clear()
    assert main(["check", "--read-data"]) == 0
    assert "checking snapshot-" in "\n".join(drawn) and "reading the snapshot [" in "\n".join(drawn)
    drawn.clear()
    assert main(["verify"]) == 0
    told = "\n".join(drawn)
    assert all(line in told for line in ("loading R into DuckDB", "reading q [", "recomputing q with DuckDB"))


SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries: {q: {sql: "SELECT x FROM R"}}
"""


def test_a_phase_that_counts_nothing_is_drawn_anew_by_itself(drawn: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_FIRST", 0), ("_AGAIN", 0), ("_TICK", 0.01)):
        monkeypatch.setattr(progress, name, seconds)
    with Progress("applying"), phase("syncing to disk"):
        seen = 0
        while seen < 3:
            time.sleep(0.01)
            seen = sum(line.startswith("syncing to disk, ") for line in list(drawn))


@pytest.mark.parametrize(("verbose", "as_json"), [(True, False), (False, True), (False, False)])
def test_without_a_terminal_phases_that_take_long_are_told_only_to_who_asks(
    verbose: bool,
    as_json: bool,
    tick: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "isatty", lambda handle: False)
    output.prepare()
    output.settings.verbose, output.settings.json_log = verbose, as_json
    try:
        with Progress("applying"):
            with phase("writing the snapshot", "bytes", 4096) as writing:
                writing.add(4096)
                tick(2.5)
            with phase("a short one"):
                tick(0.5)
    finally:
        output.prepare()
    told = capsys.readouterr().err
    assert ("writing the snapshot: 4,096 bytes, 2.5 s" in told) == (verbose or as_json)
    assert "short" not in told


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
