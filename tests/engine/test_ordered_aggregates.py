"""Quantiles, modes and values of first rows against DuckDB after every change; and what a change of them costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

from dynq_cli.engine.views import Views
from dynq_cli.plan.lower import program_of
from dynq_cli.query.sql import compile_sql
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64
from tests.engine.test_additive_aggregates import assert_refused, random_changes
from tests.engine.test_enumeration import without_prefetch
from tests.query.meaning import make_query
from tests.seeds import seeds

# What DuckDB gives as well.
SAME = {
    "medians": "SELECT g, MEDIAN(v) AS a, MEDIAN(d) AS b, quantile_cont(d, 0.25) AS l, quantile_cont(v, 0.3) AS c, "
    "quantile_disc(v, 0.25) AS e, quantile(d, 0.9) AS f, "
    "quantile_cont(CAST(v AS DOUBLE) / 7, 0.1) AS h, quantile_cont(CAST(v AS FLOAT), 0.7) AS i "
    "FROM r GROUP BY g",
    "within": "SELECT k, percentile_cont(0.9) WITHIN GROUP (ORDER BY v DESC) AS a, percentile_disc(0.2) WITHIN GROUP "
    "(ORDER BY v DESC) AS b, percentile_disc(1) WITHIN GROUP (ORDER BY d) AS c, MEDIAN(v) FILTER (WHERE d > 0) AS e "
    "FROM r GROUP BY k",
    "of_times": "SELECT MEDIAN(DATE '2020-01-01' + CAST(v AS INTEGER)) AS a, MEDIAN(CAST(v AS VARCHAR)) AS b, "
    "quantile_cont(TIMESTAMP '1970-01-01' + to_milliseconds(v), 0.75) AS c, quantile_disc(v > 0, 0.5) AS e FROM r",
    "joined": "SELECT s.h, MEDIAN(r.v) AS a, MAX(s.w) AS b, SUM(r.v) AS c, quantile_disc(s.w, 0.75) AS e FROM r, s "
    "WHERE r.k = s.k GROUP BY s.h HAVING MEDIAN(r.v) > -20 ORDER BY a DESC, h",
    "wide": "SELECT quantile_disc(CAST(d AS DECIMAL(30, 4)), 0.4) AS a FROM r",
}
# Of several values that are as good DuckDB takes any; asked for one, it gives the one that is kept.
CHOSEN = {
    "modes": (
        "SELECT g, MODE(v) AS a, MODE(CAST(d AS VARCHAR)) AS b, MODE() WITHIN GROUP (ORDER BY k) AS c, "
        "MODE(k) FILTER (WHERE v > 0) AS e FROM r GROUP BY g",
        "SELECT g, MODE(v ORDER BY v), MODE(CAST(d AS VARCHAR) ORDER BY CAST(d AS VARCHAR)), MODE(k ORDER BY k), "
        "MODE(k ORDER BY k) FILTER (WHERE v > 0) FROM r GROUP BY g",
    ),
    "ends": (
        "SELECT g, arg_min(v, d) AS a, arg_max(v, d) AS b, max_by(k, v) AS c, min_by(CAST(d AS VARCHAR), v) AS e, "
        "arg_max(k, v) FILTER (WHERE d > 0) AS f FROM r GROUP BY g",
        "SELECT g, FIRST(v ORDER BY d, v) FILTER (WHERE v IS NOT NULL AND d IS NOT NULL), "
        "FIRST(v ORDER BY d DESC, v) FILTER (WHERE v IS NOT NULL AND d IS NOT NULL), "
        "FIRST(k ORDER BY v DESC, k) FILTER (WHERE v IS NOT NULL), "
        "FIRST(CAST(d AS VARCHAR) ORDER BY v, CAST(d AS VARCHAR)) FILTER (WHERE v IS NOT NULL AND d IS NOT NULL), "
        "FIRST(k ORDER BY v DESC, k) FILTER (WHERE v IS NOT NULL AND d > 0) FROM r GROUP BY g",
    ),
    "firsts": (
        "SELECT k, FIRST(v ORDER BY d) AS a, LAST(v ORDER BY d) AS b, FIRST(v ORDER BY d DESC NULLS FIRST, g) AS c, "
        "ANY_VALUE(v) AS e, ANY_VALUE(v ORDER BY g DESC) AS f, FIRST(v ORDER BY d) FILTER (WHERE g > 0) AS h, "
        "LAST(CAST(v AS VARCHAR) ORDER BY CAST(d AS VARCHAR) DESC) AS i FROM r GROUP BY k",
        "SELECT k, FIRST(v ORDER BY d, v), FIRST(v ORDER BY d DESC NULLS FIRST, v), "
        "FIRST(v ORDER BY d DESC NULLS FIRST, g, v), MIN(v), FIRST(v ORDER BY g DESC, v) FILTER (WHERE v IS NOT NULL), "
        "FIRST(v ORDER BY d, v) FILTER (WHERE g > 0), "
        "FIRST(CAST(v AS VARCHAR) ORDER BY CAST(d AS VARCHAR) NULLS FIRST, CAST(v AS VARCHAR)) FROM r GROUP BY k",
    ),
    "of_joins": (
        "SELECT arg_max(r.g, s.w) AS a, FIRST(r.v ORDER BY s.w, s.h DESC) AS b, MODE(r.v) AS c, MEDIAN(s.w) AS d "
        "FROM r, s WHERE r.k = s.k",
        "SELECT FIRST(r.g ORDER BY s.w DESC, r.g) FILTER (WHERE s.w IS NOT NULL), "
        "FIRST(r.v ORDER BY s.w, s.h DESC, r.v), MODE(r.v ORDER BY r.v), MEDIAN(s.w) FROM r, s WHERE r.k = s.k",
    ),
}
RULES = {
    "by_rule": (
        "by_rule(g, median(v), mode(k), arg_max(k, v), first = any_value(d)) :- r(g, k, v, d)",
        "SELECT g, MEDIAN(v), MODE(k ORDER BY k), FIRST(k ORDER BY v DESC, k) FILTER (WHERE v IS NOT NULL), MIN(d) "
        "FROM (SELECT DISTINCT * FROM r) GROUP BY g",
    ),
}


@pytest.mark.parametrize("seed", seeds(6))
def test_ordered_aggregates_are_those_of_duckdb_after_every_change(seed: int, tmp_path: Path) -> None:
    asked = {name: (sql, sql) for name, sql in SAME.items()} | CHOSEN
    texts = "".join(f'  {name}: {{sql: "{sql}"}}\n' for name, (sql, _) in asked.items())
    texts += "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, (rule, _) in RULES.items())
    random_changes(seed, tmp_path, texts, {name: sql for name, (_, sql) in (asked | RULES).items()})


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT quantile_cont(a, 1.5) AS v FROM t", "is a number from 0 to 1"),
        ("SELECT quantile_cont(a, [0.1, 0.2]) AS v FROM t", "lists are not supported"),
        ("SELECT quantile_disc(a, 0.12345678901) AS v FROM t", "more than 9 digits"),
        ("SELECT quantile_cont(t, 0.5) AS v FROM t", "nothing lies between two values of string"),
        ("SELECT quantile_cont(fine, 0.5) AS v FROM t", "nothing lies between two values of decimal(25,20)"),
        ("SELECT FIRST(a) AS v FROM t", "FIRST without an order"),
        ("SELECT LAST(a) AS v FROM t", "LAST without an order"),
        ("SELECT arg_min(a, f, 3) AS v FROM t", "takes 2 arguments here"),
        ("SELECT median(DISTINCT a) AS v FROM t", "DISTINCT …) is not supported"),
        ("SELECT FIRST(a ORDER BY t, b) AS v FROM t", "keys of strings and of bytes"),
        ("SELECT SUM(a ORDER BY f) AS v FROM t", "ORDER BY inside an aggregate"),
    ],
)
def test_an_order_that_is_not_kept_is_refused_at_its_place(sql: str, message: str, tmp_path: Path) -> None:
    columns = "{a: int64, f: float64, t: string, b: binary, fine: 'decimal(25,20)'}"
    assert_refused(columns, sql, message, tmp_path)


def work_of_a_change(rows: int) -> int:
    """The steps that kernels of order-statistic trees take for single changes of one group, in Python."""
    return steps_of(
        "SELECT MEDIAN(v) AS a, MODE(v) AS b, arg_max(k, v) AS c, quantile_disc(v, 0.9) AS d FROM r",
        rows,
        "order_statistic",
    )


def steps_of(text: str, rows: int, file: str) -> int:
    """The calls of functions in files of a name that single changes of one group take, kernels being Python."""
    without_prefetch()
    relation = Relation("r", (Column("k", INT64), Column("v", INT64)), ("k",))
    spec = Spec("spec.yaml", (relation,), ())
    live = Views(spec, {"q": program_of(compile_sql(text, spec, make_query(text)), spec)})
    keys = pa.array(range(rows), pa.int64())
    live.apply({"r": pa.table({"k": keys, "v": pa.array([7919 * k % rows for k in range(rows)], pa.int64())})})
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        steps += event == "call" and file in frame.f_code.co_filename

    changes = [("insert", rows + 7 * i, rows // 3 + i) for i in range(5)] + [("delete", i, 7919 * i) for i in range(5)]
    for kind, key, value in changes:
        table = pa.table({"_change_type": [kind], "k": [key], "v": [value % rows if kind == "delete" else value]})
        sys.setprofile(count)
        live.apply({"r": table})
        sys.setprofile(None)
    return steps


def test_a_change_of_a_median_costs_hardly_more_in_a_group_of_ten_times_the_rows() -> None:
    small, large = in_python("from tests.engine.test_ordered_aggregates import work_of_a_change as w")
    assert 0 < large <= 1.4 * small, f"{small} steps among 300 rows, {large} among 3000"


def in_python(script: str) -> tuple[int, int]:
    """The steps w(300) and w(3000) of a script's function, in a process whose kernels are Python."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{script}; print(w(300), w(3000))"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    small, large = map(int, run.stdout.split())
    return small, large
