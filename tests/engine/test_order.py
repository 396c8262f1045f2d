"""Results in the order of their spec: as DuckDB's ORDER BY has it, and positions, pages and places agree with it.

Blocks are small in half of the runs, so that counted trees split and join. `make fuzz` runs eighty times as many.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from datetime import time
from functools import cmp_to_key, partial
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.engine import layout
from dynq_cli.engine.order_statistic_tree import Sizes
from dynq_cli.engine.ranked import Ranked
from dynq_cli.engine.versions import went_back
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.explain import explain_json
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_history import Row, value_of
from tests.engine.random_queries import Drawn, random_case
from tests.engine.random_runs import Rows, Stored, apply, described, enumerated, failure, make_live, minimise, plain
from tests.engine.test_difference import amount, changed, histories, made, opened, result
from tests.engine.test_positions import as_values, compare, rows_of
from tests.every_case import every_case
from tests.seeds import seeds

SMALL = Sizes((2, 4, 6, 8), (4, 6, 8))
MOST = 600
# Found by longer runs: steps that complete an order in another way than one tree would; places by values that a
# column's own type has and the type it is joined as has not.
FOUND_BY_PLACES = (20, 23, 41, 65, 67)
FOUND_BY_MARKS = (352, 439, 452, 582)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCKS", SMALL)


@pytest.mark.parametrize("seed", seeds(4))
def test_results_are_in_the_order_of_duckdb_after_every_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case = random_case(seed + 300, 8, ordered=True)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def compared(query: Drawn) -> Any:
    """A key to sort rows by: NULL first, NaN last, descending columns the other way round."""

    def value(each: Any) -> Any:
        if each is None:
            return (0,)
        if isinstance(each, str) and each == "NaN":
            return (2,)
        return (1, each)

    def less(a: Row, b: Row) -> int:
        for i, descending, nulls_first in query.order:
            x, y = value(a[i]), value(b[i])
            if x != y and (0,) in (x, y):
                return -1 if (x == (0,)) == nulls_first else 1
            if x != y:
                return 1 if (x < y) == descending else -1
        return 0

    return cmp_to_key(less)


def check_places(live: Views, query: Drawn, chance: Random) -> None:
    """Pages beside rows, most of which are not there, against the sorted rows."""
    key = compared(query)
    expanded = [row for row, copies in enumerated(live, query) for _ in range(copies)]
    assert expanded == sorted(expanded, key=key)
    ranked, columns = Ranked(live, query.name), query.plan.query.columns
    if any(c.kind != "variable" for c in columns) or len({c.source for c in columns}) < len(columns):
        return
    for _ in range(12):
        row = tuple(plain(value_of(chance, c)) for c in columns)
        if expanded and chance.random() < 0.7:
            near = chance.choice(expanded)
            row = tuple(x if chance.random() < 0.7 else y for x, y in zip(near, row, strict=True))
        values, limit = as_values(query, row), chance.randint(0, 6)
        end = bisect_right(expanded, key(row), key=key)
        assert rows_of(ranked.after(values, limit)) == expanded[end : end + limit], row
        assert rows_of(ranked.before(values, limit)) == expanded[max(end - limit, 0) : end], row
        start = bisect_left(expanded, key(row), key=key)
        if start < end:
            assert ranked.rank(values) == start + 1
        else:
            with pytest.raises(RejectedError):
                ranked.rank(values)
        given = query.order[: chance.randint(1, len(query.order))]
        some = {columns[i].name: values[columns[i].name] for i, *_ in given}
        first = [i for i, *_ in given]
        end = sum(key_of_some(query, r, first) <= key_of_some(query, row, first) for r in expanded)
        assert rows_of(ranked.after(some, limit)) == expanded[end : end + limit], some


def key_of_some(query: Drawn, row: Row, columns: list[int]) -> Any:
    """The key of a row by some columns: the others are made equal."""
    return compared(query)(tuple(value if i in columns else None for i, value in enumerate(row)))


@pytest.mark.parametrize("seed", seeds(5, *FOUND_BY_PLACES))
def test_positions_and_places_are_those_of_the_sorted_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case, chance = random_case(seed + 9000, 8, 5, ordered=True), Random(seed)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
        for query in case.queries:
            if query.plan.order and live.count(query.name)[0] <= MOST:
                compare(live, query, chance)
                check_places(live, query, chance)


@pytest.mark.parametrize("seed", seeds(30, *FOUND_BY_MARKS))
def test_histories_with_marks_are_consistent(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any mark, the result there and the change since are the result; it and its positions are in order."""
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case, chance = random_case(seed + 20000, 2, 5, ordered=True), Random(seed)
    steps = histories(case)
    live, nets = made(case, steps)
    marks = {chance.randrange(len(steps)) for _ in range(2)}
    for query in case.queries:
        if live.count(query.name)[0] > MOST:
            continue
        if query.plan.order:
            compare(live, query, chance)
            check_places(live, query, chance)
        now = result(live, query)
        for mark in marks:
            old = went_back(partial(opened, case, steps), amount(nets[mark:]), query.name)
            old._check()
            if old.count(query.name)[0] > MOST:
                continue
            before = enumerated(old, query)
            assert not query.plan.order or before == sorted(before, key=lambda row: compared(query)(row[0]))
            expected: Rows = Counter(now)
            expected.subtract(dict(before))
            wanted = {row: many for row, many in expected.items() if many}
            assert dict(changed(old, live, query, chance.choice([1, 3, 1000]))) == wanted, query.text


def live_of(text: str) -> Views:
    planned = plan_spec(text)
    return Views(planned.spec, planned.kept)


def explain_spec_text(text: str, query: str) -> dict[str, Any]:
    spec = parse_spec(text, "spec.yaml")
    return explain_json(plan_query(compile_spec(spec)[query], spec), spec)


CHAIN = """\
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: string}}
queries:
  q: {sql: "SELECT R.x, R.y, S.z FROM R, S WHERE R.y = S.y", order_by: [x desc, y, z desc]}
"""


def test_a_change_that_touches_more_rows_than_there_is_room_for_finds_room(small_blocks: None) -> None:
    """A row of S comes into, and leaves, the results of all rows of R that read it."""
    live, many = live_of(CHAIN), 5000
    live.apply({"R": pa.table({"x": list(range(many)), "y": [i % 3 for i in range(many)]})})
    words = ["b", "a", "c", "aa"]
    for n in (1, 4):
        live.apply({"S": pa.table({"y": [y for y in range(3) for _ in range(n)], "z": words[:n] * 3})})
        live._check()
        assert live.count("q")[0] == many * n
        x = [row["x"] for batch in live.enum("q") for row in batch.to_pylist()]
        assert x == sorted(range(many), reverse=True) if n == 1 else x[: 2 * n] == [many - 1] * n + [many - 2] * n
        gone = {"_change_type": ["delete"] * 3 * n, "y": [y for y in range(3) for _ in range(n)], "z": words[:n] * 3}
        live.apply({"S": pa.table(gone)})
        live._check()
        assert live.count("q") == (0, 0)
        assert list(live.enum("q")) == []


def test_many_commits_in_one_call_find_room_on_the_way(small_blocks: None) -> None:
    live, other, many = live_of(CHAIN), live_of(CHAIN), 3000
    rows = pa.table({"x": list(range(many)), "y": [i % 2 for i in range(many)]})
    came = pa.table({"_change_type": ["insert", "delete"] * 4, "y": [0, 0, 1, 1] * 2, "z": ["a"] * 8})
    last = pa.table({"_change_type": ["insert"] * 2, "y": [0, 1], "z": ["b", "a"]})
    log = pa.concat_tables([came, last])
    for each in (live, other):
        each.apply({"R": rows})
    live.apply_commits("S", log, list(range(1, len(log) + 1)))
    for i in range(len(log)):
        other.apply({"S": log.slice(i, 1)})
    live._check()
    assert [b.to_pylist() for b in live.enum("q")] == [b.to_pylist() for b in other.enum("q")]
    assert live.count("q") == (many, many)


TYPES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int8": [3, -128, 127, 0],
    "int64": [5, -(2**62), 2**62, 0, -1],
    "float32": [0.5, float("nan"), float("-inf"), -2.0, float("inf")],
    "float64": [0.1, float("nan"), float("-inf"), -2.0, float("inf"), 1e300],
    "decimal(9,2)": ["1.50", "-3.25", "0.00"],
    "decimal(30,3)": ["99999999999999999999.125", "-99999999999999999999.125", "0.001", "7.000"],
    "string": ["b", "a", "", "ab", "B", "ü", "z", "€", "𝄞"],
    "binary": [b"\xff", b"", b"a", b"\x00", b"\x00\x00", b"ab"],
    "date": ["2020-02-29", "1969-12-31", "9999-12-31"],
    "time": [time(12, 30), time(0), time(23, 59, 59, 999999)],
    "timestamp": ["2020-02-29 12:00:00", "1969-12-31 23:59:59.999999"],
}


@every_case("direction", ["asc", "desc"])
@every_case("kind", TYPES)
def test_every_type_has_the_order_of_duckdb(kind: str, direction: str) -> None:
    import duckdb

    from dynq_cli.spec.types import parse_type
    from dynq_cli.values.convert import arrow_type

    text = f"version: 1\nrelations: {{R: {{columns: {{v: '{kind}?'}}}}}}\n"
    live = live_of(text + f"queries: {{q: {{sql: SELECT v FROM R, order_by: [v {direction}]}}}}\n")
    arrow = arrow_type(parse_type(kind)[0])
    values = pa.array([*TYPES[kind], None])
    if pa.types.is_string(values.type) and kind != "string":
        values = values.cast(arrow)
    rows = pa.table({"v": values.cast(arrow)})
    half = len(rows) // 2
    for part in (rows.slice(half), rows.slice(0, half)):
        live.apply({"R": part})
    nulls = "FIRST" if direction == "asc" else "LAST"
    wanted = duckdb.from_arrow(rows).order(f"v {direction} NULLS {nulls}").fetchall()
    found = [(row["v"],) for batch in live.enum("q") for row in batch.to_pylist()]
    assert list(map(repr, found)) == list(map(repr, wanted))


def test_pages_beside_strings_that_nobody_has(small_blocks: None) -> None:
    live = live_of(CHAIN.replace("[x desc, y, z desc]", "[z, y, x]"))
    words = ["d", "b", "f", "h"]
    live.apply({"S": pa.table({"y": [1] * 4, "z": words}), "R": pa.table({"x": [1, 2], "y": [1, 1]})})
    ranked = Ranked(live, "q")

    def after(**row: Any) -> list[Row]:
        return [(r[2], r[0]) for r in rows_of(ranked.after(row, 3))]

    assert after(z="a") == [("b", 1), ("b", 2), ("d", 1)]
    assert after(z="b") == [("d", 1), ("d", 2), ("f", 1)]
    assert after(z="c") == after(z="b") == after(z="bb", y=7) == after(z="b", y=5)
    assert after(z="h") == after(z="z") == []
    assert after(z="b", y=1, x=1) == [("b", 2), ("d", 1), ("d", 2)]
    assert after(z="b", y=0, x=9) == after(z="b", y=1, x=0) == [("b", 1), ("b", 2), ("d", 1)]
    for wrong in ({"x": 1}, {"x": 1, "y": 1}, {"z": "a", "x": 1}, {}, {"z": "a", "w": 1}):
        with pytest.raises(UsageError):
            ranked.after(wrong, 3)


PARTLY = """\
version: 1
relations:
  R: {columns: {a: int64, b: int64, k: int64}}
  S: {columns: {k: int64, c: int64, d: int64}}
  T: {columns: {d: int64, a: int64}}
queries:
  q: {sql: "SELECT R.b, S.c, T.d, R.a FROM R, S, T WHERE R.k = S.k AND S.d = T.d AND T.a = R.a", order_by: [c desc]}
  u: {sql: "SELECT a, b FROM R UNION SELECT d, c FROM S", order_by: [b]}
"""


@pytest.mark.parametrize("query", ["q", "u"])
def test_explain_shows_how_the_steps_complete_an_order(query: str) -> None:
    shown = explain_spec_text(PARTLY, query)["order"]
    live, chance = live_of(PARTLY), Random(7)
    for name, columns in (("R", "abk"), ("S", "kcd"), ("T", "da")):
        live.apply({name: pa.table({c: [chance.randrange(3) for _ in range(40)] for c in columns})})
    rows = [row for batch in live.enum(query) for row in batch.to_pylist()]
    assert len(shown) == len(rows[0]) - (query == "q") and len(rows) > 5

    def place(row: dict[str, Any]) -> list[int]:
        return [-row[o.removesuffix(" desc")] if o.endswith(" desc") else row[o] for o in shown]

    assert rows == sorted(rows, key=place)
    first = dict(list({o.removesuffix(" desc"): 1 for o in shown}.items())[:2])
    after = [row for batch in Ranked(live, query).after(first, len(rows)) for row in batch.to_pylist()]
    assert 0 < len(after) < live.count(query)[0]


def test_ranks_of_a_bag_count_copies_and_those_of_a_set_rows() -> None:
    text = """\
version: 1
relations: {R: {columns: {x: int64}}}
queries:
  bag: {sql: SELECT x FROM R, order_by: [x]}
  set: {sql: SELECT DISTINCT x FROM R, order_by: [x]}
"""
    live = live_of(text)
    live.apply({"R": pa.table({"x": [3, 1, 2], "_count": [2, 3, 1]})})
    bag, rows = Ranked(live, "bag"), Ranked(live, "set")
    assert [bag.rank({"x": x}) for x in (1, 2, 3)] == [1, 4, 5]
    assert [rows.rank({"x": x}) for x in (1, 2, 3)] == [1, 2, 3]
    assert Counter(rows_of(bag.sample(6, 1))) == {(1,): 3, (2,): 1, (3,): 2}
    live.apply({"R": pa.table({"x": [1], "_count": [2], "_change_type": ["delete"]})})
    live._check()
    assert [Ranked(live, "bag").rank({"x": x}) for x in (1, 2, 3)] == [1, 2, 3]
