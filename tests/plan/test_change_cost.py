"""The cost of a changed row counts what it changes in every step, not only in the first tree."""

from __future__ import annotations

import duckdb

from dynq_cli.plan.change_cost import change_costs
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.explain import explain_json
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Program
from dynq_cli.plan.stored import stored
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Spec
from tests.every_case import every_case
from tests.plan.run_program import contents

COLUMNS = {
    "E": "a, b",
    "F": "a, b, c",
    "G": "a, b, c",
    "orders": "id, cust, price",
    "customers": "id, city",
    "items": "line, ord",
}
KEYS = {"orders": "id", "customers": "id", "items": "line"}
# Per query: what a change of each relation costs, as a power of n and whether an ordered tree is searched.
SHAPES = {
    "q(x1, x2, sum(x3)) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)": {"E": "O(n)", "F": "O(n)", "G": "O(n)"},
    "q(y, x1, x2, sum(x3)) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)": {"E": "O(1)", "F": "O(1)", "G": "O(1)"},
    "q(y, x, z) :- E(y, x), F(y, z, w)": {"E": "O(1)", "F": "O(1)"},
    "SELECT a, MAX(b) AS m FROM E GROUP BY a": {"E": "O(log n)"},
    "SELECT SUM(price) AS s FROM orders": {"orders": "O(1)"},
    "SELECT city, SUM(price) AS s FROM orders o JOIN customers c ON o.cust = c.id GROUP BY city": {
        "orders": "O(1)",
        "customers": "O(n)",
    },
    "SELECT city, COUNT(*) AS n FROM items i, orders o, customers c WHERE ord = o.id AND cust = c.id GROUP BY city": {
        "items": "O(1)",
        "orders": "O(1)",
        "customers": "O(1)",
    },
    "SELECT DISTINCT city, price FROM orders o JOIN customers c ON o.cust = c.id": {
        "orders": "O(1)",
        "customers": "O(n)",
    },
    "SELECT city FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.cust = c.id)": {
        "orders": "O(1)",
        "customers": "O(1)",
    },
}


def made(text: str) -> tuple[Spec, Program]:
    relations = ""
    for name, columns in COLUMNS.items():
        typed = ", ".join(f"{c}: int64" for c in columns.split(", "))
        key = f", key: [{KEYS[name]}]" if name in KEYS else ""
        relations += f"  {name}: {{columns: {{{typed}}}{key}}}\n"
    language = "rule" if ":-" in text else "sql"
    spec = parse_spec(f"version: 1\nrelations:\n{relations}queries:\n  q:\n    {language}: |\n      {text}\n", "spec")
    return spec, program_of(compile_spec(spec)["q"], spec)


def database(degree: int) -> duckdb.DuckDBPyConnection:
    """Rows that all share value 1 with `degree` others."""
    connection = duckdb.connect(config={"threads": "1"})
    for name, columns in COLUMNS.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{c} BIGINT' for c in columns.split(', '))})")
    each = f"range({degree}) t(i)"
    connection.execute(f"INSERT INTO E SELECT 1, i FROM {each}")
    connection.execute(f"INSERT INTO F SELECT 1, i, i FROM {each}")
    connection.execute(f"INSERT INTO G SELECT 1, i, i FROM {each}")
    connection.execute(f"INSERT INTO orders SELECT i, 1, i FROM {each}")
    connection.execute("INSERT INTO customers VALUES (1, 1), (2, 1)")
    connection.execute(f"INSERT INTO items SELECT i, 1 FROM {each}")
    return connection


def changed_rows(program: Program, relation: str, degree: int) -> int:
    """How many rows come or go in the relations, and in the trees that feed them, when one row goes."""
    connection = database(degree)
    feeding = {f.tree for s in program.steps if isinstance(s, Derived) for f in s.feeds}
    watched = {s.name for s in program.steps if isinstance(s, Derived)} | feeding
    before = contents(program, connection)
    first = COLUMNS[relation].split(", ")[0]
    connection.execute(f"DELETE FROM {relation} WHERE rowid = (SELECT min(rowid) FROM {relation} WHERE {first} = 1)")
    after = contents(program, connection)
    return sum(len((before[n] - after[n]) + (after[n] - before[n])) for n in watched)


@every_case("text", SHAPES)
def test_what_a_change_costs_is_said_through_all_steps(text: str) -> None:
    spec, program = made(text)
    assert {c.relation: c.bound for c in change_costs(program, spec)} == SHAPES[text]


@every_case("text", SHAPES)
def test_a_change_that_is_said_to_be_cheap_changes_as_few_rows_when_values_have_more_rows(text: str) -> None:
    spec, program = made(text)
    for cost in change_costs(program, spec):
        small, large = (changed_rows(program, cost.relation, degree) for degree in (3, 15))
        if not cost.exponent:
            assert large <= small, cost


def test_a_change_of_a_summed_relation_reaches_every_partner_of_its_group() -> None:
    spec, program = made(next(iter(SHAPES)))
    assert changed_rows(program, "F", 15) > 15
    (said,) = [c for c in change_costs(program, spec) if c.relation == "F"]
    assert said.meaning == "each row of E with the same y"


def test_a_result_that_is_stored_is_said_to_be_stored() -> None:
    for text, words in (
        ("SELECT a, MAX(b) AS m FROM E GROUP BY a", "its result, one row per a with the distinct values of MAX(b)"),
        ("q(y, x, z) :- E(y, x), F(y, z, w)", "views of E and F, no larger than the tables; not the result"),
        ("SELECT SUM(price) AS s FROM orders", "its result, one row"),
    ):
        spec, program = made(text)
        assert stored(program, spec) == words


def test_the_position_in_a_result_of_one_row_takes_no_walk() -> None:
    spec, _ = made("SELECT SUM(price) AS s FROM orders")
    told = explain_json(plan_query(compile_spec(spec)["q"], spec), spec)
    assert told["guarantees"]["jth"] == "O(1)"  # type: ignore[index]
    assert told["changes"] == {"orders": {"bound": "O(1)", "meaning": "one row in each of 3 views"}}
