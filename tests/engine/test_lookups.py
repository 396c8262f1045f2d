"""`keep: test`: a result of which only rows are tested, with O(1) per change, whatever its size (thesis, chapter 5)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.row_tests import RowTests, copies_in
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, SpecError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower import program_of
from dynq_cli.plan.program import Lookups, Tree
from dynq_cli.query.compile import compile_query
from dynq_cli.session.explain import explain_text_of
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import QuerySpec, Spec, Text
from dynq_cli.storage.plans import plan_spec
from dynq_cli.values.convert import arrow_type
from tests.engine.random_history import Row, random_history, value_of
from tests.engine.random_queries import Case, Drawn, draw_query, random_relations
from tests.engine.random_runs import Stored, apply, as_plain, described, make_live
from tests.engine.random_together import together_relations, union_text
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  S: {columns: {x: int64}}
  E: {columns: {x: int64, y: int64}}
  T: {columns: {y: int64}}
  R: {columns: {x: int64, y: int64, z: int64}}
  U: {columns: {x: int64?}}
queries:
"""
S_E_T = "{rule: 'q(x, y) :- S(x), E(x, y), T(y)', keep: test}"
SEEDS = seeds(30, 33, 48, 66, 69, 90, 96, 132, 144)


def live_of(query: str) -> Views:
    planned = plan_spec(f"{RELATIONS}  q: {query}\n")
    live = Views(planned.spec, planned.kept)
    assert isinstance(live.queries["q"].result, Lookups)
    return live


def rows(names: str, *values: tuple[int | None, ...]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(names, columns, strict=True)})


E = rows("xy", (1, 5), (1, 6), (2, 6), (3, 6))


def test_thesis_s_e_t() -> None:
    live = live_of(S_E_T)
    live.apply({"S": rows("x", (1,), (2,)), "E": E, "T": rows("y", (6,))})
    asked = [(1, 6), (2, 6), (1, 5), (3, 6), (7, 7)]
    assert [live.test("q", {"x": x, "y": y}) for x, y in asked] == [1, 1, 0, 0, 0]
    assert copies_in(live, "q", rows("xy", *asked)).tolist() == [1, 1, 0, 0, 0]
    live.apply({"S": rows("x", (1,)).append_column("_change_type", pa.array(["delete"]))})
    assert [live.test("q", {"x": x, "y": y}) for x, y in asked] == [0, 1, 0, 0, 0]
    live._check()


def test_thesis_projected_pairs() -> None:
    live = live_of("{rule: 'q(x, y) :- E(x, v1), E(y, v2), R(x, y, v3)', keep: test}")
    live.apply({"E": E, "R": rows("xyz", (1, 2, 9), (1, 4, 9))})
    assert live.test("q", {"x": 1, "y": 2}) == 1
    assert live.test("q", {"x": 1, "y": 4}) == 0


def test_the_full_triangle_with_a_hub_is_taken_in_linear_space() -> None:
    many = range(1100)
    planned = plan_spec(
        "version: 1\nrelations: {A: {columns: {x: int64, y: int64}}, B: {columns: {x: int64, y: int64}},"
        " C: {columns: {x: int64, y: int64}}}\n"
        "queries: {q: {rule: 'q(x, y, z) :- A(x, y), B(y, z), C(z, x)', keep: test}}\n"
    )
    live = Views(planned.spec, planned.kept)
    live.apply(
        {
            "A": rows("xy", *((i, i) for i in many)),
            "B": rows("xy", *((i, 0) for i in many)),
            "C": rows("xy", *((0, i) for i in many)),
        }
    )
    assert live.test("q", {"x": 5, "y": 5, "z": 0}) == 1
    assert live.test("q", {"x": 5, "y": 6, "z": 0}) == 0
    assert live.engine.arena.top < 200 * 3 * len(many), "words are linear in the base rows"


def test_toggling_a_row_changes_as_many_words_whatever_joins_it() -> None:
    changed = []
    for n in (1_000, 100_000):
        live = live_of(S_E_T)
        live.apply({"E": rows("xy", *((1, i) for i in range(n))), "T": rows("y", *((i,) for i in range(n)))})
        kinds = pa.array(["insert"]), pa.array(["delete"])
        # Tables have grown and free rows are used again from the second time on.
        for kind in kinds * 2:
            live.apply({"S": rows("x", (1,)).append_column("_change_type", kind)})
        before = live.engine.arena.words[: live.engine.arena.top].copy()
        live.apply({"S": rows("x", (1,))})
        changed.append(int((live.engine.arena.words[: len(before)] != before).sum()))
        assert live.test("q", {"x": 1, "y": n - 1}) == 1
    assert changed[0] == changed[1] <= 20


def test_copies_of_bags_multiply() -> None:
    live = live_of("{sql: 'SELECT E.x, E.y FROM S, E, T, R WHERE S.x = E.x AND E.y = T.y AND R.x = E.x', keep: test}")
    two = pa.array([2], pa.int64())
    live.apply(
        {
            "S": rows("x", (1,)).append_column("_count", two),
            "E": rows("xy", (1, 6)),
            "T": rows("y", (6,)).append_column("_count", pa.array([3], pa.int64())),
            "R": rows("xyz", (1, 7, 7), (1, 8, 8)),
        }
    )
    assert live.test("q", {"x": 1, "y": 6}) == 12
    assert live.test("q", {"x": 1, "y": 7}) == 0


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [
        ("SELECT x, y FROM E WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.x = E.x)", {(2, 6): 1, (3, 6): 1}, [(1, 5)]),
        ("SELECT x, y FROM E WHERE x IN (SELECT x FROM S) AND y > 5", {(1, 6): 1}, [(1, 5), (2, 6)]),
        ("SELECT E.x, T.y FROM E, T WHERE E.x < T.y AND E.y = 6", {(1, 6): 1, (2, 6): 1}, [(1, 5)]),
        ("SELECT x, y FROM E UNION ALL SELECT x, y FROM E WHERE x = 1", {(1, 6): 2, (2, 6): 1}, [(2, 5)]),
        ("SELECT x, y FROM E UNION SELECT x, x FROM S", {(1, 6): 1, (1, 1): 1}, [(2, 2)]),
        ("SELECT x, y FROM E UNION SELECT x, 0 FROM S", {(1, 6): 1, (1, 0): 1}, [(2, 0)]),
    ],
)
def test_exists_comparisons_and_unions(query: str, there: dict[Any, int], not_there: list[Any]) -> None:
    live = live_of(f"{{sql: '{query}', keep: test}}")
    live.apply({"S": rows("x", (1,)), "E": E, "T": rows("y", (6,))})
    first, second = (c.name for c in live.form_of("q").columns)
    for (x, y), copies in [*there.items(), *((row, 0) for row in not_there)]:
        assert live.test("q", {first: x, second: y}) == copies, (x, y)


def test_a_boolean_query_is_tested_by_its_count() -> None:
    live = live_of("{rule: 'q() :- E(x, y), S(x)', keep: test}")
    assert live.test("q", {}) == 0
    live.apply({"S": rows("x", (1,)), "E": E})
    assert live.test("q", {}) == 1
    assert copies_in(live, "q", pa.table({"other": [1, 2]})).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("{rule: 'q(x) :- E(x, y), T(y)', keep: test}", "y is not in the head and stands in T(y) without x"),
        ("{rule: 'q() :- S(x), E(x, y), T(y)', keep: test}", "x and y cross"),
        ("{rule: 'q(x) :- S(x), E(z, y), x < z', keep: test}", "compares z, which is not in the head"),
        ("{sql: 'SELECT x, count(*) AS n FROM E GROUP BY x', keep: test}", "its rows are groups"),
        (
            "{sql: 'SELECT x FROM E WHERE NOT EXISTS (SELECT 1 FROM T WHERE T.y = E.y)', keep: test}",
            "not exists T(y) looks at y, not selected",
        ),
        (
            "{sql: 'SELECT S.x FROM S, (SELECT x, count(*) AS n FROM E GROUP BY x) AS d WHERE d.x = S.x', keep: test}",
            "it has a subquery",
        ),
        ("{rule: ['q(x) :- S(x)', 'q(x) :- E(x, y), T(y)'], keep: test}", "y is not in the head"),
    ],
)
def test_what_no_lookup_tests_is_refused_with_the_witness(query: str, said: str) -> None:
    spec = f"{RELATIONS}  q: {query}\n"
    planned = plan_spec(spec)
    with pytest.raises(RejectedError, match=r"(?s)keep: test.*hint: leave `keep` out") as refused:
        Views(planned.spec, planned.kept)
    assert said in str(refused.value)
    assert said in " ".join(explain_text_of(spec).split())


def test_nothing_else_is_read() -> None:
    live = live_of(S_E_T)
    with pytest.raises(RejectedError, match="serves test alone, and not count"):
        live.count("q")
    with pytest.raises(RejectedError, match="not enum"):
        live.enum("q")
    assert live.kept_count("q") is None


def test_more_than_63_bits_of_copies_are_refused() -> None:
    live = live_of("{sql: 'SELECT S.x, T.y FROM S, T, E WHERE S.x = E.x AND T.y = E.y', keep: test}")
    many = pa.array([2**32], pa.int64())
    live.apply({n: rows(c, (1,) * len(c)).append_column("_count", many) for n, c in (("S", "x"), ("T", "y"))})
    live.apply({"E": rows("xy", (1, 1))})
    with pytest.raises(RejectedError, match="more than 2\\^63"):
        copies_in(live, "q", rows("xy", (1, 1)))


def test_a_missing_column_is_told() -> None:
    with pytest.raises(UsageError, match="y is missing"):
        copies_in(live_of(S_E_T), "q", rows("x", (1,)))


@pytest.mark.parametrize("keep", ["order_by: [x], keep: test", "order_by: [x], keep: rows", "keep: rank"])
def test_a_keep_without_sense_is_a_spec_error(keep: str) -> None:
    with pytest.raises(SpecError, match="`keep"):
        parse_spec(f"{RELATIONS}  q: {{rule: 'q(x) :- S(x)', {keep}}}\n", "spec.yaml")


def test_outputs_of_what_is_not_kept_are_spec_errors() -> None:
    spec = f"{RELATIONS}  q: {S_E_T}\noutputs: [{{query: q, kind: enum, path: a.csv}}]\n"
    with pytest.raises(SpecError, match="`kind: enum` of query `q`, which has `keep: test`"):
        parse_spec(spec, "spec.yaml")


# Random queries and histories.


def _drawn_case(seed: int) -> Case:
    """Queries that are tested alone, t-hierarchical joins and unions, over one history."""
    chance = Random(f"lookups {seed}")
    is_union = seed % 3 == 0
    spec = Spec("spec.yaml", together_relations(chance) if is_union else random_relations(chance), ())
    drawn: list[Drawn] = []
    for _ in range(200):
        made = _tested_union(chance, spec, f"q{len(drawn)}") if is_union else _tested(chance, spec, f"q{len(drawn)}")
        drawn += [made] if made is not None else []
        if len(drawn) == 3:
            break
    return Case(seed, spec, tuple(drawn), tuple(random_history(chance, spec, 5)))


def _tested(chance: Random, spec: Spec, name: str) -> Drawn | None:
    drawn = draw_query(chance, spec, name, Counter())
    return _as_lookups(spec, drawn)


def _tested_union(chance: Random, spec: Spec, name: str) -> Drawn | None:
    text, semantics, tags = union_text(chance, spec)
    written = QuerySpec(name, "sql", (Text(text, "spec.yaml", ((0, 1, 1),)),), semantics)
    try:
        query = compile_query(spec, written)
    except SpecError:
        return None
    plan = plan_query(query, spec)
    if plan.refusal:
        return None
    oracle = f"SELECT DISTINCT * FROM ({text})" if query.semantics == "set" else text
    first = next(s.plan for s in program_of(query, spec).steps if isinstance(s, Tree))
    return _as_lookups(spec, Drawn(name, "sql", text, semantics, oracle, first, None, frozenset(tags)))


def _as_lookups(spec: Spec, drawn: Drawn) -> Drawn | None:
    text = Text(drawn.text, "spec.yaml", ((0, 1, 1),))
    plan = plan_query(
        compile_query(spec, QuerySpec(drawn.name, drawn.language, (text,), drawn.semantics, keep="test")), spec
    )
    if plan.refusal:
        return None
    program = program_of(plan.query, spec)
    assert isinstance(program.result, Lookups)
    return replace(drawn, plan=replace(drawn.plan, query=program.form, order=()), program=program)


def _asked(query: Drawn, there: list[Row], chance: Random) -> list[Row]:
    """Rows that are there, rows mixed from these, and rows of other values."""
    columns = query.plan.query.columns
    mixed = [tuple(chance.choice(there)[i] for i in range(len(columns))) for _ in there[:20]]
    others = [tuple(value_of(chance, c) for c in columns) for _ in range(5)]
    near = [
        tuple(value_of(chance, c) if chance.random() < 0.3 else v for c, v in zip(columns, row, strict=True))
        for row in there[:20]
    ]
    return [*there, *mixed, *others, *near]


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_tested_as_duckdb_says(seed: int) -> None:
    case, chance = _drawn_case(seed), Random(seed)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        changes = stored.applicable(batch.changes)
        stored.load(batch.relations)
        apply(live, case, batch, changes)
        live._check()
        for query in case.queries:
            wanted = stored.result(query)
            found = stored.connection.execute(f"SELECT DISTINCT * FROM ({query.oracle}) LIMIT 200").fetchall()
            asked = _asked(query, found, chance) if query.plan.query.columns else [()]
            names = [c.name for c in query.plan.query.columns]
            one_by_one = [live.test(query.name, dict(zip(names, row, strict=True))) for row in asked]
            right = [wanted[as_plain(row)] for row in asked]
            assert one_by_one == right, f"{query.text}\n{described(case)}"
            if names:
                batch_of = pa.RecordBatch.from_arrays(
                    [
                        pa.array([r[i] for r in asked], arrow_type(c.type))
                        for i, c in enumerate(query.plan.query.columns)
                    ],
                    names,
                )
                assert RowTests(live, query.name).copies(batch_of).tolist() == right, f"{query.text}"


def test_random_cases_have_joins_with_several_lookups() -> None:
    programs = [q.program for seed in SEEDS for q in _drawn_case(seed).queries]
    several = [p for p in programs if p is not None and isinstance(p.result, Lookups) and len(p.result.trees) > 1]
    assert len(several) > 15


@pytest.mark.parametrize("query", ["SELECT x FROM E GROUP BY x, y", "SELECT x, y FROM E", "SELECT DISTINCT x FROM E"])
def test_many_rows_are_tested_as_one_by_one_whatever_is_kept(query: str) -> None:
    planned = plan_spec(f"{RELATIONS}  q: {{sql: '{query}'}}\n")
    live = Views(planned.spec, planned.kept)
    chance = np.random.default_rng(5)
    live.apply({"E": pa.table({"x": chance.integers(0, 9, 60), "y": chance.integers(0, 9, 60)})})
    names = [c.name for c in live.form_of("q").columns]
    asked = pa.table({"other": [0] * 100, **{n: chance.integers(0, 12, 100) for n in names}})
    one_by_one = [live.test("q", {n: row[n] for n in names}) for row in asked.to_pylist()]
    assert copies_in(live, "q", asked).tolist() == one_by_one
    assert len(set(one_by_one)) > 1
