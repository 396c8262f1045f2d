"""Aggregates that are expressions over sums: an own one, and variances, against DuckDB after every change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.cli.app import main
from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.query import aggregates
from dynq_cli.query.aggregates.definition import Additive
from dynq_cli.query.compile import compile_file
from tests.engine.random_aggregates import is_pushed
from tests.seeds import seeds

# DuckDB updates a mean and a sum of squares row by row; both sides round. The values here are small numbers.
TOLERANCE = 1e-9

SPEC = """
version: 1
relations:
  r: {columns: {g: int64, k: int64, v: "int64?", d: "decimal(9,2)?"}}
  s: {columns: {k: int64, h: int64, w: "int64?"}}
queries:
"""


@pytest.fixture
def registry() -> Iterator[None]:
    """Aggregates that a test registers are gone after it."""
    known = dict(aggregates._BY_NAME)
    yield
    aggregates._BY_NAME.clear()
    aggregates._BY_NAME.update(known)


# name: the SQL, and what DuckDB is asked.
OWN = {
    "alone": ("SELECT g, sum_of_squares(v) AS q FROM r GROUP BY g", "SELECT g, SUM(v * v) FROM r GROUP BY g"),
    "whole": ("SELECT sum_of_squares(v) + COUNT(*) AS q FROM r", "SELECT SUM(v * v) + COUNT(*) FROM r"),
    "where": (
        "SELECT g, sum_of_squares(v) FILTER (WHERE d > 0) AS q FROM r GROUP BY g HAVING sum_of_squares(d) > 3",
        "SELECT g, SUM(v * v) FILTER (WHERE d > 0) FROM r GROUP BY g HAVING SUM(d * d) > 3",
    ),
    "below": (
        "SELECT r.g, sum_of_squares(r.v - s.w) AS q FROM r, s WHERE r.k = s.k GROUP BY r.g",
        "SELECT r.g, SUM((r.v - s.w) * (r.v - s.w)) FROM r, s WHERE r.k = s.k GROUP BY r.g",
    ),
    "pairs": (
        "SELECT s.h, inner_product(r.v, s.w) AS q, inner_product(abs(r.v), r.d) AS p FROM r, s "
        "WHERE r.k = s.k GROUP BY s.h",
        "SELECT s.h, SUM(r.v * s.w) / COUNT(r.v * s.w), SUM(abs(r.v) * r.d) / COUNT(r.v * r.d) FROM r, s "
        "WHERE r.k = s.k GROUP BY s.h",
    ),
}
OWN_RULES = {
    "rule_alone": (
        "rule_alone(g, sum_of_squares(v)) :- r(g, k, v, d)",
        "SELECT g, SUM(v * v) FROM (SELECT DISTINCT * FROM r) GROUP BY g",
    ),
    "rule_below": (
        "rule_below(h, q = inner_product(v, w), sum_of_squares(d), n = count()) :- r(g, k, v, d), s(k, h, w)",
        "SELECT h, SUM(v * w) / COUNT(v * w), SUM(d * d), COUNT(*) FROM (SELECT DISTINCT g, r.k, v, d, h, w "
        "FROM r, s WHERE r.k = s.k) GROUP BY h",
    ),
}
BUILT_IN = {
    "variances": "SELECT g, var_pop(v) AS a, var_samp(v) AS b, stddev_pop(v) AS c, stddev_samp(v) AS d, "
    "variance(d) AS e, stddev(d) AS f, AVG(v) AS m FROM r GROUP BY g",
    "global": "SELECT var_pop(d) AS a, sqrt(var_samp(d)) + 1 AS b FROM r WHERE g > 1",
    "joined": "SELECT r.g, stddev_pop(r.v) AS a, var_samp(r.v * s.w) AS b FROM r, s WHERE r.k = s.k GROUP BY r.g",
    "ordered": "SELECT g, var_pop(v + d) AS a FROM r GROUP BY g HAVING var_pop(v + d) > 1 ORDER BY a DESC",
    "some": "SELECT s.h, var_pop(r.v) FILTER (WHERE s.w > 0) AS a FROM r, s WHERE r.k = s.k GROUP BY s.h",
}


@pytest.mark.parametrize("seed", seeds(3))
def test_an_aggregate_registered_from_outside_is_kept_like_any_other(seed: int, tmp_path: Path, registry: None) -> None:
    aggregates.register(Additive("sum_of_squares", ("x",), {"ss": ("{x}", "{x}")}, "{ss}"))
    mean = Additive("inner_product", ("x", "y"), {"n": (), "xy": ("{x}", "{y}")}, "{xy} / {n}")
    aggregates.register(mean)
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in OWN.items())
    texts += "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, (rule, _) in OWN_RULES.items())
    oracle = {name: sql for name, (_, sql) in (OWN | OWN_RULES).items()}
    _random_history(seed, tmp_path, texts, oracle)


@pytest.mark.parametrize("seed", seeds(3))
def test_variances_are_those_of_duckdb_after_every_change(seed: int, tmp_path: Path) -> None:
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, sql in BUILT_IN.items())
    rule = "by_rule(g, var_pop(v), s = stddev_samp(d)) :- r(g, k, v, d)"
    texts += f'  by_rule: {{rule: "{rule}"}}\n'
    distinct = "SELECT g, var_pop(v), stddev_samp(d) FROM (SELECT DISTINCT * FROM r) GROUP BY g"
    _random_history(seed, tmp_path, texts, {**BUILT_IN, "by_rule": distinct})


def _random_history(seed: int, path: Path, texts: str, oracle: dict[str, str]) -> None:
    (path / "spec.yaml").write_text(SPEC + texts)
    chance = Random(seed)
    duck = duckdb.connect(":memory:", config={"threads": "1"})
    duck.execute("CREATE TABLE r (g BIGINT, k BIGINT, v BIGINT, d DECIMAL(9, 2))")
    duck.execute("CREATE TABLE s (k BIGINT, h BIGINT, w BIGINT)")
    there: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": []}
    with dynq_cli.create(path / "spec.yaml", path / "state") as view:
        for step in range(12):
            name = chance.choice(["r", "s"])
            kinds, rows = _some_changes(chance, name, there[name])
            view.apply(_table(name, kinds, rows), name)
            duck.execute(f"DELETE FROM {name}")
            for row in there[name]:
                duck.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
            for query, sql in oracle.items():
                found = [tuple(row.values()) for batch in view.enum(query) for row in batch.to_pylist()]
                wanted = duck.execute(sql).fetchall()
                is_ordered = "ORDER BY" in sql
                assert _are_close(found, wanted, is_ordered), f"seed {seed}, step {step}, {query}: {found} {wanted}"
    assert main(["verify", "--quiet", "--state", str(path / "state")]) == 0


def _some_changes(chance: Random, name: str, there: list[tuple[Any, ...]]) -> tuple[list[str], list[tuple[Any, ...]]]:
    kinds, rows = [], []
    for _ in range(chance.randint(1, 9)):
        if there and chance.random() < 0.4:
            kinds.append("delete")
            rows.append(there.pop(chance.randrange(len(there))))
            continue
        number = None if chance.random() < 0.2 else chance.randint(-50, 50)
        made: tuple[Any, ...] = (chance.randint(0, 3), chance.randint(0, 2), number)
        if name == "r":
            made = (*made, None if chance.random() < 0.2 else Decimal(chance.randint(-999, 999)) / 100)
        kinds.append("insert")
        rows.append(made)
        there.append(made)
    return kinds, rows


def _table(name: str, kinds: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = ("g", "k", "v", "d") if name == "r" else ("k", "h", "w")
    types = {"d": pa.decimal128(9, 2)}
    values = {c: pa.array([row[i] for row in rows], types.get(c, pa.int64())) for i, c in enumerate(columns)}
    return pa.table({"_change_type": kinds, **values})


def _are_close(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], is_ordered: bool) -> bool:
    if len(found) != len(wanted):
        return False
    if not is_ordered:
        found, wanted = sorted(found, key=_by_text), sorted(wanted, key=_by_text)
    return all(_is_close(a, b) for x, y in zip(found, wanted, strict=True) for a, b in zip(x, y, strict=True))


def _by_text(row: tuple[Any, ...]) -> str:
    return repr([None if v is None else f"{float(v):.6g}" for v in row])


def _is_close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        # In all of these, n·Σx² and (Σx)² agree in more digits than a double has.
        ("int64", [10**15 + i for i in (4, 7, 13, 16)]),
        ("int64", [-(10**17) + i % 3 for i in range(1000)]),
        ("int64", [10**18, 10**18 + 1]),
        ("int64", [5 * 10**18, -5 * 10**18 + 5]),
        # n·d needs more than 128 bits.
        ("int64", [4 * 10**18, 4 * 10**18 - 1, -4 * 10**18, -4 * 10**18 + 7]),
        ("int8", [127, -128, 3]),
        ("decimal(18,6)", [Decimal("123456789012.000001"), Decimal("123456789012.000003")]),
        ("decimal(9,2)", [Decimal("-0.05"), Decimal("0.10"), Decimal("7.77")]),
        ("int64", [5]),
    ],
)
def test_variances_do_not_cancel(kind: str, values: list[Any], tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        f"version: 1\nrelations: {{t: {{columns: {{x: '{kind}'}}}}}}\n"
        "queries: {q: {sql: 'SELECT var_pop(x) AS p, var_samp(x) AS s, stddev_pop(x) AS d FROM t'}}\n"
    )
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    squares = sum(((v - mean) ** 2 for v in exact), Fraction(0))
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(pa.table({"x": pa.array(values)}), "t")
        ((row,),) = (batch.to_pylist() for batch in view.enum("q"))
    assert math.isclose(row["p"], squares / len(exact), rel_tol=1e-15)
    assert math.isclose(row["d"], math.sqrt(squares / len(exact)), rel_tol=1e-15)
    if len(exact) > 1:
        assert math.isclose(row["s"], squares / (len(exact) - 1), rel_tol=1e-15)
    else:
        assert row["s"] is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT var_pop(f) AS v FROM t", "VAR_POP of float64"),
        ("SELECT stddev(t) AS v FROM t", "STDDEV_SAMP of string"),
        ("SELECT var_pop(DISTINCT a) AS v FROM t", "VAR_POP(DISTINCT …) is not supported"),
        ("SELECT var_pop(SUM(a)) AS v FROM t", "an aggregate of an aggregate"),
        ("SELECT var_pop(fine) AS v FROM t", "needs 40 digits after the point"),
        ("SELECT var_pop(1) AS v FROM t", "VAR_POP of a constant"),
    ],
)
def test_what_has_no_exact_variance_is_refused_at_its_place(sql: str, message: str, tmp_path: Path) -> None:
    columns = "{a: int64, f: float64, t: string, fine: 'decimal(25,20)'}"
    path = tmp_path / "spec.yaml"
    path.write_text(f"version: 1\nrelations: {{t: {{columns: {columns}}}}}\nqueries:\n  q: {{sql: {sql}}}\n")
    with pytest.raises(SpecError) as caught:
        dynq_cli.create(path, tmp_path / "state")
    assert message in str(caught.value)
    assert "spec.yaml:4:" in str(caught.value)


def test_a_change_below_a_join_costs_a_few_rows(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        SPEC + '  q: {sql: "SELECT var_samp(r.v), stddev(r.v * s.w) FROM r, s WHERE r.k = s.k"}\n'
    )
    (query,) = compile_file(tmp_path / "spec.yaml")[1].values()
    assert is_pushed(program_of(query, dynq_cli.load_spec(tmp_path / "spec.yaml")))
    assert [c.name for c in query.columns] == ["var_samp_r_v", "stddev_samp_r_v_s_w"]


def test_a_name_is_registered_once(registry: None) -> None:
    with pytest.raises(ValueError, match="there is an aggregate stddev already"):
        aggregates.register(Additive("spread", ("x",), {"n": ()}, "{n}", synonyms=("stddev",)))
