"""Products of groups: exact, or rounded about once, whatever came and went before."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.codes import NULL, float_codes, floats
from dynq_cli.engine.grouped import AggregateOverflowedError, Grouped, by_itself
from dynq_cli.engine.pairs import joined
from dynq_cli.errors import DynqError
from dynq_cli.plan.program import Groups, Measure
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import Aggregate
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import FLOAT64, INT64, decimal
from tests.engine.test_additive_aggregates import random_changes
from tests.engine.test_ordered_aggregates import in_python, steps_of
from tests.every_case import every_case
from tests.seeds import seeds

THESIS = """\
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
queries:
  q: {rule: "q(y, prod(x1)) :- E(y, x1)"}
"""
# What DuckDB gives as well.
SAME = {
    "numbers": "SELECT g, PRODUCT(v) AS a, PRODUCT(d) AS b, PRODUCT(v * d) AS c, PRODUCT(v) FILTER (WHERE d > 0) AS e, "
    "PRODUCT(CAST(v AS DOUBLE) / 7) AS h, PRODUCT(CAST(d AS DECIMAL(30, 4))) AS i FROM r GROUP BY g",
    "whole": "SELECT PRODUCT(v) AS a, 1 + PRODUCT(d) AS b FROM r WHERE g > 1",
    "joined": "SELECT s.h, PRODUCT(r.v) AS a, SUM(r.v) AS b, PRODUCT(s.w) AS c FROM r, s WHERE r.k = s.k GROUP BY s.h "
    "HAVING PRODUCT(s.w) <> 0",
    "ordered": "SELECT g, PRODUCT(k) AS a FROM r GROUP BY g ORDER BY a DESC, g",
}
ASKED = {
    "exact": (
        "SELECT g, PROD(k + 1) AS a, PROD(CAST(v % 3 AS INTEGER)) AS b, PROD(d) AS c FROM r GROUP BY g",
        "SELECT g, PRODUCT(k + 1), PRODUCT(v % 3), PRODUCT(d) FROM r GROUP BY g",
    ),
}
RULES = {
    "by_rule": (
        "by_rule(g, prod(k), p = product(d)) :- r(g, k, v, d)",
        "SELECT g, PRODUCT(k), PRODUCT(d) FROM (SELECT DISTINCT * FROM r) GROUP BY g",
    ),
}


def changes(kind: str, rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"_change_type": [kind] * len(rows), "y": [r[0] for r in rows], "x1": [r[1] for r in rows]})


def test_the_thesis_example_4_4(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(THESIS)

    def found() -> dict[int, int]:
        with dynq_cli.open(tmp_path / "state") as view:
            return {row["y"]: row["prod_x1"] for batch in view.enum() for row in batch.to_pylist()}

    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(changes("insert", [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]), "E")
    assert found() == {1: 6, 2: 288, 3: 2}
    for kind, wanted in (("insert", 0), ("delete", 288)):
        with dynq_cli.open(tmp_path / "state") as view:
            view.apply(changes(kind, [(2, 0)]), "E")
        assert found() == {1: 6, 2: wanted, 3: 2}


@pytest.mark.parametrize("seed", seeds(4))
def test_products_are_those_of_duckdb_after_every_change(seed: int, tmp_path: Path) -> None:
    asked = {name: (sql, sql) for name, sql in SAME.items()} | ASKED
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in asked.items())
    texts += "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, (rule, _) in RULES.items())
    random_changes(seed, tmp_path, texts, {name: sql for name, (_, sql) in (asked | RULES).items()})


def some(chance: Random, kind: str) -> Any:
    if kind == "double":
        usual = chance.choice([chance.uniform(-3, 3), chance.lognormvariate(0, 30), 0.5])
        return chance.choice([usual, usual, usual, 5e-324, 0.0, 1.0])
    small = chance.choice([chance.randint(-20, 20), chance.randint(-(10**6), 10**6)])
    large = chance.choice([1 << chance.randrange(62), chance.randint(1 - 2**63, 2**63 - 1)])
    return chance.choice([small, small, large]) if kind == "integer" else chance.randint(-9, 9)


def group_of(kind: str) -> Grouped:
    """One group that multiplies a column: of integers exactly, of doubles as doubles."""
    type_of, name = (FLOAT64, "product") if kind == "double" else (INT64, "prod")
    made = Aggregate("p", name, basic(name).type_of(type_of), True, variables=("x",))
    return by_itself(Groups((Column("x", type_of, True),), (), (Measure(made, values=("x",)),), one_row=True))


@every_case("kind, seed", [(kind, seed) for kind in ("integer", "digit", "double") for seed in seeds(40)])
def test_a_product_depends_on_what_is_there_alone(kind: str, seed: int) -> None:
    chance = Random(f"{kind} {seed}")
    grouped = group_of(kind)
    there: list[Any] = []
    taken: list[tuple[Any, int]] = []
    for _ in range(chance.randrange(1, 40)):
        if there and chance.random() < 0.45:
            gone = chance.choice(there)
            copies = there.count(gone) if chance.random() < 0.3 else 1
            for _ in range(copies):
                there.remove(gone)
            taken.append((gone, -copies))
        else:
            come, copies = some(chance, kind), chance.choice([1, 1, 1, 2, 5])
            there += [come] * copies
            taken.append((come, copies))
    # Within a commit rows may go before they come.
    chance.shuffle(taken)
    values, signed = [v for v, _ in taken], np.array([n for _, n in taken], np.int64)
    codes = float_codes(np.array(values)) if kind == "double" else np.array(values, np.int64)
    grouped.take(codes[None, :], signed)
    true = math.prod(map(Fraction, there), start=Fraction(1))
    try:
        list(grouped.changes())
    except AggregateOverflowedError:
        assert kind != "double" and abs(true) >= 10**38
        return
    grouped._check()
    (row,) = grouped.rows().T
    if not there:
        assert set(row) == {NULL}
    elif kind == "double":
        wanted = math.copysign(math.inf, true) if abs(true) >= 2**1024 else float(true)
        (found,) = floats(row)
        assert found == wanted or math.isclose(found, wanted, rel_tol=1e-15, abs_tol=2e-323), there
    else:
        (found,) = joined(row[:1], row[1:], decimal(38, 0)).to_pylist()
        assert found == true and abs(true) < 10**38


def test_a_product_of_more_than_38_digits_rejects_the_change(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(THESIS + '  r: {sql: "SELECT PRODUCT(x1) AS p FROM E"}\n')
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(changes("insert", [(1, 10**18), (1, -(10**18) + 1)]), "E")
        with pytest.raises(DynqError, match="more digits than its type holds"):
            view.apply(changes("insert", [(1, 101)]), "E")
    with dynq_cli.open(tmp_path / "state") as view:
        view.apply(changes("insert", [(1, 99)]), "E")
        (row,) = [row for batch in view.enum("q") for row in batch.to_pylist()]
        assert row["prod_x1"] == -(10**18) * (10**18 - 1) * 99
        (row,) = [row for batch in view.enum("r") for row in batch.to_pylist()]
        assert row["p"] == pytest.approx(-99e36, rel=1e-15)


def work_of_a_change(rows: int) -> int:
    """The calls of kernels of products that single changes of one group take, in Python."""
    return steps_of("SELECT PRODUCT(v + 1) AS a, PROD(k % 3) AS b FROM r", rows, "products")


def test_a_change_of_a_product_costs_the_same_in_a_group_of_ten_times_the_rows() -> None:
    small, large = in_python("from tests.engine.test_products import work_of_a_change as w")
    # Powers are taken of the copies of a value, and logarithms have as many digits.
    assert 0 < large <= 1.2 * small, f"{small} steps among 300 rows, {large} among 3000"
