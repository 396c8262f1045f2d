"""Subqueries that stand for values, and conditions with subqueries inside, give what DuckDB gives after every batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_runs import described, failure, minimise
from tests.engine.random_values import value_case
from tests.every_case import every_case
from tests.seeds import seeds

SEEDS = seeds(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = value_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


SPEC = """
version: 1
relations:
  l: {columns: {k: int64?, a: int64}}
  r: {columns: {k: int64?, b: int64}}
  s: {columns: {b: int64, c: int64}}
  e: {columns: {k: int64?}}
queries:
"""
L = pa.table({"k": [1, 2, None], "a": [10, 20, 30]})
R = pa.table({"k": [1, 1, 3, None], "b": [5, 6, 7, 8]})
S = pa.table({"b": [5, 9], "c": [50, 90]})
EXPECTED = {
    "SELECT a, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n FROM l": [(10, 2), (20, 0), (30, 0)],
    "SELECT a, (SELECT COUNT(*) + 1 FROM r WHERE r.k = l.k) AS n FROM l": [(10, 3), (20, 1), (30, 1)],
    "SELECT a, (SELECT MAX(b) FROM r WHERE r.k = l.k) AS n FROM l": [(10, 6), (20, None), (30, None)],
    "SELECT a, (SELECT coalesce(MAX(b), 0) FROM r WHERE r.k = l.k) AS n FROM l": [(10, 6), (20, 0), (30, 0)],
    "SELECT a, (SELECT 1 FROM r WHERE r.k = l.k HAVING COUNT(*) = 0) AS n FROM l": [(10, None), (20, 1), (30, 1)],
    "SELECT a, (SELECT b FROM r WHERE r.k = l.k AND b > 5) AS n FROM l": [(10, 6), (20, None), (30, None)],
    "SELECT a FROM l WHERE (SELECT COUNT(*) FROM r WHERE r.k = l.k) = 0": [(20,), (30,)],
    "SELECT a FROM l WHERE a > (SELECT AVG(a) FROM l)": [(30,)],
    "SELECT a FROM l WHERE a > (SELECT MAX(k) FROM e)": [],
    "SELECT a FROM l WHERE a = 30 OR EXISTS (SELECT 1 FROM r WHERE r.k = l.k)": [(10,), (30,)],
    "SELECT a FROM l WHERE ((SELECT MAX(b) FROM r WHERE r.k = l.k) > 5 AND a > 20) = FALSE": [(10,), (20,)],
    "SELECT a, k IN (SELECT k FROM r) AS i FROM l": [(10, True), (20, None), (30, None)],
    "SELECT a, k NOT IN (SELECT k FROM r WHERE b < 8) AS i FROM l": [(10, False), (20, True), (30, None)],
    "SELECT a, k IN (SELECT k FROM e) AS i FROM l": [(10, False), (20, False), (30, False)],
    "SELECT a FROM l WHERE k >= ALL (SELECT k FROM r WHERE b < 7)": [(10,), (20,)],
    "SELECT a, k > ANY (SELECT k FROM r WHERE b < 7) AS i FROM l": [(10, False), (20, True), (30, None)],
    "SELECT a, k > ALL (SELECT k FROM e) AS i FROM l": [(10, True), (20, True), (30, True)],
    "SELECT a FROM l WHERE NOT EXISTS (SELECT 1 FROM r t WHERE NOT EXISTS (SELECT 1 FROM s WHERE c >= a + t.b * 10))": [
        (10,)
    ],
    "SELECT k, SUM(a) > (SELECT MIN(c) FROM s) AS i FROM l GROUP BY k": [(1, False), (2, False), (None, False)],
    "SELECT k FROM l GROUP BY k HAVING MAX(a) > (SELECT COUNT(*) + 18 FROM r WHERE r.k = l.k)": [(2,), (None,)],
    "SELECT a, b FROM l, r WHERE CASE WHEN a > b * 3 THEN b ELSE a END IN (SELECT b FROM s WHERE s.c > a)": [
        (20, 5), (30, 5)
    ],
    "SELECT a FROM l WHERE a IN (SELECT c - 40 FROM s WHERE l.a NOT IN (SELECT r.b FROM r WHERE r.b > s.c))": [(10,)],
    "SELECT a, b FROM l, r WHERE a + b = (SELECT coalesce(SUM(c), 36) FROM s WHERE s.b = l.a)": [(30, 6)],
    "SELECT k, MAX((SELECT MIN(b) FROM r WHERE r.k = l.k)) AS m FROM l GROUP BY k": [(1, 5), (2, None), (None, None)],
    "SELECT (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS g, COUNT(*) AS n FROM l GROUP BY 1": [(0, 2), (2, 1)],
    "SELECT COUNT(*) FILTER (WHERE k IN (SELECT k FROM r)) AS n FROM l LIMIT 5": [(1,)],
    "SELECT a, (SELECT SUM(b) FROM r WHERE r.k < l.k AND b > l.a - 15) AS n FROM l": [
        (10, None), (20, 6), (30, None)
    ],
}  # fmt: skip


@every_case(("sql", "expected"), EXPECTED.items())
def test_a_group_that_is_not_there_counts_no_rows_and_has_no_other_value(
    sql: str, expected: list[tuple[int | None, ...]]
) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}"}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"l": L, "r": R, "s": S})
    live._check()
    found = []
    for row in (row for batch in live.enum("q") for row in batch.to_pylist()):
        copies = row.pop("_count", 1)
        found += [(*row.values(),)] * copies
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_commit_that_gives_a_value_two_rows_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(f'{SPEC}  q: {{sql: "SELECT a, (SELECT b FROM r WHERE r.k = l.k) AS n FROM l"}}\n')
    view = dynq_cli.create(spec, tmp_path / "state")
    view.apply({"l": L, "r": pa.table({"k": [1], "b": [5]})})
    with pytest.raises(DynqError, match="More than one row returned by a subquery"):
        view.apply({"r": pa.table({"k": [1], "b": [6]})})
    assert pa.Table.from_batches(view.enum("q")).column("n").to_pylist().count(5) == 1
