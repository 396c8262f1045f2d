"""Outer joins give what DuckDB gives after every batch.

A row of the side that keeps its rows finds one row of NULLs where it finds none: when the first row it finds comes, the
number of rows stays, and the row is another one.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Program
from dynq_cli.plan.program_cost import program_cost
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_outer_joins import outer_join_case
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

SEEDS = seeds(60, 156)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = outer_join_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


SPEC = """
version: 1
relations:
  l: {columns: {k: int64?, a: int64}}
  r: {columns: {k: int64?, b: int64}}
  s: {columns: {b: int64, c: int64}}
queries:
"""
L = pa.table({"k": [1, 2, None], "a": [10, 20, 30]})
R = pa.table({"k": [1, 1, 3, None], "b": [5, 6, 7, 8]})
S = pa.table({"b": [5, 9], "c": [50, 90]})
EXPECTED = {
    "SELECT a, b FROM l LEFT JOIN r USING (k)": [(10, 5), (10, 6), (20, None), (30, None)],
    "SELECT a, b FROM l LEFT JOIN r ON l.k = r.k AND a > 10": [(10, None), (20, None), (30, None)],
    "SELECT a, b FROM l LEFT JOIN r ON l.k = r.k AND b > 5": [(10, 6), (20, None), (30, None)],
    "SELECT a, b FROM l LEFT JOIN r ON l.k < r.k": [(10, 7), (20, 7), (30, None)],
    "SELECT a, b FROM l RIGHT JOIN r ON l.k = r.k": [(10, 5), (10, 6), (None, 7), (None, 8)],
    "SELECT k, a, b FROM l FULL JOIN r USING (k)": [
        (1, 10, 5), (1, 10, 6), (2, 20, None), (3, None, 7), (None, 30, None), (None, None, 8)
    ],
    "SELECT a, b, c FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN s USING (b)": [
        (10, 5, 50), (10, 6, None), (20, None, None), (30, None, None)
    ],
    "SELECT a, r.b, c FROM l LEFT JOIN (r JOIN s ON r.b = s.b) ON l.k = r.k": [
        (10, 5, 50), (20, None, None), (30, None, None)
    ],
    "SELECT a, b FROM l LEFT JOIN r ON l.k = r.k WHERE b IS NULL": [(20, None), (30, None)],
    "SELECT a, b FROM l LEFT JOIN r ON l.k = r.k WHERE b IS NULL OR b = 5": [(10, 5), (20, None), (30, None)],
    "SELECT a, one FROM l LEFT JOIN (SELECT k, 1 AS one FROM r) AS d ON l.k = d.k": [
        (10, 1), (10, 1), (20, None), (30, None)
    ],
    "SELECT a, COUNT(b) AS n, COUNT(*) AS m, SUM(b) AS s FROM l LEFT JOIN r ON l.k = r.k GROUP BY a": [
        (10, 2, 2, 11), (20, 0, 1, None), (30, 0, 1, None)
    ],
    "SELECT a, b FROM l LEFT JOIN r ON FALSE": [(10, None), (20, None), (30, None)],
    "SELECT a, b FROM l FULL JOIN r ON 1 = 2 AND l.k = r.k WHERE a IS NULL OR a < 20": [
        (10, None), (None, 5), (None, 6), (None, 7), (None, 8)
    ],
    "SELECT (SELECT 1) AS one, a FROM l WHERE a > (SELECT k + 10)": [(1, 20)],
    "SELECT x.a, y.a AS b FROM l AS x LEFT JOIN l AS y ON x.a + 10 = y.a": [(10, 20), (20, 30), (30, None)],
}  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), EXPECTED.items())
def test_rows_without_a_match_stand_with_nulls(sql: str, expected: list[tuple[int | None, ...]]) -> None:
    planned = plan_spec(f'{SPEC}  q: {{sql: "{sql}"}}\n')
    live = Views(planned.spec, planned.kept)
    live.apply({"l": L, "r": R, "s": S})
    live._check()
    found = []
    for row in (row for batch in live.enum("q") for row in batch.to_pylist()):
        copies = row.pop("_count", 1)
        found += [(*row.values(),)] * copies
    assert sorted(found, key=repr) == sorted(expected, key=repr)


SIDES = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
MERGED = [
    f"SELECT k, x, y, z FROM {joined}"
    for first, second in product(SIDES, SIDES)
    for joined in (f"a {first} b USING (k) {second} c USING (k)", f"a {first} (b {second} c USING (k)) USING (k)")
]


def test_using_makes_one_column_of_all_joined_so_far_also_in_brackets(tmp_path: Path) -> None:
    relations = "".join(f"  {name}: {{columns: {{k: int64?, {c}: int64?}}}}\n" for name, c in ("ax", "by", "cz"))
    queries = "".join(f'  q{i}: {{sql: "{sql}"}}\n' for i, sql in enumerate(MERGED))
    planned = plan_spec(f"version: 1\nrelations:\n{relations}queries:\n{queries}")
    live = Views(planned.spec, planned.kept)
    random, held = Random(5), {name: Counter[tuple[int | None, int]]() for name in "abc"}
    for _ in range(4):
        tables = {}
        for (name, rows), column in zip(held.items(), "xyz", strict=True):
            gone = random.sample(sorted(rows.elements(), key=repr), rows.total() // 2)
            came = [(random.choice((None, 0, 1, 2)), random.randint(0, 1)) for _ in range(3)]
            rows.subtract(gone)
            rows.update(came)
            tables[name] = pa.table({
                "_change_type": ["delete"] * len(gone) + ["insert"] * len(came),
                "k": pa.array([k for k, _ in gone + came], pa.int64()),
                column: pa.array([v for _, v in gone + came], pa.int64()),
            })  # fmt: skip
        live.apply(tables)
        with duckdb.connect() as duck:
            for (name, rows), column in zip(held.items(), "xyz", strict=True):
                duck.execute(f"CREATE TABLE {name} (k BIGINT, {column} BIGINT)")
                if rows.total():
                    duck.executemany(f"INSERT INTO {name} VALUES (?, ?)", [list(row) for row in rows.elements()])
            for i, sql in enumerate(MERGED):
                found: Counter[tuple[int | None, ...]] = Counter()
                for row in (row for batch in live.enum(f"q{i}") for row in batch.to_pylist()):
                    copies = row.pop("_count", 1)
                    found[(*row.values(),)] += copies
                assert found == Counter(duck.execute(sql).fetchall()), sql


def test_a_diff_shows_the_row_that_takes_the_place_of_nulls(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f'{SPEC}  q: {{sql: "SELECT a, b FROM l LEFT JOIN r ON l.k = r.k"}}\n')
    with dynq_cli.create(str(path), str(tmp_path / "state")) as view:
        view.apply({"l": pa.table({"k": [1], "a": [10]}), "r": pa.table({"k": [2], "b": [7]})})
        assert view.count() == 1
    for b, gone, came in ((5, None, 5), (6, None, None)):
        with dynq_cli.open(str(tmp_path / "state")) as view:
            view.apply({"r": pa.table({"k": [1], "b": [b]})})
            rows = [row for batch in view.diff("q").batches for row in batch.to_pylist()]
        changed = sorted((row["_change_type"], row["b"]) for row in rows)
        assert changed == ([("delete", gone), ("insert", came)] if b == 5 else [("insert", 6)])


def test_a_change_touches_a_fixed_number_of_rows_and_the_join_is_not_stored() -> None:
    planned = plan_spec(
        f'{SPEC}  q: {{sql: "SELECT l.k, a, r.b, c FROM l LEFT JOIN r ON l.k = r.k LEFT JOIN s ON l.k = s.b"}}\n'
    )
    program = planned.kept["q"]
    assert isinstance(program, Program)
    cost = program_cost(program, planned.spec)
    assert cost.guarantees.update.bound == "O(1)", cost
    assert cost.guarantees.space.bound == "O(n)", cost
