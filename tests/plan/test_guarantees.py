"""Guarantees promise no more than what the whole of a plan keeps: trees, tables, views, members."""

from __future__ import annotations

import pytest

from dynq_cli.plan.bounds import total
from dynq_cli.plan.plan import Plan
from tests.plan.planned import planned


def bounds(query: str) -> dict[str, str]:
    return {name: g.bound for name, g in planned(query).guarantees.items()}


def changes(query: str) -> dict[str, str]:
    plan = planned(query)
    assert isinstance(plan, Plan)
    return {u.atom: u.bound for u in plan.updates}


def test_a_q_hierarchical_query_is_free_of_additions() -> None:
    found = bounds("q(x, y, z) :- R(x, y), S(y, z)")
    assert found == {"update": "O(1)", "delay": "O(1)", "count": "O(1)", "jth": "O(n)", "space": "O(n)"}


@pytest.mark.parametrize(
    ("view", "update", "space"),
    [
        pytest.param("SELECT DISTINCT x, b FROM R, B", "O(1 + |Δq.d|)", "O(n + |q.d|)", id="larger than the data"),
        pytest.param("SELECT DISTINCT x, y AS b FROM R", "O(1 + |Δq.d|)", "O(n)", id="within one relation"),
        pytest.param(
            "SELECT x, SUM(z) AS b FROM R, S WHERE R.y = S.y GROUP BY x", "O(n + |Δq.d|)", "O(n)", id="costly itself"
        ),
        pytest.param("SELECT MAX(x) AS x, MIN(y) AS b FROM R", "O(log n)", "O(n)", id="one row"),
    ],
)
def test_a_view_adds_its_own_costs_its_changes_and_its_rows(view: str, update: str, space: str) -> None:
    found = bounds(f"SELECT d.x, d.b FROM A, ({view}) d WHERE d.x = A.a")
    assert (found["update"], found["space"]) == (update, space)


def test_a_view_below_a_triangle_adds_its_costs_too() -> None:
    view = "(SELECT DISTINCT z, x FROM T, B) d"
    found = bounds(f"SELECT COUNT(*) AS n FROM R, S, {view} WHERE R.y = S.y AND S.z = d.z AND d.x = R.x")
    assert found["update"] == "O(n^0.5 + n^0.5·|Δq.d|)"


def test_one_null_in_not_in_can_touch_every_row() -> None:
    assert changes("SELECT x FROM R WHERE x NOT IN (SELECT n FROM N)") == {"R(x)": "O(1)", "not exists N(x)": "O(n)"}
    assert changes("SELECT x FROM R WHERE x NOT IN (SELECT a FROM A)") == {"R(x)": "O(1)", "not exists A(x)": "O(1)"}
    assert changes("SELECT n FROM N WHERE n NOT IN (SELECT a FROM A)") == {"N(n)": "O(1)", "not exists A(n)": "O(1)"}


def test_having_is_evaluated_per_group_and_filters_what_is_read() -> None:
    found = bounds("SELECT x, b, SUM(y) AS t FROM R, B GROUP BY x, b HAVING SUM(y) > b")
    assert found["update"] == "O(1 + |Δ|)"
    assert found["delay"] == found["jth"] == "O(groups)"
    assert bounds("SELECT SUM(y) AS t FROM R HAVING SUM(y) > 3")["delay"] == "O(1)"


def test_count_distinct_adds_the_costs_of_its_own_tree() -> None:
    found = bounds("SELECT R.x, COUNT(DISTINCT S.z) AS n FROM R, S WHERE R.y = S.y GROUP BY R.x")
    assert (found["update"], found["space"]) == ("O(n + |Δ|)", "O(n + |q(x, z)|)")


def test_a_table_of_distinct_rows_is_fed_by_the_changes_of_all_members() -> None:
    chain = "q(x, z) :- R(x, y), S(y, z)"
    plan = planned("SELECT R.x, S.z FROM R, S WHERE R.y = S.y UNION SELECT z, x FROM T")
    assert plan.guarantees.update.bound == total([planned(chain).guarantees.update.bound, "O(|Δ|)"])
    assert plan.guarantees.space.bound == "O(n + |q.1| + |q|)"


@pytest.mark.parametrize(
    ("tested", "bound"),
    [
        pytest.param("NOT EXISTS (SELECT 1 FROM K WHERE K.x = R.x AND K.y = R.y)", "O(n)", id="anti"),
        pytest.param("EXISTS (SELECT 1 FROM K WHERE K.x = R.x AND K.y = R.y)", "O(n)", id="semi"),
    ],
)
def test_a_key_of_one_guard_does_not_bound_the_rows_of_another(tested: str, bound: str) -> None:
    found = changes(f"SELECT R.y FROM R, A WHERE R.x = A.a AND {tested}")
    assert found["A(x)"] == bound


def test_a_key_of_the_only_guard_makes_changes_of_the_other_side_cheap() -> None:
    assert changes("SELECT K.y FROM K, A WHERE K.x = A.a")["A(x)"] == "O(1)"
    assert changes("SELECT R.y FROM R, A WHERE R.x = A.a")["A(x)"] == "O(n)"


def test_a_child_compared_on_two_variables_is_filtered_by_the_second() -> None:
    assert changes("q(x, y) :- R(x, y), S(u, v), x < u, y < v")["R(x, y)"] == "O(n)"
    assert changes("q(x, y) :- R(x, y), S(u, v), x < u, u < y")["R(x, y)"] == "O(log n)"


def test_a_change_can_meet_as_many_partners_as_the_atoms_joined_with_it_have_together() -> None:
    found = changes("q() :- K(a, b), R(b, c), S(c, d), T(d, e), R(e, a)")
    assert found["K(a, b)"] == "O(n^2)", "in the middle of three"
    assert found["R(b, c)"] == found["R R_2(e, a)"] == "O(n)"
    assert changes("q(x, y, z) :- R(x, y), S(y, z), T(z, x)")["S(y, z)"] == "O(n)"
