"""Views that another version of dynq wrote are built anew from the base rows; nothing else of the state changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError, SpecDiffersError
from dynq_cli.storage import commit, recover
from dynq_cli.storage.checkpoint import without_tail
from dynq_cli.storage.integrity import check
from dynq_cli.storage.layout import ENGINE, checksum_of, snapshot_name
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.plans import plan_spec
from dynq_cli.storage.state import State, create, open
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, as_table, make_live
from tests.seeds import seeds

from .states import files_of, rows_of, spec_text

SPEC = """\
version: 1
relations:
  orders:
    columns: {id: int64, customer: string, total: "decimal(12,2)", paid: bool?}
    key: [id]
  customers: {columns: {customer: string, city: string?, since: date}}
  nobody: {columns: {x: int64}}
queries:
  large:
    sql: >
      SELECT o.id, o.customer, c.city, c.since FROM orders o, customers c
      WHERE o.customer = c.customer AND o.total > 50
  cities: {rule: "cities(u) :- orders(_, n, _, _), customers(n, u, _)"}
  pairs:
    sql: >
      SELECT a.id AS a, b.id AS b, upper(a.customer) AS name FROM orders a, orders b
      WHERE upper(a.customer) = upper(b.customer)
  none: {rule: "none(x) :- nobody(x)"}
"""
QUERIES = ("large", "cities", "pairs", "none")
LAST = 12


def batch(version: int) -> dict[str, pa.Table]:
    """Inserts, deletes by key and by row, replaced rows, copies, NULLs, and strings never seen before."""
    chance = np.random.default_rng(version)
    ids = range(version * 10, version * 10 + 10)
    kinds = ["insert"] * 10
    rows: list[tuple[Any, ...]] = [
        (i, f"c{chance.integers(0, 6)}", f"{i}.50", None if i % 4 == 0 else bool(i % 2)) for i in ids
    ]
    if version > 1:
        rows += [((version - 1) * 10 + 3, None, None, None), ((version - 1) * 10 + 4, f"new {version}", "77.00", None)]
        kinds += ["delete", "update_postimage"]
    names = ("id", "customer", "total", "paid")
    columns: dict[str, Any] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    columns["total"] = pa.array(columns["total"]).cast(pa.decimal128(12, 2))
    customers = [f"c{chance.integers(0, 6)}" for _ in range(3)] + [f"new {version}"]
    days = pa.array([version, version + 1, version, 0], pa.int32()).cast(pa.date32())
    return {
        "orders": pa.table({**columns, "_change_type": kinds}),
        "customers": pa.table(
            {"customer": customers, "city": ["A", None, "B", "C"], "since": days, "_count": [1, 2, 1, 3]}
        ),
    }


def sorted_rows(source: State | Views, at: int | None = None) -> dict[str, list[str]]:
    asked: dict[str, Any] = {} if at is None else {"at": at}
    return {q: sorted(str(row) for b in source.enum(q, **asked) for row in b.to_pylist()) for q in QUERIES}


def live(versions: int) -> Views:
    planned = plan_spec(SPEC)
    made = Views(planned.spec, planned.kept)
    for version in range(1, versions + 1):
        made.apply(batch(version))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Versions in a past log, in a snapshot, and in the log behind it; a mark on the oldest."""
    (tmp_path / "spec.yaml").write_text(SPEC, "utf-8")
    with create(tmp_path / "spec.yaml", tmp_path / "state") as state:
        for version in range(1, LAST + 1):
            state.apply(batch(version))
            if version == 2:
                state.mark("two")
            if version == 8:
                state.write_snapshot()
    return tmp_path / "state"


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest as another version would have written it: with a checksum that fits, and all versions."""
    without_tail(folder, read_manifest(folder))
    held = json.loads((folder / "CURRENT").read_bytes().partition(b"\n")[2])
    change(held)
    text = json.dumps(held).encode() + b"\n"
    (folder / "CURRENT").write_bytes(checksum_of(text).encode() + b"\n" + text)


def of_another_engine(folder: Path) -> None:
    """Let another version have written the snapshot: of its tables nothing but the base rows can be understood."""
    facts = read_manifest(folder).snapshot
    path = folder / snapshot_name(read_manifest(folder).generation)
    content = np.fromfile(path, np.uint8)

    def array(name: str) -> np.ndarray:
        place = facts.arrays[name]
        size = np.dtype(place.dtype).itemsize * int(np.prod(place.shape))
        return content[place.offset : place.offset + size].view(place.dtype).reshape(place.shape)

    memory, kept = array("memory"), np.zeros(facts.arrays["memory"].shape, np.bool_)
    for first, stride, used, codes, copies in array("bases"):
        for place in range(first, first + stride * used, stride):
            kept[place : place + codes] = kept[place + copies] = True
    memory[~kept] = -7
    array("tables")[:] = -7
    content.tofile(path)

    def change(held: dict[str, Any]) -> None:
        held["snapshot"]["engine"] = ENGINE + 1
        # The log goes on from the snapshot's checksum, which is another one now: this one has no log.
        held["snapshot"]["checksum"] = checksum_of(content.data)
        held["wal"] = {"length": 0, "checksum": int(held["snapshot"]["checksum"], 16), "changes": 0}

    assert read_manifest(folder).wal.length == 0
    change_manifest(folder, change)


def of_other_plans(folder: Path) -> None:
    change_manifest(folder, lambda held: held["plans"].update(large="0123456789abcdef"))


def test_views_are_built_from_nothing_but_the_base_rows(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    open(folder).write_snapshot()
    of_another_engine(folder)
    before = files_of(folder)
    with caplog.at_level(logging.WARNING, "dynq"):
        found = sorted_rows(open(folder))
    assert found == sorted_rows(live(LAST))
    assert "rebuilding them" in caplog.text
    assert files_of(folder) == before
    open(folder).current()._check()


@pytest.mark.parametrize("version", range(2, LAST + 1))
def test_the_log_behind_the_snapshot_and_versions_before_are_read_as_ever(folder: Path, version: int) -> None:
    of_other_plans(folder)
    state = open(folder)
    assert sorted_rows(state, version) == sorted_rows(live(version))
    assert {q: state.counts(q, version).rows for q in QUERIES} == {q: live(version).count(q)[0] for q in QUERIES}


@pytest.mark.parametrize("seed", seeds(6))
def test_random_states_are_what_they_were(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commit, "DUE_SECONDS", 1e-4)
    case = random_case(seed, queries=3, batches=6)
    (tmp_path / "spec.yaml").write_text(spec_text(case), "utf-8")
    names, expected, stored = [q.name for q in case.queries], make_live(case), Stored(case.spec)
    with create(tmp_path / "spec.yaml", tmp_path / "state") as state:
        for batch in case.history:
            changes = stored.applicable(batch.changes)
            tables = {r.name: as_table(r, changes) for r in case.spec.relations if r.name in batch.relations}
            state.apply(tables)
            expected.apply(tables)
    monkeypatch.setattr(recover, "has_views", lambda *_: False)
    opened = open(tmp_path / "state")
    with caplog.at_level(logging.WARNING, "dynq"):
        opened.current()._check()
    assert "rebuilding them" in caplog.text
    rebuilt, kept = rows_of(opened, names), rows_of(expected, names)
    assert {q: sorted(map(repr, rows)) for q, rows in rebuilt.items()} == {
        q: sorted(map(repr, rows)) for q, rows in kept.items()
    }


def test_a_diff_leads_from_a_mark_to_the_version_in_force(folder: Path) -> None:
    def differences() -> dict[str, list[str]]:
        return {
            q: sorted(str(row) for b in open(folder).diff(q, "two").batches for row in b.to_pylist()) for q in QUERIES
        }

    expected = differences()
    of_other_plans(folder)
    assert differences() == expected


def test_a_writer_keeps_the_views_before_it_goes_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    of_other_plans(folder)
    before = read_manifest(folder)
    with open(folder) as state:
        state.apply(batch(LAST + 1))
    after = read_manifest(folder)
    assert (after.generation, after.snapshot.version, after.version) == (before.generation + 1, LAST, LAST + 1)
    assert after.plans == dict(plan_spec(SPEC).fingerprints)
    caplog.clear()
    state = open(folder)
    assert sorted_rows(state) == sorted_rows(live(LAST + 1))
    assert sorted_rows(state, 2) == sorted_rows(live(2))
    state.current()._check()
    assert not caplog.records
    check(folder, read_data=True)


def test_a_rehearsal_and_a_look_change_nothing(folder: Path) -> None:
    of_other_plans(folder)
    before = files_of(folder)
    state = open(folder)
    with state.writing(rehearsal=True) as writer:
        writer.take(writer.views.changes(batch(LAST + 1)))
    check(folder, read_data=True)
    assert files_of(folder) == before


def test_a_reader_goes_on_with_what_a_writer_kept(folder: Path) -> None:
    of_other_plans(folder)
    reader = open(folder)
    assert sorted_rows(reader) == sorted_rows(live(LAST))
    open(folder).apply(batch(LAST + 1))
    assert sorted_rows(reader) == sorted_rows(live(LAST + 1))


def test_other_counts_than_the_manifest_has_are_refused(folder: Path) -> None:
    of_other_plans(folder)
    change_manifest(folder, lambda held: held["counts"]["large"].update(rows=1))
    before = files_of(folder)
    with pytest.raises(SpecDiffersError, match="large has 1 rows"):
        sorted_rows(open(folder))
    with pytest.raises(SpecDiffersError, match="large has 1 rows"):
        open(folder).apply(batch(LAST + 1))
    assert files_of(folder) == before


def test_damage_is_found_first(folder: Path) -> None:
    of_other_plans(folder)
    path = folder / snapshot_name(read_manifest(folder).generation)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=path.name):
        sorted_rows(open(folder))
