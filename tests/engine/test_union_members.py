"""Members of a union need no names and may be NULL in a column: random changes, DuckDB recomputes."""

from __future__ import annotations

from collections import Counter
from random import Random

import duckdb
import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec

RELATIONS = """\
version: 1
relations:
  r: {columns: {a: int64, b: string?, d: date}}
  s: {columns: {a: int64, x: int32?}}
queries:
"""
QUERIES = (
    "SELECT a, x FROM s UNION ALL SELECT a, a FROM r",
    "SELECT a, b, d FROM r UNION SELECT a, NULL, NULL FROM s",
    "SELECT a, b, d FROM r UNION ALL SELECT a, NULL, NULL FROM s",
    "SELECT NULL AS n, a FROM s UNION SELECT d, NULL FROM r UNION SELECT NULL, NULL FROM s",
    "SELECT b, count(*) AS n FROM r GROUP BY b UNION ALL SELECT NULL, NULL FROM s GROUP BY a",
)


def drawn(chance: Random) -> dict[str, pa.Table]:
    size = chance.randint(1, 6)
    return {
        "r": pa.table(
            {
                "a": pa.array([chance.randint(0, 3) for _ in range(size)], pa.int64()),
                "b": pa.array([chance.choice(["p", "q", None]) for _ in range(size)], pa.string()),
                "d": pa.array([chance.randint(0, 2) for _ in range(size)], pa.date32()),
            }
        ),
        "s": pa.table(
            {
                "a": pa.array([chance.randint(0, 3) for _ in range(size)], pa.int64()),
                "x": pa.array([chance.choice([0, 1, None]) for _ in range(size)], pa.int32()),
            }
        ),
    }


@pytest.mark.parametrize("query", QUERIES)
def test_the_rows_are_those_of_duckdb_after_every_change(query: str) -> None:
    planned = plan_spec(f"{RELATIONS}  q: {{sql: {query!r}}}\n")
    live, stored, chance = Views(planned.spec, planned.kept), dict[str, list[pa.Table]](r=[], s=[]), Random(7)
    for _ in range(12):
        if stored["r"] and chance.random() < 0.4:
            at = chance.randrange(len(stored["r"]))
            change, kind = {name: tables.pop(at) for name, tables in stored.items()}, "delete"
        else:
            change, kind = drawn(chance), "insert"
            for name, table in change.items():
                stored[name].append(table)
        live.apply({n: t.append_column("_change_type", pa.array([kind] * len(t))) for n, t in change.items()})
        found: Counter[tuple[object, ...]] = Counter()
        for batch in live.enum("q"):
            names = [n for n in batch.schema.names if n != "_count"]
            for row in batch.to_pylist():
                found[tuple(row[n] for n in names)] += row.get("_count", 1)
        connection = duckdb.connect(":memory:")
        for name, tables in stored.items():
            empty = drawn(Random(1))[name].slice(0, 0)
            connection.register(name, pa.concat_tables([empty, *tables]))
        assert found == Counter(connection.execute(query).fetchall()), query
