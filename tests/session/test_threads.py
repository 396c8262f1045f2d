"""Threads of one process take logs into states of their own at the same time, each as if it were alone."""

from __future__ import annotations

import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Barrier

import pyarrow as pa

from dynq_cli.query.duck import Duck, shared
from dynq_cli.session.apply_logs import apply_logs, make
from dynq_cli.session.verify import verify
from dynq_cli.storage.state import open as open_state

# Filters and computed columns are up to DuckDB, for every log.
SPEC = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64, s: string}}
  S: {columns: {y: int64, z: 'decimal(9,2)'}}
queries:
  q: {sql: "SELECT x, z FROM R, S WHERE R.y = S.y AND upper(s) <> 'B' AND x + R.y > 3"}
  total: {sql: "SELECT s || '!' AS said, sum(x * 2) AS n FROM R GROUP BY s || '!'"}
"""
THREADS, LOGS, ROWS = 4, 8, 30


def write_logs(folder: Path, seed: int) -> list[str]:
    rng = Random(seed)
    paths = []
    for i in range(LOGS):
        name = "RS"[i % 2]
        rows = [
            {"x": rng.randrange(9), "y": rng.randrange(5), "s": rng.choice("abc")}
            if name == "R"
            else {"y": rng.randrange(5), "z": rng.randrange(999)}
            for _ in range(ROWS)
        ]
        paths.append(folder / f"{name}.{i}.jsonl")
        paths[-1].write_text("\n".join(json.dumps({"_change_type": "insert", **row}) for row in rows), "utf-8")
    return list(map(str, paths))


def test_states_are_fed_from_threads_at_the_same_time(tmp_path: Path) -> None:
    together = Barrier(THREADS, timeout=60)

    def feed(seed: int) -> Path:
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "spec.yaml").write_text(SPEC, "utf-8")
        logs = write_logs(folder, seed)
        together.wait()
        make(folder / "spec.yaml", folder / "state").close()
        for log in logs:
            with open_state(folder / "state") as state:
                (outcome,) = apply_logs(state, [log])
            assert outcome.rows == ROWS
        return folder / "state"

    with ThreadPoolExecutor(THREADS) as threads:
        for state in threads.map(feed, range(THREADS)):
            assert all(verdict.agrees and verdict.kept.rows for verdict in verify(state))


def test_the_database_of_a_thread_is_its_own_and_goes_with_it() -> None:
    def ask() -> tuple[int, weakref.ref[Duck]]:
        duck = shared()
        assert duck is shared()
        assert duck.values(pa.table({"x": [1, 2]}), ('"x" + 1',)).to_pydict() == {"c0": [2, 3]}
        return id(duck), weakref.ref(duck)

    mine, _ = ask()
    with ThreadPoolExecutor(1) as thread:
        theirs, alive = thread.submit(ask).result()
        assert theirs != mine
    gc.collect()
    assert alive() is None
