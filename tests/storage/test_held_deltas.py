"""What versions changed is told without opening the state again: to who applies, subscribes, or writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.errors import RejectedError
from dynq_cli.session.apply_logs import apply_logs
from dynq_cli.storage import versions
from dynq_cli.storage.recover import open_views
from dynq_cli.storage.writer import MOST_TOLD

# Keppeler's thesis: the database of Example 4.4, and its updates in Example 4.16.
THESIS = """\
version: 1
relations:
  E: {columns: {y: int64, x1: int64}}
  F: {columns: {y: int64, x2: int64, x3: int64}}
  G: {columns: {y: int64, x2: int64, x3: int64}}
queries:
  q: {rule: "q(y, x1, x2, x3) :- E(y, x1), F(y, x2, x3), G(y, x2, x3)"}
  n: {sql: "SELECT count(*) AS n FROM E"}
  bag: {sql: "SELECT y FROM E"}
  either: {sql: "SELECT y FROM E UNION SELECT y FROM F"}
"""
E = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
F = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]


def table(rows: Sequence[tuple[int, ...]], names: str, kind: str = "insert") -> pa.Table:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names.split())}
    return pa.table({"_change_type": [kind] * len(rows), **columns})


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("a state was opened again")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "spec.yaml").write_text(THESIS)
    with dynq_cli.create(tmp_path / "spec.yaml", tmp_path / "state") as view:
        view.apply({"E": table(E, "y x1"), **{name: table(F, "y x2 x3") for name in "FG"}})
    return tmp_path / "state"


def rows(change: pa.Table, kind: str) -> list[tuple[Any, ...]]:
    names = [name for name in change.column_names if name != "_change_type"]
    return sorted(tuple(row[n] for n in names) for row in change.to_pylist() if row["_change_type"] == kind)


def test_thesis_example_4_16_is_told_by_the_commit_that_makes_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dynq_cli.open(state) as view:
        view.current()
        monkeypatch.setattr(versions, "open_views", never)
        gone, come = table([(2, 2, 4)], "y x2 x3", "delete"), table([(3, 1, 2)], "y x2 x3")
        batch = {"E": table([(3, 4)], "y x1"), "F": pa.concat_tables([gone, come]), "G": come}
        version, deltas = view.apply(batch, deltas=True)
        assert version == 2 and list(deltas) == ["q", "n", "bag", "either"]
        assert rows(deltas["q"], "insert") == [(3, 2, 1, 2), (3, 4, 1, 1), (3, 4, 1, 2)]
        assert rows(deltas["q"], "delete") == [(2, 4, 2, 4), (2, 8, 2, 4), (2, 9, 2, 4)]
        assert (rows(deltas["n"], "delete"), rows(deltas["n"], "insert")) == ([(7,)], [(8,)])
        assert (rows(deltas["bag"], "insert"), deltas["either"].num_rows) == ([(3, 1)], 0)
        # E(5, 1) … E(5, 100) join nothing: an empty difference, also where each is a version.
        assert view.apply(table([(5, i) for i in range(1, 51)], "y x1"), "E", deltas=True).deltas["q"].num_rows == 0
        for i in range(51, 101):
            assert view.apply(table([(5, i)], "y x1"), "E", deltas=True).deltas["q"].num_rows == 0
        view.apply(table([(5, 1, 2)], "y x2 x3"), "F")
        told = view.apply(table([(5, 1, 2)], "y x2 x3"), "G", deltas=True).deltas["q"]
        assert [row[1] for row in rows(told, "insert")] == list(range(1, 101))
        copies = view.apply(table([(9, 1)] * 2, "y x1"), "E", deltas=True).deltas["bag"]
        more = view.apply(table([(9, 1)] * 3, "y x1"), "E", deltas=True).deltas["bag"]
        assert (rows(copies, "insert"), rows(more, "insert")) == ([(9, 2)], [(9, 3)]), "2 to 5 copies: an insert of 3"


def test_a_subscription_has_what_came_and_went_between_two_looks(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dynq_cli.open(state) as view, dynq_cli.open(state) as other, view.subscribe("bag") as changes:
        with monkeypatch.context() as alone:
            alone.setattr(versions, "open_views", never)
            view.apply(table([(7, 1)], "y x1"), "E")
            with pytest.raises(RejectedError):
                view.apply(table([(70, 1)], "y x1", "delete"), "E")
            view.apply(table([(7, 2), (8, 2)], "y x1"), "E")
        taken = changes.take()
        assert (taken.since, taken.until) == (1, 3)
        assert rows(pa.Table.from_batches(taken.batches, taken.schema), "insert") == [(7, 2), (8, 1)]
        with monkeypatch.context() as alone:
            alone.setattr(versions, "open_views", never)
            other.apply(table([(8, 2)], "y x1", "delete"), "E")
            other.apply(table([(6, 2)], "y x1"), "E")
            taken = changes.take()
            found = pa.Table.from_batches(taken.batches, taken.schema)
        assert (rows(found, "delete"), rows(found, "insert")) == ([(8, 1)], [(6, 1)])
        assert list(changes.take().batches) == []


@pytest.mark.parametrize("commits", [1, MOST_TOLD, MOST_TOLD + 10])
def test_a_version_of_few_commits_is_told_and_one_of_many_gone_back_over(
    state: Path, tmp_path: Path, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"insert,{9 + i % 3},{i},{i}" for i in range(commits)]
    (tmp_path / "E.csv").write_text("\n".join(["_change_type,y,x1,_commit_version", *lines]) + "\n")
    asked = 0

    def opened(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return open_views(*given)

    with dynq_cli.open(state) as view, view.telling(["bag"]):
        monkeypatch.setattr(versions, "open_views", opened)
        (outcome,) = apply_logs(view, [str(tmp_path / "E.csv")])
        assert outcome.version == 2
        found = view.diff("bag", 1)
        came = rows(pa.Table.from_batches(found.batches, found.schema), "insert")
        assert came == [(y, n) for y in (9, 10, 11) if (n := sum(9 + i % 3 == y for i in range(commits)))]
        assert (asked > 0) == (commits > MOST_TOLD), asked
