"""Sums that are pushed below many-to-many joins give what DuckDB computes anew, and do not cost the bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dynq_cli.engine.codes import Codes
from dynq_cli.engine.grouped import Grouped
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.lower import program_of
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64
from tests.engine.random_aggregates import is_pushed, random_sums
from tests.engine.random_runs import described, failure, minimise
from tests.every_case import every_case
from tests.query.meaning import make_query
from tests.seeds import seeds

QUERIES = 8
SEEDS = seeds(8)
MANY = 20_000
TOTAL = sum(range(MANY + 1))
NUMBERS = Spec(
    "spec.yaml",
    (
        Relation("r", (Column("x", INT64), Column("y", INT64), Column("a", INT64, True))),
        Relation("s", (Column("y", INT64), Column("z", INT64), Column("b", INT64, True))),
        Relation("k", (Column("y", INT64), Column("c", INT64)), ("y",)),
    ),
    (),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_sums(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def test_most_of_them_are_pushed() -> None:
    queries = [q for seed in range(24) for q in random_sums(seed, QUERIES).queries]
    for language in ("sql", "rule"):
        several = [is_pushed(q.program) for q in queries if q.language == language and q.program is not None]
        assert sum(several) > len(several) / 2, language


PUSHED = """
SELECT SUM(r.a * s.b) AS t FROM r, s WHERE r.y = s.y
SELECT SUM(r.a) AS t, COUNT(*) AS n, COUNT(r.a) AS na, COUNT(s.b) AS nb, AVG(r.a) AS m FROM r, s WHERE r.y = s.y
SELECT SUM(r.a * s.b - 2 * r.a + s.b - 1) AS t, AVG(r.a * s.b - r.a) AS m FROM r, s WHERE r.y = s.y
SELECT r.x, SUM(s.b) AS t, COUNT(s.b) + COUNT(*) AS n FROM r, s WHERE r.y = s.y GROUP BY r.x HAVING COUNT(s.b) <> 2
SELECT r.x, MAX(s.z) AS z, COUNT(DISTINCT s.z) AS d, SUM(r.a) AS t FROM r, s WHERE r.y = s.y GROUP BY r.x
SELECT r.x, SUM(q.a * s.b) AS t FROM r, r q, s WHERE r.y = q.x AND q.y = s.y GROUP BY r.x
SELECT r.x, s.z, SUM(r.a * k.c) AS t FROM r, s, k WHERE r.y = s.y AND s.z = k.y GROUP BY r.x, s.z
SELECT SUM(r.a * s.b) AS t, COUNT(*) AS n FROM r, s
SELECT SUM(r.a) AS t FROM r, s WHERE r.y = s.y AND EXISTS (SELECT 1 FROM k WHERE k.y = s.z)
SELECT SUM(r.a * s.b) AS t FROM r, s WHERE r.y < s.y
SELECT SUM(d.t * r.a) AS t FROM (SELECT y, SUM(b) AS t, z FROM s GROUP BY y, z) AS d, r WHERE d.y = r.y
SELECT d.t, COUNT(*) AS n FROM (SELECT r.x, SUM(s.b) AS t FROM r, s WHERE r.y = s.y GROUP BY r.x) AS d GROUP BY d.t
SELECT r.x, SUM(s.b) AS t FROM r, s WHERE r.y = s.y GROUP BY r.x ORDER BY t DESC
""".strip().splitlines()
LEFT_ALONE = """
SELECT SUM(a) AS t FROM r
SELECT SUM(r.a * k.c) AS t FROM r, k WHERE r.y = k.y
SELECT r.x, COUNT(*) AS n FROM r, s WHERE r.y = s.y GROUP BY r.x
SELECT MAX(r.a) AS m FROM r, s WHERE r.y = s.y
SELECT SUM(CAST(r.a AS DOUBLE) * s.b) AS t FROM r, s WHERE r.y = s.y
""".strip().splitlines()
BATCHES: Sequence[dict[str, list[tuple[str, tuple[int | None, ...]]]]] = (
    {"r": [("insert", (0, 1, 5)), ("insert", (0, 1, 5)), ("insert", (1, 1, None)), ("insert", (1, 2, -3))]},
    {"s": [("insert", (1, 1, None)), ("insert", (1, 2, None)), ("insert", (2, 1, None))]},
    {"s": [("insert", (1, 1, 7)), ("insert", (2, 2, -4))], "k": [("insert", (1, 9)), ("insert", (2, -1))]},
    {"r": [("delete", (0, 1, 5)), ("insert", (2, 0, 4))], "s": [("delete", (1, 1, None))]},
    {"r": [("delete", (1, 2, -3)), ("delete", (1, 1, None))], "k": [("delete", (1, 9))]},
    {"s": [("delete", (1, 1, 7)), ("delete", (1, 2, None)), ("delete", (2, 1, None)), ("delete", (2, 2, -4))]},
)


@every_case("text", [*PUSHED, *LEFT_ALONE])
def test_sums_with_null_and_over_nothing(text: str) -> None:
    live = _kept(text)
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    for relation in NUMBERS.relations:
        columns = ", ".join(f"{c.name} BIGINT" for c in relation.columns)
        connection.execute(f"CREATE TABLE {relation.name} ({columns})")
    _same_rows(live, connection, text)
    for batch in BATCHES:
        live.apply({name: _changes(name, rows) for name, rows in batch.items()})
        live._check()
        for name, rows in batch.items():
            for kind, row in rows:
                _change(connection, name, kind, row)
        _same_rows(live, connection, text)


def _same_rows(live: Views, connection: duckdb.DuckDBPyConnection, text: str) -> None:
    found = [tuple(row.values()) for part in live.enum("q") for row in part.to_pylist()]
    wanted = connection.execute(text).fetchall()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def _change(connection: duckdb.DuckDBPyConnection, name: str, kind: str, row: tuple[int | None, ...]) -> None:
    if kind == "insert":
        connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
        return
    columns = [c.name for r in NUMBERS.relations if r.name == name for c in r.columns]
    same = " AND ".join(f"{c} IS NOT DISTINCT FROM ?" for c in columns)
    gone = f"(SELECT min(rowid) FROM {name} WHERE {same})"
    connection.execute(f"DELETE FROM {name} WHERE rowid = {gone}", list(row))


def _changes(name: str, rows: Sequence[tuple[str, tuple[int | None, ...]]]) -> pa.Table:
    columns = [c.name for r in NUMBERS.relations if r.name == name for c in r.columns]
    made: dict[str, Any] = {"_change_type": [kind for kind, _ in rows]}
    return pa.table(made | {c: pa.array([row[i] for _, row in rows], pa.int64()) for i, c in enumerate(columns)})


def _kept(text: str) -> Views:
    query = replace(compile_sql(text, NUMBERS, make_query(text)), name="q")
    program = program_of(query, NUMBERS)
    assert is_pushed(program) == (text not in LEFT_ALONE)
    return Views(NUMBERS, {"q": program})


@pytest.mark.parametrize(
    ("text", "most", "total"),
    [
        ("SELECT SUM(r.a * s.b) AS t, COUNT(*) AS n, AVG(r.a) AS m FROM r, s WHERE r.y = s.y", 3, TOTAL**2),
        ("SELECT r.y, SUM(r.a - s.b) AS t FROM r, s WHERE r.y = s.y GROUP BY r.y", 3, 0),
        ("SELECT SUM(r.a * s.b) AS t FROM r, s", 3, TOTAL**2),
        # A change of r is one on two sides, and passed on by a row that goes and one that comes on each.
        ("SELECT SUM(r.a * q.a * s.b) AS t FROM r, r q, s WHERE r.y = s.y AND q.y = s.y", 6, TOTAL**3),
    ],
)
def test_a_change_costs_a_few_rows_whatever_it_joins_with(
    text: str, most: int, total: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = _kept(text)
    numbers = pa.array(range(MANY), pa.int64())
    same = pa.array([1] * MANY, pa.int64())
    live.apply({"r": pa.table({"x": numbers, "y": same, "a": numbers})})
    live.apply({"s": pa.table({"y": same, "z": numbers, "b": numbers})})
    taken: list[int] = []
    take = Grouped.take

    def counting(self: Grouped, codes: Codes, copies: Codes) -> None:
        taken.append(len(copies))
        take(self, codes, copies)

    monkeypatch.setattr(Grouped, "take", counting)
    for kind, value in (("insert", MANY), ("delete", 17), ("insert", 17)):
        for name in ("r", "s"):
            taken.clear()
            row = (value, 1, value) if name == "r" else (1, value, value)
            live.apply({name: _changes(name, [(kind, row)])})
            assert 0 < sum(taken) <= most, f"{kind} in {name}: {taken}"
    assert [row["t"] for part in live.enum("q") for row in part.to_pylist()] == [total]


def test_counts_past_63_bits_are_refused_and_sums_are_not() -> None:
    text = "SELECT SUM(r.a * s.b) AS t FROM r, s WHERE r.y = s.y"
    counting = "SELECT SUM(r.a * s.b) AS t, COUNT(*) AS n FROM r, s WHERE r.y = s.y"
    many = {"_count": pa.array([10**10], pa.int64())}
    for asked in (text, counting):
        live = _kept(asked)
        r = pa.table({"_change_type": ["insert"], "x": [0], "y": [1], "a": [3], **many})
        s = pa.table({"_change_type": ["insert"], "y": [1], "z": [0], "b": [-2], **many})
        live.apply({"r": r})
        if asked == counting:
            with pytest.raises(RejectedError, match="more digits"):
                live.apply({"s": s})
            continue
        live.apply({"s": s})
        assert [row for part in live.enum("q") for row in part.to_pylist()] == [{"t": -6 * 10**20}]


def test_a_budget_is_for_groups_and_not_for_sums_on_the_way() -> None:
    text = "SELECT SUM(r.a * s.b) AS t FROM r, s WHERE r.y = s.y"
    query = replace(compile_sql(text, NUMBERS, make_query(text)), name="q", max_view_rows=5)
    live = Views(NUMBERS, {"q": program_of(query, NUMBERS)})
    numbers = pa.array(range(100), pa.int64())
    live.apply({"r": pa.table({"x": numbers, "y": numbers, "a": numbers})})
    live.apply({"s": pa.table({"y": numbers, "z": numbers, "b": numbers})})
    squares = sum(n * n for n in range(100))
    assert [row for part in live.enum("q") for row in part.to_pylist()] == [{"t": squares}]
