"""A program gives the rows of the query it is for: evaluated step by step, beside the query's own meaning."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.lower.ranges import has_ranges
from dynq_cli.plan.program import Cycle, Derived, Lookups, Program, Together, Tree
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.compile import compile_query
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import QuerySpec, Text
from tests.every_case import every_case
from tests.plan.run_program import run
from tests.query.meaning import database, make_query, make_spec
from tests.query.test_sql_meaning import QUERIES

SPEC = make_spec()
TEXTS = [line for line in QUERIES.strip().splitlines() if line]


def plain(rows: Counter[Any]) -> Counter[Any]:
    return Counter({tuple(map(_plain, row)): n for row, n in rows.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return round(float(value), 7) + 0.0
    return value


@every_case("text", TEXTS)
def test_a_program_gives_the_rows_of_its_query(text: str) -> None:
    query = compile_sql(text, SPEC, make_query(text))
    program = program_of(query, SPEC)
    check(program)
    for seed in range(4):
        connection = database(seed)
        wanted = Counter(connection.execute(as_sql(query)).fetchall())
        if not query.columns:
            wanted = Counter({(): 1} if wanted else {})
        assert plain(run(program, connection)) == plain(wanted), f"seed {seed}\n{program}"


def check(program: Program) -> None:
    """Every step uses what stands before it; every tree is free-connex, and compares in ranges."""
    known = {r.name for r in SPEC.relations}
    trees: dict[str, set[str]] = {}
    for step in program.steps:
        if isinstance(step, Derived):
            for feed in step.feeds:
                used = set(feed.columns).union(*(c.variables for c in feed.where))
                assert used <= trees[feed.tree], step
            taken = step.groups.inputs if step.groups else step.relation.columns
            assert all(len(feed.columns) == len(taken) for feed in step.feeds), step
            known.add(step.relation.name)
        elif isinstance(step, Together):
            assert {*(m.tree for m in step.members), *(t.tree for t in step.terms)} <= set(trees), step
            assert all(set(m.variables) == trees[m.tree] for m in step.members), step
        elif isinstance(step, Lookups):
            assert set(step.trees) <= set(trees), step
        elif isinstance(step, Cycle):
            assert {a.source for a in step.query.atoms} <= known, step
            assert not step.query.comparisons and not is_acyclic(hypergraph_of(step.query)), step
            assert {i for route in step.routes for i in route.changed} <= set(range(len(step.query.atoms)))
            trees[step.name] = set(step.query.head)
        else:
            assert {a.source for a in step.plan.query.atoms} <= known, step
            assert step.plan.strategy == "view-tree"
            assert has_ranges(step.plan.query, step.plan.tree), step
            trees[step.name] = set(step.plan.query.head)
    assert not any(isinstance(step, Together) for step in program.steps[:-1])
    assert isinstance(program.steps[-1], Tree | Together)


def test_a_plain_query_is_one_tree() -> None:
    text = "SELECT r.a, s.c FROM r, s WHERE r.a = s.a"
    query = compile_sql(text, SPEC, make_query(text))
    (only,) = program_of(query, SPEC).steps
    assert isinstance(only, Tree) and only.plan == plan_query(query, SPEC)


RULES = {
    "q(x, y, z) :- u(x, y, z), w(x, y), w(y, z)": (
        "SELECT DISTINCT u.a, u.x, u.y FROM u, w, w v WHERE u.a = w.x AND u.x = w.y AND u.x = v.x AND u.y = v.y"
    ),
    "q(x, y, z) :- w(x, y), w(y, z), w(z, x)": (
        "SELECT DISTINCT a.x, b.x AS y, c.x AS z FROM w a, w b, w c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
    ),
    "q(n = count()) :- w(x, y), w(y, z), w(z, x)": (
        "SELECT count(*) FROM (SELECT DISTINCT a.x, b.x AS y, c.x AS z FROM w a, w b, w c WHERE a.y "
        "= b.x AND b.y = c.x AND c.y = a.x)"
    ),
    "q() :- w(x, y), w(z, v), x < z, y < v": ("SELECT DISTINCT 1 FROM w a, w b WHERE a.x < b.x AND a.y < b.y"),
    "q(x) :- w(x, y), w(z, v), u(p, _, r), x < z, y < p, v <= r": (
        "SELECT DISTINCT a.x FROM w a, w b, u c WHERE a.x < b.x AND a.y < c.a AND b.y <= c.y"
    ),
    "q(x, w) :- w(x, y), w(y, z), w(z, w), x != z, y < w": (
        "SELECT DISTINCT a.x, c.y FROM w a, w b, w c WHERE a.y = b.x AND b.y = c.x AND a.x <> b.y AND a.y < c.y"
    ),
    "q(x, sum(y), count(), avg(z), min(z), max(y), d = count(distinct z)) :- u(x, y, z)": (
        "SELECT a, sum(x), count(*), avg(y), min(y), max(x), count(DISTINCT y) FROM (SELECT "
        "DISTINCT a, x, y FROM u) GROUP BY a"
    ),
    "q(sum(v), count()) :- w(x, y), w(y, v)": (
        "SELECT sum(v), count(*) FROM (SELECT DISTINCT a.x, a.y, b.y AS v FROM w a, w b WHERE a.y = b.x)"
    ),
    "q(x, count()) :- w(x, y), w(z, v), y < z": (
        "SELECT x, count(*) FROM (SELECT DISTINCT a.x, a.y, b.x AS z, b.y AS v FROM w a, w b WHERE "
        "a.y < b.x) GROUP BY x"
    ),
    "q(x, z) :- w(x, y), w(y, z)": ("SELECT DISTINCT a.x, b.y FROM w a, w b WHERE a.y = b.x"),
    "q(x, z, p, s) :- w(x, y), w(z, y), w(z, p), w(x, p), u(_, s, p)": (
        "SELECT DISTINCT a.x, b.x AS z, c.y AS p, e.x AS s FROM w a, w b, w c, w d, u e WHERE a.y = "
        "b.y AND b.x = c.x AND d.x = a.x AND d.y = c.y AND e.y = c.y"
    ),
}


@every_case("rule", RULES)
def test_a_rule_gives_what_its_sql_gives(rule: str) -> None:
    written = QuerySpec("q", "rule", (Text(rule, "spec.yaml", ((0, 1, 1),)),))
    query = compile_query(SPEC, written)
    program = program_of(query, SPEC)
    check(program)
    for seed in range(12):
        connection = database(seed)
        wanted = Counter(connection.execute(RULES[rule]).fetchall())
        if not query.columns:
            wanted = Counter({(): 1} if wanted else {})
        assert plain(run(program, connection)) == plain(wanted), f"seed {seed}\n{program}"
