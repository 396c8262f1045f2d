"""Aggregates that DuckDB computes again from the rows of a group, and conditions that never hold: as in DuckDB."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from dynq_cli.errors import SpecError
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.session.explain import explain_text_of
from dynq_cli.spec.model import Column, QuerySpec, Relation, Spec, Text
from dynq_cli.spec.types import parse_type
from tests.engine import random_history as histories
from tests.engine.random_history import random_history
from tests.engine.random_queries import Case, Drawn
from tests.engine.random_runs import described, failure, minimise
from tests.every_case import every_case
from tests.seeds import seeds

RECOMPUTED = (
    "SELECT a, KURTOSIS(b) AS k, SKEWNESS(f) AS w FROM R GROUP BY a",
    "SELECT ENTROPY(s) AS k, COUNT(*) AS n FROM R",
    "SELECT s, ENTROPY(a) AS e FROM R GROUP BY ROLLUP (s)",
    "SELECT a, MAD(b) AS k, FAVG(b) AS g, FSUM(f) AS h, ROUND(GEOMEAN(b), 9) AS o FROM R GROUP BY a",
    "SELECT a, ROUND(STDDEV(f), 6) AS k, ROUND(VAR_POP(f), 6) AS v, SUM(b) AS s FROM R GROUP BY a HAVING COUNT(*) > 1",
    "SELECT a, ROUND(COVAR_POP(f, b), 6) AS k FROM R GROUP BY a",
    "SELECT a, KURTOSIS_POP(b) FILTER (WHERE b > 1) AS k, STRING_AGG(s, ',' ORDER BY s) AS l FROM R GROUP BY a",
    "SELECT a, b, ENTROPY(b) OVER (PARTITION BY a) AS e FROM R",
)
EMPTY = (
    "SELECT a FROM R WHERE a = 1 AND a = 2",
    "SELECT R.a FROM R, K WHERE R.a < K.a AND K.a < R.a",
    "SELECT COUNT(*) AS n FROM R, K WHERE R.a = K.a AND R.a <> K.a",
    "SELECT a, (SELECT COUNT(*) FROM K WHERE K.a = R.a AND K.a <> R.a) AS n FROM R",
    "SELECT a FROM R WHERE NOT EXISTS (SELECT 1 FROM K WHERE K.a < R.a AND K.a > R.a)",
    "SELECT a FROM R WHERE NULL UNION ALL SELECT a FROM K WHERE 1 = 0",
    "SELECT R.a, x.b FROM R LEFT JOIN (SELECT a, b FROM K WHERE b = 1 AND b = 2) AS x ON R.a = x.a",
    "SELECT R.a FROM R WHERE R.a NOT IN (SELECT K.a FROM K WHERE FALSE)",
    "SELECT R.a, K.b FROM R FULL JOIN K ON R.a = K.a WHERE K.b < K.b",
    "SELECT a, MAX(b) AS m FROM R WHERE a < a GROUP BY a",
)


def _case(chance: Random, seed: int, texts: tuple[str, ...]) -> Case:
    types = {"a": "int64", "b": "int64", "s": "string", "f": "float64"}
    columns = tuple(Column(name, parse_type(kind)[0], chance.random() < 0.6) for name, kind in types.items())
    key = (replace(columns[0], nullable=False), *columns[1:])
    spec = Spec("spec.yaml", (Relation("R", columns), Relation("K", key, ("a",))), ())
    drawn = []
    for i, text in enumerate(texts):
        query = compile_query(spec, QuerySpec(f"q{i}", "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
        program = program_of(query, spec)
        first = next(step.plan for step in program.steps if isinstance(step, Tree))
        drawn.append(Drawn(query.name, "sql", text, None, text, replace(first, query=program.form, order=()), program))
    return Case(seed, spec, tuple(drawn), tuple(random_history(chance, spec, 4)))


@pytest.mark.parametrize("seed", seeds(3))
def test_aggregates_that_are_computed_again_are_those_of_duckdb(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # DuckDB refuses variances of infinities and logarithms of numbers that are not positive.
    monkeypatch.setitem(histories.DOMAINS, "float", [0.0, 1.0, 2.5, -1.5, 0.25])
    monkeypatch.setitem(histories.DOMAINS, "int", [1, 2, 3, 5, 7])
    monkeypatch.setattr(histories, "LARGE", {})
    case = _case(Random(f"recomputed {seed}"), seed, RECOMPUTED)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(2))
def test_queries_with_conditions_that_never_hold_have_the_rows_of_duckdb(seed: int) -> None:
    case = _case(Random(f"empty {seed}"), seed, EMPTY)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


SPEC = """version: 1
relations:
  R: {columns: {a: int64?, b: int64?}}
queries:
  q: {sql: "%s"}
"""


def test_explain_says_that_groups_are_computed_again() -> None:
    text = " ".join(explain_text_of(SPEC % "SELECT a, KURTOSIS(b) AS k FROM R GROUP BY a").split())
    assert "computed again for each partition that a change touches" in text


@every_case(
    "condition, said",
    [("a = 1 AND a = 2", "a = 1 and a = 2 can never hold together"), ("b > 1 AND FALSE", "FALSE never holds")],
)
def test_init_takes_conditions_that_never_hold_and_warns_of_them(condition: str, said: str, tmp_path: Path) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        Path(folder, "spec.yaml").write_text(SPEC % f"SELECT a FROM R WHERE {condition}")
        command = [sys.executable, "-m", "dynq_cli", "init", "spec.yaml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert f"warning: query q: {said}: no row passes" in done.stderr


@every_case(
    "call, reason",
    [
        ("LIST(b)", "LIST gives a list"),
        ("ARRAY_AGG(b ORDER BY b)", "ARRAY_AGG gives a list"),
        ("HISTOGRAM(b)", "HISTOGRAM gives a map"),
        ("QUANTILE_CONT(b, [0.1, 0.5])", "lists are not supported"),
    ],
)
def test_aggregates_that_no_column_can_hold_are_refused_with_the_reason(call: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        explain_text_of(SPEC % f"SELECT a, {call} AS l FROM R GROUP BY a")
