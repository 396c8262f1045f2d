"""What is read from several trees: which queries are, in which order rows come, and how little is kept for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.engine import merged_select, multi_tree_result
from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.positions import Selection
from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.program import Derived, Program, Together
from dynq_cli.plan.program_cost import program_cost
from dynq_cli.storage.plans import plan_spec

RELATIONS = """\
version: 1
relations:
  R: {columns: {k: int64, x: int64}}
  S: {columns: {k: int64, y: int64}}
  T: {columns: {k: int64, x: int64}}
  U: {columns: {y: int64}}
  V: {columns: {k: int64}}
queries:
"""
UNEQUAL = "SELECT R.k, x, y FROM R, S WHERE R.k = S.k AND x <> y"
JOINS = "SELECT R.k, x, y FROM R, S WHERE R.k = S.k UNION SELECT T.k, x, y FROM T, S WHERE T.k = S.k"


def live_of(**queries: str) -> Views:
    said = "".join(f"  {name}: {{sql: {text!r}}}\n" for name, text in queries.items())
    planned = plan_spec(RELATIONS + said)
    return Views(planned.spec, planned.kept)


def program_of(query: str) -> Program:
    (program,) = plan_spec(f"{RELATIONS}  q: {query}\n").programs.values()
    return program


@pytest.mark.parametrize(
    "query",
    [
        f"{{sql: {UNEQUAL!r}}}",
        f"{{sql: {JOINS!r}}}",
        f"{{sql: {JOINS!r}, max_view_rows: 1}}",
        f"{{sql: {JOINS!r}, order_by: [k, y desc], max_view_rows: 1}}",
        "{rule: ['q(k, x) :- R(k, x)', 'q(k, x) :- T(k, x), V(k)']}",
        "{sql: 'SELECT k, x FROM R UNION ALL SELECT k, y FROM S'}",
        "{rule: 'q(k, x, y) :- R(k, x), S(k, y), x != y + 1, x <= y + 3'}",
        "{sql: 'SELECT R.k, x, y FROM R, S UNION SELECT T.k, x, y FROM T, S'}",
    ],
)
def test_the_result_is_stored_nowhere(query: str) -> None:
    program = program_of(query)
    assert isinstance(program.result, Together)
    assert not any(isinstance(step, Derived) for step in program.steps)


@pytest.mark.parametrize(
    "query",
    [
        f"{{sql: {UNEQUAL!r}, order_by: [x, k, y]}}",
        f"{{sql: {(JOINS + ' ORDER BY k NULLS LAST')!r}}}",
        # The second column is between two that share no atom of one member.
        f"{{sql: {JOINS!r}, order_by: [x, y, k]}}",
        f"{{sql: 'SELECT k, count(*) AS n FROM ({JOINS}) AS v GROUP BY k'}}",
        # What is compared is not in the head: rows cannot be filtered when they are read.
        "{sql: 'SELECT R.k FROM R, S WHERE R.k = S.k AND x <> y'}",
        # The thesis' S-E-T: the intersection is not q-hierarchical, and the table is no larger than R.
        "{rule: ['q(k, x) :- R(k, x), V(k)', 'q(k, x) :- R(k, x), U(x)']}",
        # A cycle.
        "{rule: ['q(k, x, y) :- R(k, x), S(k, y), T(x, y)', 'q(k, x, y) :- R(k, x), U(y)']}",
    ],
)
def test_the_result_is_stored(query: str) -> None:
    assert not isinstance(program_of(query).result, Together)


def test_thesis_section_9_1_the_union_of_three_sets_is_enumerated_as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_tree_result, "STEP", 1)
    live = live_of(q="SELECT k FROM V UNION SELECT y AS k FROM U UNION SELECT x AS k FROM R")
    sets = {"V": [1, 4, 5], "U": [2, 4], "R": [2, 3, 4, 5]}
    columns = {"V": ["k"], "U": ["y"], "R": ["k", "x"]}
    for name, values in sets.items():
        # New rows stand in front.
        live.apply({name: pa.table(dict.fromkeys(columns[name], values[::-1]))})
    read = [live.engine.blocks(tree, [variable]) for tree, variable in (("q/1", "k"), ("q/2", "y"), ("q/3", "x"))]
    assert [codes[0].tolist() for blocks in read for codes, _ in blocks] == list(sets.values())
    assert [row["k"] for batch in live.enum("q") for row in batch.to_pylist()] == [1, 2, 3, 4, 5]
    check_example_9_2(live)


def check_example_9_2(live: Views) -> None:
    ranked = Ranked(live, "q")
    assert [row["k"] for batch in ranked.jth([1, 2, 3, 4, 5]) for row in batch.to_pylist()] == [1, 2, 3, 4, 5]
    assert [ranked.rank({"k": k}) for k in (5, 3, 1)] == [5, 3, 1]
    with pytest.raises(RejectedError, match="no row at position 6"):
        ranked.jth([6])


def test_thesis_example_9_2_in_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_select, "WALKED", 0)
    live = live_of(q="SELECT k FROM V UNION SELECT y AS k FROM U UNION SELECT x AS k FROM R ORDER BY k")
    live.apply({"V": pa.table({"k": [5, 1, 4]}), "U": pa.table({"y": [4, 2]})})
    live.apply({"R": pa.table({"k": [5, 4, 3, 2], "x": [5, 4, 3, 2]})})
    check_example_9_2(live)
    guarantees = program_cost(live.queries["q"], live.spec).guarantees
    assert (guarantees.space.bound, guarantees.jth.bound, guarantees.rank.bound) == ("O(n)", "O(log² n)", "O(log n)")
    live.apply({"V": pa.table({"_change_type": ["delete"], "k": [1]})})
    assert [row["k"] for batch in Ranked(live, "q").jth([4, 1]) for row in batch.to_pylist()] == [5, 2]


def test_a_position_in_an_ordered_union_takes_log_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of n²/2 rows; a position counts rows before some of them in each of three trees."""
    calls = []
    place = Selection.place

    def noted(self: Selection, bounds: Any) -> Any:
        calls.append(1)
        return place(self, bounds)

    monkeypatch.setattr(Selection, "place", noted)
    taken = []
    for n in (1000, 4000):
        live = live_of(q=ORDERED)
        for name, other in (("R", "x"), ("S", "y"), ("T", "x")):
            live.apply({name: pa.table({"k": [i % 2 for i in range(n)], other: list(range(n))})})
        rows = live.count("q")[0]
        assert rows == n * n // 2
        calls.clear()
        ranked = Ranked(live, "q")
        (row,) = [row for batch in ranked.jth([rows // 3]) for row in batch.to_pylist()]
        taken.append(len(calls))
        assert ranked.rank(row) == rows // 3
    assert taken[1] <= taken[0] + 2 * 4 * 3 + 6, taken


def test_skipped_rows_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of the first member are in the second: for each that is skipped another one comes."""
    monkeypatch.setattr(multi_tree_result, "STEP", 100)
    live = live_of(q="SELECT k, x FROM R UNION SELECT k, x FROM T")
    rows = pa.table({"k": list(range(5000)), "x": [0] * 5000})
    live.apply({"R": rows, "T": rows})
    taken = []
    take = multi_tree_result._Cursor.take

    def noted(self: Any, many: int) -> Any:
        taken.append(many)
        return take(self, many)

    monkeypatch.setattr(multi_tree_result._Cursor, "take", noted)
    given = 0
    for _, copies in live.engine.blocks("q", ["k", "x"], 65536):
        given += len(copies)
        assert sum(taken) <= 2 * given + 100
    assert given == 5000


ORDERED = f"{JOINS} ORDER BY k DESC, x"


@pytest.mark.parametrize("query", [UNEQUAL, JOINS, JOINS.replace("UNION", "UNION ALL"), ORDERED])
def test_what_is_kept_is_linear_in_the_base_rows_whatever_the_size_of_the_result(query: str) -> None:
    words = []
    for n in (1000, 2000):
        live = live_of(q=query)
        for name, other in (("R", "x"), ("S", "y"), ("T", "x")):
            live.apply({name: pa.table({"k": [i % 2 for i in range(n)], other: list(range(n))})})
        assert live.count("q")[0] >= n * n / 2 - n
        words.append(parts_of(live)["memory"].shape[0])
    assert words[1] < 2.5 * words[0]
    assert words[1] < 400 * 2000, "a table of the result would have two million rows"


def test_positions_of_more_copies_than_63_bits_have() -> None:
    live = live_of(q="SELECT k, x FROM R UNION ALL SELECT k, x FROM T")
    many = 2**62 - 1
    table = pa.table({"k": [1, 2, 3], "x": [1, 2, 3], "_count": [many] * 3})
    live.apply({"R": table, "T": pa.table({"k": [3, 4], "x": [3, 4], "_count": [many] * 2})})
    ranked = Ranked(live, "q")
    assert ranked.count == 5 * many
    in_order = [row for batch in live.enum("q") for row in batch.to_pylist()]
    ends, end = [], 0
    for row in in_order:
        end += row.pop("_count")
        ends.append(end)
    asked = [place for e in ends for place in (e, e + 1)][:-1]
    expected = [in_order[sum(e < j for e in ends)] for j in asked]
    assert [row for batch in ranked.jth(asked) for row in batch.to_pylist()] == expected
    assert [ranked.rank(row) for row in in_order] == [1, *(e + 1 for e in ends[:-1])]
