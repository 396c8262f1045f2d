"""A state that is closed and opened anywhere in its history is the state that never was: rows, order, bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import memory
from dynq_cli.engine.arena_snapshot import Part
from dynq_cli.engine.changes import Changes
from dynq_cli.errors import RejectedError
from dynq_cli.storage import commit, wal
from dynq_cli.storage.layout import PREVIOUS
from dynq_cli.storage.manifest import SnapshotFacts, WalFacts, read_manifest
from dynq_cli.storage.plans import read_plans
from dynq_cli.storage.recover import open_views
from dynq_cli.storage.snapshot import open_snapshot, write_snapshot
from dynq_cli.storage.state import State, create, open
from dynq_cli.storage.wal import Record
from tests.engine.random_history import Batch
from tests.engine.random_queries import Case, random_case
from tests.engine.random_runs import Stored, as_table, make_live
from tests.storage.states import bytes_of, rows_of, small_batch, small_live, small_rows, small_state, spec_text

SEEDS = range(12)
ALWAYS, NEVER = -1.0, float("inf")


def created(case: Case, folder: Path) -> State:
    (folder / "spec.yaml").write_text(spec_text(case), "utf-8")
    return create(folder / "spec.yaml", folder / "state")


def refused(state: State, case: Case, batch: Batch) -> None:
    last = batch.rejected[-1].relation
    named = dict.fromkeys(c.relation for c in batch.rejected)
    tables = {r.name: as_table(r, batch.rejected, batch.bad if r.name == last else "") for r in case.spec.relations}
    with pytest.raises(RejectedError):
        state.apply({name: tables[name] for name in named})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("due", [ALWAYS, NEVER, 1e-4], ids=["snapshots at every close", "log only", "some snapshots"])
def test_a_restart_at_any_step_changes_nothing(
    seed: int, due: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", due)
    case, chance = random_case(seed, queries=3, batches=8, ordered=seed % 2 == 1), Random(seed)
    names = [q.name for q in case.queries]
    state, live, stored = created(case, tmp_path), make_live(case), Stored(case.spec)
    with_refusals = seed % 3 == 0
    for version, batch in enumerate(case.history, 1):
        if batch.bad and with_refusals:
            refused(state, case, batch)
        changes = stored.applicable(batch.changes)
        tables = {r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations}
        assert state.apply(tables) == version
        live.apply(tables)
        reader = open(tmp_path / "state")
        assert rows_of(reader, names) == rows_of(state, names) == rows_of(live, names)
        assert [(c.rows, c.distinct) for c in map(reader.counts, names)] == [live.count(n) for n in names]
        if not with_refusals:
            assert bytes_of(reader) == bytes_of(state), "replay gives the same bytes"
        reader.current()._check()
        if chance.random() < 0.4:
            state.close()
            state = open(tmp_path / "state")


def test_a_process_that_goes_on_after_its_snapshot_is_where_a_new_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = small_state(tmp_path, 2)
    monkeypatch.setattr(commit, "snapshot_is_due", lambda *_, **__: True)
    for version in (3, 4):
        state.apply(small_batch(version))
        assert bytes_of(state) == bytes_of(open(tmp_path / "state"))
    assert small_rows(state) == small_rows(small_live(4))
    assert read_manifest(tmp_path / "state").generation == 3


def test_the_generation_before_leads_to_the_snapshot_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = small_state(tmp_path, 3)
    monkeypatch.setattr(commit, "DUE_SECONDS", ALWAYS)
    state.close()
    folder = tmp_path / "state"
    assert read_manifest(folder).wal.length == 0, "the log is in the snapshot"
    (folder / "CURRENT").write_bytes((folder / PREVIOUS).read_bytes())
    before = read_manifest(folder)
    assert (before.version, before.generation) == (3, 1)
    old = open_views(folder, before, read_plans(folder, before))
    assert small_rows(old) == small_rows(small_live(3))


def test_only_two_generations_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", ALWAYS)
    state = small_state(tmp_path)
    for version in range(1, 6):
        state.apply(small_batch(version))
        state.close()
    names = {path.name for path in (tmp_path / "state").iterdir()}
    files = {f"{kind}-{generation:04d}" for kind in ("snapshot", "wal") for generation in (5, 6)}
    assert names == {"CURRENT", "PREVIOUS", "spec.yaml", "plans.json", "ledger", "lock", "synced"} | files


def test_the_disk_never_holds_three_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", ALWAYS)
    state, folder = small_state(tmp_path), tmp_path / "state"
    seen = []

    def write(path: Path, parts: Mapping[str, Part], version: int) -> SnapshotFacts:
        facts = write_snapshot(path, parts, version)
        seen.append(sorted(p.name for p in folder.glob("snapshot-*")))
        assert not (folder / PREVIOUS).exists(), "it would name files that are gone"
        return facts

    monkeypatch.setattr(commit, "write_snapshot", write)
    for version in range(1, 4):
        state.apply(small_batch(version))
        state.close()
    assert seen == [[f"snapshot-{n:04d}", f"snapshot-{n + 1:04d}"] for n in (1, 2, 3)]


def test_a_snapshot_has_the_arrays_of_its_parts_and_holes_where_they_are_zero(tmp_path: Path) -> None:
    many, place = 3 << 20, (2 << 20) + 5
    numbers = np.arange(1, 300_001)
    parts = {
        "few": Part(np.dtype(np.int32), (2, 2), lambda: iter([(0, np.array([1, 2, 3, 4], np.int32))])),
        "gaps": Part(numbers.dtype, (many,), lambda: iter([(7, numbers[:3]), (place, numbers)])),
        "none": Part(numbers.dtype, (0,), lambda: iter([(0, numbers[:0])])),
    }
    facts = write_snapshot(tmp_path / "snapshot-0001", parts, 1)
    found = open_snapshot(tmp_path / "snapshot-0001", facts)
    for name, part in parts.items():
        expected = np.zeros(part.shape, part.dtype)
        part.fill(expected)
        assert found[name].dtype == part.dtype and np.array_equal(found[name], expected), name
    stored = os.stat(tmp_path / "snapshot-0001")
    assert stored.st_size == facts.length > many * 8
    assert stored.st_blocks * 512 < many * 4, "zeros take no room"


def test_a_large_record_is_the_same_file_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    codes = np.asfortranarray(chance.integers(0, 9, (7, 3)))
    changes = Changes(codes, np.full(7, 1, np.int8), np.arange(7))
    record = Record(1, {"R": changes}, {"string": (np.arange(5, dtype=np.uint8), np.array([0, 5]))})
    written = []
    for small in (1 << 20, 0):
        monkeypatch.setattr(wal, "_SMALL", small)
        path = tmp_path / f"wal-{small}"
        path.write_bytes(b"")
        log = wal.LogWriter(path, 1, WalFacts(0, 5, 0))
        log.append(record)
        log.append(record)
        facts = log.sync()
        read = list(wal.read_records(path, WalFacts(0, 5, 0), facts))
        assert [np.array_equal(r.batch["R"].codes, codes) for r in read] == [True, True]
        assert read[1].values["string"][0].tolist() == [0, 1, 2, 3, 4]
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_the_log_has_no_column_whose_values_are_all_alike(tmp_path: Path) -> None:
    """Filters without computed values; all rows pass, or some do."""
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {R: {columns: {x: int64, y: int64}}}\n"
        'queries: {q: {sql: "SELECT x, y FROM R WHERE y > 0"}, p: {sql: "SELECT DISTINCT x + y AS z FROM R"}}\n'
    )
    rows = 1000
    for values, passing in (([1] * rows, 0), ([0, 1] * (rows // 2), 1)):
        state = create(tmp_path / "spec.yaml", tmp_path / f"state-{passing}")
        state.apply({"R": pa.table({"x": list(range(rows)), "y": values})})
        stored = (tmp_path / f"state-{passing}" / "wal-0001").stat().st_size
        # Two codes and a computed value of eight bytes each, and perhaps a byte for the filter.
        assert rows * (24 + passing) <= stored < rows * (24 + passing) + 1500
        assert bytes_of(state) == bytes_of(open(tmp_path / f"state-{passing}"))
        state.apply({"R": pa.table({"x": [5], "y": [1]})})
        assert bytes_of(state) == bytes_of(open(tmp_path / f"state-{passing}"))


def test_slots_of_a_snapshot_are_as_many_as_its_rows_need(tmp_path: Path) -> None:
    """Also where most rows were deleted."""
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {R: {columns: {x: int64, y: int64}, key: [x]}}\n"
        'queries: {q: {sql: "SELECT y, COUNT(*) AS n FROM R GROUP BY y"}}\n'
    )
    state = create(tmp_path / "spec.yaml", tmp_path / "state")
    rows = 60_000
    state.apply({"R": pa.table({"x": list(range(rows)), "y": list(range(rows))})})
    gone = pa.table({"x": list(range(5, rows)), "_change_type": ["delete"] * (rows - 5)})
    state.apply({"R": gone})
    before = state.current().engine.arena.tables
    assert ((before["mask"] > 60_000) & (before["live"] < 10)).any()
    state.write_snapshot()
    after = state.current().engine.arena.tables
    assert not ((after["mask"] > 100) & (after["live"] < 10)).any()
    assert (3 * after["live"] <= 2 * (after["mask"] + 1))[after["mask"] >= 0].all()
    state.current()._check()
    state.apply({"R": pa.table({"x": list(range(rows, 2 * rows)), "y": list(range(rows))})})
    state.current()._check()
    assert state.count() == rows


def test_a_snapshot_has_room_so_that_changes_after_it_move_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = small_state(tmp_path, 30)
    assert state.current().engine.arena.grown() > 0
    monkeypatch.setattr(commit, "DUE_SECONDS", ALWAYS)
    state.close()
    opened = open(tmp_path / "state")
    opened.apply({"R": pa.table({"x": [1, 2], "y": ["name 1", "never seen"]})})
    assert opened.current().engine.arena.grown() == 0


def test_copying_all_pages_at_once_changes_neither_results_nor_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_state(tmp_path, 2).close()
    snapshot = tmp_path / "state" / "snapshot-0001"
    before = snapshot.read_bytes()
    state = open(tmp_path / "state")
    monkeypatch.setattr(memory, "BYTES_PER_CHANGE", 1)
    state.apply(small_batch(3))
    assert not state.current().engine.arena.memory.is_private, "a few changes do not touch most pages"
    monkeypatch.setattr(memory, "BYTES_PER_CHANGE", len(before))
    for version in (4, 5):
        state.apply(small_batch(version))
        assert state.current().engine.arena.memory.is_private
    assert snapshot.read_bytes() == before
    assert bytes_of(state) == bytes_of(open(tmp_path / "state"))
    assert small_rows(state) == small_rows(small_live(5))
