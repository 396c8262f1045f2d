"""A dry run says what the run would do, to all files of a command and whatever other processes do meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.errors import RejectedError
from dynq_cli.session.apply_logs import Options, apply_logs, make
from dynq_cli.storage import ledger
from dynq_cli.storage.state import State, open

SPEC = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries: {q: {sql: SELECT x FROM R}}
"""


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    return make(tmp_path / "spec.yaml", tmp_path / "state")


def batch(path: Path, start: str, stop: str, x: int) -> str:
    said = json.dumps({"source": "s", "from": start, "to": stop}).encode()
    pq.write_table(pa.table({"x": [x]}).replace_schema_metadata({b"dynq.batch": said}), path)
    return str(path)


def same(state: State, paths: list[str]) -> list[tuple[int | None, str]]:
    """What becomes of the logs, which is what a dry run said; or what both refuse them for."""
    told: list[object] = []
    for dry in (True, False):
        try:
            told.append([(o.version, o.reason) for o in apply_logs(state, paths, Options(dry_run=dry))])
        except RejectedError as error:
            told.append(str(error))
    assert told[0] == told[1]
    return told[0]  # type: ignore[return-value]


def test_batches_that_go_on_from_each_other_are_taken(state: State, tmp_path: Path) -> None:
    apply_logs(state, [batch(tmp_path / "R.1.parquet", "", "first", 1)])
    later = [batch(tmp_path / "R.2.parquet", "first", "b", 2), batch(tmp_path / "R.3.parquet", "b", "c", 3)]
    assert same(state, later) == [(2, ""), (3, "")]


def test_a_log_that_is_named_twice_is_applied_once(state: State, tmp_path: Path) -> None:
    paths = [tmp_path / folder / "R.csv" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("x\n1\n", "utf-8")
    assert same(state, list(map(str, paths))) == [(1, ""), (None, "applied before")]


def test_commit_versions_that_go_back_are_refused(state: State, tmp_path: Path) -> None:
    paths = []
    for name, version in (("R.1.csv", 3), ("R.2.csv", 2)):
        (tmp_path / name).write_text(f"x,_change_type,_commit_version\n1,insert,{version}\n", "utf-8")
        paths.append(str(tmp_path / name))
    assert "2 comes after 3" in str(same(state, paths))


def test_a_writer_that_merges_indexes_meanwhile_does_not_disturb(
    state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TAIL_KEYS", 3)
    for i in range(4):
        state.apply(pa.table({"x": [i]}))
    with state.writing(rehearsal=True) as writer:
        with open(tmp_path / "state") as other:
            for i in range(40):
                other.apply(pa.table({"x": [i]}))
        assert writer.ledger.find("R", "R.csv") is None
