"""Replay a workload's change logs through the engine, and print what it took as one JSON object.

    python benchmarks/run_engine.py DIR [--batch B | --singly] [--tail K] [--enum]

Without `--tail`, all changes are timed, in commits of B changes (a log is one commit where B is 0). With
it, all chunks but the last are loaded first, in commits of 10,000, and up to K changes of the last one are timed
by themselves, relations mixed. With `--singly`, a log is handed over whole and each of its changes is a commit. A
log is read when its turn comes, as a command would do it, in a process that begins as a command does; reading is not
timed. A tiny untimed run comes first: no time has a compilation in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterable
from pathlib import Path

import as_command  # noqa: F401  before Arrow
import numpy as np
import pyarrow as pa
from logs import Commit, Log, base_rows, logs_in, mixed, slices
from state_size import state_bytes

from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import load_spec

QUERY = "q"
ENUM_CAP = 20_000_000  # the yardstick stops there too
LOAD_BATCH = 10_000
_TINY = 64


def opened(folder: Path) -> Views:
    spec = load_spec(folder / "spec.yaml")
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def warm(folder: Path) -> None:
    """Meet every kernel once: inserts, deletes, growth, enumeration."""
    live = opened(folder)
    first = [(log.relation, log.table()[:_TINY]) for log in logs_in(folder) if log.chunk == 0]
    for commit in (*first, *((relation, reversed_of(table)) for relation, table in first)):
        live.apply(dict([commit]))
        for _ in live.enum(QUERY):
            pass


def reversed_of(inserts: pa.Table) -> pa.Table:
    """The deletes that take inserts back."""
    return inserts.set_column(0, "_change_type", pa.repeat("delete", len(inserts)))


def applied(live: Views, commits: Iterable[Commit]) -> float:
    """Seconds to apply commits, which are in memory."""
    ready = list(commits)
    start = time.perf_counter()
    for commit in ready:
        live.apply(commit)
    return time.perf_counter() - start


def enumerated(live: Views) -> tuple[int, float]:
    """Rows drained as Arrow batches, and seconds."""
    rows, start = 0, time.perf_counter()
    for batch in live.enum(QUERY):
        rows += len(batch)
        if rows >= ENUM_CAP:
            break
    return rows, time.perf_counter() - start


def applied_singly(live: Views, log: Log, table: pa.Table) -> float:
    """Seconds to apply one log in which every change is a commit of its own."""
    ends = np.arange(1, len(table) + 1)
    start = time.perf_counter()
    live.apply_commits(log.relation, table, ends)
    return time.perf_counter() - start


def replay(live: Views, logs: Iterable[Log], batch: int, singly: bool = False) -> tuple[int, int, float]:
    """Apply logs; changes, base rows left, seconds."""
    changes, rows, spent = 0, 0, 0.0
    for log in logs:
        table = log.table()
        if singly:
            spent += applied_singly(live, log, table)
        else:
            spent += applied(live, slices(log.relation, table, batch))
        changes += len(table)
        rows += base_rows(table)
    return changes, rows, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--tail", type=int, default=0)
    parser.add_argument("--singly", action="store_true")
    parser.add_argument("--enum", action="store_true")
    given = parser.parse_args()
    warm(given.folder)
    live, logs = opened(given.folder), logs_in(given.folder)
    if given.tail:
        last = {log.relation: log.table() for log in logs if log.chunk == logs[-1].chunk}
        loaded, _, spent = replay(live, [log for log in logs if log.chunk != logs[-1].chunk], LOAD_BATCH)
        numbers: dict[str, float] = {"load_changes_per_s": loaded / spent}
        commits = mixed(last, given.tail, given.batch)
        changes = sum(len(table) for commit in commits for table in commit.values())
        numbers["changes_per_s"] = changes / applied(live, commits)
        numbers["result_rows"] = live.count(QUERY)[0]
    else:
        changes, rows, spent = replay(live, logs, given.batch, given.singly)
        numbers = {"changes": changes, "changes_per_s": changes / spent, "rows": live.count(QUERY)[0]}
        numbers["bytes_per_row"] = state_bytes(live) / rows
    if given.enum:
        drained, spent = enumerated(live)
        numbers["enum_rows_per_s"], numbers["enum_rows"] = drained / spent if drained else 0, drained
    numbers["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
