"""Logs whose commits mix relations: a version each, in its order, durable, and readable from marks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynq_cli.errors import RejectedError
from dynq_cli.session.apply_logs import apply_logs, make
from dynq_cli.storage.state import State
from tests.engine.test_mixed_commits import COLUMNS, RELATIONS, Change, drawn_commits
from tests.seeds import seeds

QUERIES = """
queries:
  chain: {sql: "SELECT a, R.b, T.c, e FROM R, S, T WHERE R.b = S.b AND S.c = T.c"}
  sums: {sql: "SELECT R.b, sum(a) AS total, max(c) AS most FROM R, S WHERE R.b = S.b GROUP BY R.b"}
"""
READ = {
    "chain": "SELECT a, R.b, T.c, e FROM R, S, T WHERE R.b = S.b AND S.c = T.c",
    "sums": "SELECT R.b, sum(a)::BIGINT AS total, max(c) AS most FROM R, S WHERE R.b = S.b GROUP BY R.b",
}


def log_of(commits: list[list[Change]], path: Path, rng: Random, first: int = 0) -> None:
    """Write commits as one log, which gives their order by number; the rows of a commit stay in order."""
    rows = []
    for number, commit in enumerate(commits, first):
        for name, kind, values in commit:
            row = dict(zip(COLUMNS[name], values, strict=True))
            rows.append({"_relation": name, "_change_type": kind, "_commit_version": 10 * number, **row})
    starts = [i for i in range(len(rows)) if not i or rows[i]["_commit_version"] != rows[i - 1]["_commit_version"]]
    blocks = [rows[start:stop] for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True)]
    rng.shuffle(blocks)
    names = ["_relation", "_change_type", "_commit_version", "a", "b", "c", "d", "e"]
    types = {"_relation": pa.string(), "_change_type": pa.string(), "d": pa.string()}
    shuffled = [row for block in blocks for row in block]
    pq.write_table(
        pa.table({n: pa.array([row.get(n) for row in shuffled], types.get(n, pa.int64())) for n in names}), path
    )


def held(commits: list[list[Change]]) -> dict[str, list[tuple[object, ...]]]:
    """The rows that relations hold after some commits."""
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in COLUMNS}
    for commit in commits:
        for name, kind, row in commit:
            if kind == "delete":
                rows[name].remove(row)
                continue
            if name == "S":
                rows[name] = [other for other in rows[name] if other[0] != row[0]]
            rows[name].append(row)
    return rows


def recomputed(commits: list[list[Change]], query: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as connection:
        for name, rows in held(commits).items():
            columns = ", ".join(f"{c} {'VARCHAR' if c == 'd' else 'BIGINT'}" for c in COLUMNS[name])
            connection.execute(f"CREATE TABLE {name} ({columns})")
            if rows:
                marks = ", ".join("?" * len(COLUMNS[name]))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return Counter(connection.execute(READ[query]).fetchall())


def shown(state: State, query: str) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for batch in state.enum(query):
        for row in batch.to_pylist():
            found[tuple(value for name, value in row.items() if name != "_count")] += row.get("_count", 1)
    return found


def test_a_log_of_mixed_commits_is_what_duckdb_says(tmp_path: Path) -> None:
    for seed in seeds(3):
        rng = Random(seed)
        commits = drawn_commits(rng, rng.randint(20, 60))
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "spec.yaml").write_text(RELATIONS + QUERIES, "utf-8")
        state = make(folder / "spec.yaml", folder / "state")
        cuts = sorted({0, len(commits), *(rng.randrange(len(commits)) for _ in range(3))})
        done: list[dict[str, Counter[tuple[object, ...]]]] = [{q: recomputed([], q) for q in READ}]
        for number, (start, stop) in enumerate(pairwise(cuts)):
            log_of(commits[start:stop], folder / f"log-{number}.parquet", rng, start)
            # A state that is opened anew for each log replays those before.
            state = State(folder / "state")
            apply_logs(state, [str(folder / f"log-{number}.parquet")])
            state.mark(f"after-{number}")
            done.append({q: recomputed(commits[:stop], q) for q in READ})
            for query in READ:
                assert shown(state, query) == done[-1][query], f"seed {seed}, log {number}"
        state = State(folder / "state")
        for number, expected in enumerate(done[1:]):
            for query in READ:
                moved: Counter[tuple[object, ...]] = Counter(expected[query])
                for batch in state.diff(query, f"after-{number}").batches:
                    for row in batch.to_pylist():
                        sign = 1 if row.pop("_change_type") == "insert" else -1
                        moved[tuple(v for n, v in row.items() if n != "_count")] += sign * row.get("_count", 1)
                assert +moved == done[-1][query] and not -moved, f"seed {seed}, since log {number}"


def test_a_log_with_a_refused_commit_names_its_row_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(RELATIONS + QUERIES, "utf-8")
    state = make(tmp_path / "spec.yaml", tmp_path / "state")
    commits: list[list[Change]] = [
        [("R", "insert", (1, 1)), ("S", "insert", (1, 2, None))],
        [("T", "insert", (2, 5))],
        [("R", "insert", (2, 1)), ("S", "delete", (7, 0, "x"))],
        [("T", "insert", (2, 6))],
    ]
    log_of(commits, tmp_path / "log.parquet", Random(1))
    rows = pq.read_table(tmp_path / "log.parquet").to_pylist()
    at = 1 + next(i for i, row in enumerate(rows) if row["_change_type"] == "delete")
    with pytest.raises(RejectedError, match=rf"log.parquet: row {at}, column b: deletes a row that is not there"):
        apply_logs(state, [str(tmp_path / "log.parquet")])
    assert state.version == 0 and state.count("chain") == 0
