"""Cyclic joins are kept by delta: rows, counts and diffs are DuckDB's after every commit, at the promised cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import dynq_cli
from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Cycle
from tests.engine.random_cycles import (
    QUERIES,
    Oracle,
    counted,
    programs_of,
    random_commits,
    spec_of,
    spec_text,
    tables_of,
)
from tests.seeds import seeds

SHAPES = sorted(QUERIES)


def rows_of(views: Views, query: str) -> Counter[tuple[object, ...]]:
    return counted([row for batch in views.enum(query) for row in batch.to_pylist()])


@pytest.mark.parametrize("seed", seeds(16))
def test_a_cycle_has_the_rows_that_duckdb_gives_after_every_commit(seed: int) -> None:
    chance = Random(seed)
    names = chance.sample(SHAPES, 6)
    spec = spec_of(names)
    views, oracle = Views(spec, programs_of(spec)), Oracle(spec)
    for commit in random_commits(chance, spec, 10):
        views.apply(tables_of(spec, commit))
        oracle.apply(commit)
        for name in names:
            wanted = oracle.rows(name)
            assert rows_of(views, name) == wanted, (name, commit)
            assert views.count(name)[0] == wanted.total()
    views._check()


@pytest.mark.parametrize("seed", seeds(4))
def test_changes_one_by_one_give_what_they_give_together(seed: int) -> None:
    chance = Random(seed)
    names = chance.sample(SHAPES, 5)
    spec = spec_of(names)
    together, alone = Views(spec, programs_of(spec)), Views(spec, programs_of(spec))
    for commit in random_commits(chance, spec, 6):
        together.apply(tables_of(spec, commit))
        for change in commit:
            alone.apply(tables_of(spec, [change]))
        for name in names:
            assert rows_of(together, name) == rows_of(alone, name), name
    alone._check()


@pytest.mark.parametrize("seed", seeds(3))
def test_versions_diffs_and_restarts_of_cycles_are_those_of_other_queries(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    names = chance.sample(SHAPES, 4)
    (tmp_path / "spec.yaml").write_text(spec_text(names))
    spec, history = spec_of(names), []
    oracle = Oracle(spec)
    state = dynq_cli.create(str(tmp_path / "spec.yaml"), str(tmp_path / "state"))
    history.append({name: oracle.rows(name) for name in names})
    for number, commit in enumerate(random_commits(chance, spec, 6)):
        if tables_of(spec, commit):
            state.apply(tables_of(spec, commit))
            oracle.apply(commit)
            history.append({name: oracle.rows(name) for name in names})
        if number == 3:
            state.close()
            state = dynq_cli.open(str(tmp_path / "state"))
    for name in names:
        for since in range(len(history) - 1):
            change = state.diff(since=since, query=name)
            moved: Counter[tuple[object, ...]] = Counter()
            for row in pa.Table.from_batches(change.batches, change.schema).to_pylist():
                many = row.pop("_count", 1)
                kind = row.pop("_change_type")
                moved[tuple(row.values())] += many if kind == "insert" else -many
            wanted = Counter(history[-1][name])
            wanted.subtract(history[since][name])
            assert +moved == +wanted and -moved == -wanted, (name, since)
    state.close()


def test_what_a_cycle_keeps_is_linear_and_a_hub_costs_the_shorter_list() -> None:
    """A star with a long list at one end and a short one at the other; with epsilon 1 no pairs are kept."""
    spec = spec_of(["count"], more=", epsilon: 1")
    views = Views(spec, programs_of(spec))
    many = 20_000
    hub = np.zeros(many, np.int64)
    views.apply({"s": pa.table({"b": hub, "c": np.arange(many)}), "t": pa.table({"c": [1, 2, 3], "a": [7, 7, 7]})})
    (step,) = [s for s in views.queries["count"].steps if isinstance(s, Cycle)]
    delta = views.engine._deriving.cycles[step.name]
    before = delta.scanned
    views.apply({"r": pa.table({"a": [7], "b": [0]})})
    assert delta.scanned - before == 3
    assert views.count("count") == (1, 1) and rows_of(views, "count") == {(3,): 1}
    layout = views.layout.cycles[step.name]
    assert sum(int(views.engine.arena.tables["live"][e.table]) for e in layout.edges) == many + 4


def test_all_inserts_of_a_graph_together_cost_its_edges_times_their_square_root() -> None:
    chance = np.random.default_rng(1)
    for size in (2_000, 8_000):
        spec = spec_of(["cyclic"], more=", epsilon: 1")
        views = Views(spec, programs_of(spec))
        weights = 1 / np.arange(1, size // 4 + 1)
        ends = chance.choice(size // 4, (2, size), p=weights / weights.sum())
        edges = np.unique(ends, axis=1)
        views.apply({"e": pa.table({"x": edges[0], "y": edges[1], "w": np.zeros(edges.shape[1], np.int64)})})
        (delta,) = views.engine._deriving.cycles.values()
        assert delta.scanned <= 2 * edges.shape[1] ** 1.5
