"""A program gives the rows of the query it is for: evaluated step by step, beside the query's own meaning."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Program, Tree
from dynq_cli.query.as_sql import as_sql
from dynq_cli.query.sql import compile_sql
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


@pytest.mark.parametrize("text", TEXTS)
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
    """Every step uses what stands before it; every tree is free-connex, and without comparisons."""
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
        else:
            assert {a.source for a in step.plan.query.atoms} <= known, step
            assert step.plan.strategy == "view-tree"
            trees[step.name] = set(step.plan.query.head)
    last = program.steps[-1]
    assert isinstance(last, Tree) and last.plan is program.result


def test_a_plain_query_is_one_tree() -> None:
    text = "SELECT r.a, s.c FROM r, s WHERE r.a = s.a"
    query = compile_sql(text, SPEC, make_query(text))
    (only,) = program_of(query, SPEC).steps
    assert isinstance(only, Tree) and only.plan == plan_query(query, SPEC)
