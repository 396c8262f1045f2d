"""Groups over the rows of one relation, which reach them without a tree: base rows that came and went, as they are."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.views import Views
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import passages
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_aggregates import random_aggregates
from tests.engine.random_queries import Case
from tests.engine.random_runs import apply, described, enumerated, failure, minimise
from tests.engine.test_difference import check_differences, histories, opened
from tests.seeds import seeds

QUERIES = 6


def passing(seed: int) -> Case:
    """Aggregates of single relations: all functions and types, HAVING, subqueries, unions, orders."""
    case = random_aggregates(seed, QUERIES, atoms=1)
    assert any(passages(q.program.steps) for q in case.queries if q.program is not None)
    return case


@pytest.mark.parametrize("seed", seeds(6))
def test_groups_of_one_relation_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = passing(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(2, first=100))
def test_differences_between_versions_go_through_passages(seed: int) -> None:
    check_differences(passing(seed), Random(seed))


@pytest.mark.parametrize("seed", seeds(2, first=200))
def test_a_restored_engine_passes_rows_on_as_the_one_that_was_kept(seed: int) -> None:
    case, chance = passing(seed), Random(seed)
    steps = histories(case)
    at = chance.randint(0, len(steps))
    kept = opened(case, steps[:at])
    arrays = {name: np.zeros(part.shape, part.dtype) for name, part in parts_of(kept).items()}
    for name, part in parts_of(kept).items():
        part.fill(arrays[name])
    live = Views(kept.spec, kept.queries, arrays)
    for changes, batch in zip(steps[at:], case.history[at:], strict=True):
        for each in (kept, live):
            apply(each, case, batch, changes)
    live._check()
    for q in case.queries:
        assert enumerated(kept, q) == enumerated(live, q), "rows and their order"


SALES = """\
version: 1
relations:
  sales:
    columns:
      id: int64
      shop: string?
      price: decimal(15,2)?
      discount: decimal(15,2)
      pieces: int32?
    key: [id]
queries:
  q:
    sql: |
      SELECT shop, SUM(price * (1 - discount) * pieces) AS r, SUM(-price * 2 + (discount - discount) * pieces) AS p,
             AVG(price * discount) AS a, SUM(price) AS s, COUNT(pieces) AS n
      FROM sales GROUP BY shop
"""


@pytest.mark.parametrize("largest", [10**3, 10**12])
def test_products_of_columns_are_added_up_as_duckdb_computes_them(largest: int) -> None:
    """Multiplied out, where no value is kept; both where all numbers are small, and where some are not."""
    spec = parse_spec(SALES, "spec.yaml")
    live = Views(spec, {"q": program_of(compile_spec(spec)["q"], spec)})
    assert not live.layout.bases["sales"].computed, "every factor is a column"
    chance = Random(largest)
    held: dict[int, tuple[Any, ...]] = {}
    for _ in range(12):
        rows = {chance.randrange(60): _sale(chance, largest) for _ in range(chance.choice([1, 5, 40]))}
        gone = [(k, *held.pop(k)) for k in list(rows) if k in held]
        came = [(k, *row) for k, row in rows.items() if chance.random() < 0.8]
        held |= {row[0]: row[1:] for row in came}
        changes = [("delete", *row) for row in gone] + [("insert", *row) for row in came]
        if not changes:
            continue
        live.apply({"sales": _table([c[1:] for c in changes]).append_column("_change_type", [[c[0] for c in changes]])})
        live._check()
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.register("sales", _table([(k, *row) for k, row in held.items()]))
            wanted = connection.execute(spec.queries[0].texts[0].value).fetchall()
        found = [tuple(row.values()) for batch in live.enum("q") for row in batch.to_pylist()]
        assert sorted(map(_plain, found), key=repr) == sorted(map(_plain, wanted), key=repr)


def _sale(chance: Random, largest: int) -> tuple[Any, ...]:
    price = None if chance.random() < 0.1 else Decimal(chance.randrange(-largest, largest)) / 100
    pieces = None if chance.random() < 0.1 else chance.randrange(-9, 100)
    shop = chance.choice([None, "a", "b", "c"])
    return shop, price, Decimal(chance.randrange(100)) / 100, pieces


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    money = pa.decimal128(15, 2)
    kinds = {"id": pa.int64(), "shop": pa.string(), "price": money, "discount": money, "pieces": pa.int32()}
    return pa.table({name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float(f"{v:.12g}") if isinstance(v, float) else v for v in row)
