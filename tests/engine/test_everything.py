"""Queries that combine everything SQL has, beside DuckDB after every commit; `make fuzz` runs 80 times as many."""

from __future__ import annotations

import pytest

from dynq_cli.errors import SpecError
from dynq_cli.session.explain import explain_text_of
from tests.engine import random_history as histories
from tests.engine.random_everything import everything_case
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(15))
def test_results_are_those_of_duckdb_after_every_commit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # DuckDB refuses products of numbers of more than 63 bits.
    monkeypatch.setattr(histories, "LARGE", {})
    case, _ = everything_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def test_a_problem_in_a_column_of_a_derived_table_is_told_where_the_column_is_read() -> None:
    """What reads the column has no value to look at, and says nothing of its own."""
    inner = "SELECT R.a AS k, (SELECT COUNT(*) FROM R AS y WHERE y.b = R.nothing) AS n FROM R"
    query = f"SELECT R.a FROM R JOIN ({inner}) AS d ON R.a = d.n"
    spec = "version: 1\nrelations: {R: {columns: {a: int64, b: int64}}}\nqueries:\n"
    with pytest.raises(SpecError, match="nothing"):
        explain_text_of(f'{spec}  q: {{sql: "{query}"}}')


def test_values_may_stand_first_in_brackets_around_joins() -> None:
    query = "SELECT x.v, y.b FROM ((VALUES (1), (2)) AS x(v) LEFT JOIN R AS y ON x.v = y.a) JOIN R ON R.b = x.v"
    spec = "version: 1\nrelations: {R: {columns: {a: int64, b: int64}}}\nqueries:\n"
    assert "update" in explain_text_of(f'{spec}  q: {{sql: "{query}"}}')
