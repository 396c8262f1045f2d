"""`dynq enum`: every distinct row once, in every form, to files that appear whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, s: "string?"}}
  S: {columns: {y: int64}}
queries:
  bag: {sql: "SELECT x, s FROM R"}
  set: {rule: "set(x, s) :- R(x, s)"}
  some: {rule: "some() :- R(x, s)"}
  pairs: {rule: "pairs(a, b) :- S(a), S(b)"}
"""
ROWS = [(1, "a"), (1, "a"), (2, ""), (3, None), (3, 'say "hi", ok')]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    with dynq_cli.create("spec.yaml") as view:
        x, s = zip(*ROWS, strict=True)
        view.apply({"R": pa.table({"x": x, "s": s}), "S": pa.table({"y": range(400)})})


def test_a_pipe_gets_csv_with_every_distinct_row_once(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["-o", "-"]):
        assert main(["enum", "-q", "bag", *args]) == 0
        captured = capsys.readouterr()
        header, *lines = captured.out.splitlines()
        assert header == "x,s,_count"
        assert sorted(lines) == ["1,a,2", '2,"",1', '3,"say ""hi"", ok",1', "3,,1"]
        assert captured.err == ""


def test_a_set_has_no_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "set"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["x", "s"]
    assert len(rows) == 1 + len(set(ROWS))


def test_expanded_rows_are_the_bag_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "bag", "--expand", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert Counter((row["x"], row["s"]) for row in rows) == Counter(ROWS)
    assert all(list(row) == ["x", "s"] for row in rows)


@pytest.mark.parametrize(("args", "many"), [(["0"], 0), (["2"], 2), (["99"], 4), (["5", "--expand"], 5)])
def test_a_limit_counts_the_rows_that_come_out(capsys: pytest.CaptureFixture[str], args: list[str], many: int) -> None:
    assert main(["enum", "-q", "bag", "--json", "--limit", *args]) == 0
    assert len(capsys.readouterr().out.splitlines()) == many


def test_every_form_of_file_has_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("parquet", "csv", "jsonl", "arrow"):
        assert main(["enum", "-q", "bag", "-o", f"out.{form}"]) == 0
        assert capsys.readouterr() == ("", f"dynq: wrote 4 rows to out.{form}\n")
    table = pq.read_table("out.parquet")
    assert table.schema.names == ["x", "s", "_count"]
    rows = table.to_pylist()
    assert sorted((r["x"], r["s"] or "", r["_count"]) for r in rows) == sorted(
        (x, s or "", many) for (x, s), many in Counter(ROWS).items()
    )
    with pa.ipc.open_file("out.arrow") as reader:
        assert reader.read_all().to_pylist() == rows
    assert [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()] == rows
    with open("out.csv", newline="") as file:
        assert [(int(r["x"]), r["s"], int(r["_count"])) for r in csv.DictReader(file)] == [
            (r["x"], r["s"] or "", r["_count"]) for r in rows
        ]
    assert sorted(p for p in os.listdir() if "out" in p) == ["out.arrow", "out.csv", "out.jsonl", "out.parquet"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["-o", "out.xlsx"], 2, ".parquet .csv .jsonl .arrow"),
        (["-o", "out"], 2, ".parquet .csv .jsonl .arrow"),
        (["-o", "gone/out.csv"], 2, "there is no directory"),
        (["-o", "out.csv", "--json"], 2, "two forms"),
        (["--limit", "-1"], 2, "--limit"),
        (["-q", "nobody"], 2, "no query nobody"),
        (["--at", "9"], 3, "no version 9 yet"),
        (["-s", "nowhere"], 10, "no state"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str
) -> None:
    before = sorted(os.listdir())
    assert main(["enum", "-q", "bag", *args]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert sorted(os.listdir()) == before


def test_the_version_in_force_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "set", "--at", "1", "--limit", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_boolean_result_is_a_row_without_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enum", "-q", "some", "--json"]) == 0
    assert capsys.readouterr().out == "{}\n"
    assert main(["enum", "-q", "some", "-o", "some.parquet"]) == 2
    assert "jsonl" in capsys.readouterr().err
    assert not Path("some.parquet").exists()


def _on_a_terminal(*args: str) -> str:
    """What a user would see: stdout is a terminal, stderr is too."""
    ours, theirs = pty.openpty()
    root = str(Path(dynq_cli.__file__).parent.parent)
    run = subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", *args],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": root},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # so Linux says that the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert run.wait(timeout=60) == 0
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_a_table_of_the_first_rows() -> None:
    lines = _on_a_terminal("enum", "-q", "bag").splitlines()
    assert lines[0].split() == ["x", "s", "_count"]
    assert len(lines) == 2 + 4
    assert any(line.split() == ["3", "NULL", "1"] for line in lines)
    lines = _on_a_terminal("enum", "-q", "pairs").splitlines()
    assert len(lines) == 2 + 100 + 1
    assert lines[-1] == "… 159,900 more rows; use -o FILE or --limit N"
    assert len(_on_a_terminal("enum", "-q", "pairs", "--limit", "150").splitlines()) == 2 + 150
    assert _on_a_terminal("enum", "-q", "pairs", "-o", "-", "--limit", "2").splitlines()[0] == "a,b"


def _start_enum(*args: str) -> subprocess.Popen[bytes]:
    root = str(Path(dynq_cli.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    return subprocess.Popen([sys.executable, "-m", "dynq_cli", "enum", *args], env=env, stderr=subprocess.PIPE)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_is_ended_leaves_no_part_of_a_file(number: signal.Signals, code: int) -> None:
    Path("out").mkdir()
    Path("out/rows.csv").write_text("old")
    with dynq_cli.open() as view:  # 10^9 copies of every row: far more than can be written before the signal
        view.apply({"R": pa.table({"x": [7], "s": ["x"], "_count": [10**9]})})
    run = _start_enum("-q", "bag", "--expand", "-o", "out/rows.csv")
    deadline = time.monotonic() + 60
    while not any(size > 10_000 for size in _sizes("out") if size != 3):
        assert run.poll() is None, run.stderr.read() if run.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.send_signal(number)
    assert run.wait(60) == code
    assert os.listdir("out") == ["rows.csv"]
    assert Path("out/rows.csv").read_text() == "old"


def _sizes(directory: str) -> list[int]:
    found = []
    for entry in os.scandir(directory):
        try:
            found.append(entry.stat().st_size)
        except FileNotFoundError:
            continue
    return found


def test_a_reader_that_goes_away_is_no_error() -> None:
    root = str(Path(dynq_cli.__file__).parent.parent)
    run = subprocess.Popen(
        [sys.executable, "-m", "dynq_cli", "enum", "-q", "pairs"],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    assert run.stdout.read(10)
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait(timeout=60) == 0


def test_a_stdout_that_takes_no_more_is_a_runtime_error() -> None:
    root = str(Path(dynq_cli.__file__).parent.parent)
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "dynq_cli", "enum", "-q", "pairs"],
            env={**os.environ, "PYTHONPATH": root},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (run.returncode, run.stderr) == (1, "dynq: cannot write to stdout: No space left on device\n")
