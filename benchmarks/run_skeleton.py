"""One step of the measurement of a state on disk; prints what it took as one JSON object.

    python benchmarks/run_skeleton.py load LOGS STATE    create a state, apply all chunks but the last, close it
    python benchmarks/run_skeleton.py cut LOGS DIR       cut the last chunk into commits, as files in DIR/KIND-SIZE/N
    python benchmarks/run_skeleton.py apply STATE DIR    what a command does: open, apply the commit in DIR, close
    python benchmarks/run_skeleton.py warm STATE DIR     apply the warm commits of each size in one process
    python benchmarks/run_skeleton.py fill STATE DIR     apply commits until a snapshot is almost due; do not close

Every commit has changes of one relation, as a log file has, the relations in turn. Warm commits are measured
twice: as they are, and without the time that the process waits for the disk, which is that of fsync and of renaming.
They come after up to 30,000 changes that are not measured, in which the process makes the state's pages its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from logs import Commit, logs_in

import dynq_cli
from dynq_cli.storage import commit
from dynq_cli.storage.manifest import read_manifest

LOAD_BATCH = 100_000
SIZES = (1, 1000, 100_000)
THOUSAND = 1000
# Kind, size, how many; the first ones come first where a log has too few changes for all.
CUTS = (
    ("cold", 1, 3),
    ("warm", 1, 40),
    ("warm", 1000, 2),
    ("cold", 1000, 1),
    ("due", 1000, 1),
    ("cold", 1000, 2),
    ("heat", 1000, 30),
    ("warm", 1000, 38),
    ("warm", 100_000, 2),
    ("cold", 100_000, 1),
    ("fill", 1000, 60),
)
Numbers = dict[str, float]


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def load(logs: Path, state: Path) -> Numbers:
    view = dynq_cli.create(logs / "spec.yaml", state)
    found = logs_in(logs)
    changes, start = 0, time.perf_counter()
    for log in found:
        if log.chunk != found[-1].chunk:
            table = log.table()
            changes += len(table)
            for begin in range(0, len(table), LOAD_BATCH):
                view.apply({log.relation: table.slice(begin, LOAD_BATCH)})
    spent = time.perf_counter() - start
    closing = timed(view.close)
    size = sum(path.stat().st_size for path in state.glob("snapshot-*"))
    return {"changes": changes, "load": spent, "close": closing, "snapshots_mb": size / 1e6}


def cut(logs: Path, folder: Path) -> Numbers:
    found = logs_in(logs)
    last = [_Rest(log.relation, log.table()) for log in found if log.chunk == found[-1].chunk]
    for kind, size, many in CUTS:
        for _ in range(many):
            longest = max(last, key=len)
            if size <= len(longest):
                _write(longest.take(size), folder / f"{kind}-{size}")
    return {"left": sum(map(len, last))}


class _Rest:
    """The changes of a relation that are in no commit yet, in random order: they are all of different rows."""

    def __init__(self, relation: str, table: pa.Table) -> None:
        self._relation = relation
        self._table = table.take(np.random.default_rng(1).permutation(len(table)))

    def __len__(self) -> int:
        return len(self._table)

    def take(self, many: int) -> Commit:
        taken, self._table = self._table.slice(0, many), self._table.slice(many)
        return {self._relation: taken}


def _write(tables: Commit, parent: Path) -> None:
    folder = parent / f"{len(list(parent.glob('*'))):04d}"
    folder.mkdir(parents=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _read(folder: Path) -> Commit:
    return {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}


def apply(state: Path, folder: Path) -> Numbers:
    tables = _read(folder)
    view = dynq_cli.open(state)
    opening = timed(view.current)
    replayed = read_manifest(state).wal.changes
    applying = timed(lambda: view.apply(tables))
    closing = timed(view.close)
    return {"open": opening, "apply": applying, "close": closing, "replayed": replayed}


class Waiting:
    """The time spent in calls that wait for the disk, while it is entered."""

    CALLS = ("fsync", "replace")

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Waiting:
        self._real = {name: getattr(os, name) for name in self.CALLS}
        for name, call in self._real.items():
            setattr(os, name, self._timed(call))
        return self

    def __exit__(self, *_: object) -> None:
        for name, call in self._real.items():
            setattr(os, name, call)

    def _timed(self, call: Callable[..., object]) -> Callable[..., None]:
        def wrapped(*args: object) -> None:
            self.seconds += timed(lambda: call(*args))

        return wrapped


def warm(state: Path, folder: Path) -> Numbers:
    view = dynq_cli.open(state)
    commit.snapshot_is_due = lambda *_, **__: False
    for path in (folder / "warm-1" / "0000", *sorted((folder / "heat-1000").glob("*"))):
        view.apply(_read(path))
    numbers: Numbers = {}
    for size in SIZES:
        commits = [_read(path) for path in sorted((folder / f"warm-{size}").glob("*"))[size == 1 :]]
        with Waiting() as waiting:
            spent = timed(lambda commits=commits: [view.apply(tables) for tables in commits])  # type: ignore[misc]
        changes = sum(len(table) for tables in commits for table in tables.values())
        numbers[f"durable-{size}"] = changes / spent
        numbers[f"inside-{size}"] = changes / (spent - waiting.seconds)
    return numbers


def fill(state: Path, folder: Path) -> Numbers:
    view = dynq_cli.open(state)
    changes = 0
    for path in sorted((folder / "fill-1000").glob("*")):
        ahead = commit.replay_seconds(read_manifest(state), view.current()) + 2 * THOUSAND / commit.CHANGES_PER_SECOND
        if ahead > commit.DUE_SECONDS:
            break
        view.apply(_read(path))
        changes += THOUSAND
    return {"changes": changes}


STEPS = {"load": load, "cut": cut, "apply": apply, "warm": warm, "fill": fill}


def main() -> None:
    if len(sys.argv) != 4 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))))


if __name__ == "__main__":
    main()
