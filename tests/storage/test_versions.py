"""Versions before the one in force: as they were, and what changed since, across restarts, snapshots and prunes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.storage import commit
from dynq_cli.storage.history import kept_since
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.prune import prune
from dynq_cli.storage.state import State, create, open
from tests.engine.random_queries import Case, random_case
from tests.engine.random_runs import Stored, as_table, plain
from tests.engine.random_together import together_case
from tests.seeds import seeds
from tests.storage.states import small_rows, small_state, spec_text

SEEDS = seeds(3)
Result = Counter[tuple[Any, ...]]


def result(state: State, query: str, at: str | int | None = None) -> Result:
    found: Result = Counter()
    for batch in state.enum(query, at=at):
        for row in batch.to_pylist():
            many = row.pop("_count", 1)
            found[tuple(map(plain, row.values()))] += many
    return found


def changed(state: State, query: str, since: str | int | None) -> Result:
    return changes_in(state.diff(query, since).batches)


def changes_in(batches: Iterable[pa.RecordBatch]) -> Result:
    found: Result = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row.pop("_change_type")]
            found[tuple(map(plain, row.values())) if "_count" not in row else _counted(row)] += sign * row.get(
                "_count", 1
            )
    return found


def _counted(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(plain(v) for name, v in row.items() if name != "_count")


@pytest.mark.parametrize("seed", SEEDS)
def test_any_kept_version_and_the_change_since_give_the_version_in_force(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_versions(random_case(seed, 4, ordered=seed % 2 == 1), tmp_path, monkeypatch)


@pytest.mark.parametrize("form", ["union", "unequal"])
@pytest.mark.parametrize("seed", SEEDS)
def test_so_do_versions_of_results_that_are_read_from_several_trees(
    seed: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_versions(together_case(seed + 3000, form), tmp_path, monkeypatch)


def check_versions(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history with restarts, snapshots, marks and prunes; some versions are read after each step.

    Who follows it is told the same changes, and so is who applies them.
    """
    chance = Random(case.seed)
    (tmp_path / "spec.yaml").write_text(spec_text(case), "utf-8")
    state = create(tmp_path / "spec.yaml", tmp_path / "state")
    stored = Stored(case.spec)
    results: list[dict[str, Result]] = [{q.name: result(state, q.name) for q in case.queries}]
    marks: dict[str, int] = {}
    reader = open(tmp_path / "state")
    followed = {q.name: reader.subscribe(q.name) for q in case.queries}
    for batch in case.history:
        changes = stored.applicable(batch.changes)
        due = chance.random() < 0.3
        monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, due=due, **__: due)
        tables = {r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations}
        pushed = state.apply(tables, deltas=True).deltas if chance.random() < 0.7 else None
        if pushed is None:
            state.apply(tables)
        results.append({q.name: result(state, q.name) for q in case.queries})
        for name, since in followed.items():
            came = Counter(results[-1][name])
            came.subtract(results[-2][name])
            expected = {row: many for row, many in came.items() if many}
            told = [since.take().batches] if pushed is None else [since.take().batches, pushed[name].to_batches()]
            for batches in told:
                found = {row: many for row, many in changes_in(batches).items() if many}
                assert found == expected, (name, state.version)
        if chance.random() < 0.3:
            name = chance.choice(["daily", "hourly"])
            marks[name] = state.mark(name)
        if chance.random() < 0.2:
            state.close()
            prune(tmp_path / "state")
        if chance.random() < 0.3:
            state.close()
            state = open(tmp_path / "state")
        now = state.version
        oldest = kept_since(read_manifest(tmp_path / "state"))
        assert oldest <= min([now - 1, *marks.values()])
        for version in {oldest, now, chance.randint(oldest, now), *marks.values()}:
            for q in case.queries:
                before = results[version][q.name]
                if max(len(before), len(results[now][q.name])) > 1000:
                    continue
                assert result(state, q.name, at=version) == before
                assert state.counts(q.name, at=version).rows == before.total()
                expected = Counter(results[now][q.name])
                expected.subtract(before)
                wanted = {row: many for row, many in expected.items() if many}
                assert {row: many for row, many in changed(state, q.name, version).items() if many} == wanted
    assert state.marks == marks


def test_a_mark_keeps_its_version_and_no_mark_keeps_the_one_before_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.storage.states import small_batch

    monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
    state = small_state(tmp_path, 3)
    rows = small_rows(state)
    state.mark("early")
    for version in range(4, 8):
        state.apply(small_batch(version))
    assert kept_since(read_manifest(tmp_path / "state")) <= 3
    assert result(state, "pairs", at="early") == Counter(_as_rows(rows["pairs"]))
    assert state.unmark("early") == 3
    prune(tmp_path / "state")
    assert kept_since(read_manifest(tmp_path / "state")) == 6
    with pytest.raises(RejectedError, match="version 3 is not kept any more; the oldest is 6"):
        state.enum("pairs", at=3)
    assert sum(1 for path in (tmp_path / "state").iterdir() if path.name.startswith("wal")) == 2


def _as_rows(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    return {tuple(v for name, v in row.items() if name != "_count"): row["_count"] for row in rows}


def test_versions_and_marks_that_are_not_there_are_refused(tmp_path: Path) -> None:
    state = small_state(tmp_path, 2)
    with pytest.raises(RejectedError, match="no version 9 yet; the last one is 2"):
        state.diff("pairs", 9)
    with pytest.raises(RejectedError, match="no mark daily; the marks are: none"):
        state.diff("pairs", "daily")
    with pytest.raises(RejectedError, match="no mark daily"):
        state.unmark("daily")
    with pytest.raises(UsageError, match="a mark cannot be named '2'"):
        state.mark("2")


def test_by_default_a_diff_is_since_before_the_last_apply(tmp_path: Path) -> None:
    state = small_state(tmp_path, 3)
    read = state.diff("pairs")
    assert (read.since, read.until) == (2, 3)
    expected = result(state, "pairs")
    expected.subtract(result(state, "pairs", at=2))
    assert changed(state, "pairs", None) == Counter({row: many for row, many in expected.items() if many})


def test_the_change_of_a_result_is_a_change_log_for_another_state(tmp_path: Path) -> None:
    state = small_state(tmp_path, 5)
    read = state.diff("keys", 1)
    log = pa.Table.from_batches(read.batches, read.schema)
    (tmp_path / "next.yaml").write_text(
        "version: 1\nrelations: {keys: {columns: {y: string}}}\nqueries: {all: {rule: 'all(y) :- keys(y)'}}\n"
    )
    following = create(tmp_path / "next.yaml", tmp_path / "next")
    before = [row for batch in state.enum("keys", at=1) for row in batch.to_pylist()]
    following.apply(pa.Table.from_pylist(before, pa.schema([pa.field("y", pa.string())])))
    following.apply(log)
    assert result(following, "all") == result(state, "keys")


def test_a_version_that_was_pruned_is_not_kept_although_its_log_is_there(tmp_path: Path) -> None:
    state = small_state(tmp_path, 3)
    state.mark("second", 2)
    assert state.counts("pairs", at=0).rows == 0
    assert prune(tmp_path / "state").kept_since == 2
    assert state.version_of("second") == 2
    with pytest.raises(RejectedError, match="version 1 is not kept any more; the oldest is 2"):
        state.counts("pairs", at=1)
