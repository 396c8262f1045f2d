"""The fingerprint is the same for what only names differently, and differs where other data is kept."""

from __future__ import annotations

import pytest

from dynq_cli.plan.fingerprint import fingerprint
from tests.plan.planned import RELATIONS, planned

TRIANGLE = "SELECT COUNT(*) AS n FROM R, S, {view} AS d WHERE R.y = S.y AND S.z = d.z AND d.x = R.x"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("q(x, y) :- R(x, y), x < y", "q(k, l) :- R(k, l), k < l", id="variables"),
        pytest.param("q(x, y, z) :- R(x, y), S(y, z)", "q(z, y, x) :- R(x, y), S(y, z)", id="order of columns"),
        pytest.param("q(x, t = sum(y)) :- R(x, y)", "q(x, u = sum(y)) :- R(x, y)", id="aggregates"),
        pytest.param(
            "SELECT x, SUM(y) AS t FROM R GROUP BY x HAVING SUM(y) > 3",
            "SELECT r.x AS k, SUM(r.y) AS u FROM R r GROUP BY r.x HAVING SUM(r.y) > 3",
            id="names in HAVING",
        ),
        pytest.param(
            "SELECT a FROM A, (SELECT x, SUM(y) AS s FROM R GROUP BY x) d WHERE d.s = a",
            "SELECT a FROM A, (SELECT x, SUM(y) AS t FROM R GROUP BY x) e WHERE e.t = a",
            id="columns of a view",
        ),
        pytest.param(
            "SELECT x, y FROM R UNION SELECT y, z FROM S",
            "SELECT x AS k, y AS l FROM R UNION SELECT y, z FROM S",
            id="columns of a union",
        ),
    ],
)
def test_names_do_not_count(one: str, other: str) -> None:
    assert fingerprint(planned(one)) == fingerprint(planned(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("q(x) :- R(x, 1)", "q(x) :- R(x, 2)", id="filters"),
        pytest.param("SELECT x FROM R", "SELECT DISTINCT x FROM R", id="semantics"),
        pytest.param(
            "SELECT x FROM R GROUP BY x HAVING SUM(y) > 3", "SELECT x FROM R GROUP BY x HAVING SUM(y) > 4", id="HAVING"
        ),
        pytest.param(
            "SELECT x FROM R GROUP BY x HAVING SUM(y) > COUNT(*)",
            "SELECT x FROM R GROUP BY x HAVING COUNT(*) > SUM(y)",
            id="roles in HAVING",
        ),
        pytest.param(
            "SELECT a.x, SUM(a.y) AS t FROM R a, R b WHERE a.y = b.x GROUP BY a.x",
            "SELECT a.x, SUM(b.y) AS t FROM R a, R b WHERE a.y = b.x GROUP BY a.x",
            id="the atom of a factor",
        ),
        pytest.param(
            "SELECT a FROM A, (SELECT x, SUM(y) + 1 AS s FROM R GROUP BY x) d WHERE d.s = a",
            "SELECT a FROM A, (SELECT x, SUM(y) + 2 AS s FROM R GROUP BY x) d WHERE d.s = a",
            id="computed columns of a view",
        ),
        pytest.param(
            "SELECT a FROM A, (SELECT x, SUM(x) AS s, SUM(y) AS t FROM R GROUP BY x) d WHERE d.s = a",
            "SELECT a FROM A, (SELECT x, SUM(x) AS t, SUM(y) AS s FROM R GROUP BY x) d WHERE d.s = a",
            id="which column of a view",
        ),
        pytest.param(
            "SELECT x, y FROM R UNION SELECT y, z FROM S",
            "SELECT x, y FROM R UNION SELECT z, y FROM S",
            id="columns of a union",
        ),
        pytest.param(
            "SELECT x, 1 AS k FROM R UNION SELECT y, z FROM S",
            "SELECT x, 2 AS k FROM R UNION SELECT y, z FROM S",
            id="constants in a union",
        ),
        pytest.param(
            TRIANGLE.format(view="(SELECT DISTINCT z, x FROM T)"),
            TRIANGLE.format(view="(SELECT DISTINCT z, x FROM T WHERE z > 1)"),
            id="a view in a triangle",
        ),
    ],
)
def test_other_data_is_another_fingerprint(one: str, other: str) -> None:
    assert fingerprint(planned(one)) != fingerprint(planned(other))


def test_the_type_of_a_summed_column_counts() -> None:
    query = "SELECT x, SUM(y) AS t FROM R GROUP BY x"
    floats = RELATIONS.replace("R: {columns: {x: int64, y: int64}}", "R: {columns: {x: int64, y: float64}}")
    assert fingerprint(planned(query)) != fingerprint(planned(query, floats))
