"""Queries over a shop, each of which was once kept wrong, give what DuckDB gives after every batch."""

from __future__ import annotations

from random import Random

import pytest

from dynq_cli.spec.load import parse_spec
from tests.engine.random_history import random_history
from tests.engine.random_outer_joins import drawn
from tests.engine.random_queries import Case
from tests.engine.random_runs import described, failure, minimise
from tests.every_case import every_case

SPEC = """
version: 1
relations:
  customer: {columns: {id: int64, city: string?, region: int64?, vip: bool?}, key: [id]}
  orders: {columns: {oid: int64, cust: int64?, total: "decimal(10,2)?", placed: date?, status: string}, key: [oid]}
  item: {columns: {oid: int64?, product: int64?, qty: int64?, price: float64?}}
  product: {columns: {product: int64, label: string?}, key: [product]}
  note: {columns: {cust: int64?, txt: string?, n: int32?}}
queries:
  all: {sql: SELECT * FROM note}
"""
QUERIES = {
    "a sum in a derived table, carried through three outer joins": """
        SELECT SUM(DISTINCT t5.n) AS a, REGR_AVGX(t2.sm, t4.qty) AS b FROM customer t1
        LEFT JOIN ((SELECT oid AS g, COUNT(*) AS cnt, SUM(oid) AS sm FROM item GROUP BY oid) t2
                   LEFT JOIN item t4 ON t2.g = t4.product) ON t1.id = t2.cnt AND t1.id IS NOT NULL
        RIGHT JOIN note t5 ON t4.qty = t5.n AND t1.region IS NOT NULL
        RIGHT JOIN product t6 ON t4.product = t6.product AND t6.product IS NULL""",
}


@every_case("name", QUERIES)
def test_results_are_those_of_a_recomputation_after_every_batch(name: str) -> None:
    spec = parse_spec(SPEC, "spec.yaml")
    query = drawn(spec, "q", QUERIES[name])
    assert query is not None
    for seed in range(2):
        case = Case(seed, spec, (query,), tuple(random_history(Random(f"shop {seed}"), spec, 5)))
        if failure(case):
            pytest.fail(described(minimise(case)), pytrace=False)
