"""Aggregate queries give what DuckDB computes anew, after every batch of a random history."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest

from dynq_cli.engine import derived_relations
from dynq_cli.engine.delta import Delta
from dynq_cli.engine.views import Views
from dynq_cli.plan.lower import program_of
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64, decimal
from tests.engine.random_aggregates import random_aggregates, random_registered
from tests.engine.random_runs import described, failure, minimise
from tests.every_case import every_case
from tests.query.meaning import make_query
from tests.seeds import seeds

QUERIES = 8
# Those that found something once stay; 94: a table that grew when a history came again; 322, 674: two subqueries
# without shared variables gave their relations a variable of the same name.
SEEDS = seeds(10, 94, 322, 674)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_aggregates(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(10))
def test_every_registered_aggregate_is_that_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_registered(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize(("seed", "block", "wide"), [(SEEDS[0], 1, 1), (SEEDS[1], 3, 2), (SEEDS[2], 5, 8)])
def test_groups_do_not_depend_on_how_much_is_read_at_a_time(
    seed: int, block: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_relations, "Delta", partial(Delta, block=block, wide=wide))
    case = random_aggregates(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@every_case("joined", ["q.b = r.a", "q.a = r.a AND q.b = r.a"])
@every_case("around", ["{}", "SELECT d.m FROM ({}) AS d", "SELECT m FROM ({} UNION ALL {}) AS d"])
@every_case("column", ["MIN(q.b)", "DISTINCT q.b"])
def test_what_a_narrow_column_cannot_hold_joins_with_nothing(column: str, around: str, joined: str) -> None:
    """Values of a decimal(9,2) that is joined with an int64: those of the latter need not fit."""
    columns = (Column("a", INT64), Column("b", decimal(9, 2)))
    spec = Spec("spec.yaml", (Relation("r", columns),), ())
    one = f"SELECT {column} AS m FROM r, r q WHERE {joined}"
    text = around.format(one, one)
    live = Views(spec, {"q": program_of(compile_sql(text, spec, make_query(text)), spec)})
    rows = {"a": pa.array([2**40, 7]), "b": pa.array([Decimal("2.5"), Decimal(7)], pa.decimal128(9, 2))}
    live.apply({"r": pa.table(rows)})
    assert {row["m"] for part in live.enum("q") for row in part.to_pylist()} == {Decimal(7)}
