"""Groups that span the branches of a join: aggregates of each branch by itself, joined and never stored."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Tree
from dynq_cli.plan.program_cost import program_cost, stored_result
from dynq_cli.storage.plans import plan_spec
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
  F: {columns: {y: int64, x2: int64, x3: int64}}
  G: {columns: {y: int64, x2: int64, x3: int64}}
  W: {columns: {x1: int64, f: "float64?"}}
queries:
"""
QSUM = "qsum(y, x1, x2, sum(x3)) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)"
E = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
F = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]


def live_of(queries: str) -> Views:
    planned = plan_spec(RELATIONS + queries)
    return Views(planned.spec, planned.kept)


def table(names: str, rows: list[tuple[Any, ...]], kind: str = "insert") -> pa.Table:
    columns = dict(zip(names.split(), map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({**columns, "_change_type": [kind] * len(rows)})


def rows_of(live: Views, query: str) -> set[tuple[Any, ...]]:
    found = [tuple(row.values()) for batch in live.enum(query) for row in batch.to_pylist()]
    assert len(found) == len(set(found)) == live.count(query)[0]
    return set(found)


def test_thesis_table_6_1() -> None:
    live = live_of(f"  qsum: {{rule: '{QSUM}'}}\n")
    live.apply({"E": table("y x1", E), "F": table("y x2 x3", F), "G": table("y x2 x3", F)})
    first = {(1, x1, x2, s) for x1 in (1, 2, 3) for x2, s in ((4, 1), (5, 2), (6, 7))}
    assert rows_of(live, "qsum") == first | {(2, x1, 2, 13) for x1 in (4, 8, 9)} | {(3, 2, 1, 1)}
    live.apply({"F": table("y x2 x3", [(1, 6, 4)], "delete"), "E": table("y x1", [(4, 1)])})
    assert {row for row in rows_of(live, "qsum") if row[0] in (1, 4) and row[2] >= 5} == {
        *((1, x1, x2, s) for x1 in (1, 2, 3) for x2, s in ((5, 2), (6, 3))),
        (4, 1, 5, 6),
    }
    live._check()


def test_a_million_groups_fit_the_default_budget_and_a_change_costs_the_same() -> None:
    changed = []
    for n in (100, 1100):
        live = live_of(f"  qsum: {{rule: '{QSUM}'}}\n")
        many = table("y x2 x3", [(1, i, i) for i in range(1100)])
        live.apply({"E": table("y x1", [(1, i) for i in range(n)]), "F": many, "G": many})
        assert live.count("qsum") == (n * 1100, n * 1100)
        row = table("y x2 x3", [(1, 5, 10_000)])
        live.apply({"G": row})
        for kind in ("insert", "delete", "insert", "delete"):
            live.apply({"F": table("y x2 x3", [(1, 5, 10_000)], kind)})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"F": row})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert live.test("qsum", {"y": 1, "x1": 7, "x2": 5, "sum_x3": 10_005}) == 1
    assert changed[0] == changed[1]
    assert live.engine.arena.top < 2_000_000, "1,210,000 groups are not stored"


SPLIT = {
    "sum of a set": f"rule: '{QSUM}'",
    "averages and counts": "rule: 'q(y, x1, x2, avg(x3), n = count(), m = max(x3)) :- E(y, x1), F(y, x2, x3)'",
    "extremes of two parts": "sql: 'SELECT E.y, E.x1, F.x2, MIN(F.x3) AS a, MAX(W.f) AS b, COUNT(DISTINCT F.x3) AS c, "
    "AVG(W.f) AS d FROM E, F, W WHERE E.y = F.y AND E.x1 = W.x1 GROUP BY E.y, E.x1, F.x2'",
    "expressions": "sql: 'SELECT E.x1, F.x2, AVG(F.x3) + F.x2 AS a, E.y FROM E, F WHERE E.y = F.y "
    "GROUP BY E.y, E.x1, F.x2 HAVING MAX(F.x3) > 1'",
    "a key in one table": "rule: 'q(y, x1, m = max(x3), n = count(distinct x2)) :- E(y, x1), F(y, x2, x3)'",
    "a key in one table and conditions": "sql: 'SELECT E.y, E.x1, MIN(F.x3) AS a, MAX(F.x2 + F.x3) AS b FROM E, F "
    "WHERE E.y = F.y AND E.x1 > 0 GROUP BY E.y, E.x1 HAVING MIN(F.x3) < 3'",
    "a filter across": "sql: 'SELECT E.y, E.x1, F.x2, MAX(F.x3) AS a FROM E, F WHERE E.y = F.y AND E.x1 < F.x2 "
    "GROUP BY E.y, E.x1, F.x2'",
    "not exists": "sql: 'SELECT E.y, E.x1, F.x2, MAX(F.x3) AS a FROM E, F WHERE E.y = F.y "
    "AND NOT EXISTS (SELECT 1 FROM W WHERE W.x1 = E.x1) GROUP BY E.y, E.x1, F.x2'",
}
KEPT_WHOLE = {
    "copies multiply": "sql: 'SELECT E.y, E.x1, F.x2, SUM(F.x3) AS s FROM E, F WHERE E.y = F.y "
    "GROUP BY E.y, E.x1, F.x2'",
    "a product of parts": "rule: 'q(y, x1, x2, sum(x3), n = count()) :- E(y, x1), F(y, x2, x3), G(y, z, z2)'",
    "one atom has the key": "rule: 'q(y, x2, sum(x1)) :- E(y, x1), F(y, x2, x3)'",
    "a group without a key": "rule: 'q(y, x1, max(x3)) :- E(y, x1), F(z, x2, x3)'",
}


@pytest.mark.parametrize("name", SPLIT)
def test_nothing_but_groups_of_parts_is_stored(name: str) -> None:
    planned = plan_spec(f"{RELATIONS}  q: {{{SPLIT[name].replace('qsum(', 'q(')}}}\n")
    program = planned.programs["q"]
    assert stored_result(program) is None, name
    if name not in ("a filter across", "not exists"):
        assert isinstance(program.result, Tree)
        assert program_cost(program, planned.spec).guarantees.space.bound == "O(n)"


CASES = {**SPLIT, **KEPT_WHOLE}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", seeds(3))
def test_groups_are_those_of_duckdb_after_every_change(name: str, seed: int, tmp_path: Path) -> None:
    text, chance = CASES[name].replace("qsum(", "q("), Random(f"{name} {seed}")
    (tmp_path / "spec.yaml").write_text(f"{RELATIONS}  q: {{{text}}}\n")
    duck = duckdb.connect(":memory:", config={"threads": "1"})
    for relation, columns in {"E": "y, x1", "F": "y, x2, x3", "G": "y, x2, x3", "W": "x1, f"}.items():
        kinds = ", ".join(f"{c.strip()} {'DOUBLE' if c.strip() == 'f' else 'BIGINT'}" for c in columns.split(","))
        duck.execute(f"CREATE TABLE {relation} ({kinds})")
    there: dict[str, list[tuple[Any, ...]]] = {name: [] for name in "EFGW"}
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        for step in range(14):
            relation = chance.choice("EFGW")
            rows = there[relation]
            gone = [rows.pop(chance.randrange(len(rows))) for _ in range(chance.randint(0, min(len(rows), 3)))]
            come = [_row(chance, relation) for _ in range(chance.randint(0, 6))]
            rows += come
            names = {"E": "y x1", "W": "x1 f"}.get(relation, "y x2 x3")
            if gone:
                view.apply(table(names, gone, "delete"), relation)
            if come:
                view.apply(table(names, come), relation)
            duck.execute(f"DELETE FROM {relation}")
            for row in rows:
                duck.execute(f"INSERT INTO {relation} VALUES ({', '.join('?' * len(row))})", list(row))
            found = Counter(_plain(tuple(r.values())) for batch in view.enum() for r in batch.to_pylist())
            wanted = Counter(map(_plain, duck.execute(_oracle(name, text)).fetchall()))
            assert found == wanted, f"seed {seed}, step {step}"
            assert view.count() == wanted.total()
            for row in list(wanted)[:3]:
                names_shown = view.schema().names
                if not any(isinstance(v, float) for v in row):
                    assert view.test(dict(zip(names_shown, row, strict=True))) == 1
        view.current()._check()


def _row(chance: Random, relation: str) -> tuple[Any, ...]:
    if relation == "W":
        return chance.randrange(4), chance.choice([None, 0.5, 1.25, -3.0])
    return tuple(chance.randrange(4) for _ in range(2 if relation == "E" else 3))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(f"{v:.12g}") if isinstance(v, float) else v for v in row)


def _oracle(name: str, text: str) -> str:
    if text.startswith("sql: "):
        return text[6:-1]
    return {
        "sum of a set": "SELECT y, x1, x2, SUM(x3) FROM (SELECT DISTINCT E.y, E.x1, F.x2, F.x3 FROM E, F, G WHERE "
        "E.y = F.y AND F.y = G.y AND F.x2 = G.x2 AND F.x3 = G.x3) GROUP BY ALL",
        "a key in one table": "SELECT E.y, x1, MAX(x3), COUNT(DISTINCT x2) FROM E, F WHERE E.y = F.y GROUP BY ALL",
        "averages and counts": "SELECT y, x1, x2, AVG(x3), COUNT(*), MAX(x3) FROM (SELECT DISTINCT E.y, E.x1, F.x2, "
        "F.x3 FROM E, F WHERE E.y = F.y) GROUP BY ALL",
        "a product of parts": "SELECT y, x1, x2, SUM(x3), COUNT(*) FROM (SELECT DISTINCT E.y, E.x1, F.x2, F.x3, "
        "G.x2 AS z, G.x3 AS z2 FROM E, F, G WHERE E.y = F.y AND F.y = G.y) GROUP BY ALL",
        "one atom has the key": "SELECT y, x2, SUM(x1) FROM (SELECT DISTINCT E.y, E.x1, F.x2, F.x3 FROM E, F WHERE "
        "E.y = F.y) GROUP BY ALL",
        "a group without a key": "SELECT y, x1, MAX(x3) FROM (SELECT DISTINCT E.y, E.x1, F.x3 FROM E, F) GROUP BY ALL",
    }[name]


SALARIES = """\
version: 1
relations:
  person: {columns: {pid: int64, name: string}, key: [pid]}
  salary: {columns: {pid: int64, project: string, amount: int64}}
queries:
  total: {rule: "total(pid, name, total = sum(amount)) :- person(pid, name), salary(pid, project, amount)"}
"""


def test_a_change_of_a_name_touches_no_payment() -> None:
    """Example 6.7 of the thesis: the total per person, along a key whose row changes."""
    changed = []
    for n in (100, 5000):
        planned = plan_spec(SALARIES)
        live = Views(planned.spec, planned.kept)
        live.apply({"person": table("pid name", [(1, "a"), (2, "b")])})
        live.apply({"salary": table("pid project amount", [(1, "p", i) for i in range(n)] + [(2, "p", 7)])})
        assert rows_of(live, "total") == {(1, "a", n * (n - 1) // 2), (2, "b", 7)}
        named = {"pid": [1, 1], "name": ["a", "c"], "_change_type": ["update_preimage", "update_postimage"]}
        back = {**named, "name": ["c", "a"]}
        for given in (named, back, named, back):
            live.apply({"person": pa.table(given)})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"person": pa.table(named)})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert rows_of(live, "total") == {(1, "c", n * (n - 1) // 2), (2, "b", 7)}
        live._check()
    assert changed[0] == changed[1]
