"""The delta that is read within a commit is the difference of the results that DuckDB finds before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from dynq_cli.engine.tree_delta import Signed
from dynq_cli.engine.versions import diff_schema, told_rows
from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_aggregates import random_aggregates, random_registered, random_sums
from tests.engine.random_outer_joins import outer_join_case
from tests.engine.random_queries import Case, random_case
from tests.engine.random_ranges import range_case, wide_case
from tests.engine.random_runs import Rows, Stored, enumerated, make_live, plain
from tests.engine.random_runs import apply as apply_to
from tests.engine.random_together import together_case
from tests.seeds import seeds

CASES: dict[str, Callable[[int], Case]] = {
    "trees": lambda seed: random_case(seed, 6, ordered=False),
    "ordered": lambda seed: random_case(seed, 6, ordered=True),
    "ranges": lambda seed: range_case(seed, 3, 5),
    "wide ranges": lambda seed: wide_case(seed, 2, 3),
    "unions": lambda seed: together_case(seed, "union", 3, 5),
    "inequalities": lambda seed: together_case(seed, "unequal", 3, 5),
    "outer joins": lambda seed: outer_join_case(seed),
    "groups": lambda seed: random_aggregates(seed, 3, 4),
    "kinds of aggregates": lambda seed: random_registered(seed, 3, 4),
    "sums below joins": lambda seed: random_sums(seed, 3, 4),
}


def told(live: Views, query: str, delta: Signed | None, block: int) -> Rows:
    assert delta is not None
    found: Rows = Counter()
    for batch in told_rows(live, query, delta, block):
        assert batch.schema == diff_schema(live, query)
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row.pop("_change_type")]
            many = row.pop("_count", 1)
            assert many > 0
            found[tuple(map(plain, row.values()))] += sign * many
    return found


def waits(live: Views, query: str) -> bool:
    trees = live.layout.result_of(query)
    return any((live.layout.nodes["waits"][tree.first : tree.stop] >= 0).any() for tree in trees)


def net(after: Rows, before: Rows) -> dict[object, int]:
    found: Rows = Counter(after)
    found.subtract(before)
    return {row: many for row, many in found.items() if many}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", seeds(2))
def test_what_a_commit_tells_is_what_it_changes(seed: int, name: str) -> None:
    check(CASES[name](seed), Random(seed))


def check(case: Case, chance: Random) -> None:
    """Commits after which some deltas are taken, and some are added up over two of them."""
    live, stored = make_live(case), Stored(case.spec)
    queries = {q.name: q for q in case.queries}
    live.tell(list(queries))
    last: dict[str, Rows] = {name: Counter(dict(enumerated(live, query))) for name, query in queries.items()}
    for batch in case.history:
        changes = stored.applicable(batch.changes)
        apply_to(live, case, batch, changes)
        if chance.random() < 0.2:
            continue
        live._check()
        deltas = live.take_deltas()
        stored.load([r.name for r in case.spec.relations])
        for name, query in queries.items():
            now = Counter(dict(enumerated(live, query)))
            assert now == stored.result(query), query.text
            if waits(live, name):
                assert deltas[name] is None, "its difference is found by going back"
                continue
            found = told(live, name, deltas[name], chance.choice([1, 3, 1000]))
            assert {row: many for row, many in found.items() if many} == net(now, last[name]), query.text
        last = {name: Counter(dict(enumerated(live, query))) for name, query in queries.items()}


SPEC = """\
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {b: int64, c: int64}}
queries:
  plain: {rule: "plain(a, b, c) :- R(a, b), S(b, c)"}
  ordered: {rule: "ordered(a, b, c) :- R(a, b), S(b, c)", order_by: [b, c desc, a]}
  near: {rule: "near(a, b, c) :- R(a, b), S(b, c), a < c"}
"""


@pytest.mark.parametrize("seed", seeds(5))
def test_the_order_of_rows_does_not_depend_on_who_reads_deltas(seed: int) -> None:
    chance, planned = Random(seed), plan_spec(SPEC)
    told_, silent = Views(planned.spec, planned.kept), Views(planned.spec, planned.kept)
    told_.tell(list(planned.kept))
    there: dict[str, list[tuple[int, int]]] = {"R": [], "S": []}
    for _ in range(25):
        tables = {}
        for name, columns in (("R", ("a", "b")), ("S", ("b", "c"))):
            rows, kinds = [], []
            for _ in range(chance.randint(1, 4)):
                if there[name] and chance.random() < 0.4:
                    rows.append(there[name].pop(chance.randrange(len(there[name]))))
                    kinds.append("delete")
                else:
                    rows.append((chance.randrange(4), chance.randrange(4)))
                    there[name].append(rows[-1])
                    kinds.append("insert")
            columns_ = {column: [row[i] for row in rows] for i, column in enumerate(columns)}
            tables[name] = pa.table({"_change_type": kinds, **columns_})
        for live in (told_, silent):
            live.apply(tables)
        told_.take_deltas()
    for query in planned.kept:
        first, second = ([row for batch in live.enum(query) for row in batch.to_pylist()] for live in (told_, silent))
        assert first == second
    assert (told_.engine.arena.tables == silent.engine.arena.tables).all()


def noted(live: Views) -> int:
    """The changes of rows and lists that the last commit noted in all journals."""
    lists, places = live.engine.arena.lists, live.engine.arena.nodes["watch"]
    return int(sum(lists[place] for place in places[places >= 0]))


@pytest.mark.parametrize("order", ["", ", order_by: [b, a, c]"])
def test_a_delta_of_one_row_takes_the_same_steps_whatever_the_size(order: str) -> None:
    """As many changes noted, and no more of the arena looked at than a few rows: by the marks that were made."""
    planned = plan_spec(SPEC.replace('S(b, c)"}', f'S(b, c)"{order}}}'))
    steps = []
    for many in (500, 50_000):
        live = Views(planned.spec, {"plain": planned.kept["plain"]})
        numbers = pa.array(range(many))
        live.apply({"R": pa.table({"a": numbers, "b": numbers}), "S": pa.table({"b": numbers, "c": numbers})})
        live.tell(["plain"])
        live.apply({"S": pa.table({"b": [7], "c": [-1]})})
        delta = live.take_deltas()["plain"]
        assert told(live, "plain", delta, 10) == {(7, 7, -1): 1}
        steps.append(noted(live))
    assert steps[0] == steps[1] <= 12
