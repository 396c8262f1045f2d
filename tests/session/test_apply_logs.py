"""Logs into a state: every row once and in order, whatever the names, numbers and batches of the logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.formats import FORMS
from dynq_cli.session.apply_logs import Options, apply_logs, make
from dynq_cli.storage.state import State

SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
queries:
  q: {sql: "SELECT x, R.y, z FROM R, S WHERE R.y = S.y"}
"""
ATOMIC = Options(atomic=True)


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    return make(tmp_path / "spec.yaml", tmp_path / "state")


def rows(state: State, relation: str = "R") -> list[dict[str, Any]]:
    return [row for batch in base_rows(state.current(), relation) for row in batch.to_pylist()]


def in_folders(tmp_path: Path, *contents: str) -> list[str]:
    """Logs of one name, each in a folder of its own."""
    paths = [tmp_path / f"folder {i}" / "R.csv" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.parent.mkdir()
        path.write_text(content, "utf-8")
    return list(map(str, paths))


def test_the_largest_commit_version_of_a_mixed_log_is_applied(state: State, tmp_path: Path) -> None:
    log = [
        {"_relation": "R", "x": 1, "y": 1, "_change_type": "insert", "_commit_version": 5},
        {"_relation": "S", "y": 1, "z": 1, "_change_type": "insert", "_commit_version": 2**63 - 1},
        {"_relation": "R", "x": 2, "y": 1, "_change_type": "insert", "_commit_version": 2**63 - 1},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, log)), "utf-8")
    apply_logs(state, [str(tmp_path / "log.jsonl")])
    assert [row["x"] for row in rows(state)] == [1, 2]
    assert state.count() == 2


def test_one_version_takes_a_log_once_and_says_so(state: State, tmp_path: Path) -> None:
    paths = in_folders(tmp_path, "x,y\n1,1\n", "x,y\n1,1\n")
    (outcome,) = apply_logs(state, paths, ATOMIC)
    assert (outcome.version, outcome.rows) == (1, 1)
    assert outcome.warnings == (f"{paths[1]} is the same as {paths[0]} and is skipped",)
    (again,) = apply_logs(state, paths, ATOMIC)
    assert (again.version, again.reason) == (None, "applied before")


def test_one_version_takes_no_two_logs_of_one_name(state: State, tmp_path: Path) -> None:
    paths = in_folders(tmp_path, "x,y\n1,1\n", "x,y\n2,2\n")
    with pytest.raises(RejectedError, match=r"has the same name as .*, but other content"):
        apply_logs(state, paths, ATOMIC)
    assert state.version == 0


def test_a_version_says_which_of_its_logs_were_applied_before(state: State, tmp_path: Path) -> None:
    for name, x in (("R.1.csv", 1), ("R.2.csv", 2)):
        (tmp_path / name).write_text(f"x,y\n{x},1\n", "utf-8")
    paths = [str(tmp_path / name) for name in ("R.1.csv", "R.2.csv")]
    apply_logs(state, paths[:1])
    (outcome,) = apply_logs(state, paths, ATOMIC)
    assert (outcome.version, outcome.rows) == (2, 1)
    assert outcome.warnings == (f"{paths[0]} was applied before and is skipped",)


def test_the_beginning_of_a_source_comes_before_what_follows_it(state: State, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name, kind, start, stop in (("R.a", "delete", 5, 9), ("R.b", "insert", "", 5)):
        said = {"source": "s", "from": start, "to": stop}
        table = pa.table({"x": [1], "y": [1], "_change_type": [kind]})
        table = table.replace_schema_metadata({b"dynq.batch": json.dumps(said).encode()})
        pq.write_table(table, inbox / f"{name}.parquet")
    outcomes = apply_logs(state, [str(inbox)])
    assert [Path(o.path).name for o in outcomes] == ["R.b.parquet", "R.a.parquet"]
    assert rows(state) == []


def test_a_batch_without_rows_is_a_version_that_the_next_one_goes_on_from(state: State, tmp_path: Path) -> None:
    """Batches that are named by digests form a chain: without the one in the middle the last would be refused."""
    inbox = tmp_path / "inbox"
    for name, (start, stop), content in (
        ("1", ("", "monday"), "x,y\n1,1\n"),
        ("2", ("monday", "tuesday"), ""),
        ("3", ("tuesday", "wednesday"), "x,y\n2,2\n"),
    ):
        (inbox / name / "R").mkdir(parents=True)
        (inbox / name / "R" / "part-0.csv").write_text(content, "utf-8")
        (inbox / name / "_SUCCESS").touch()
        (inbox / name / "_batch.json").write_text(json.dumps({"source": "s", "from": start, "to": stop}), "utf-8")
    outcomes = apply_logs(state, [str(inbox)])
    assert [(o.version, o.rows) for o in outcomes] == [(1, 1), (2, 0), (3, 1)]
    again = apply_logs(state, [str(inbox)])
    assert [o.version for o in again] == [None] * 3
    assert again[1].reason == "the batch s from monday to tuesday was applied before"
    assert [row["x"] for row in rows(state)] == [1, 2]


def test_a_finished_relation_is_known_whatever_is_put_beside_it(tmp_path: Path) -> None:
    """Alone, two of them are one extraction; beside a file, each is one, and its files have another name."""
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {R: {columns: {x: int64}}, S: {columns: {x: int64}}}\n"
        'queries: {q: {sql: "SELECT x FROM R"}}\n'
    )
    inbox = tmp_path / "inbox"
    for name in "RS":
        (inbox / name).mkdir(parents=True)
        (inbox / name / "part-0.csv").write_text("x\n1\n")
        (inbox / name / "_SUCCESS").touch()
    with make(tmp_path / "spec.yaml", tmp_path / "state") as state:
        (first,) = apply_logs(state, [str(inbox)])
        (inbox / "R.csv").write_text("x\n2\n")
        outcomes = apply_logs(state, [str(inbox)])
        assert [outcome.version for outcome in outcomes] == [None, 2, None]
        (inbox / "R.csv").unlink()
        (again,) = apply_logs(state, [str(inbox)])
        assert (first.version, again.version, state.count()) == (1, None, 2)


@pytest.mark.parametrize("form", [form.name for form in FORMS])
def test_one_row_without_a_header_is_swallowed_by_no_format(form: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {R: {columns: {x: int64, y: string}, key: [x]}}\n"
        'queries: {q: {sql: "SELECT x FROM R"}}\n'
    )
    (tmp_path / "R.csv").write_text("I,13,paid\n")
    with make(tmp_path / "spec.yaml", tmp_path / "state") as state:
        if form == "dms":  # which writes such files: they are read by position
            (outcome,) = apply_logs(state, [str(tmp_path / "R.csv")], Options(form=form))
            assert (outcome.inserted, state.count()) == (1, 1)
            return
        with pytest.raises(RejectedError, match=r"it has no rows, and (no )?column"):
            apply_logs(state, [str(tmp_path / "R.csv")], Options(form=form))
        assert state.version == 0


@pytest.mark.parametrize("closed", ["whole", "each and whole"])
def test_extractions_of_one_content_under_other_names_are_applied(tmp_path: Path, closed: str) -> None:
    """Jobs with fixed file names write the same rows day by day; only a relation that was an extraction is known."""
    (tmp_path / "spec.yaml").write_text(
        'version: 1\nrelations: {R: {columns: {x: int64}}}\nqueries: {q: {sql: "SELECT x FROM R"}}\n'
    )
    inbox = tmp_path / "inbox"
    with make(tmp_path / "spec.yaml", tmp_path / "state") as state:
        for day in ("day1", "day2"):
            (inbox / day / "R").mkdir(parents=True)
            (inbox / day / "R" / "part-0.csv").write_text("x\n1\n")
            if closed != "whole":
                (inbox / day / "R" / "_SUCCESS").touch()
            (inbox / day / "_SUCCESS").touch()
            outcomes = apply_logs(state, [str(inbox)])
            assert outcomes[-1].version is not None
        assert state.count() == 2
        (inbox / "R").mkdir()
        (inbox / "R" / "part-0.csv").write_text("x\n1\n")
        (inbox / "R" / "_SUCCESS").touch()
        assert apply_logs(state, [str(inbox / "R")])[0].version == 3


def test_an_extraction_beside_a_finished_relation_of_the_same_content_is_applied(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        'version: 1\nrelations: {R: {columns: {x: int64}}}\nqueries: {q: {sql: "SELECT x FROM R"}}\n'
    )
    inbox = tmp_path / "inbox"
    with make(tmp_path / "spec.yaml", tmp_path / "state") as state:
        for folder, success in ((inbox / "R", inbox / "R"), (inbox / "day2" / "R", inbox / "day2")):
            folder.mkdir(parents=True)
            (folder / "part-0.csv").write_text("x\n1\n")
            (success / "_SUCCESS").touch()
            apply_logs(state, [str(inbox / folder.relative_to(inbox).parts[0])])
        assert state.count() == 2
