"""Queries of every kind, kept by the engine over random histories, give what DuckDB gives after every batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from dynq_cli.engine.codes import arrow_type
from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.normal_form import Query
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Relation
from tests.every_case import every_case
from tests.query.meaning import _value, make_query, make_spec
from tests.query.test_sql_meaning import QUERIES

SPEC = make_spec()
TEXTS = [line for line in QUERIES.strip().splitlines() if line]
PER_SPEC = 8
BATCHES = 6
Row = tuple[Any, ...]


def plain(value: Any) -> Any:
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def random_batch(chance: Random, rows: dict[str, Counter[Row]]) -> dict[str, list[tuple[str, Row]]]:
    """Inserts and deletes of some relations, applied to `rows`."""
    batch: dict[str, list[tuple[str, Row]]] = {}
    for relation in SPEC.relations:
        if chance.random() < 0.4:
            continue
        changes = batch.setdefault(relation.name, [])
        stored = rows[relation.name]
        for _ in range(chance.randint(0, 6)):
            if stored and chance.random() < 0.45:
                row = chance.choice(list(stored.elements()))
                stored[row] -= 1
                rows[relation.name] = stored = +stored
                changes.append(("delete", row))
            else:
                row = tuple(_value(chance, f"{c.type}{'?' if c.nullable else ''}") for c in relation.columns)
                stored[row] += 1
                changes.append(("insert", row))
    return batch


def as_table(relation: Relation, changes: list[tuple[str, Row]]) -> pa.Table:
    columns = {"_change_type": pa.array([kind for kind, _ in changes], pa.string())}
    for i, c in enumerate(relation.columns):
        columns[c.name] = pa.array([row[i] for _, row in changes], arrow_type(c.type))
    return pa.table(columns)


def load(connection: duckdb.DuckDBPyConnection, rows: dict[str, Counter[Row]]) -> None:
    for relation in SPEC.relations:
        table = as_table(relation, [("insert", row) for row in rows[relation.name].elements()])
        connection.register("loaded", table.drop_columns(["_change_type"]))
        connection.execute(f"CREATE OR REPLACE TABLE {relation.name} AS SELECT * FROM loaded")
        connection.unregister("loaded")


def wanted(connection: duckdb.DuckDBPyConnection, query: Query) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row in connection.execute(as_sql(query)).fetchall():
        found[tuple(map(plain, row))] += 1
    return found


def enumerated(live: Views, name: str) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for batch in live.enum(name):
        for row in batch.to_pylist():
            copies = row.pop("_count", 1)
            found[tuple(map(plain, row.values()))] += copies
    return found


@every_case("start", range(0, len(TEXTS), PER_SPEC))
def test_every_kind_of_query_is_kept(start: int) -> None:
    queries = {
        f"q{i}": compile_sql(text, SPEC, make_query(text)) for i, text in enumerate(TEXTS[start : start + PER_SPEC])
    }
    live = Views(SPEC, {name: plan_query(replace(query, name=name), SPEC) for name, query in queries.items()})
    chance = Random(start)
    rows: dict[str, Counter[Row]] = {r.name: Counter() for r in SPEC.relations}
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    for _ in range(BATCHES):
        batch = random_batch(chance, rows)
        live.apply({r.name: as_table(r, batch[r.name]) for r in SPEC.relations if r.name in batch})
        live._check()
        load(connection, rows)
        for i, (name, query) in enumerate(queries.items()):
            expected = wanted(connection, query)
            assert enumerated(live, name) == expected, f"{name} {TEXTS[start + i]}"
            assert live.count(name)[0] == expected.total(), f"{name} {TEXTS[start + i]}"


ORDERED = """
SELECT c, COUNT(*) AS n FROM r GROUP BY c ORDER BY c DESC
SELECT a, c, SUM(m) AS total FROM r GROUP BY a, c HAVING COUNT(*) > 1 ORDER BY c, a DESC
SELECT c, COUNT(*) AS n FROM r GROUP BY c ORDER BY n DESC, c
SELECT SUM(m) AS total, a FROM r GROUP BY a ORDER BY total DESC
SELECT c, COUNT(*) + 1 AS more, MIN(b) AS least FROM r GROUP BY c ORDER BY least, more DESC
SELECT SUM(m) AS total FROM r GROUP BY a, c ORDER BY SUM(m)
SELECT AVG(m) AS mean FROM r ORDER BY mean
SELECT r.a, s.a AS sa FROM r, s WHERE r.a < s.a AND r.c = s.c ORDER BY sa, r.a DESC
SELECT DISTINCT r.a, s.c FROM r, s WHERE r.b = s.b ORDER BY c DESC, a
SELECT a, b FROM r WHERE a NOT IN (SELECT x FROM u) ORDER BY b DESC, a
SELECT a, m FROM r UNION ALL SELECT a, m FROM s ORDER BY m DESC, a
SELECT total, a FROM (SELECT a, SUM(m) AS total FROM r GROUP BY a) AS d ORDER BY total DESC, a
SELECT a, SUM(m) AS m FROM r GROUP BY a UNION SELECT a, m FROM r ORDER BY m, a
""".strip().splitlines()


def test_every_kind_of_query_can_be_ordered() -> None:
    queries = {f"q{i}": compile_sql(text, SPEC, make_query(text)) for i, text in enumerate(ORDERED)}
    live = Views(SPEC, {name: plan_query(replace(query, name=name), SPEC) for name, query in queries.items()})
    chance = Random(7)
    rows: dict[str, Counter[Row]] = {r.name: Counter() for r in SPEC.relations}
    connection = duckdb.connect(
        ":memory:", config={"threads": "1", "default_null_order": "nulls_first_on_asc_last_on_desc"}
    )
    for _ in range(BATCHES):
        batch = random_batch(chance, rows)
        live.apply({r.name: as_table(r, batch[r.name]) for r in SPEC.relations if r.name in batch})
        live._check()
        load(connection, rows)
        for name, text in zip(queries, ORDERED, strict=True):
            wanted = [tuple(map(plain, row)) for row in connection.execute(text).fetchall()]
            found = [
                tuple(map(plain, list(row.values())[: len(queries[name].columns)]))
                for part in live.enum(name)
                for row in part.to_pylist()
                for _ in range(row.get("_count", 1))
            ]
            assert found == wanted, text
            by_position = [
                tuple(map(plain, row.values()))
                for part in Ranked(live, name).jth(range(1, len(wanted) + 1))
                for row in part.to_pylist()
            ]
            assert by_position == wanted, text
