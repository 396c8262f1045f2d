"""Rows with given values are those of the enumeration that have them, in its order, whatever the columns are."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from dynq_cli.engine.engine import Engine
from dynq_cli.engine.selected_rows import is_found_in_order, rows_where
from dynq_cli.engine.views import Views
from dynq_cli.errors import UsageError
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, apply, make_live, plain
from tests.seeds import seeds

SPEC = """
version: 1
relations: {R: {columns: {a: int64, b: string?, c: int64}}}
queries:
  ordered: {sql: "SELECT a, b, c FROM R ORDER BY a, b DESC"}
  plain: {sql: "SELECT DISTINCT b FROM R"}
"""


def listed(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def shown(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[plain(value) for value in row.values()] for row in rows]


@pytest.mark.parametrize("ordered", [False, True], ids=["as stored", "in order"])
@pytest.mark.parametrize("seed", seeds(25))
def test_random_rows_are_found_by_any_of_their_columns(seed: int, ordered: bool) -> None:
    case = random_case(seed, queries=4, batches=4, ordered=ordered)
    live, stored, chance = make_live(case), Stored(case.spec), Random(f"where {seed}")
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    for query in case.queries:
        rows = listed(live.enum(query.name))
        names = [c.name for c in live.form_of(query.name).columns]
        if not names or not rows:
            continue
        for _ in range(6):
            one = chance.choice(rows)
            some = names[: chance.randrange(1, len(names) + 1)] if chance.random() < 0.6 else chance.sample(names, 1)
            given = {name: one[name] for name in some}
            if chance.random() < 0.2:
                given[some[0]] = chance.choice(rows)[some[0]]
            wanted = [row for row in rows if all(plain(row[n]) == plain(given[n]) for n in some)]
            found = listed(rows_where(live, query.name, given, block=chance.choice([1, 3, 1000])))
            assert shown(found) == shown(wanted), (seed, query.name, given)


def filled(rows: int) -> Views:
    planned = plan_spec(SPEC)
    live = Views(planned.spec, planned.kept)
    live.apply(
        {
            "R": pa.table(
                {"a": [i % 100 for i in range(rows)], "b": [f"b{i % 7}" for i in range(rows)], "c": range(rows)}
            )
        }
    )
    return live


def test_the_first_columns_of_the_order_read_no_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    live = filled(5000)

    def refuse(*_: object) -> Any:
        raise AssertionError("all rows are read")

    monkeypatch.setattr(Engine, "blocks", refuse)
    assert len(listed(rows_where(live, "ordered", {"a": 7}))) == 50
    assert {row["b"] for row in listed(rows_where(live, "ordered", {"a": 7, "b": "b3"}))} == {"b3"}
    assert listed(rows_where(live, "ordered", {"a": -1})) == []
    assert listed(rows_where(live, "ordered", {"a": 7, "b": "nowhere"})) == []
    assert listed(rows_where(live, "ordered", {"a": 7, "b": "b0", "c": 7})) == [
        {"a": 7, "b": "b0", "c": 7, "_count": 1}
    ]
    assert listed(rows_where(live, "plain", {"b": "b1"})) == [{"b": "b1"}]
    assert is_found_in_order(live, "ordered", {"a": 1}) and not is_found_in_order(live, "ordered", {"b": "b1"})
    with pytest.raises(AssertionError, match="all rows"):
        next(islice(rows_where(live, "ordered", {"b": "b1"}), 1), None)


def test_a_row_with_many_copies_is_found_once() -> None:
    live = filled(10)
    live.apply({"R": pa.table({"a": [500], "b": ["x"], "c": [1], "_count": [10**12]})})
    assert listed(rows_where(live, "ordered", {"a": 500})) == [{"a": 500, "b": "x", "c": 1, "_count": 10**12}]


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="has the columns a, b, c"):
        rows_where(filled(1), "ordered", {"z": 1})
