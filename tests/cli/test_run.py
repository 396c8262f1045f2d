"""`dynq run`: what is new, then the outputs; killed at any moment, no output is lost and none is written twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import LockedError
from dynq_cli.session import run as run_module
from dynq_cli.session.run import run
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.state import State
from tests.conftest import ROOT
from tests.storage.dying import Died, dying_after

Dynq = Callable[..., "subprocess.CompletedProcess[str]"]
STEPS = ("fsync", "pwrite", "ftruncate", "replace", "unlink", "mkdir", "chmod")
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64}}
queries:
  pairs: {sql: "SELECT x, R.y FROM R, S WHERE R.y = S.y"}
  left: {rule: "left(x) :- R(x, y)"}
outputs:
  - {query: pairs, kind: enum, path: "out/{query}/{version}.csv"}
  - {query: pairs, kind: count, path: out/pairs.json}
  - {query: left, kind: count, path: "out/left-{version}.txt"}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DYNQ_STATE", raising=False)
    Path("spec.yaml").write_text(SPEC)
    Path("inbox").mkdir()
    assert main(["init", "spec.yaml", "--quiet"]) == 0
    capsys.readouterr()


def put(name: str, rows: str) -> None:
    Path("inbox", name).write_text(rows)


def put_two() -> None:
    put("R.1.csv", "x,y\n1,10\n2,20\n")
    put("S.1.csv", "y\n20\n20\n")


def outputs() -> dict[str, str]:
    """All files that can be seen, by name."""
    found = sorted(path for path in Path("out").rglob("*") if path.is_file()) if Path("out").exists() else []
    return {str(path): path.read_text() for path in found if not path.name.startswith(".")}


def hidden() -> list[str]:
    return sorted(str(path) for path in Path("out").rglob(".*")) if Path("out").exists() else []


AFTER_TWO = {
    "out/left-2.txt": "2\n",
    "out/pairs.json": '{"rows": 2, "distinct": 1, "version": 2}\n',
    "out/pairs/2.csv": "x,y,_count\n2,20,2\n",
}


def test_what_is_new_is_applied_and_all_outputs_are_written(dynq: Dynq) -> None:
    put_two()
    done = dynq("run", "inbox")
    assert (done.returncode, done.stdout) == (0, "")
    assert "inbox/R.1.csv: version 1, 2 inserted" in done.stderr
    assert "wrote out/pairs/2.csv" in done.stderr
    assert outputs() == AFTER_TWO
    assert hidden() == []


def test_with_nothing_new_nothing_is_said_or_written(capsys: pytest.CaptureFixture[str]) -> None:
    put_two()
    assert main(["run", "inbox", "--quiet"]) == 0
    for path in outputs():
        os.unlink(path)
    manifest = Path(".dynq/CURRENT").read_bytes()
    assert main(["run", "inbox"]) == 0
    assert capsys.readouterr() == ("", "")
    assert outputs() == {}
    assert Path(".dynq/CURRENT").read_bytes() == manifest
    assert main(["run", "inbox", "--verbose"]) == 0
    assert "R.1.csv: skipped, applied before" in capsys.readouterr().err


def test_an_empty_inbox_is_nothing_new_and_the_first_outputs_are_of_version_0() -> None:
    assert main(["run", "inbox"]) == 0
    assert outputs()["out/left-0.txt"] == "0\n"


def test_an_inbox_without_change_logs_is_nothing_new() -> None:
    put("notes.txt", "hello")
    put(".R.2.csv.part", "x,y\n")
    assert main(["run", "inbox"]) == 0


def test_outputs_of_versions_that_others_applied_are_written_too() -> None:
    put_two()
    assert main(["apply", "inbox"]) == 0
    assert main(["run", "inbox"]) == 0
    assert outputs() == AFTER_TWO


def test_json_has_what_was_applied_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    put_two()
    assert main(["run", "inbox", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["version"], len(read["applied"]), sorted(read["written"])) == (2, 2, sorted(AFTER_TWO))
    assert read["rejected"] is None
    put("S.2.csv", "y,_change_type\n99,delete\n")
    assert main(["run", "inbox", "--json"]) == 3
    read = json.loads(capsys.readouterr().out)
    assert (read["version"], read["applied"], read["written"]) == (2, [], [])
    assert "inbox/S.2.csv" in read["rejected"]


def test_before_a_rejected_log_all_is_kept_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    put_two()
    put("S.2.csv", "y,_change_type\n99,delete\n")
    put("S.3.csv", "y\n10\n")
    assert main(["run", "inbox"]) == 3
    told = capsys.readouterr().err
    assert "inbox/S.2.csv" in told
    assert outputs() == AFTER_TWO
    assert main(["run", "inbox"]) == 3, "until somebody takes it away"
    Path("inbox/S.2.csv").unlink()
    assert main(["run", "inbox"]) == 0
    assert outputs()["out/pairs.json"] == '{"rows": 3, "distinct": 2, "version": 3}\n'


def test_an_inbox_that_is_no_directory_is_a_usage_error() -> None:
    assert main(["run", "nowhere"]) == 2
    assert main(["run", "spec.yaml"]) == 2
    assert outputs() == {}


def test_where_nothing_is_there_is_no_state() -> None:
    assert main(["run", "inbox", "-s", "elsewhere"]) == 10


def test_permissions_and_links_of_outputs_stay() -> None:
    Path("out").mkdir()
    Path("real.json").write_text("old")
    Path("real.json").chmod(0o640)
    Path("out/pairs.json").symlink_to("../real.json")
    assert main(["run", "inbox"]) == 0
    assert Path("out/pairs.json").is_symlink()
    assert json.loads(Path("real.json").read_text())["version"] == 0
    assert Path("real.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("in_the_way", ["file", "directory"])
def test_an_output_that_cannot_be_made_is_an_error_and_the_next_run_makes_up_for_it(
    in_the_way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put_two()
    blocked = Path("out") if in_the_way == "file" else Path("out/pairs.json")
    if in_the_way == "file":
        blocked.write_text("in the way")
    else:
        blocked.mkdir(parents=True)
    assert main(["run", "inbox"]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    if in_the_way == "file":
        blocked.unlink()
    else:
        blocked.rmdir()
    assert main(["run", "inbox"]) == 0
    assert outputs() == AFTER_TWO


def test_a_writer_is_met_before_anything_is_done() -> None:
    put_two()
    with writing_to(Path(".dynq")):
        assert main(["run", "inbox"]) == 11
    assert outputs() == {}


def test_of_two_runs_one_works_and_the_other_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    put_two()
    codes = []
    run(".dynq", "inbox", wrote=lambda path: codes.append(main(["run", "inbox"])))
    assert codes == [11, 11, 11]
    assert str(os.getpid()) in capsys.readouterr().err
    assert outputs() == AFTER_TWO


def test_changes_that_come_while_outputs_are_written_are_in_all_of_them_or_in_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_two()
    stage, late = run_module._Outputs._stage, ["spec.yaml"]
    Path("R.late.csv").write_text("x,y\n3,20\n")

    def staged(self: Any, output: Any, version: int) -> None:
        stage(self, output, version)
        if late and late.pop():
            assert main(["apply", "R.late.csv", "--quiet"]) == 0

    monkeypatch.setattr(run_module._Outputs, "_stage", staged)
    assert main(["run", "inbox"]) == 0
    found = outputs()
    assert found["out/pairs.json"] == '{"rows": 4, "distinct": 2, "version": 3}\n'
    assert sorted(found) == ["out/left-3.txt", "out/pairs.json", "out/pairs/3.csv"]


DIFFS = """\
  - {query: pairs, kind: diff, path: "out/d-{version}.jsonl", mark: hourly}
  - {query: left, kind: diff, path: "out/l-{version}.parquet"}
"""


def marks() -> dict[str, int]:
    return dict(dynq_cli.open().marks)


def start_with_diffs(*args: str) -> None:
    shutil.rmtree(".dynq")
    Path("diff.yaml").write_text(SPEC + DIFFS)
    assert main(["init", "diff.yaml", "--quiet", *args]) == 0


def told(name: str) -> Counter[tuple[int, int]]:
    """What a diff of pairs says came, or went below zero."""
    found: Counter[tuple[int, int]] = Counter()
    for row in map(json.loads, Path(name).read_text().splitlines()):
        found[(row["x"], row["y"])] += {"insert": 1, "delete": -1}[row["_change_type"]] * row["_count"]
    return found


def test_diffs_one_after_the_other_are_all_that_changed() -> None:
    start_with_diffs()
    assert marks() == {"hourly": 0, "_outputs": 0}
    put_two()
    assert main(["run", "inbox"]) == 0
    assert told("out/d-2.jsonl") == {(2, 20): 2}
    assert marks() == {"hourly": 2, "_outputs": 2}
    put("R.2.csv", "x,y,_change_type\n2,20,delete\n3,20,insert\n")
    assert main(["apply", "inbox"]) == 0
    put("R.3.csv", "x,y\n4,20\n")
    assert main(["apply", "inbox"]) == 0, "what others applied is in the next diff, too"
    assert main(["run", "inbox"]) == 0
    assert told("out/d-4.jsonl") == {(2, 20): -2, (3, 20): 2, (4, 20): 2}
    assert marks() == {"hourly": 4, "_outputs": 4}
    assert sorted(name for name in outputs_named("d-")) == ["out/d-2.jsonl", "out/d-4.jsonl"]
    assert main(["run", "inbox"]) == 0
    assert sorted(name for name in outputs_named("d-")) == ["out/d-2.jsonl", "out/d-4.jsonl"]


def outputs_named(start: str) -> list[str]:
    return [str(path) for path in Path("out").glob(f"{start}*")]


def test_another_state_takes_the_diffs_of_runs_as_its_inbox() -> None:
    start_with_diffs()
    Path("next.yaml").write_text(
        "version: 1\nrelations: {l: {columns: {x: int64}}}\nqueries: {all: {sql: SELECT x FROM l}}\n"
    )
    assert main(["init", "next.yaml", "-s", "next"]) == 0
    for turn, kind in enumerate(["insert", "insert", "delete"], start=1):
        put(f"R.{turn}.csv", f"x,y,_change_type\n{turn - (kind == 'delete')},{20},{kind}\n")
        assert main(["run", "inbox"]) == 0
        Path("next-inbox").mkdir(exist_ok=True)
        for path in Path("out").glob("l-*.parquet"):
            shutil.copy(path, Path("next-inbox", path.name.replace("l-", "l.")))
        assert main(["run", "next-inbox", "-s", "next"]) == 0
        assert dynq_cli.open("next").version == turn
    assert [row for batch in dynq_cli.open("next").enum() for row in batch.to_pylist()] == [{"x": 1, "_count": 1}]


def test_with_nothing_applied_yet_a_diff_has_no_rows() -> None:
    start_with_diffs()
    assert main(["run", "inbox"]) == 0
    assert Path("out/d-0.jsonl").read_text() == ""
    assert pq.read_table("out/l-0.parquet").to_pylist() == []


def test_a_mark_that_is_not_there_is_made_where_the_last_outputs_were_written() -> None:
    start_with_diffs()
    put_two()
    assert main(["run", "inbox"]) == 0
    assert main(["unmark", "hourly"]) == 0
    put("R.2.csv", "x,y\n3,20\n")
    assert main(["apply", "inbox"]) == 0
    put("R.3.csv", "x,y\n4,20\n")
    assert main(["run", "inbox"]) == 0
    assert told("out/d-3.jsonl") == {(3, 20): 2}
    assert told("out/d-4.jsonl") == {(4, 20): 2}


def test_a_state_without_the_marks_of_its_outputs_begins_with_the_oldest_version_that_is_kept() -> None:
    shutil.rmtree(".dynq")
    Path("diff.yaml").write_text(SPEC + DIFFS)
    dynq_cli.create("diff.yaml").close()
    assert marks() == {}
    put_two()
    assert main(["apply", "inbox"]) == 0
    assert main(["run", "inbox"]) == 0
    assert told("out/d-2.jsonl") == {(2, 20): 2}


def test_a_mark_that_is_moved_while_outputs_are_written_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start_with_diffs()
    put_two()
    stage, late = run_module._Outputs._stage, ["hourly"]

    def staged(self: Any, output: Any, version: int) -> None:
        stage(self, output, version)
        if output.kind == "diff" and late:
            assert main(["mark", late.pop()]) == 0

    monkeypatch.setattr(run_module._Outputs, "_stage", staged)
    assert main(["run", "inbox"]) == 0
    assert told("out/d-2.jsonl") == {}
    assert marks() == {"hourly": 2, "_outputs": 2}


def consume(taken: list[str]) -> None:
    """Do what programs behind an output folder do: take each file away."""
    for path in outputs():
        taken.append(path)
        os.unlink(path)


def test_dying_before_any_step_neither_loses_nor_repeats_an_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions 1 and 2 may get outputs of their own if the death came between them; each output comes once."""
    put_two()
    deaths = 0
    for steps in range(400):
        folder = tmp_path / f"turn-{steps}"
        folder.mkdir()
        shutil.copytree(".dynq", folder / ".dynq")
        shutil.copytree("inbox", folder / "inbox")
        monkeypatch.chdir(folder)
        taken: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            dying_after(patch, steps, STEPS)
            try:
                run(".dynq", "inbox")
                died = False
            except Died:
                died = True
        deaths += died
        consume(taken)
        run(".dynq", "inbox")
        consume(taken)
        run(".dynq", "inbox")
        consume(taken)
        expected = ["out/left-2.txt", "out/pairs/2.csv"]
        versioned = sorted(path for path in taken if path != "out/pairs.json")
        if "out/left-1.txt" in versioned:
            expected += ["out/left-1.txt", "out/pairs/1.csv"]
        assert versioned == sorted(expected), f"died before step {steps}"
        # A file without a version in its name may be replaced before anybody takes it.
        assert 1 <= taken.count("out/pairs.json") <= len(expected) // 2, f"died before step {steps}"
        assert hidden() == [], f"died before step {steps}"
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder)
        if not died:
            break
    assert not died, "all steps were tried"
    assert deaths > 20


def test_dying_before_any_step_neither_loses_nor_repeats_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with_diffs()
    put("S.0.csv", "y\n20\n")
    run(".dynq", "inbox")
    shutil.rmtree("out")
    put("R.1.csv", "x,y\n1,20\n2,20\n")
    deaths = 0
    for steps in range(400):
        folder = tmp_path / f"turn-{steps}"
        folder.mkdir()
        shutil.copytree(".dynq", folder / ".dynq")
        shutil.copytree("inbox", folder / "inbox")
        monkeypatch.chdir(folder)
        with pytest.MonkeyPatch.context() as patch:
            dying_after(patch, steps, STEPS)
            try:
                run(".dynq", "inbox")
                died = False
            except Died:
                died = True
        deaths += died
        changes: Counter[tuple[int, int]] = Counter()
        for again in (True, False):
            for name in outputs_named("d-"):
                changes += told(name)
                os.unlink(name)
            if again:
                run(".dynq", "inbox")
        assert changes == {(1, 20): 1, (2, 20): 1}, f"died before step {steps}"
        assert marks() == {"hourly": 2, "_outputs": 2}, f"died before step {steps}"
        assert hidden() == [], f"died before step {steps}"
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder)
        if not died:
            break
    assert not died, "all steps were tried"
    assert deaths > 20


def test_killed_runs_lose_and_repeat_nothing() -> None:
    chance, taken = Random(4), list[str]()
    for turn in range(1, 7):
        put(f"R.{turn}.csv", f"x,y\n{turn},20\n")
        child = subprocess.Popen(
            [sys.executable, "-m", "dynq_cli", "run", "inbox"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.3 + chance.random() * 1.2)
        child.kill()
        child.wait()
        consume(taken)
    run(".dynq", "inbox")
    consume(taken)
    assert len({path for path in taken if "-" in path}) == len([path for path in taken if "-" in path])
    assert "out/left-6.txt" in taken
    assert "out/pairs/6.csv" in taken


def test_a_run_that_cannot_note_its_outputs_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    put_two()

    def locked(self: State, version: int, marks: dict[str, int]) -> None:
        raise LockedError("somebody writes")

    with monkeypatch.context() as patch:
        patch.setattr(State, "note_written", locked)
        assert main(["run", "inbox"]) == 11
    assert outputs() == {}
    assert main(["run", "inbox"]) == 0
    assert outputs() == AFTER_TWO


def test_an_output_may_repeat_rows_instead_of_counting_them(capsys: pytest.CaptureFixture[str]) -> None:
    more = "  - {query: pairs, kind: enum, path: out/all.csv, expand: true}\n"
    more += "  - {query: left, kind: enum, path: out/left.csv, expand: true}\n"
    Path("more.yaml").write_text(SPEC + more)
    assert main(["init", "more.yaml", "-s", "more", "--quiet"]) == 0
    put_two()
    assert main(["run", "inbox", "-s", "more"]) == 0
    assert outputs()["out/all.csv"] == "x,y\n2,20\n2,20\n"
    assert sorted(outputs()["out/left.csv"].split()) == ["1", "2", "x"]
