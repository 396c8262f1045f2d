"""EXCEPT, INTERSECT and IS NOT DISTINCT FROM give what DuckDB gives after every batch: with NULLs and with copies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.errors import SpecError
from dynq_cli.plan.program import Program
from dynq_cli.plan.program_cost import program_cost
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_runs import described, failure, minimise
from tests.engine.random_set_operations import set_operations_case
from tests.every_case import every_case
from tests.seeds import seeds

SEEDS = seeds(40)
SPEC = """
version: 1
relations:
  l: {columns: {a: int64?, b: string?}}
  r: {columns: {a: int32?, b: string?}}
queries:
"""
L = pa.table({"a": [1, 1, 1, None, None, 3], "b": ["x", "x", "x", None, None, "z"]})
R = pa.table({"a": pa.array([1, 1, None, 4], pa.int32()), "b": ["x", "x", None, None]})
SIDES = "SELECT a, b FROM l {} SELECT a, b FROM r"
EXPECTED: dict[str, list[tuple[int | str | None, ...]]] = {
    SIDES.format("INTERSECT"): [(1, "x"), (None, None)],
    SIDES.format("INTERSECT ALL"): [(1, "x"), (1, "x"), (None, None)],
    SIDES.format("EXCEPT"): [(3, "z")],
    SIDES.format("EXCEPT ALL"): [(1, "x"), (3, "z"), (None, None)],
    "SELECT a FROM l EXCEPT SELECT a FROM r WHERE a = 1 EXCEPT SELECT a FROM l WHERE b = 'z'": [(None,)],
    "SELECT l.a FROM l, r WHERE l.a IS NOT DISTINCT FROM r.a AND l.b IS NOT DISTINCT FROM r.b": [
        *[(1,)] * 6, (None,), (None,)
    ],
    "SELECT a FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a IS NOT DISTINCT FROM l.a)": [(3,)],
    "SELECT DISTINCT l.a, r.a AS x FROM l LEFT JOIN r ON l.a IS NOT DISTINCT FROM r.a": [
        (1, 1), (3, None), (None, None)
    ],
    "SELECT a FROM l INTERSECT ALL SELECT a FROM r ORDER BY a NULLS FIRST LIMIT 2": [(None,), (1,)],
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = set_operations_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@every_case("sql", EXPECTED)
def test_null_equals_null_and_copies_count(sql: str) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}"}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"l": L, "r": R})
    live._check()
    found = []
    for row in (row for batch in live.enum("q") for row in batch.to_pylist()):
        copies = row.pop("_count", 1)
        found += [(*row.values(),)] * copies
    assert sorted(found, key=repr) == sorted(EXPECTED[sql], key=repr)


@every_case("word", ["INTERSECT", "EXCEPT"])
def test_a_change_touches_a_fixed_number_of_rows(word: str) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{SIDES.format(word)}"}}\n')
    program = planned.kept["q"]
    assert isinstance(program, Program)
    assert program_cost(program, planned.spec).guarantees.update.bound == "O(1)"


@every_case("text", ["1e1 minutes", "1 hour, 2 minutes", "1 hour,", "2 minutes ,, 1 hour"])
def test_texts_of_intervals_that_duckdb_refuses_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="not a sum of numbers with units"):
        plan_spec(f"{SPEC}  q: {{sql: \"SELECT a FROM l WHERE TIMESTAMP '2020-01-01' < now() - INTERVAL '{text}'\"}}\n")


def test_a_set_of_rows_of_groups_has_each_row_once() -> None:
    sql = "SELECT n FROM (SELECT a, COUNT(*) AS n FROM l GROUP BY a) AS d"
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}", semantics: set}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"l": L})
    assert sorted(row["n"] for batch in live.enum("q") for row in batch.to_pylist()) == [1, 2, 3]
    live.apply({"l": pa.table({"a": [7], "b": [None]})})
    assert live.count("q") == (3, 3)


ONE_ROW = {
    "SELECT COUNT(*) AS n FROM l LIMIT 100": [(6,)],
    "SELECT * FROM (SELECT COUNT(*) AS n FROM l) AS x, (SELECT MAX(a) AS m FROM r LIMIT 1) AS y LIMIT 1": [(6, 4)],
}


@every_case("sql", ONE_ROW)
def test_a_limit_of_one_row_needs_no_order(sql: str) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}"}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"l": L, "r": R})
    rows = [row for batch in live.enum("q") for row in batch.to_pylist()]
    assert [tuple(v for k, v in row.items() if k != "_count") for row in rows] == ONE_ROW[sql]
