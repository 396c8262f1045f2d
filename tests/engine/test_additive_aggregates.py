"""Aggregates that are expressions over sums: an own one, and variances, against DuckDB after every change."""

from __future__ import annotations

import math
import re
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
from dynq_cli.errors import DynqError, SpecError
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
    "covariances": "SELECT g, covar_pop(v, d) AS a, covar_samp(d, v) AS b, corr(v, k) AS c, sem(v) AS e "
    "FROM r GROUP BY g",
    "lines": "SELECT g, regr_slope(v, d) AS a, regr_intercept(v, d) AS b, regr_r2(v, d) AS c, regr_sxx(v, d) AS d, "
    "regr_syy(v, d) AS e, regr_sxy(v, d) AS f, regr_avgx(v, d) AS h, regr_avgy(v, d) AS i, regr_count(v, d) AS j "
    "FROM r GROUP BY g",
    "line": "SELECT regr_slope(r.v, s.w) AS a, corr(r.v, s.w) AS b, regr_r2(r.v, s.w) AS c, regr_avgy(r.d, s.w) AS d, "
    "regr_count(r.d, s.w) FILTER (WHERE r.v > 0) AS e FROM r, s WHERE r.k = s.k",
    "conditions": "SELECT g, bool_and(v > 0) AS a, bool_or(v > 40) AS b, count_if(v > d) AS c, COUNT(TRUE) AS d, "
    "bool_or(d > 3) FILTER (WHERE v < 0) AS e, COUNT(TRUE) FILTER (WHERE v < 0) AS f, COUNT('x') AS h "
    "FROM r GROUP BY g",
    "held": "SELECT s.h, bool_and(r.v > 0) AS a, count_if(s.w > 0) AS b, countif(r.v > 3) AS c FROM r, s "
    "WHERE r.k = s.k GROUP BY s.h HAVING bool_or(r.v > 0)",
    "bits": "SELECT g, bit_and(v) AS a, bit_or(v) AS b, bit_xor(v) AS c, bit_xor(CAST(v AS TINYINT)) AS d, "
    "bit_and(CAST(v AS SMALLINT)) FILTER (WHERE v < 0) AS e, bit_or(CAST(g AS INTEGER)) AS f FROM r GROUP BY g",
    "whole_bits": "SELECT bit_and(r.v) AS a, bit_or(s.w) AS b, bit_xor(s.w) AS c FROM r, s WHERE r.k = s.k",
    "distinct": "SELECT g, SUM(DISTINCT v) AS a, AVG(DISTINCT v) AS b, SUM(DISTINCT d) AS c, AVG(DISTINCT d) AS e, "
    "approx_count_distinct(v) AS f, SUM(DISTINCT v) FILTER (WHERE d > 0) AS h, SUM(DISTINCT v * d) AS i, MIN(v) AS j, "
    "SUM(DISTINCT CAST(v AS DOUBLE) / 7) AS k, AVG(DISTINCT CAST(d AS FLOAT)) AS l FROM r GROUP BY g",
    "distinct_rows": "SELECT SUM(DISTINCT r.v) AS a, COUNT(DISTINCT s.w) AS b, AVG(DISTINCT r.d + 0.5) AS c, "
    "SUM(DISTINCT s.w) AS d, SUM(DISTINCT CAST(r.d AS DECIMAL(30, 5))) AS e FROM r, s WHERE r.k = s.k",
}
# What DuckDB has another way of writing.
ASKED = {
    "pairs": (
        "SELECT g, COUNT(DISTINCT v, d) AS a, COUNT(DISTINCT k, v) FILTER (WHERE d > 0) AS b, "
        "COUNT(DISTINCT (g, k)) AS c FROM r GROUP BY g",
        "SELECT g, COUNT(DISTINCT CASE WHEN v IS NOT NULL AND d IS NOT NULL THEN (v, d) END), "
        "COUNT(DISTINCT CASE WHEN v IS NOT NULL THEN (k, v) END) FILTER (WHERE d > 0), COUNT(DISTINCT (g, k)) "
        "FROM r GROUP BY g",
    ),
    "joined_pairs": (
        "SELECT COUNT(DISTINCT r.v, s.w) AS a, COUNT(DISTINCT s.w, r.g, s.h) AS b FROM r, s WHERE r.k = s.k",
        "SELECT COUNT(DISTINCT CASE WHEN v IS NOT NULL AND w IS NOT NULL THEN (v, w) END), "
        "COUNT(DISTINCT CASE WHEN w IS NOT NULL THEN (w, g, h) END) FROM r, s WHERE r.k = s.k",
    ),
}
RULES = {
    "by_rule": (
        "by_rule(g, var_pop(v), s = stddev_samp(d)) :- r(g, k, v, d)",
        "SELECT g, var_pop(v), stddev_samp(d) FROM (SELECT DISTINCT * FROM r) GROUP BY g",
    ),
    "by_rules": (
        "by_rules(g, covar_pop(v, d), s = regr_slope(d, v), bit_or(k), sum(distinct v)) :- r(g, k, v, d)",
        "SELECT g, covar_pop(v, d), regr_slope(d, v), bit_or(k), SUM(DISTINCT v) FROM (SELECT DISTINCT * FROM r) "
        "GROUP BY g",
    ),
}


@pytest.mark.parametrize("seed", seeds(3))
def test_an_aggregate_registered_from_outside_is_kept_like_any_other(seed: int, tmp_path: Path, registry: None) -> None:
    aggregates.register(Additive("sum_of_squares", ("x",), {"ss": ("{x}", "{x}")}, "{ss}"))
    mean = Additive("inner_product", ("x", "y"), {"n": (), "xy": ("{x}", "{y}")}, "{xy} / {n}")
    aggregates.register(mean)
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in OWN.items())
    texts += "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, (rule, _) in OWN_RULES.items())
    oracle = {name: sql for name, (_, sql) in (OWN | OWN_RULES).items()}
    random_changes(seed, tmp_path, texts, oracle)


@pytest.mark.parametrize("seed", seeds(4))
def test_the_aggregates_there_are_give_what_duckdb_gives_after_every_change(seed: int, tmp_path: Path) -> None:
    asked = {name: (sql, sql) for name, sql in BUILT_IN.items()} | ASKED
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in asked.items())
    texts += "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, (rule, _) in RULES.items())
    random_changes(seed, tmp_path, texts, {name: sql for name, (_, sql) in (asked | RULES).items()})


def random_changes(seed: int, path: Path, texts: str, oracle: dict[str, str]) -> None:
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
                is_ordered = re.search(r"ORDER BY [^()]*$", sql) is not None
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
    return repr([f"{float(v):.6g}" if isinstance(v, int | float | Decimal) else v for v in row])


def _is_close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if not isinstance(a, int | float | Decimal):
        return bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
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


def assert_refused(columns: str, sql: str, message: str, tmp_path: Path) -> None:
    """Assert that a query over a relation `t` of these columns is refused, with a message and its place in the spec."""
    path = tmp_path / "spec.yaml"
    path.write_text(f"version: 1\nrelations: {{t: {{columns: {columns}}}}}\nqueries:\n  q: {{sql: '{sql}'}}\n")
    with pytest.raises(SpecError) as caught:
        dynq_cli.create(path, tmp_path / "state")
    assert message in str(caught.value)
    assert "spec.yaml:4:" in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT stddev(t) AS v FROM t", "STDDEV_SAMP of string"),
        ("SELECT var_pop(DISTINCT a) AS v FROM t", "VAR_POP(DISTINCT …) is not supported"),
        ("SELECT var_pop(SUM(a)) AS v FROM t", "an aggregate of an aggregate"),
        ("SELECT var_pop(fine) AS v FROM t", "needs 40 digits after the point"),
        ("SELECT var_pop(1) AS v FROM t", "VAR_POP of a constant"),
        ("SELECT corr(a) AS v FROM t", "complete the CORR"),
        ("SELECT bit_or(f) AS v FROM t", "BIT_OR of float64"),
        ("SELECT bit_xor(DISTINCT a) AS v FROM t", "BIT_XOR(DISTINCT …) is not supported"),
        ("SELECT bool_and(a) AS v FROM t", "BOOL_AND of int64"),
        ("SELECT SUM(DISTINCT t) AS v FROM t", "SUM of string"),
        ("SELECT SUM(DISTINCT a, f) AS v FROM t", "SUM(DISTINCT …) takes one expression"),
    ],
)
def test_what_has_no_exact_variance_is_refused_at_its_place(sql: str, message: str, tmp_path: Path) -> None:
    columns = "{a: int64, f: float64, t: string, fine: 'decimal(25,20)'}"
    assert_refused(columns, sql, message, tmp_path)


@pytest.mark.parametrize(("x", "y"), [(10**15, 10**15), (-(10**17), 10**14), (4 * 10**18, 4 * 10**18)])
def test_covariances_and_regressions_do_not_cancel(x: int, y: int, tmp_path: Path) -> None:
    rows = [(y + b, x + a) for a, b in [(4, 1), (7, 9), (13, -2), (16, 5)]]
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {t: {columns: {y: int64, x: int64}}}\nqueries: {q: {sql: "
        "'SELECT covar_pop(y, x) AS c, regr_slope(y, x) AS s, corr(y, x) AS r, regr_r2(y, x) AS d FROM t'}}\n"
    )
    dx, dy = ([Fraction(row[i]) - Fraction(sum(r[i] for r in rows), 4) for row in rows] for i in (1, 0))
    xy, xx, yy = (_inner(*pair) for pair in [(dx, dy), (dx, dx), (dy, dy)])
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(pa.table({"y": [r[0] for r in rows], "x": [r[1] for r in rows]}), "t")
        ((row,),) = (batch.to_pylist() for batch in view.enum("q"))
    assert math.isclose(row["c"], xy / 4, rel_tol=1e-15)
    assert math.isclose(row["s"], xy / xx, rel_tol=1e-14)
    assert math.isclose(row["r"], xy / math.sqrt(xx * yy), rel_tol=1e-14)
    assert math.isclose(row["d"], xy * xy / (xx * yy), rel_tol=1e-14)


def _inner(left: list[Fraction], right: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def test_a_number_that_stands_for_null_is_refused_as_the_bits_of_a_group(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        "version: 1\nrelations: {t: {columns: {x: int64}}}\nqueries: {q: {sql: 'SELECT bit_and(x) AS b FROM t'}}\n"
    )
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(pa.table({"x": [1 - 2**63]}), "t")
        with pytest.raises(DynqError, match="more digits than its type holds"):
            view.apply(pa.table({"x": [2 - 2**63]}), "t")
    with dynq_cli.open(tmp_path / "state") as view:
        assert [row["b"] for batch in view.enum("q") for row in batch.to_pylist()] == [1 - 2**63]


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
