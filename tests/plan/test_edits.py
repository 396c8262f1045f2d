"""What `explain` tells to edit: the edit, done to the spec, saves what was said."""

from __future__ import annotations

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.edits import edits_of
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program_cost import program_cost, stored_result
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec

FLIGHTS = "flights: {columns: {id: int64, tail: string, origin: string}, key: [id]}"
PLANES = "planes: {columns: {tail: string, maker: string}, key: [tail]}"


def read(query: str, flights: str = FLIGHTS, planes: str = PLANES) -> tuple[list[str], bool, dict[str, str]]:
    """The edits of a query, whether its result is stored, and what changes cost."""
    language = "rule" if ":-" in query else "sql"
    text = f"version: 1\nrelations:\n  {flights}\n  {planes}\nqueries:\n  q:\n    {language}: |\n      {query}\n"
    spec = parse_spec(text, "spec.yaml")
    meant = compile_spec(spec)["q"]
    program = program_of(meant, spec)
    said = list(edits_of(plan_query(meant, spec), program, spec))
    costs = {c.relation: c.bound for c in program_cost(program, spec).changes}
    return said, stored_result(program) is not None, costs


def test_a_column_more_in_the_select_saves_the_stored_result() -> None:
    query = "SELECT f.id, p.maker FROM flights f JOIN planes p ON f.tail = p.tail"
    said, is_stored, _ = read(query)
    assert is_stored
    assert said[0] == "add `f.tail` to the SELECT: saves the stored result, one row per id, maker"
    _, is_stored, _ = read(query.replace("SELECT ", "SELECT f.tail, "))
    assert not is_stored


def test_in_a_rule_it_is_a_variable_of_the_head_and_new_rows_are_said() -> None:
    said, _, _ = read("q(o, m) :- flights(_, t, o), planes(t, m)")
    assert said[0].startswith("add `t` to the head, with a row for each of them: saves the stored result")
    said, _, _ = read("q(i, m) :- flights(i, t, o), planes(t, m)")
    assert said[0] == "add `t` to the head: saves the stored result, one row per i, m"


def test_a_key_makes_changes_cheap() -> None:
    loose = PLANES.replace(", key: [tail]", "")
    query = "SELECT p.maker, count(*) AS n FROM flights f, planes p WHERE f.tail = p.tail GROUP BY p.maker"
    said, _, before = read(query, planes=loose)
    (key,) = [text for text in said if "key: [tail]" in text and "planes" in text]
    assert key == (
        "if no two rows of planes have the same tail, give it `key: [tail]`: a changed row of flights costs O(1), "
        "not O(n)"
    )
    _, _, after = read(query)
    assert (before["flights"], after["flights"]) == ("O(n)", "O(1)")


def test_what_changes_most_gets_a_tree_of_its_own() -> None:
    # Readers of a window do not wait: those that have rows are no end of the order.
    query = "SELECT f.id, f.day, p.tail, p.since FROM flights f, planes p WHERE f.day < p.since AND p.since < f.day + 9"
    flights, planes = (FLIGHTS.replace("origin: string", "day: int64"), PLANES.replace("maker: string", "since: int64"))
    said, _, before = read(query, flights, planes)
    often = [text for text in said if "changes: often" in text]
    assert len(often) == 1
    name = often[0].split()[1]
    assert before[name] == "O(n log n)"
    changed = {"flights": flights, "planes": planes}
    changed[name] = changed[name].replace("]}", "], changes: often}")
    _, _, after = read(query, changed["flights"], changed["planes"])
    assert after[name] == "O(log n)"
    assert f"a changed row of {name} costs O(log n), not O(n log n)" in often[0]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, tail FROM flights",
        "SELECT origin, count(*) AS n FROM flights GROUP BY origin",
        "SELECT f.id, f.tail, p.maker FROM flights f JOIN planes p ON f.tail = p.tail WHERE p.maker = 'x'",
    ],
)
def test_what_is_cheap_gets_no_advice_that_stores_less(query: str) -> None:
    said, _, costs = read(query)
    assert not any("saves the stored result" in text for text in said)
    assert not said or "O(n)" in costs.values()
