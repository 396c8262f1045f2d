"""Each pass of the lowering does what the example in its module's docstring shows."""

from __future__ import annotations

import importlib
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import cast, get_args

import pytest

from dynq_cli.plan.lower import PASSES, program_of, why_a_table
from dynq_cli.plan.lower.partial_program import Goal, PartialProgram, Pass
from dynq_cli.plan.program import Derived
from dynq_cli.query.compile import compile_query
from dynq_cli.query.normal_form import UnionQuery
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Keep, QuerySpec, Text
from tests.every_case import every_case
from tests.plan.trace import trace

SPEC = parse_spec(
    """\
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {b: int64, c: int64}}
  T: {columns: {c: int64, d: int64}}
  P: {columns: {b: int64, price: "decimal(9,2)"}}
queries: {q: {rule: "q(a) :- R(a, b)"}}
""",
    "spec.yaml",
)
QUERY = "    query    "
KEEP = "    keep     "


def module_of(each: Pass) -> str:
    return f"dynq_cli.plan.lower.{each.name}"


@every_case("each", PASSES, ids=lambda each: each.name)
def test_the_example_of_a_pass_is_what_it_does(each: Pass) -> None:
    module = importlib.import_module(module_of(each))
    lines = (module.__doc__ or "").rstrip().splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith(QUERY)]
    kept = [line.removeprefix(KEEP) for line in lines[start + 1 : start + 2] if line.startswith(KEEP)]
    changes = trace(lines[start].removeprefix(QUERY), SPEC, cast("Keep", kept[0] if kept else "all"))
    first = next(change for change in changes if change.name == each.name)
    assert "\n".join(lines[start + 1 + len(kept) :]) == str(first)


def test_a_pass_is_the_function_that_its_file_is_named_after() -> None:
    assert [(p.rewrite.__module__, p.name) for p in PASSES] == [(module_of(p), p.name) for p in PASSES]


def test_the_design_page_shows_the_passes_and_their_goals() -> None:
    page = (Path(__file__).parents[2] / "docs/design/planning.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in page.splitlines() if line.count("|") == 4]
    shown = [(name, goals) for _, name, _, goals, _ in rows if name in {each.name for each in PASSES}]
    every = set(get_args(Goal))
    words = {"all": every, "all but joins": every - {"joins"}}
    assert [(name, words.get(goals, {*goals.split(", ")})) for name, goals in shown] == [
        (each.name, {*each.goals}) for each in PASSES
    ]


def test_a_program_in_the_making_is_never_changed() -> None:
    program = PartialProgram("q", SPEC, None, PASSES)
    relation, made = program.add_relation(SPEC.relations[0].columns, [])
    assert (program.steps, program.spec) == ((), SPEC)
    assert isinstance(made.steps[0], Derived) and made.spec.relation(relation.name) is not None
    with pytest.raises(FrozenInstanceError):
        program.steps = made.steps  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        # The trees of the members are tried before the first of them is found to need a table.
        "SELECT a FROM R UNION SELECT c FROM T UNION SELECT S.b FROM S, T WHERE S.b < T.d AND S.c < T.c",
        "SELECT R.a FROM R, S, T WHERE R.b = S.b AND S.c = T.c AND R.a <> T.d AND R.a < S.c",
    ],
)
def test_a_trial_that_fails_leaves_no_step(text: str) -> None:
    query = compile_query(SPEC, QuerySpec("q", "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),)))
    assert not isinstance(query, UnionQuery) or why_a_table(query, SPEC)
    *steps, last = program_of(query, SPEC).steps
    assert [step.name for step in steps] == [f"q/{i + 1}" for i in range(len(steps))] and last.name == "q"
    used = {f.tree for s in steps if isinstance(s, Derived) for f in s.feeds}
    assert used == {s.name for s in steps if not isinstance(s, Derived)}
