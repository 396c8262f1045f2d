"""What `explain` says is joined or filtered is what the steps do."""

from __future__ import annotations

import re

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.explain import explain_json
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Derived, Tree
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_ranges import range_case
from tests.seeds import seeds

RELATIONS = """
version: 1
relations:
  R: {columns: {a: int64, b: int64, k: int64}}
  S: {columns: {c: int64, d: int64, k: int64}}
  T: {columns: {e: int64, f: int64}}
queries:
"""


def said(rule: str) -> dict[str, list[str]]:
    spec = parse_spec(f"{RELATIONS}  q: {{rule: '{rule}', semantics: bag}}\n", "spec.yaml")
    told = explain_json(plan_query(compile_spec(spec)["q"], spec), spec)
    return {key: [str(line) for line in told[key]] for key in ("notes", "steps", "advice")}  # type: ignore[attr-defined]


def test_a_second_variable_of_a_child_filters_rows_and_what_passes_is_stored() -> None:
    told = said("q(a, b, c, d, k) :- R(a, b, k), S(c, d, k), a < c, b < d")
    (note,) = told["notes"]
    assert note == (
        "an edge of a tree compares one variable of its child: q/1 has ranges by a < c, and b < d filters its rows. "
        "Each row with a < c is looked at as it comes or goes (Δ), and those where b < d are stored, in q/2"
    )
    assert "relation q/2(a, b, c, d, k), the rows of q/1 where b < d" in told["steps"]


def test_a_larger_head_is_not_advised_where_a_filter_needs_the_table_anyway() -> None:
    assert said("q(a, c) :- R(a, b, k), S(c, d, k), a < c")["advice"]
    assert said("q(a, b, c, d) :- R(a, b, k), S(c, d, k), a < c, b < d")["advice"] == []


def test_the_pair_that_is_named_is_the_one_that_is_joined() -> None:
    ring = said("q(a, c, e) :- R(a, b, k), S(c, d, l), T(e, f), a < c, c < e, e < a + 10")
    assert ring["notes"][0].startswith("R(a, b, k) and T(e, f) are joined into a view of their own where e < a + 10")
    far = said("q(a, b, c, d, e, f) :- R(a, b, k), S(c, d, l), T(e, f), a < c, d < e, f < b")
    assert far["notes"][0].startswith(
        "R(a, b, k) and S(c, d, l) are joined into a relation of their own, q/2 where a < c"
    )
    assert far["steps"][0] == "tree q/1 :- R(a, b, k), S(c, d, l), in ranges by a < c"


def test_what_an_equality_joins_goes_before_what_is_compared_on_one_side_only() -> None:
    told = said("q(a, e) :- R(a, b, k), S(c, d, k), T(e, f), a < f, d < e")
    assert told["notes"][0].startswith("R(a, b, k) and S(c, d, k) are joined into a view of their own")
    assert told["steps"][2] == "tree q/3 :- T(e, f), q/2(a, d), in ranges by a < f"
    assert told["steps"][3] == "relation q/4(a, e), the rows of q/3 where d < e"


@pytest.mark.parametrize("seed", seeds(16))
def test_what_is_said_of_random_queries_is_what_their_steps_do(seed: int) -> None:
    case = range_case(seed, 4, 0)
    for drawn in case.queries:
        notes = [str(note) for note in explain_json(drawn.plan, case.spec)["notes"]]  # type: ignore[attr-defined]
        program = program_of(drawn.plan.query, case.spec)
        trees = {s.name: s.plan.query for s in program.steps if isinstance(s, Tree)}
        derived = [s for s in program.steps if isinstance(s, Derived)]
        joined = [m[1].split(" and ") for note in notes if (m := re.match(r"(.*) are joined into", note))]
        made = [[a.brief for a in query.atoms] for query in trees.values()]
        assert all(sorted(atoms) in map(sorted, made) for atoms in joined), (drawn.text, notes)
        filtered = [s.name for s in derived if any(c.op != "!=" for feed in s.feeds for c in feed.where)]
        assert all(any(name in note for note in notes) for name in filtered), (drawn.text, notes)


UNION = {
    "": ("SELECT a, b FROM R UNION SELECT e, f FROM T", "without a table: rows are read from the members"),
    "order": (
        "SELECT a, b FROM R UNION SELECT e, f FROM T ORDER BY a NULLS LAST",
        "trees have NULL as the least value",
    ),
    "groups": ("SELECT a, COUNT(*) AS n FROM R GROUP BY a UNION SELECT e, f FROM T", "member 1 has groups"),
    "unequal": ("SELECT e, f FROM T UNION SELECT a, c FROM R, S WHERE a != c", "rows of member 2 are filtered by !="),
    "projected": (
        "SELECT a, b FROM R UNION SELECT a, d FROM R, S WHERE R.k = S.k",
        "member 2 is not a join that one tree keeps",
    ),
    "many": (
        "SELECT a FROM R UNION SELECT b FROM R UNION SELECT c FROM S UNION SELECT d FROM S UNION SELECT e FROM T",
        "its 5 members have more intersections than are worth a tree each",
    ),
}


@pytest.mark.parametrize(("sql", "reason"), UNION.values(), ids=UNION)
def test_why_a_union_is_a_table_is_said(sql: str, reason: str) -> None:
    spec = parse_spec(f'{RELATIONS}  q: {{sql: "{sql}"}}\n', "spec.yaml")
    notes = explain_json(plan_query(compile_spec(spec)["q"], spec), spec)["notes"]
    assert isinstance(notes, list)
    assert reason in notes[-1]
