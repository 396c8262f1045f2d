"""The change between any two versions leads from the old result to the new one, and reading the old one is reading it.

For random queries over random histories: of two versions the later one is made twice, one of them goes back, and
what is found between them is compared with what DuckDB found at both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.net_delta import joined, look_around, plain_net_delta
from dynq_cli.engine.versions import diff, diff_schema, went_back
from dynq_cli.engine.views import Views
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_history import Change
from tests.engine.random_queries import Case, Drawn, random_case
from tests.engine.random_runs import Rows, Stored, as_table, enumerated, make_live, plain
from tests.seeds import seeds

SEEDS = seeds(10)


def histories(case: Case) -> list[list[Change]]:
    stored = Stored(case.spec)
    return [stored.applicable(batch.changes) for batch in case.history]


def made(case: Case, steps: list[list[Change]]) -> tuple[Views, list[dict[str, NetDelta]]]:
    """An engine after some steps, and what each of them amounts to."""
    live, nets = make_live(case), []
    for changes in steps:
        tables = {
            r.name: as_table(r, changes) for r in case.spec.relations if any(c.relation == r.name for c in changes)
        }
        batch = live.changes(tables)
        around = look_around(live, batch)
        live.take(batch)
        nets.append({name: around[name].net() if name in around else plain_net_delta(c) for name, c in batch.items()})
    return live, nets


def opened(case: Case, steps: list[list[Change]]) -> Views:
    return made(case, steps)[0]


def amount(nets: list[dict[str, NetDelta]]) -> dict[str, NetDelta]:
    names = dict.fromkeys(name for each in nets for name in each)
    return {name: joined([each[name] for each in nets if name in each]) for name in names}


def result(live: Views, query: Drawn) -> Rows:
    return Counter(dict(enumerated(live, query)))


def changed(old: Views, new: Views, query: Drawn, block: int) -> Rows:
    found: Rows = Counter()
    for batch in diff(old, new, query.name, block):
        assert batch.schema == diff_schema(new, query.name)
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row.pop("_change_type")]
            many = row.pop("_count", 1)
            assert many > 0
            key = tuple(map(plain, row.values()))
            assert key not in found, "a row is reported once"
            found[key] = sign * many
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_old_result_and_the_difference_are_the_new_result(seed: int) -> None:
    check_differences(random_case(seed, 8, ordered=seed % 2 == 1), Random(seed))


def check_differences(case: Case, chance: Random, *, every_batch: bool = False) -> None:
    """Between some versions of a case, there and back; of every batch if asked to."""
    steps = histories(case)
    some = [chance.randint(1, len(steps)) for _ in range(3)]
    pairs = [(chance.randint(0, later), later) for later in some]
    if every_batch:
        pairs += [(later - 1, later) for later in range(1, len(steps) + 1)]
    for earlier, later in pairs:
        new, nets = made(case, steps[:later])
        before, _ = made(case, steps[:earlier])
        for query in case.queries:
            if max(new.count(query.name)[1], before.count(query.name)[1]) > 3000:
                continue
            again = partial(opened, case, steps[:later])
            old = went_back(again, amount(nets[earlier:]), query.name)
            old._check()
            assert old.count(query.name) == before.count(query.name)
            assert result(old, query) == result(before, query)
            expected: Rows = Counter(result(new, query))
            expected.subtract(result(before, query))
            wanted = {row: many for row, many in expected.items() if many}
            assert dict(changed(old, new, query, chance.choice([1, 3, 1000]))) == wanted, query.text


def between(text: str, first: dict[str, pa.Table], second: dict[str, pa.Table]) -> list[dict[str, object]]:
    """The difference that a commit makes after another."""
    planned = plan_spec(text)

    def made_by(batches: list[dict[str, pa.Table]]) -> tuple[Views, dict[str, NetDelta]]:
        live, nets = Views(planned.spec, planned.kept), {}
        for tables in batches:
            batch = live.changes(tables)
            around = look_around(live, batch)
            live.take(batch)
            nets = {
                name: around[name].net() if name in around else joined([plain_net_delta(c)])
                for name, c in batch.items()
            }
        return live, nets

    new, nets = made_by([first, second])
    old = went_back(lambda: made_by([first, second])[0], nets, "q")
    return [row for batch in diff(old, new, "q") for row in batch.to_pylist()]


KEYED = """\
version: 1
relations:
  R: {columns: {k: int64, x: int64, note: string}, key: [k]}
  S: {columns: {x: int64}}
queries: {q: {sql: "SELECT k, R.x FROM R, S WHERE R.x = S.x"}}
"""


def test_an_update_of_a_column_that_no_query_uses_changes_nothing() -> None:
    first = {"R": pa.table({"k": [1, 2], "x": [7, 7], "note": ["a", "b"]}), "S": pa.table({"x": [7]})}
    update = pa.table({"_change_type": ["update_postimage"], "k": [1], "x": [7], "note": ["c"]})
    assert between(KEYED, first, {"R": update}) == []
    # The same with a change on the other side: one copy more of each row.
    both = between(KEYED, first, {"R": update, "S": pa.table({"x": [7]})})
    assert sorted(both, key=repr) == [
        {"k": 1, "x": 7, "_change_type": "insert", "_count": 1},
        {"k": 2, "x": 7, "_change_type": "insert", "_count": 1},
    ]


# Keppeler's thesis: the database of Example 4.4, and its updates in Example 4.16.
THESIS = """\
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
  F: {columns: {y: int64, x2: int64, x3: int64}}
  G: {columns: {y: int64, x2: int64, x3: int64}}
queries:
  q: {rule: "q(y, x1, x2, x3) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)"}
"""


@pytest.mark.parametrize("order", ["", ", order_by: [y, x1, x2, x3]", ", order_by: [y desc, x2, x3 desc, x1]"])
def test_thesis_example_4_16_the_difference_is_that_of_the_paper(order: str) -> None:
    e = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
    f = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]

    def table(rows: Sequence[tuple[int, ...]], names: str, kinds: list[str]) -> pa.Table:
        columns = {name: [row[i] for row in rows] for i, name in enumerate(names.split())}
        return pa.table({"_change_type": kinds, **columns})

    first = {"E": table(e, "y x1", ["insert"] * 7)}
    first |= {name: table(f, "y x2 x3", ["insert"] * 9) for name in "FG"}
    second = {
        "E": table([(3, 4)], "y x1", ["insert"]),
        "F": table([(2, 2, 4), (3, 1, 2)], "y x2 x3", ["delete", "insert"]),
        "G": table([(3, 1, 2)], "y x2 x3", ["insert"]),
    }
    found = between(THESIS.replace('"}', f'"{order}}}'), first, second)
    rows = {
        kind: sorted(tuple(r.values())[:4] for r in found if r["_change_type"] == kind) for kind in ("insert", "delete")
    }
    assert rows["insert"] == [(3, 2, 1, 2), (3, 4, 1, 1), (3, 4, 1, 2)], "y = 3, and x1 = 4 or x2 x3 = 1 2, none twice"
    assert rows["delete"] == [(2, 4, 2, 4), (2, 8, 2, 4), (2, 9, 2, 4)], "y = x2 = 2 and x3 = 4"
    assert len(found) == 6


def test_thesis_rows_that_join_nothing_are_no_difference(tmp_path: Path) -> None:
    """After Example 4.16: E(5, 1) … E(5, 100), for the last commit and for a mark, in the library."""
    (tmp_path / "spec.yaml").write_text(THESIS)
    e = pa.table({"y": [5] * 100, "x1": list(range(1, 101))})
    one = pa.table({"y": [5], "x2": [1], "x3": [2]})
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply(one, "F")
        view.mark("before")
        view.apply(e, "E")
        assert [row for batch in view.diff().batches for row in batch.to_pylist()] == []
        view.apply(one, "G")
        for since in (None, "before"):
            rows = [row for batch in view.diff(since=since).batches for row in batch.to_pylist()]
            assert sorted(row["x1"] for row in rows) == list(range(1, 101)), since
            assert {row["_change_type"] for row in rows} == {"insert"}


def test_rows_that_leave_and_come_without_ever_meeting_are_no_change() -> None:
    many = 2000
    text = """\
version: 1
relations: {R: {columns: {x: int64, y: int64}}, S: {columns: {x: int64, z: int64}}}
queries: {q: {sql: "SELECT R.x, y, z FROM R, S WHERE R.x = S.x"}}
"""
    rows = pa.table({"x": [1] * many, "y": list(range(many))})
    gone = rows.append_column("_change_type", pa.array(["delete"] * many))
    came = pa.table({"x": [1] * many, "z": list(range(many))})
    assert between(text, {"R": rows}, {"R": gone, "S": came}) == []
