"""Queries that are kept in several steps, in a state: results, differences and earlier versions are DuckDB's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import dynq_cli
from dynq_cli.engine.codes import arrow_type
from dynq_cli.storage.state import State, create
from tests.engine.random_history import value_of

SPEC = """
version: 1
relations:
  R: {columns: {x: int64, y: "int64?", s: string, d: "decimal(25,3)"}}
  S: {columns: {y: int64, z: "int64?", f: "float64?"}}
queries:
  projected: {sql: "SELECT DISTINCT R.x, S.z FROM R, S WHERE R.y = S.y"}
  triangle: {sql: "SELECT a.y, b.y AS y2 FROM S a, S b, S c WHERE a.z = b.y AND b.z = c.y AND c.z = a.y"}
  compared: {sql: "SELECT R.x, S.z FROM R, S WHERE R.y < S.y AND R.x <= S.y + 1"}
  texts: {sql: "SELECT upper(s) || '!' AS t, COUNT(*) AS n FROM R GROUP BY upper(s) || '!'"}
  sums: {sql: "SELECT R.x, SUM(R.d) AS total, AVG(S.z) AS mean FROM R, S WHERE R.y = S.y GROUP BY R.x"}
  having: {sql: "SELECT x, SUM(d) / 2 AS half FROM R GROUP BY x HAVING COUNT(*) > 1"}
  largest: {sql: "SELECT R.s, R.d FROM R, (SELECT MAX(d) AS d FROM R) m WHERE R.d = m.d"}
  whole: {sql: "SELECT COUNT(*) AS n, MIN(s) AS first, COUNT(DISTINCT y) AS many FROM R"}
  absent: {sql: "SELECT x, y FROM R WHERE y NOT IN (SELECT z FROM S)"}
  present: {sql: "SELECT y, z FROM S WHERE EXISTS (SELECT 1 FROM R WHERE R.y = S.y AND R.x < S.z)"}
  united: {sql: "SELECT x AS v, 'r' AS origin FROM R UNION ALL SELECT z, 's' FROM S"}
  either: {sql: "SELECT d FROM R UNION SELECT y FROM S"}
"""
Row = tuple[Any, ...]
Stored = dict[str, Counter[Row]]


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else round(value, 9) + 0.0
    return value


def changed(chance: Random, state: State, stored: Stored) -> dict[str, pa.Table]:
    tables = {}
    for relation in state.spec.relations:
        rows, changes = stored[relation.name], []
        for _ in range(chance.randint(0, 7)):
            if rows and chance.random() < 0.4:
                row = chance.choice(list(rows.elements()))
                rows[row] -= 1
                changes.append(("delete", row))
            else:
                row = tuple(value_of(chance, c) for c in relation.columns)
                rows[row] += 1
                changes.append(("insert", row))
            rows = stored[relation.name] = +rows
        columns = {"_change_type": pa.array([kind for kind, _ in changes], pa.string())}
        for i, c in enumerate(relation.columns):
            columns[c.name] = pa.array([row[i] for _, row in changes], arrow_type(c.type))
        tables[relation.name] = pa.table(columns)
    return tables


def results(state: State, stored: Stored) -> dict[str, Counter[Row]]:
    """What DuckDB makes of the queries as they are written."""
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    for relation in state.spec.relations:
        rows = list(stored[relation.name].elements())
        typed = {c.name: pa.array([r[i] for r in rows], arrow_type(c.type)) for i, c in enumerate(relation.columns)}
        connection.register("loaded", pa.table(typed))
        connection.execute(f"CREATE TABLE {relation.name} AS SELECT * FROM loaded")
    found = {}
    for query in state.spec.queries:
        rows = connection.execute(query.texts[0].value).fetchall()
        found[query.name] = Counter(tuple(map(plain, row)) for row in rows)
    return found


def read(batches: Iterable[pa.RecordBatch]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row.pop("_change_type", "insert")]
            copies = row.pop("_count", 1)
            found[tuple(map(plain, row.values()))] += sign * copies
    return Counter({row: n for row, n in found.items() if n})


def difference(old: Counter[Row], new: Counter[Row]) -> Counter[Row]:
    return Counter({row: new[row] - old[row] for row in {*old, *new} if new[row] != old[row]})


def test_results_differences_and_earlier_versions_are_those_of_a_recomputation(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    create(tmp_path / "spec.yaml", tmp_path / "state").close()
    chance = Random(4)
    past: list[dict[str, Counter[Row]]] = []
    stored: Stored = {"R": Counter(), "S": Counter()}
    for version in range(9):
        # Opened anew every time: from the snapshot, the log and the kept plans.
        with dynq_cli.open(tmp_path / "state") as state:
            if version:
                state.apply(changed(chance, state, stored))
            past.append(results(state, stored))
            for name, wanted in past[version].items():
                assert read(state.enum(name)) == wanted, f"{name} at {version}"
                assert state.counts(name).rows == wanted.total(), f"{name} at {version}"
                for row in list(wanted)[:2]:
                    asked = dict(zip([c.name for c in state.schema(name)], row, strict=False))
                    if "NaN" not in row:
                        assert state.test(asked, name) == wanted[row], f"{name} has {row} at {version}"
            for since in {max(version - 1, 0), 0, version // 2}:
                for name, wanted in past[version].items():
                    found = read(state.diff(name, since).batches)
                    assert found == difference(past[since][name], wanted), f"{name} from {since} to {version}"
            for name, wanted in past[version // 2].items():
                assert read(state.enum(name, at=version // 2)) == wanted, f"{name} at {version // 2} from {version}"
