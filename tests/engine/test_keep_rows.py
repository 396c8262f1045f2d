"""`keep: rows`: unions and joins with != whose rows are read from trees, without the trees that only count."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Together, Tree
from dynq_cli.plan.program_cost import program_cost
from dynq_cli.query.compile import compile_query
from dynq_cli.session.explain import explain_text_of
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import QuerySpec, Text
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_queries import Case, Drawn
from tests.engine.random_runs import described, failure, minimise
from tests.engine.random_together import together_case
from tests.engine.test_difference import check_differences
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  S: {columns: {x: int64}}
  E: {columns: {x: int64, y: int64}}
  T: {columns: {y: int64}}
queries:
"""
S_E_OR_E_T = "{rule: ['q(x, y) :- S(x), E(x, y)', 'q(x, y) :- E(x, y), T(y)'], keep: rows}"
MEMBERS = [f"q(x, y) :- E(x, y), y > {i * 10}, y < {i * 10 + 15}" for i in range(7)]
MANY = f"{{rule: {MEMBERS}, keep: rows}}"


def live_of(query: str) -> Views:
    planned = plan_spec(f"{RELATIONS}  q: {query}\n")
    return Views(planned.spec, planned.kept)


def _result(live: Views) -> Together:
    result = live.queries["q"].result
    assert isinstance(result, Together) and not result.terms
    return result


def test_toggling_a_row_changes_as_many_words_whatever_joins_it() -> None:
    changed = []
    for n in (1_000, 50_000):
        live = live_of(S_E_OR_E_T)
        assert len(_result(live).members) == 2
        live.apply({"E": pa.table({"x": [1] * n, "y": list(range(n))})})
        kinds = [pa.array([kind]) for kind in ("insert", "delete", "insert", "delete")]
        for kind in kinds:
            live.apply({"S": pa.table({"x": [1], "_change_type": kind})})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"S": pa.table({"x": [1]})})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert live.count("q") == (n, n)
    assert changed[0] == changed[1] <= 20


def test_seven_members_are_seven_trees_and_no_table() -> None:
    live = live_of(MANY)
    program = live.queries["q"]
    assert all(isinstance(step, Tree) for step in program.steps[:-1]) and len(program.steps) == 8
    live.apply({"E": pa.table({"x": list(range(100)), "y": list(range(100))})})
    found = sorted(row["y"] for batch in live.enum("q") for row in batch.to_pylist())
    assert found == list(range(1, 75))
    assert live.count("q") == (74, 74)
    assert live.test("q", {"x": 12, "y": 12}) == 1 and live.test("q", {"x": 99, "y": 99}) == 0
    live._check()


def test_no_position_is_read() -> None:
    live = live_of(MANY)
    with pytest.raises(RejectedError, match="serves count, enum, diff and test, and not jth"):
        Ranked(live, "q")


def test_what_is_promised() -> None:
    spec = parse_spec(f"{RELATIONS}  q: {S_E_OR_E_T}\n", "spec.yaml")
    query = compile_query(spec, spec.queries[0])
    promised = dict(program_cost(program_of(query, spec), spec).guarantees.items())
    assert [promised[name].bound for name in ("update", "delay", "test", "space")] == ["O(1)", "O(1)", "O(1)", "O(n)"]
    assert promised["count"].bound == "O(|q/1| + |q/2|)"
    assert promised["jth"].bound == promised["rank"].bound == "not kept"
    assert "no count" in " ".join(explain_text_of(f"{RELATIONS}  q: {S_E_OR_E_T}\n").split())


@pytest.mark.parametrize(
    "query", ["rule: 'q(x, y) :- E(x, y), S(x)'", "sql: 'SELECT x, count(*) AS n FROM E GROUP BY x'"]
)
def test_other_queries_are_as_they_were(query: str) -> None:
    live, plain = live_of(f"{{{query}, keep: rows}}"), live_of(f"{{{query}}}")
    for each in (live, plain):
        each.apply({"E": pa.table({"x": [1, 1, 2], "y": [1, 2, 3]}), "S": pa.table({"x": [1]})})
    assert live.count("q") == plain.count("q") == live.kept_count("q")
    with pytest.raises(RejectedError, match="not jth"):
        Ranked(live, "q")


def _as_rows(drawn: Drawn, case: Case) -> Drawn:
    text = Text(drawn.text, "spec.yaml", ((0, 1, 1),))
    written = QuerySpec(drawn.name, drawn.language, (text,), drawn.semantics, keep="rows")
    program = program_of(plan_query(compile_query(case.spec, written), case.spec).query, case.spec)
    assert isinstance(program.result, Together) and not program.result.terms
    return replace(drawn, program=program)


def _rows_case(seed: int, form: str) -> Case:
    case = together_case(seed, form, queries=2, batches=5)
    return replace(case, queries=tuple(_as_rows(q, case) for q in case.queries))


@pytest.mark.parametrize("form", ["union", "unequal"])
@pytest.mark.parametrize("seed", seeds(8, first=5000))
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int, form: str) -> None:
    case = _rows_case(seed, form)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("form", ["union", "unequal"])
@pytest.mark.parametrize("seed", seeds(3, first=6000))
def test_the_old_result_and_the_difference_are_the_new_result(seed: int, form: str) -> None:
    check_differences(_rows_case(seed, form), Random(seed))
