"""Subqueries that compare with the query around them give what DuckDB gives after every batch.

What takes the place of a subquery has all that it looks at, so comparisons around it, or within it, may come to lie
within one atom; and `<>` in a subquery says nothing of the rows of the result.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_correlated import correlated_case
from tests.engine.random_runs import described, failure, minimise
from tests.every_case import every_case
from tests.seeds import seeds

SEEDS = seeds(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = correlated_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


SPEC = """
version: 1
relations:
  r: {columns: {a: int64}}
  v: {columns: {b: int64}}
  w: {columns: {k: int64, b: int64}}
queries:
"""
R, V, W = [1, 2, 3], [1, 2, 3], pa.table({"k": [1, 2, 1], "b": [5, 0, 2]})
AROUND, WITHIN = "w.k = r.a AND w.b = v.b", "w.k = r.a AND w.b <= r.a"
EXPECTED = {
    f"SELECT a, v.b FROM r, v WHERE r.a < v.b AND NOT EXISTS (SELECT 1 FROM w WHERE {AROUND})": [(1, 3), (2, 3)],
    f"SELECT COUNT(*) AS n FROM r, v WHERE r.a < v.b AND NOT EXISTS (SELECT 1 FROM w WHERE {AROUND})": [(2,)],
    f"SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM w WHERE {WITHIN})": [(1,), (3,)],
    "SELECT a FROM r WHERE a NOT IN (SELECT k FROM w WHERE w.b <= r.a)": [(1,), (3,)],
    "SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.k = r.a AND w.k > r.a)": [(1,), (2,), (3,)],
    "SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.k <> r.a)": [],
    "SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.b = r.a AND w.k <> r.a)": [(1,), (3,)],
    "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM w WHERE w.b = r.a AND w.k <> r.a)": [(2,)],
}


@every_case(("sql", "expected"), EXPECTED.items())
def test_no_comparison_is_lost_with_a_subquery(sql: str, expected: list[tuple[int, ...]]) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}"}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"r": pa.table({"a": R}), "v": pa.table({"b": V}), "w": W})
    live._check()
    rows = [row for batch in live.enum("q") for row in batch.to_pylist()]
    assert sorted((*row.values(),)[: len(row) - ("_count" in row)] for row in rows) == expected
