"""Queries that are kept in several steps: what trees pass on to relations is what came and went in their results.

Programs are made by hand and at random; what they give is compared with DuckDB after every batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import delta_routing, derived_relations
from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.delta import Delta
from dynq_cli.engine.views import Views
from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.plan.program import Program
from dynq_cli.query.normal_form import Comparison
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import Spec
from tests.engine.programs import Steps, feed_of, stepped
from tests.engine.random_queries import Case, random_case
from tests.engine.random_runs import as_table, described, enumerated, failure, minimise
from tests.engine.test_difference import check_differences, histories, opened
from tests.every_case import every_case
from tests.seeds import seeds

SPEC = parse_spec(
    """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
queries: {q: {sql: "SELECT x FROM R"}}
""",
    "spec.yaml",
)


def stepped_case(seed: int, queries: int = 4) -> Case:
    case, chance = random_case(seed, queries), Random(seed)
    return replace(case, queries=tuple(stepped(q, case.spec, chance) for q in case.queries))


@pytest.mark.parametrize("seed", seeds(8))
def test_results_in_steps_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = stepped_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(4, first=100))
def test_what_is_passed_on_does_not_depend_on_its_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_relations, "Delta", partial(Delta, block=1 + seed % 3, wide=1 + seed % 4))
    case = stepped_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("seed", seeds(4))
def test_differences_between_versions_go_through_all_steps(seed: int) -> None:
    check_differences(stepped_case(seed), Random(seed))


@pytest.mark.parametrize("seed", seeds(3))
def test_a_restored_engine_goes_on_as_the_one_that_was_kept(seed: int) -> None:
    case, chance = stepped_case(seed), Random(seed)
    steps = histories(case)
    at = chance.randint(0, len(steps))
    kept = opened(case, steps[:at])
    parts = parts_of(kept)
    arrays = {name: np.zeros(part.shape, part.dtype) for name, part in parts.items()}
    for name, part in parts.items():
        part.fill(arrays[name])
    live = Views(kept.spec, kept.queries, arrays)
    live._check()
    for changes in steps[at:]:
        for each in (kept, live):
            _take(each, case.spec, changes)
    live._check()
    for q in case.queries:
        assert enumerated(kept, q) == enumerated(live, q), "rows and their order"


def _take(live: Views, spec: Spec, changes: Sequence[Any]) -> None:
    live.apply({r.name: as_table(r, changes) for r in spec.relations if any(c.relation == r.name for c in changes)})


# --- programs by hand -------------------------------------------------------------------------------------------------


def projected(budget: int | None = None) -> Program:
    """SELECT R.x, S.z FROM R, S WHERE R.y = S.y: no tree has these rows without y between them."""
    steps = Steps(SPEC)
    steps.derived("q/2", steps.tree("q/1", "SELECT R.x, S.z, R.y FROM R, S WHERE R.y = S.y"), budget=budget)
    steps.tree("q", 'SELECT x, z FROM "q/2"')
    return steps.program()


def without() -> Program:
    """SELECT * FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.y = R.y): all, less what is matched."""
    steps = Steps(SPEC)
    rows = steps.tree("q/1", "SELECT x, y FROM R")
    ys = steps.tree("q/2", "SELECT DISTINCT y FROM S")
    steps.derived("q/3", ys)
    matched = steps.tree("q/4", 'SELECT R.x, R.y FROM R, "q/3" AS m WHERE R.y = m.y')
    steps.derived("q/5", rows, replace(feed_of(matched), sign=-1))
    steps.tree("q", 'SELECT x, y FROM "q/5"')
    return steps.program()


def compared() -> Program:
    """SELECT R.x, S.z FROM R, S WHERE R.x < S.z + 1 AND R.y <> S.y: a product, of which a feed lets some rows pass."""
    steps = Steps(SPEC)
    pairs = steps.tree("q/1", "SELECT R.x AS a, S.z AS b, R.y AS c, S.y AS d FROM R, S")
    a, b, c, d = (column.source for column in pairs.plan.query.columns)
    where = (Comparison(a, "<", b, Decimal(1)), Comparison(c, "!=", d))
    steps.derived("q/2", pairs, where=where)
    steps.tree("q", 'SELECT a, b FROM "q/2"')
    return steps.program()


def filtered() -> Program:
    """Two members, and what is computed from their rows and filtered by them."""
    steps = Steps(SPEC)
    first, second = steps.tree("q/1", "SELECT x, y FROM R"), steps.tree("q/2", "SELECT y AS x, z AS y FROM S")
    steps.derived("q/3", first, feed_of(second))
    steps.tree("q", 'SELECT a.x + 1 AS u, b.y FROM "q/3" AS a, "q/3" AS b WHERE a.x = b.y AND a.y > 1 AND b.x % 2 = 0')
    return steps.program()


PROGRAMS = {
    "projected": (projected, "SELECT R.x, S.z FROM R, S WHERE R.y = S.y"),
    "without": (without, "SELECT * FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.y = R.y)"),
    "compared": (compared, "SELECT R.x, S.z FROM R, S WHERE R.x < S.z + 1 AND R.y <> S.y"),
    "filtered": (
        filtered,
        "WITH d AS (SELECT x, y FROM R UNION ALL SELECT y, z FROM S) "
        "SELECT a.x + 1, b.y FROM d AS a, d AS b WHERE a.x = b.y AND a.y > 1 AND b.x % 2 = 0",
    ),
}


def bag(live: Views) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in live.enum("q"):
        for *row, copies in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[tuple(row)] += copies
    return found


def oracle(stored: Mapping[str, list[tuple[int, int]]], sql: str) -> Counter[tuple[Any, ...]]:
    connection = duckdb.connect(":memory:")
    for name, columns in (("R", ("x", "y")), ("S", ("y", "z"))):
        pairs = stored[name]
        table = pa.table({c: pa.array([row[i] for row in pairs], pa.int64()) for i, c in enumerate(columns)})
        connection.register(name, table)
    return Counter(connection.execute(sql).fetchall())


@every_case("name", PROGRAMS)
@every_case("skew", [0.3, 2.0])
def test_programs_by_hand_give_what_duckdb_gives(name: str, skew: float) -> None:
    make, sql = PROGRAMS[name]
    live, chance = Views(SPEC, {"q": make()}), Random(7)
    stored: dict[str, list[tuple[int, int]]] = {"R": [], "S": []}
    for _ in range(25):
        tables = {}
        for relation, columns in (("R", ("x", "y")), ("S", ("y", "z"))):
            kinds, rows = [], []
            for _ in range(chance.choice([0, 1, 4, 12])):
                there = stored[relation]
                if there and chance.random() < 0.45:
                    rows.append(there.pop(chance.randrange(len(there))))
                    kinds.append("delete")
                else:
                    rows.append((min(int(chance.expovariate(skew)), 9), min(int(chance.expovariate(skew)), 9)))
                    there.append(rows[-1])
                    kinds.append("insert")
            values = {c: pa.array([row[i] for row in rows], pa.int64()) for i, c in enumerate(columns)}
            tables[relation] = pa.table({**values, "_change_type": pa.array(kinds, pa.string())})
        live.apply(tables)
        live._check()
        assert bag(live) == oracle(stored, sql)


def test_commits_of_a_relation_that_feeds_others_are_each_seen_by_itself() -> None:
    live, one_by_one = (Views(SPEC, {"q": without()}) for _ in range(2))
    chance = Random(3)
    for each in (live, one_by_one):
        each.apply({"R": pa.table({"x": [1, 2, 3], "y": [1, 2, 2]})})
    kinds, ys = [], []
    there: Counter[int] = Counter()
    for _ in range(40):
        y = chance.randint(0, 3)
        kinds.append("delete" if there[y] and chance.random() < 0.6 else "insert")
        there[y] += 1 if kinds[-1] == "insert" else -1
        ys.append(y)
    table = pa.table({"y": ys, "z": [0] * 40, "_change_type": kinds})
    live.apply_commits("S", table, range(1, 41))
    for i in range(40):
        one_by_one.apply({"S": table.slice(i, 1)})
    live._check()
    assert list(live.enum("q")) == list(one_by_one.enum("q"))
    gone = pa.table({"y": [1, 9, 1], "z": [0, 0, 0], "_change_type": ["insert", "delete", "insert"]})
    with pytest.raises(RejectedError, match="S: row 2"):
        live.apply_commits("S", gone, [1, 2, 3])
    live._check()
    assert live.engine.count("q/2")[0] == len(+(there + Counter([1])))


def test_inner_steps_are_nobody_elses_business() -> None:
    live = Views(SPEC, {"q": projected()})
    assert list(live.queries) == ["q"]
    with pytest.raises(UsageError, match=r"there is R, S$"):
        live.apply({"q/2": pa.table({"x": [1], "z": [1], "y": [1]})})
    with pytest.raises(UsageError, match=r"there is q$"):
        live.count("q/1")


# --- what may not be --------------------------------------------------------------------------------------------------


def dense(n: int) -> dict[str, pa.Table]:
    """n × n result rows."""
    return {"R": pa.table({"x": range(n), "y": [1] * n}), "S": pa.table({"y": [1] * n, "z": range(n)})}


def test_a_view_past_its_budget_is_refused_with_its_size() -> None:
    live = Views(SPEC, {"q": projected(budget=100)})
    live.apply(dense(10))
    live.apply({"R": pa.table({"x": [0], "y": [1], "_change_type": ["delete"]})})
    live.apply({"R": pa.table({"x": [77], "y": [1]})})
    live._check()
    with pytest.raises(
        RejectedError, match=r"query q: its view q/2 would take 110 rows and may have 100\n.*max_view_rows"
    ):
        live.apply({"R": pa.table({"x": [78], "y": [1]})})
    with pytest.raises(DynqError, match="110 rows"):
        live.count("q")


def test_unless_said_a_view_may_have_many_times_the_base_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_relations, "LEAST_BUDGET", 50)
    live = Views(SPEC, {"q": projected()})
    live.apply(dense(40))
    live._check()
    # Fewer base rows than before: what is there already may stay, and become less.
    live.apply({"S": pa.table({"y": [5] * 3, "z": [1, 2, 3]})})
    gone = pa.table({"y": [1] * 39, "z": range(39), "_change_type": ["delete"] * 39})
    live.apply({"S": gone})
    live._check()
    with pytest.raises(RejectedError, match="would take 2500 rows and may have 2000"):
        Views(SPEC, {"q": projected()}).apply(dense(50))


def test_what_one_commit_brings_is_bounded_before_it_is_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_routing, "FEW", 64)
    with pytest.raises(RejectedError, match="may have 100"):
        Views(SPEC, {"q": projected(budget=100)}).apply(dense(300))


def test_rows_that_come_and_go_on_the_way_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_routing, "FEW", 16)
    steps = Steps(SPEC)
    tree = steps.tree("q/1", "SELECT R.x, S.z FROM R, S WHERE R.y = S.y AND R.y = 1")
    steps.derived("q/2", tree, replace(feed_of(tree), sign=-1), budget=1)
    steps.tree("q", 'SELECT x, z FROM "q/2"')
    live = Views(SPEC, {"q": steps.program()})
    live.apply(dense(2))
    live._check()
    assert live.count("q") == (0, 0)


def test_more_copies_than_a_number_holds_are_refused() -> None:
    for first, second in ((2**40, 2**40), (2**31, 2**31)):
        live = Views(SPEC, {"q": projected()})
        live.apply({"R": pa.table({"x": [1], "y": [1], "_count": [first]})})
        table = pa.table({"y": [1, 1], "z": [1, 1], "_count": [second, second]})
        with pytest.raises(RejectedError, match="more than 2\\^63 - 1 copies\n  hint: use `semantics: set`"):
            live.apply({"S": table})


def test_expressions_without_a_value_are_refused_in_words() -> None:
    steps = Steps(SPEC)
    steps.derived("q/2", steps.tree("q/1", "SELECT x, y FROM R"))
    steps.tree("q", 'SELECT a.x * a.y AS p FROM "q/2" AS a')
    live = Views(SPEC, {"q": steps.program()})
    with pytest.raises(RejectedError, match=r"query q: its view q/2 cannot be kept: .*verflow"):
        live.apply({"R": pa.table({"x": [2**40], "y": [2**40]})})
