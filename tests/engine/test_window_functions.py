"""Window functions that need no recomputation of a partition: values, and what a change costs in ten times the rows."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn
from tests.engine.random_runs import described, failure, minimise
from tests.engine.test_ordered_aggregates import in_python, steps_of
from tests.seeds import seeds

NEAR = (
    "lag({v})",
    "lead({v}, 2)",
    "lag({v}, 1, {v})",
    "sum(n) FRAME",
    "count({v}) FRAME",
    "max({v}) FRAME",
    "first_value({v}) FRAME",
    "nth_value({v}, 2) FRAME",
)
FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
)
WHOLE = (
    "sum(n)",
    "count(*)",
    "count(DISTINCT {v})",
    "max({v})",
    "median(n)",
    "sum(n) FILTER (WHERE n > 0)",
    "bool_or(n > 1)",
)


def _relation(chance: Random, *, keyed: bool) -> Relation:
    kinds = [parse_type(k)[0] for k in ("int64", chance.choice(["string", "date", "decimal(25,3)"]), "int32")]
    columns = [Column(name, kind, chance.random() < 0.4) for name, kind in zip(("g", "o", "n"), kinds, strict=True)]
    key = (Column("k", parse_type("int64")[0]),) if keyed else ()
    return Relation("R", (*key, *columns), tuple(c.name for c in key))


def _near(chance: Random, relation: Relation) -> str:
    """Functions of near rows, in an order of all columns, and perhaps aggregates of whole partitions beside them."""
    names = [c.name for c in relation.columns]
    # Copies of one row may go by either of two orders.
    many = chance.randint(1, 2) if relation.key else 1
    shown = []
    for _ in range(many):
        order = ", ".join(f"{n}{chance.choice(['', ' DESC'])} NULLS LAST" for n in chance.sample(names, len(names)))
        partition = chance.choice(["PARTITION BY g ", "PARTITION BY g, o ", ""])
        call = chance.choice(NEAR).format(v=chance.choice(names))
        frame = f" {chance.choice(FRAMES)}" if "FRAME" in call else ""
        shown.append(f"{call.removesuffix(' FRAME')} OVER ({partition}ORDER BY {order}{frame})")
    if chance.random() < 0.4:
        shown.append(_whole(chance, names))
    listed = ", ".join(f"{call} AS f{i}" for i, call in enumerate(shown))
    return f"SELECT {', '.join(names)}, {listed} FROM R"


def _whole(chance: Random, names: list[str]) -> str:
    call = chance.choice(WHOLE).format(v=chance.choice(names))
    filtered = call.partition(" FILTER")
    over = chance.choice(["PARTITION BY g", "PARTITION BY o, g", ""])
    return f"{filtered[0]}{filtered[1]}{filtered[2]} OVER ({over})"


def _over_groups(chance: Random) -> str:
    """An aggregate of whole partitions beside rows, over groups, in QUALIFY, or in an expression with the row."""
    return chance.choice(
        [
            f"SELECT g, n, {_whole(chance, ['g', 'n', 'o'])} AS f FROM R",
            f"SELECT g, SUM(n) AS s, SUM(SUM(n)) OVER () AS f, {_whole(chance, ['g'])} AS h FROM R GROUP BY g, o, n",
            f"SELECT g, n FROM R QUALIFY n < {chance.choice(['MAX(n)', 'COUNT(*)'])} OVER (PARTITION BY g)",
            "SELECT o, n - SUM(n) OVER (PARTITION BY o) AS d FROM R",
            f"SELECT DISTINCT g, {_whole(chance, ['n'])} AS f FROM R WHERE n IS NOT NULL",
            "SELECT r.g, s.n, COUNT(*) OVER (PARTITION BY s.o) AS f FROM R AS r LEFT JOIN R AS s ON r.g = s.n",
        ]
    )


def window_case(seed: int, *, near: bool) -> Case:
    chance = Random(f"windows {seed}")
    spec = Spec("spec.yaml", (_relation(chance, keyed=chance.random() < 0.5),), ())
    drawn = []
    for i in range(4):
        text = _near(chance, spec.relations[0]) if near else _over_groups(chance)
        query = compile_query(spec, QuerySpec(f"q{i}", "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
        program = program_of(query, spec)
        steps = [s for s in program.steps if isinstance(s, Derived) and s.partitions is not None]
        assert [s.partitions.reach for s in steps if s.partitions and s.partitions.reach is None] == [], text
        first = next(step.plan for step in program.steps if isinstance(step, Tree))
        drawn.append(Drawn(query.name, "sql", text, None, text, replace(first, query=program.form, order=()), program))
    return Case(seed, spec, tuple(drawn), tuple(random_history(chance, spec, 5)))


@pytest.mark.parametrize("seed", seeds(8))
def test_functions_of_near_rows_are_those_of_duckdb_after_every_commit(seed: int) -> None:
    case = window_case(seed, near=True)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(8))
def test_aggregates_of_whole_partitions_are_those_of_duckdb_after_every_commit(seed: int) -> None:
    case = window_case(seed, near=False)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def work_near(rows: int) -> int:
    """The calls of kernels that single changes of a partition take, in Python."""
    frame = "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"
    return steps_of(
        f"SELECT k, lag(v) OVER (ORDER BY v, k) AS l, sum(v) OVER (ORDER BY v, k {frame}) AS s FROM r", rows, "kernels"
    )


def work_of_partitions(rows: int) -> int:
    """The same for aggregates of the whole partition."""
    return steps_of("SELECT k, v, SUM(v) OVER () AS s, COUNT(*) OVER (PARTITION BY v) AS n FROM r", rows, "kernels")


@pytest.mark.parametrize("work", ["work_near", "work_of_partitions"])
def test_a_change_costs_hardly_more_in_a_partition_of_ten_times_the_rows(work: str) -> None:
    small, large = in_python(f"from tests.engine.test_window_functions import {work} as w")
    assert 0 < large <= 1.4 * small, f"{small} calls among 300 rows, {large} among 3000"
