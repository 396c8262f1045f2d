"""What a program costs covers all of its steps: trees, relations between them, views, members."""

from __future__ import annotations

import pytest

from dynq_cli.plan.lower import program_of
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program_cost import ProgramCost, program_cost, stored_result
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.plan.planned import RELATIONS, planned

THESIS = """
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
  F: {columns: {y: int64, x2: int64, x3: int64}}
  G: {columns: {y: int64, x2: int64, x3: int64}}
queries:
"""


def cost_of(query: str, relations: str = RELATIONS, more: str = "") -> ProgramCost:
    language = "rule" if ":-" in query else "sql"
    spec = parse_spec(f"{relations}  q:\n    {language}: |\n      {query}\n{more}", "spec.yaml")
    program = program_of(compile_spec(spec)["q"], spec)
    cost = program_cost(program, spec)
    # Whatever stores its result is not headed as a view tree alone, and the other way round.
    is_stored = stored_result(program) is not None
    words = ("projection", "groups", "table")
    is_cycle = cost.strategy in ("delta-join", "ivm-epsilon")
    assert is_cycle or is_stored == any(word in cost.strategy for word in words)
    return cost


def bounds(query: str, relations: str = RELATIONS, more: str = "") -> dict[str, str]:
    return {name: g.bound for name, g in cost_of(query, relations, more).guarantees.items()}


def changes(query: str) -> dict[str, str]:
    """What a changed row of each atom touches in the one tree of a query."""
    plan = planned(query)
    assert isinstance(plan, Plan)
    return {u.atom: u.bound for u in plan.updates}


def test_a_q_hierarchical_query_is_free_of_additions() -> None:
    found = cost_of("q(x, y, z) :- R(x, y), S(y, z)")
    assert {name: g.bound for name, g in found.guarantees.items()} == {
        "update": "O(1)",
        "delay": "O(1)",
        "count": "O(1)",
        "jth": "O(n)",
        "space": "O(n)",
        "test": "O(1)",
        "rank": "O(n)",
        "diff": "O(|Δ|)",
    }
    assert found.strategy == "view-tree"


def test_a_change_that_meets_every_partner_of_its_group_is_not_said_to_be_cheap() -> None:
    cost = cost_of("q(x1, x2, sum(x3)) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)", THESIS)
    assert cost.guarantees.update.bound == "O(n)"
    found = {c.relation: (c.bound, c.meaning) for c in cost.changes}
    assert found["F"] == found["G"] == ("O(n)", "each row of E with the same y")
    assert cost.strategy == "view-tree+groups"


@pytest.mark.parametrize("function", ["MAX", "MIN"])
@pytest.mark.parametrize("by", ["", " GROUP BY x"])
def test_an_extremum_is_found_in_an_ordered_tree(function: str, by: str) -> None:
    cost = cost_of(f"SELECT {function}(y) AS m FROM R{by}")
    assert cost.guarantees.update.bound == "O(log n)"
    assert [c.bound for c in cost.changes] == ["O(log n)"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) AS n FROM R",
        "SELECT COUNT(*) AS n, SUM(R.x) AS t FROM R, S WHERE R.y = S.y",
        "SELECT MAX(x) AS m FROM R",
        "q() :- R(x, y), S(y, z)",
    ],
)
def test_positions_in_a_result_of_one_row_take_no_walk(query: str) -> None:
    found = bounds(query)
    assert found["jth"] == found["rank"] == "O(1)"


def test_an_order_makes_positions_cheap() -> None:
    ordered = bounds("SELECT x, y FROM R ORDER BY x")
    assert ordered["jth"] == ordered["rank"] == ordered["update"] == "O(log n)"


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        ("q(x, z) :- R(x, y), S(y, z)", "view-tree+projection"),
        ("SELECT x, COUNT(*) AS n FROM R GROUP BY x", "view-tree+groups"),
        ("SELECT COUNT(*) AS n FROM R, S, T WHERE R.y = S.y AND S.z = T.z AND T.x = R.x", "ivm-epsilon"),
        ("q(x, y, z) :- R(x, y), S(y, z), T(z, x)", "delta-join"),
        ("SELECT x FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.y = R.y)", "view-tree"),
        ("SELECT x, y FROM R UNION SELECT y, z FROM S", "union"),
        ("q(x, y, z) :- R(x, y), S(y, z), x != z", "view-tree"),
    ],
)
def test_the_strategy_names_what_is_stored(query: str, strategy: str) -> None:
    assert cost_of(query).strategy == strategy


def test_a_union_in_a_table_is_headed_so() -> None:
    cost = cost_of("SELECT R.x, S.z FROM R, S WHERE R.y = S.y UNION SELECT z, x FROM T")
    assert cost.strategy == "union+table"
    assert cost.guarantees.update.bound == "O(n)"


def test_groups_whose_keys_are_not_selected_are_walked_to_test_a_row() -> None:
    assert bounds("SELECT COUNT(*) AS n FROM R GROUP BY x")["test"] == "O(n)"
    assert bounds("SELECT x, COUNT(*) AS n FROM R GROUP BY x")["test"] == "O(1)"


@pytest.mark.parametrize(
    ("view", "update", "space"),
    [
        pytest.param("SELECT DISTINCT x, b FROM R, B", "O(n)", "O(n + |q/2|)", id="larger than the data"),
        pytest.param("SELECT DISTINCT x, y AS b FROM R", "O(1)", "O(n)", id="within one relation"),
        pytest.param("SELECT x, SUM(z) AS b FROM R, S WHERE R.y = S.y GROUP BY x", "O(n)", "O(n)", id="costly itself"),
        pytest.param("SELECT MAX(x) AS x, MIN(y) AS b FROM R", "O(log n)", "O(n)", id="one row"),
    ],
)
def test_a_view_adds_its_own_costs_its_changes_and_its_rows(view: str, update: str, space: str) -> None:
    found = bounds(f"SELECT d.x, d.b FROM A, ({view}) d WHERE d.x = A.a")
    assert (found["update"], found["space"]) == (update, space)


def test_one_null_in_not_in_can_touch_every_row() -> None:
    assert changes("SELECT x FROM R WHERE x NOT IN (SELECT n FROM N)") == {"R(x)": "O(1)", "not exists N(x)": "O(n)"}
    assert changes("SELECT x FROM R WHERE x NOT IN (SELECT a FROM A)") == {"R(x)": "O(1)", "not exists A(x)": "O(1)"}
    assert changes("SELECT n FROM N WHERE n NOT IN (SELECT a FROM A)") == {"N(n)": "O(1)", "not exists A(n)": "O(1)"}
    assert bounds("SELECT x FROM R WHERE x NOT IN (SELECT n FROM N)")["update"] == "O(n)"


def test_the_update_bound_is_that_of_the_costliest_relation() -> None:
    cost = cost_of("SELECT R.x, COUNT(DISTINCT S.z) AS n FROM R, S WHERE R.y = S.y GROUP BY R.x")
    assert cost.guarantees.update.bound == "O(n)"
    assert "a change of R or S can touch many rows" in cost.guarantees.update.meaning


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
    assert found["R(b, c)"] == found["R R_2(e, a)"] == "O(n^2)"
    assert changes("q(x, y, z) :- R(x, y), S(y, z), T(z, x)")["S(y, z)"] == "O(n)"
