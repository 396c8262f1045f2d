"""The verbs of a state: one writer, readers undisturbed, all or nothing, counts without an engine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.errors import DynqError, LockedError, RejectedError, SpecError, UsageError
from dynq_cli.storage import commit, snapshot
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.state import State, create, open
from dynq_cli.storage.writer import Origin
from tests.storage.states import SPEC, files_of, printed_by, small_batch, small_live, small_rows, small_state

COPIES = """\
version: 1
relations: {A: {columns: {x: int64}}, B: {columns: {x: int64}}, C: {columns: {x: int64}}}
queries: {q: {sql: "SELECT A.x FROM A, B, C WHERE A.x = B.x AND B.x = C.x"}}
"""
ONE = """\
version: 1
relations: {A: {columns: {x: int64, k: string}, key: [k]}}
queries: {q: {sql: "SELECT x FROM A WHERE x > 1"}}
"""


STEPS = """\
version: 1
relations: {R: {columns: {x: int64, y: int64, s: string}}, S: {columns: {y: int64, z: int64}}}
queries:
  p: {sql: "SELECT R.x, S.z FROM R, S WHERE R.y = S.y", max_view_rows: 20}
  n: {sql: "SELECT upper(s) || '!' AS u, x FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.y = R.y)"}
"""


def made(folder: Path, text: str) -> State:
    (folder / "spec.yaml").write_text(text, "utf-8")
    return create(folder / "spec.yaml", folder / "state")


def test_the_library_is_the_same_verbs(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(ONE, "utf-8")
    dynq_cli.create(tmp_path / "spec.yaml", tmp_path / ".dynq")
    view = dynq_cli.open(tmp_path / ".dynq")
    assert view.apply(pa.table({"x": [1, 2, 2], "k": ["a", "b", "c"]})) == 1
    assert view.count() == 2
    assert [row for batch in view.enum() for row in batch.to_pylist()] == [{"x": 2, "_count": 2}]
    assert view.schema().names == ["x", "_count"]
    assert (view.test({"x": 2}), view.test({"x": 1})) == (2, 0)
    assert view.version == 1


def test_counting_imports_no_engine(tmp_path: Path) -> None:
    small_state(tmp_path, 2).close()
    code = "import dynq_cli\nsys.stdout.write(str(dynq_cli.open(sys.argv[1]).counts('pairs')))\n"
    rows, distinct = small_live(2).count("pairs")
    assert printed_by(code, tmp_path / "state") == f"Counts(rows={rows}, distinct={distinct})"


@pytest.mark.parametrize(
    "wrong",
    [
        {"S": pa.table({"y": ["not seen before"], "z": [1], "_change_type": ["delete"]})},
        {"R": pa.table({"x": [1], "y": ["new"]}), "S": pa.table({"y": ["b"], "z": [2], "_change_type": ["merge"]})},
        {"R": pa.table({"x": [1], "y": ["new too"]}), "Q": pa.table({"x": [1]})},
        {"R": pa.table({"x": pa.array([None], pa.int64()), "y": ["new"]})},
    ],
    ids=["missing row", "unknown operation", "unknown relation", "NULL"],
)
def test_a_failed_apply_leaves_the_files_byte_for_byte(tmp_path: Path, wrong: dict[str, pa.Table]) -> None:
    state = small_state(tmp_path, 3)
    before = files_of(tmp_path / "state")
    with pytest.raises(DynqError):
        state.apply(wrong)
    assert files_of(tmp_path / "state") == before
    state.apply(small_batch(4))
    assert small_rows(state) == small_rows(small_live(4)) == small_rows(open(tmp_path / "state"))


def test_an_overflow_changes_nothing_and_the_state_goes_on(tmp_path: Path) -> None:
    state = made(tmp_path, COPIES)
    many = pa.table({"x": [1], "_count": [2**62]})
    state.apply({"A": many, "B": many})
    before = files_of(tmp_path / "state")
    with pytest.raises(RejectedError, match="2\\^127"):
        state.apply({"C": many})
    assert files_of(tmp_path / "state") == before
    state.apply({"C": pa.table({"x": [1]})})
    assert state.count() == 2**124 == open(tmp_path / "state").count()


def test_a_view_past_its_budget_changes_nothing_and_the_state_goes_on(tmp_path: Path) -> None:
    state = made(tmp_path, STEPS)
    ys = [1, 1, 2, 3]
    state.apply({"R": pa.table({"x": range(4), "y": ys, "s": list("abcd")}), "S": pa.table({"y": [1, 2], "z": [1, 2]})})
    before = files_of(tmp_path / "state")
    many = {"S": pa.table({"y": [1] * 10, "z": range(10)})}
    with pytest.raises(RejectedError, match=r"query p: its view \S+ would take 21 rows and may have 20; nothing was"):
        state.apply(many)
    assert files_of(tmp_path / "state") == before
    assert state.apply({"S": pa.table({"y": [3], "z": [1]})}) == 2
    state.apply({"S": pa.table({"y": [1, 2], "z": [1, 2], "_change_type": ["delete"] * 2})})
    again = open(tmp_path / "state")
    for each in (state, again):
        assert each.count("p") == 1
        assert {row["u"] for batch in each.enum("n") for row in batch.to_pylist()} == {"A!", "B!", "C!"}
        went = [row["u"] for batch in each.diff("n", since=2).batches for row in batch.to_pylist()]
        assert sorted(went) == ["A!", "B!", "C!"]


def test_a_disk_that_refuses_the_log_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_state(tmp_path, 3).close()
    state = open(tmp_path / "state")
    before = files_of(tmp_path / "state")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(DynqError, match="No space left on device; it is at version 3"):
            state.apply(small_batch(4))
    assert files_of(tmp_path / "state") == before
    assert small_rows(state) == small_rows(small_live(3))
    assert state.apply(small_batch(4)) == 4


def test_a_snapshot_that_cannot_be_written_costs_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = small_state(tmp_path, 3)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
        patch.setattr(snapshot, "write_at", full)
        assert state.apply(small_batch(4)) == 4
    assert "no snapshot could be written" in caplog.text
    assert small_rows(state) == small_rows(small_live(4)) == small_rows(open(tmp_path / "state"))


def test_a_second_writer_is_told_who_is_writing_and_readers_are_not_disturbed(tmp_path: Path) -> None:
    state = small_state(tmp_path, 2)
    with writing_to(tmp_path / "state"):
        before = files_of(tmp_path / "state")
        with pytest.raises(LockedError, match=str(os.getpid())):
            state.apply(small_batch(3))
        assert small_rows(open(tmp_path / "state")) == small_rows(state) == small_rows(small_live(2))
        state.close()
        assert files_of(tmp_path / "state") == before
    assert open(tmp_path / "state").apply(small_batch(3)) == 3


def test_a_writer_goes_on_from_what_another_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = small_state(tmp_path, 1)
    two = open(tmp_path / "state")
    for version in range(2, 9):
        monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, due=version % 3 == 0, **__: due)
        writer, reader = (one, two) if version % 2 else (two, one)
        assert writer.apply(small_batch(version)) == version
        assert reader.version == version
        assert small_rows(reader) == small_rows(small_live(version))


def test_rows_are_never_of_two_versions(tmp_path: Path) -> None:
    state = small_state(tmp_path, 3)
    rows = state.enum("pairs", block=1)
    next(rows)
    state.apply(small_batch(4))
    with pytest.raises(UsageError, match="rows of version 3"):
        next(rows)


def test_a_reader_keeps_its_version_while_another_process_writes(tmp_path: Path) -> None:
    small_state(tmp_path, 3).close()
    rows = open(tmp_path / "state").enum("pairs", block=2)
    first = next(rows).to_pylist()
    with open(tmp_path / "state") as writer:
        writer.apply(small_batch(4))
    assert first + [row for batch in rows for row in batch.to_pylist()] == small_rows(small_live(3))["pairs"]


def test_an_existing_directory_is_not_touched(tmp_path: Path) -> None:
    small_state(tmp_path, 1)
    before = files_of(tmp_path / "state")
    with pytest.raises(UsageError, match="already; nothing was changed"):
        create(tmp_path / "spec.yaml", tmp_path / "state")
    assert files_of(tmp_path / "state") == before
    with pytest.raises(UsageError, match="not empty"):
        create(tmp_path / "spec.yaml", tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spec.yaml", "state"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (SPEC.replace("int64", "int65"), SpecError),
        (SPEC.replace('z > 0"}', 'z > 0", order_by: [x, z], require: {update: O(1)}}'), RejectedError),
    ],
)
def test_a_spec_that_cannot_be_kept_creates_nothing(tmp_path: Path, text: str, error: type[DynqError]) -> None:
    with pytest.raises(error):
        made(tmp_path, text)
    assert [p.name for p in tmp_path.iterdir()] == ["spec.yaml"]


def test_the_query_and_the_relation_have_to_be_named_where_there_are_several(tmp_path: Path) -> None:
    state = small_state(tmp_path)
    with pytest.raises(UsageError, match="pairs, keys"):
        state.count()
    with pytest.raises(UsageError, match="no query pears"):
        state.count("pears")
    with pytest.raises(UsageError, match="R, S"):
        state.apply(pa.table({"x": [1], "y": ["a"]}))
    assert state.apply(pa.table({"x": [1], "y": ["a"]}), relation="R") == 1


def test_a_writer_with_nothing_new_does_not_take_back_what_others_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = small_state(tmp_path, 1)
    with open(tmp_path / "state") as other:
        other.apply(small_batch(2))
        mine.schema("keys")  # mine has read version 2, and wrote version 1 before
        other.apply(small_batch(3))
        monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
        with mine.writing():
            pass
        assert mine.version == 3
        assert small_rows(mine) == small_rows(small_live(3))


def test_a_log_that_cannot_be_written_to_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nearly_full(file: int, data: bytes, place: int) -> int:
        if len(data) > 100:  # the lock's few bytes fit
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data, place)

    state, write = small_state(tmp_path, 1), os.pwrite
    monkeypatch.setattr(os, "pwrite", nearly_full)
    with pytest.raises(DynqError, match="No space left on device; it is at version 1"), state.writing() as writer:
        writer.take(writer.views.changes(small_batch(2)))
        writer.commit(Origin())


def test_marks_do_not_end_the_reading_of_rows(tmp_path: Path) -> None:
    state = small_state(tmp_path, 3)
    batches = state.enum("pairs", block=1)
    first = next(batches)
    state.mark("here")
    with open(tmp_path / "state") as other:
        other.mark("there")
    state.schema("pairs")
    assert [first, *batches] == list(state.enum("pairs", block=1))
