"""Sums and averages of doubles below joins: per part, rounded once, and the same whatever came and went before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.plan.program_cost import program_cost
from dynq_cli.storage.plans import plan_spec
from tests.every_case import every_case
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  E: {columns: {y: int64, a: "int64?", g: float64}}
  W: {columns: {y: int64, f: "float64?", d: "decimal(9,2)"}}
queries:
"""
QUERIES = {
    "sums": "SELECT E.y, SUM(W.f) AS s, AVG(W.f) AS m, COUNT(*) AS n FROM E, W WHERE E.y = W.y GROUP BY E.y",
    "products": "SELECT SUM(W.f * E.a) AS s, AVG(E.g * W.f) AS m, SUM(E.g * W.d) AS t FROM E, W WHERE E.y = W.y",
    "of both sides": "SELECT E.a, SUM(W.f) AS s, AVG(W.f) AS m, SUM(E.g) AS t, AVG(E.g) AS u FROM E, W "
    "WHERE E.y = W.y GROUP BY E.a",
    "narrow": "SELECT SUM(CAST(W.f AS FLOAT)) AS s, AVG(W.f * W.d) AS m, SUM(E.a) AS t FROM E, W WHERE E.y = W.y",
}
EXACT = [None, 0.5, -1.25, 3.0, 1024.0, 0.0]
ANY = [0.1, -0.7, 1e16, -1e16, 3.3e-9, 1e300, -1e300]
ODD = [math.inf, -math.inf, math.nan]


def live_of(*queries: str) -> Views:
    planned = plan_spec(RELATIONS + "".join(f"  q{i}: {{sql: {text!r}}}\n" for i, text in enumerate(queries)))
    return Views(planned.spec, planned.kept)


def table(relation: str, rows: Sequence[tuple[Any, ...]], kind: str = "insert") -> pa.Table:
    names = {"E": ("y", "a", "g"), "W": ("y", "f", "d")}[relation]
    types = {"f": pa.float64(), "g": pa.float64(), "d": pa.decimal128(9, 2)}
    columns = {n: pa.array([row[i] for row in rows], types.get(n, pa.int64())) for i, n in enumerate(names)}
    return pa.table({**columns, "_change_type": [kind] * len(rows)})


def result(live: Views, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for b in live.enum(query) for r in b.to_pylist()), key=repr)


def row(chance: Random, relation: str, values: Sequence[float | None]) -> tuple[Any, ...]:
    some = [v for v in values if v is not None]
    if relation == "E":
        return chance.randrange(3), chance.choice([None, 0, 1, 2, -3]), chance.choice(some)
    return chance.randrange(3), chance.choice(values), chance.choice(["0.25", "-1.50", "4.00"])


def as_decimals(relation: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    from decimal import Decimal

    return [(y, f, Decimal(d)) if relation == "W" else (y, f, d) for y, f, d in rows]


def test_sums_of_doubles_are_taken_below_joins() -> None:
    for name, text in QUERIES.items():
        live = live_of(text)
        grouped = [step for step in program_cost(live.queries["q0"], live.spec).steps if "per y" in step]
        # Infinity times a sum is not the sum of infinity times its terms.
        assert bool(grouped) == (name != "products"), text


@every_case("name, values, seed", [(n, v, s) for n in QUERIES for v in ("exact", "odd") for s in seeds(3)])
def test_sums_of_doubles_are_those_of_duckdb(name: str, values: str, seed: int, tmp_path: Path) -> None:
    """Of values whose sums are exact, NULL, NaN and infinities among them."""
    import duckdb

    chance = Random(f"{name} {values} {seed}")
    pool = EXACT if values == "exact" else [*EXACT, *ODD]
    live = live_of(QUERIES[name])
    there: dict[str, list[tuple[Any, ...]]] = {"E": [], "W": []}
    duck = duckdb.connect(":memory:", config={"threads": "1"})
    duck.execute("CREATE TABLE E (y BIGINT, a BIGINT, g DOUBLE); CREATE TABLE W (y BIGINT, f DOUBLE, d DECIMAL(9, 2))")
    for _ in range(10):
        relation = chance.choice("EW")
        rows = there[relation]
        gone = [rows.pop(chance.randrange(len(rows))) for _ in range(chance.randint(0, min(3, len(rows))))]
        come = [row(chance, relation, pool) for _ in range(chance.randint(0, 6))]
        rows += come
        for kind, some in (("delete", gone), ("insert", come)):
            if some:
                live.apply({relation: table(relation, as_decimals(relation, some), kind)})
        duck.execute(f"DELETE FROM {relation}")
        for each in rows:
            duck.execute(f"INSERT INTO {relation} VALUES (?, ?, ?)", list(each))
        wanted = sorted(duck.execute(QUERIES[name]).fetchall(), key=repr)
        found = result(live, "q0")
        assert len(found) == len(wanted)
        for mine, theirs in zip(_plain(found), _plain(wanted), strict=True):
            assert mine == theirs
    live._check()


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return sorted(tuple("-" if v is None else f"{float(v) + 0.0:.12g}" for v in row) for row in rows)


@pytest.mark.parametrize("seed", seeds(3))
def test_what_came_and_went_leaves_nothing_behind(seed: int) -> None:
    chance = Random(seed)
    # A float32 has no 1e300.
    queries = [text for name, text in QUERIES.items() if name != "narrow"]
    live, fresh = live_of(*queries), live_of(*queries)
    kept = {r: [row(chance, r, ANY) for _ in range(12)] for r in "EW"}
    gone = {r: [row(chance, r, [*ANY, *ODD]) for _ in range(12)] for r in "EW"}
    for relation in "EW":
        some = as_decimals(relation, chance.sample(kept[relation] + gone[relation], 24))
        live.apply({relation: table(relation, some[:13])})
        live.apply({relation: table(relation, some[13:])})
    for relation in "WE":
        live.apply({relation: table(relation, as_decimals(relation, gone[relation]), "delete")})
        fresh.apply({relation: table(relation, as_decimals(relation, kept[relation]))})
    for i in range(len(queries)):
        assert repr(result(live, f"q{i}")) == repr(result(fresh, f"q{i}"))


def test_a_change_costs_the_same_however_many_rows_join_it() -> None:
    changed = []
    for n in (100, 3000):
        live = live_of(QUERIES["sums"])
        live.apply({"E": table("E", [(1, i, 0.5) for i in range(n)])})
        one = table("W", as_decimals("W", [(1, 0.1, "1.00")]))
        gone = table("W", as_decimals("W", [(1, 0.1, "1.00")]), "delete")
        for each in (one, gone, one, gone):
            live.apply({"W": each})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"W": one})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        ((_, s, m, many),) = result(live, "q0")
        assert (s, m, many) == (pytest.approx(0.1 * n, rel=1e-15), pytest.approx(0.1, rel=1e-15), n)
    assert changed[0] == changed[1]


def test_sums_survive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(RELATIONS + f"  q: {{sql: {QUERIES['sums']!r}}}\n")
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(table("E", [(1, 1, 0.5), (1, 2, 0.5)]), "E")
        view.apply(table("W", as_decimals("W", [(1, 0.1, "1.00"), (1, None, "1.00")])), "W")
    with dynq_cli.open(tmp_path / "state") as view:
        view.apply(table("W", as_decimals("W", [(1, 0.2, "1.00")])), "W")
        (found,) = [r for b in view.enum() for r in b.to_pylist()]
    assert found["s"] == pytest.approx(0.6, rel=1e-15) and found["m"] == pytest.approx(0.15) and found["n"] == 6
