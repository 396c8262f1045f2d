"""Aggregates of aggregates in rules, against the same with a derived table, DuckDB, and the thesis' tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.errors import SpecError
from dynq_cli.plan.program import Tree
from dynq_cli.plan.program_cost import program_cost, stored_result
from dynq_cli.query.rule.parse import parse
from dynq_cli.storage.plans import plan_spec
from tests.engine.test_split_groups import RELATIONS, E, F, live_of, rows_of, table
from tests.every_case import every_case
from tests.seeds import seeds

BODY = "E(y, x1), F(y, x2, x3), G(y, x2, x3)"
QMAX = f"qmax(y, x1, m = max(x2 * sum(x3))) :- {BODY}"
SALARIES = """\
version: 1
relations:
  salary: {columns: {pid: int64, project: string, amount: int64}}
queries:
  best: {rule: "best(argmax(project, sum(amount)), top = max(sum(amount))) :- salary(pid, project, amount)"}
"""


def test_the_thesis_maximum_of_sums() -> None:
    derived = (
        "SELECT y, x1, MAX(x2 * s) AS m FROM (SELECT y, x1, x2, SUM(x3) AS s FROM (SELECT DISTINCT E.y, E.x1, F.x2, "
        "F.x3 FROM E, F, G WHERE E.y = F.y AND F.y = G.y AND F.x2 = G.x2 AND F.x3 = G.x3) AS d GROUP BY y, x1, x2) "
        "AS t GROUP BY y, x1"
    )
    live = live_of(f"  qmax: {{rule: '{QMAX}'}}\n  derived: {{sql: '{derived}'}}\n")
    live.apply({"E": table("y x1", E), "F": table("y x2 x3", F), "G": table("y x2 x3", F)})
    wanted = {(1, x, 42) for x in (1, 2, 3)} | {(2, x, 26) for x in (4, 8, 9)} | {(3, 2, 1)}
    assert rows_of(live, "qmax") == rows_of(live, "derived") == wanted
    live.apply({"F": table("y x2 x3", [(1, 6, 4)], "delete")})
    assert (
        {m for y, _, m in rows_of(live, "qmax") if y == 1}
        == {18}
        == {m for y, _, m in rows_of(live, "derived") if y == 1}
    )
    live._check()


def test_the_project_with_the_highest_total(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SALARIES)
    rows = [(1, "A", 10), (1, "B", 10), (2, "A", 30), (2, "C", 25)]

    def found() -> list[dict[str, Any]]:
        with dynq_cli.open(tmp_path / "state") as view:
            return [row for batch in view.enum("best") for row in batch.to_pylist()]

    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(_salaries(rows, "insert"), "salary")
    assert found() == [{"argmax_project_sum_amount": "A", "top": 40}]
    with dynq_cli.open(tmp_path / "state") as view:
        view.apply(_salaries([(2, "A", 30)], "delete"), "salary")
    assert found() == [{"argmax_project_sum_amount": "C", "top": 25}]


def _salaries(rows: Sequence[tuple[int, str, int]], kind: str) -> pa.Table:
    names = ("pid", "project", "amount")
    return pa.table({"_change_type": [kind] * len(rows), **{n: [r[i] for r in rows] for i, n in enumerate(names)}})


def test_a_nested_head_stores_groups_of_parts_alone_and_a_change_costs_the_same() -> None:
    planned = plan_spec(f"{RELATIONS}  qmax: {{rule: '{QMAX}'}}\n")
    program = planned.programs["qmax"]
    assert isinstance(program.result, Tree) and stored_result(program) is None
    guarantees = program_cost(program, planned.spec).guarantees
    assert (guarantees.update.bound, guarantees.space.bound) == ("O(log n)", "O(n)")
    changed = []
    for n in (100, 1100):
        live = live_of(f"  qmax: {{rule: '{QMAX}'}}\n")
        many = table("y x2 x3", [(1, i, i) for i in range(300)])
        live.apply({"E": table("y x1", [(1, i) for i in range(n)]), "F": many, "G": many})
        row = table("y x2 x3", [(1, 5, 10_000)])
        live.apply({"G": row})
        for kind in ("insert", "delete", "insert", "delete"):
            live.apply({"F": table("y x2 x3", [(1, 5, 10_000)], kind)})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"F": row})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert live.test("qmax", {"y": 1, "x1": 7, "m": max(5 * 10_005, 299 * 299)}) == 1
    assert changed[0] == changed[1]


# A rule, what DuckDB is asked over `b`, the distinct bindings of its body, and the body in SQL.
EFG = "SELECT DISTINCT E.y, E.x1, F.x2, F.x3 FROM E, F, G WHERE E.y = F.y AND F.y = G.y AND F.x2 = G.x2 AND F.x3 = G.x3"
EF = "SELECT DISTINCT E.y, E.x1, F.x2, F.x3 FROM E, F WHERE E.y = F.y"
EW = "SELECT DISTINCT E.y, E.x1, W.f FROM E, W WHERE E.x1 = W.x1"
CASES = {
    "maximum": (
        f"q(y, x1, m = max(x2 * sum(x3))) :- {BODY}",
        EFG,
        "SELECT y, x1, MAX(x2 * s) FROM (SELECT y, x1, x2, SUM(x3) s FROM b GROUP BY ALL) GROUP BY ALL",
    ),
    "two outer ones": (
        "q(y, x1, max(x2 * sum(x3)), min(sum(x3) - x2), s = sum(x2 * x2 * max(x3))) :- E(y, x1), F(y, x2, x3)",
        EF,
        "SELECT y, x1, MAX(x2 * s), MIN(s - x2), SUM(x2 * x2 * t) FROM (SELECT y, x1, x2, SUM(x3) s, MAX(x3) t FROM b "
        "GROUP BY ALL) GROUP BY ALL",
    ),
    "below the key": (
        f"q(y, m = max(x2 * sum(x3))) :- {BODY}",
        EFG,
        "SELECT y, MAX(x2 * s) FROM (SELECT y, x2, SUM(x3) s FROM b GROUP BY ALL) GROUP BY ALL",
    ),
    "of two atoms": (
        "q(y, m = max(x1 * sum(x3)), n = count(distinct x1 - sum(x3))) :- E(y, x1), F(y, x2, x3)",
        EF,
        "SELECT y, MAX(x1 * s), COUNT(DISTINCT x1 - s) FROM (SELECT y, x1, SUM(x3) s FROM b GROUP BY ALL) GROUP BY ALL",
    ),
    "three levels": (
        "q(m = max(y - min(x2 * sum(x3) + 1)), p = prod(2 - y + min(x2 * sum(x3) + 1))) :- F(y, x2, x3)",
        "SELECT DISTINCT y, x2, x3 FROM F",
        "SELECT MAX(y - t), PRODUCT(2 - y + t) FROM (SELECT y, MIN(x2 * s + 1) t FROM (SELECT y, x2, SUM(x3) s FROM b "
        "GROUP BY ALL) GROUP BY ALL)",
    ),
    "argmax": (
        "q(x1, argmax(y, x2 * sum(x3)), argmin(x2, y * count(x3))) :- E(y, x1), F(y, x2, x3)",
        EF,
        "SELECT x1, FIRST(y ORDER BY x2 * s DESC, y), FIRST(x2 ORDER BY y * n, x2) FROM (SELECT x1, y, x2, SUM(x3) s, "
        "COUNT(x3) n FROM b GROUP BY ALL) GROUP BY ALL",
    ),
    "floats": (
        "q(x1, m = max(y * sum(f)), a = avg(y + max(f))) :- E(y, x1), W(x1, f)",
        EW,
        "SELECT x1, MAX(y * s), AVG(y + t) FROM (SELECT x1, y, SUM(f) s, MAX(f) t FROM b GROUP BY ALL) GROUP BY ALL",
    ),
    "sums of products": (
        "q(y, sum(x1 * x3), a = avg(x1 - 2 * x3), b = sum((x1 - 2) * x3 * x3 + 0.5), c = count(x1 * x2), max(x2 * x3)) "
        ":- E(y, x1), F(y, x2, x3)",
        EF,
        "SELECT y, SUM(x1 * x3), AVG(x1 - 2 * x3), SUM((x1 - 2) * x3 * x3 + 0.5), COUNT(*), MAX(x2 * x3) "
        "FROM b GROUP BY y",
    ),
    "products with NULL": (
        "q(sum(y * f), a = avg(-f), b = min(-(f * f)), c = count(f * y)) :- E(y, x1), W(x1, f)",
        EW,
        "SELECT SUM(y * f), AVG(-f), MIN(-(f * f)), COUNT(f * y) FROM b",
    ),
}


@every_case("name, seed", [(name, seed) for name in CASES for seed in seeds(2)])
def test_nested_heads_are_what_duckdb_says_after_every_change(name: str, seed: int, tmp_path: Path) -> None:
    rule, body, asked = CASES[name]
    here = tmp_path / f"{name}{seed}".replace(" ", "_")
    here.mkdir()
    _random_history(Random(f"{name} {seed}"), rule, f"WITH b AS ({body}) {asked}", here)


def _random_history(chance: Random, rule: str, asked: str, here: Path) -> None:
    (here / "spec.yaml").write_text(f"{RELATIONS}  q: {{rule: '{rule}'}}\n")
    names = {"E": "y x1", "F": "y x2 x3", "G": "y x2 x3", "W": "x1 f"}
    duck = duckdb.connect(":memory:", config={"threads": "1"})
    for relation, columns in names.items():
        kinds = ", ".join(f"{c} {'DOUBLE' if c == 'f' else 'BIGINT'}" for c in columns.split())
        duck.execute(f"CREATE TABLE {relation} ({kinds})")
    there: dict[str, list[tuple[Any, ...]]] = {relation: [] for relation in names}
    view = dynq_cli.create(here / "spec.yaml", here / "state")
    try:
        for _ in range(10):
            relation = chance.choice([r for r in names if f"{r}(" in rule])
            rows = there[relation]
            gone = [rows.pop(chance.randrange(len(rows))) for _ in range(chance.randint(0, min(len(rows), 3)))]
            come = [_row(chance, relation) for _ in range(chance.randint(0, 6))]
            rows += come
            for kind, some in (("delete", gone), ("insert", come)):
                if some:
                    view.apply(table(names[relation], some, kind), relation)
            duck.execute(f"DELETE FROM {relation}")
            for row in rows:
                duck.execute(f"INSERT INTO {relation} VALUES ({', '.join('?' * len(row))})", list(row))
            if chance.random() < 0.2:
                view.close()
                view = dynq_cli.open(here / "state")
            found = Counter(_plain(tuple(r.values())) for batch in view.enum() for r in batch.to_pylist())
            assert found == Counter(map(_plain, duck.execute(asked).fetchall()))
            assert view.count() == found.total()
        view.current()._check()
    finally:
        view.close()


def _row(chance: Random, relation: str) -> tuple[Any, ...]:
    if relation == "W":
        return chance.randrange(4), chance.choice([None, 0.5, 1.25, -3.0])
    return tuple(chance.randrange(-1, 4) for _ in range(2 if relation == "E" else 3))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v if v is None else float(f"{float(v):.11g}") + 0.0 for v in row)


@every_case(
    "head",
    [
        "m = max(x * sum(y))",
        "sum(x - (y - 2) * (x + y)), sum(0 - (x * y))",
        "max(x * (y * 3) - min(y - (x + 1)))",
        "arg_max(x, y * count(distinct y))",
        "max(-x), sum(x - 1 - y)",
    ],
)
def test_a_printed_head_parses_to_the_same_head(head: str) -> None:
    rule, problems = parse(f"q({head}) :- R(x, y)")
    assert not problems and parse(str(rule)) == (rule, [])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("q(y, max(sum(x3))) :- F(y, x2, x3)", "sum(x3)` has one value for each row of the result"),
        ("q(y, count(), max(x2 * sum(x3))) :- F(y, x2, x3)", "`count()` is of rows, and `max(x2 * sum(x3))` beside it"),
        ("q(max(x2 * sum(x3)), min(y * sum(x3))) :- F(y, x2, x3)", "taken per x2, and beside this one other variables"),
        ("q(y, max(x1 * x3)) :- E(y, x1), F(y, x2, x3)", "no atom of the body has all variables of `x1 * x3`"),
        ("q(y, sum(x2 / 2)) :- F(y, x2, x3)", "rules have no /"),
        ("q(y, sum(2 * 3)) :- F(y, x2, x3)", "sum takes variables, and numbers beside them, not `2 * 3`"),
        ("q(y, sum(x2 * 1e3)) :- F(y, x2, x3)", "`1e3` has an exponent"),
        ("q(y, var_pop(x2 * x3)) :- F(y, x2, x3)", "var_pop takes one variable"),
        ("q(y, sum(x2 * z)) :- F(y, x2, x3)", "no atom of the body has the variable z"),
        ("q(y, max(x2 * sum(z))) :- F(y, x2, x3)", "no atom of the body has the variable z"),
    ],
)
def test_heads_that_mean_nothing_are_refused_at_their_place(rule: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{RELATIONS}  q: {{rule: '{rule}'}}\n")
    with pytest.raises(SpecError) as caught:
        dynq_cli.create(path, tmp_path / "state")
    assert message in str(caught.value)
