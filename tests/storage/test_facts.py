"""The facts of a state are those of the version in force, and cost no engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dynq_cli.engine.table_sizes import sizes_of
from dynq_cli.errors import DamagedError, NoStateError
from dynq_cli.storage import commit
from dynq_cli.storage.facts import facts_of, writer_of
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts
from dynq_cli.storage.state import create, open
from tests.conftest import ROOT
from tests.storage.states import files_of, printed_by, small_batch, small_live, small_state


def test_the_facts_are_those_of_the_version_in_force(tmp_path: Path) -> None:
    begun = time.time_ns() // 1000
    small_state(tmp_path, 7)
    folder = tmp_path / "state"
    facts = facts_of(folder, recent=3)
    live = small_live(7)
    assert (facts.version, facts.generation, facts.before) == (7, 1, 6)
    assert facts.counts == {query: Counts(*live.count(query)) for query in ("pairs", "keys")}
    assert facts.waiting == sum(len(table) for v in range(1, 8) for table in small_batch(v).values())
    assert begun <= facts.made < facts.applied <= time.time_ns() // 1000
    assert [entry.version for entry in facts.recent] == [7, 6, 5]
    assert facts.recent[0].time == facts.applied
    assert facts.versions_noted == 8, "version 0 is one"
    sizes = {name: len(content) for name, content in files_of(folder).items()}
    assert facts.sizes.total == sum(sizes.values())
    found = (facts.sizes.snapshot, facts.sizes.wal, facts.sizes.ledger)
    assert found == (sizes["snapshot-0001"], sizes["wal-0001"], sizes["ledger"])
    assert facts.outputs_at is None and facts.writer is None
    assert (facts.marks, facts.kept_since, facts.needed_since, facts.sizes.history) == ({}, 0, 6, 0)
    json.dumps(vars(facts), default=vars)


GROUPED = """\
version: 1
relations:
  R: {columns: {x: int64, y: string}}
  K: {columns: {k: int64, y: string}, key: [k]}
queries:
  pairs: {sql: "SELECT x, R.y, k FROM R, K WHERE R.y = K.y", order_by: [k]}
  more: {sql: "SELECT k, K.y FROM K", order_by: [y]}
  sums: {sql: "SELECT y, SUM(x) AS s, MIN(x) AS m FROM R GROUP BY y"}
"""


def test_rows_copies_and_bytes_are_those_of_the_tables_after_every_version(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(GROUPED, "utf-8")
    state = create(tmp_path / "spec.yaml", tmp_path / "state")
    kinds = ["insert", "insert", "insert", "delete"]
    batches = [
        {"R": pa.table({"x": [1, 1, 2, 3], "y": ["a", "a", "b", "c"]}), "K": pa.table({"k": [1, 2], "y": ["a", "b"]})},
        {"R": pa.table({"x": [1, 4, 4, 2], "y": ["a", "d", "d", "b"], "_change_type": kinds})},
        {"K": pa.table({"k": [1, 7], "y": ["z", "z"], "_change_type": ["update_postimage"] * 2})},
        {"R": pa.table({"x": [1, 3], "y": ["a", "c"], "_change_type": ["delete"] * 2, "_count": [2, 1]})},
    ]
    found = []
    for batch in batches:
        state.apply(batch)
        tables = facts_of(tmp_path / "state").tables
        live = state.current()
        assert tables == sizes_of(live), "copies that were counted along are those that are there"
        assert tables is not None
        arena = live.engine.arena
        used = (arena.tables["used"] * arena.tables["stride"] + arena.tables["mask"] + 1) * 8
        lengths = [part.length for part in tables.relations.values()] + [
            part.length for part in tables.queries.values()
        ]
        assert sum(lengths) + tables.shared == used.sum(), "every table belongs to somebody, once"
        found.append([(size.rows, size.copies) for size in tables.relations.values()])
        assert tables.queries["sums"].stored == state.count("sums")
    assert found == [[(3, 4), (2, 2)], [(3, 6), (2, 2)], [(3, 6), (3, 3)], [(2, 3), (3, 3)]]
    assert tables is not None and tables.shared > 0, "the blocks of two orders"


def test_nothing_waits_after_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = small_state(tmp_path, 3)
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    state.close()
    facts = facts_of(tmp_path / "state")
    assert (facts.version, facts.generation, facts.waiting, facts.sizes.wal) == (3, 2, 0, 0)


def test_what_versions_before_the_snapshot_cost_is_what_their_logs_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = small_state(tmp_path, 3)
    assert state.mark("early", 2) == 2
    monkeypatch.setattr(commit, "DUE_SECONDS", -1.0)
    state.close()
    facts = facts_of(tmp_path / "state")
    assert (facts.marks, facts.kept_since, facts.needed_since) == ({"early": 2}, 0, 2)
    assert facts.sizes.history == (tmp_path / "state" / "wal-0001").stat().st_size > 0
    assert facts.sizes.wal == 0


def test_asking_changes_nothing(tmp_path: Path) -> None:
    small_state(tmp_path, 2)
    before = files_of(tmp_path / "state")
    facts_of(tmp_path / "state")
    assert files_of(tmp_path / "state") == before


HOLDER = """\
import sys, time
from pathlib import Path
from dynq_cli.storage.lock import writing_to
with writing_to(Path(sys.argv[1])):
    sys.stdout.write("holding\\n")
    sys.stdout.flush()
    time.sleep(60)
"""


def test_the_writer_is_named_as_long_as_it_lives_and_is_not_disturbed(tmp_path: Path) -> None:
    small_state(tmp_path, 1)
    folder = tmp_path / "state"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "holding\n"
        assert facts_of(folder).writer == child.pid
    finally:
        child.kill()
        child.wait()
    assert (folder / "lock").read_text() == str(child.pid), "a killed writer leaves its number"
    assert writer_of(folder) is None
    (folder / "lock").write_text(str(os.getpid()))
    assert writer_of(folder) is None, "whoever has the number now is no writer"
    with writing_to(folder):
        assert writer_of(folder) == os.getpid()
    assert writer_of(folder) is None
    (folder / "lock").unlink()
    assert writer_of(folder) is None


def test_facts_need_no_engine(tmp_path: Path) -> None:
    small_state(tmp_path, 2).close()
    code = (
        "from pathlib import Path\n"
        "from dynq_cli.storage.facts import facts_of\n"
        "sys.stdout.write(str(facts_of(Path(sys.argv[1])).version))\n"
    )
    assert printed_by(code, tmp_path / "state") == "2"


def test_no_state_and_damage_are_told(tmp_path: Path) -> None:
    with pytest.raises(NoStateError):
        facts_of(tmp_path)
    small_state(tmp_path, 2).close()
    ledger = tmp_path / "state" / "ledger"
    content = bytearray(ledger.read_bytes())
    content[-20] ^= 1
    ledger.write_bytes(content)
    with pytest.raises(DamagedError, match="ledger"):
        facts_of(tmp_path / "state")
    assert open(tmp_path / "state").version == 2
