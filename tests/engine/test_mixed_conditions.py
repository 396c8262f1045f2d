"""Conditions and expressions over several tables give what DuckDB gives after every batch, and join no rows on disk."""

from __future__ import annotations

import pytest

from dynq_cli.plan.program import Program, Tree, passed_rows
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_runs import described, failure, minimise
from tests.engine.random_values import mixed_case
from tests.seeds import seeds

SEEDS = seeds(12, 300)
SPEC = """
version: 1
relations:
  lines: {columns: {part: int64, size: int64, price: int64}}
  parts: {columns: {part: int64, brand: string}, key: [part]}
queries:
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = mixed_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def test_a_condition_over_two_tables_filters_the_delta_of_the_join_and_stores_no_rows_of_it() -> None:
    condition = "(brand = 'a' AND size < 3) OR (brand = 'b' AND size > 5)"
    joined = f"FROM lines, parts WHERE lines.part = parts.part AND ({condition})"
    planned = plan_spec(f'{SPEC}  q: {{sql: "SELECT SUM(price) AS n {joined}"}}\n')
    kept = planned.kept["q"]
    assert isinstance(kept, Program)
    steps = kept.steps
    (passed,) = passed_rows(steps)
    assert [s.name for s in steps] == ["q/1", passed, "q/3", "q/4", "q"]


def test_each_side_of_an_or_filters_its_table_before_the_join() -> None:
    condition = "(brand = 'a' AND size < 3) OR (brand = 'b' AND size > 5)"
    planned = plan_spec(f'{SPEC}  q: {{sql: "SELECT price FROM lines, parts WHERE {condition}"}}\n')
    kept = planned.kept["q"]
    assert isinstance(kept, Program)
    first = kept.steps[0]
    assert isinstance(first, Tree)
    assert {f.sql for a in first.plan.query.atoms for f in a.filters} == {
        "(\"brand\" = 'a' OR \"brand\" = 'b')", '("size" < 3 OR "size" > 5)'
    }  # fmt: skip
