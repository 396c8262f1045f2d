"""Random commits to relations with a `max_degree`: refused exactly if a value's rows, counted again, pass it."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.storage.plans import plan_spec
from tests.seeds import seeds

MOST = 3
SPEC = f"""
version: 1
relations:
  E: {{columns: {{a: int64, b: "int64?"}}, max_degree: {MOST}}}
  K: {{columns: {{id: int64, v: string}}, key: [id], max_degree: {MOST}}}
  W: {{columns: {{a: int64}}, max_degree: {MOST}, on_degree: warn}}
queries:
  joined: {{rule: "joined(a, v) :- E(a, b), K(b, v), W(a)"}}
  counted: {{rule: "counted(v, count()) :- E(a, b), K(b, v)"}}
"""
Rows = Counter[tuple[object, ...]]


def _change(chance: Random, name: str, rows: Rows) -> tuple[str, tuple[object, ...]]:
    """A change that fits rows, which follow; one may take the rows past the degree."""
    if rows and chance.random() < 0.4:
        gone = chance.choice(sorted(rows.elements(), key=repr))
        rows[gone] -= 1
        rows += Counter()
        return "delete", gone
    if name == "K":
        new = next(i for i in range(1000) if all(key != i for key, _ in rows))
        made: tuple[object, ...] = new, chance.choice("xyz")
    else:
        made = (chance.randrange(4), chance.choice([None, 0, 1, 2, 3]))[: 2 if name == "E" else 1]
    rows[made] += 1
    return "insert", made


def _table(changes: list[tuple[str, tuple[object, ...]]], columns: list[str]) -> pa.Table:
    made = {"_change_type": pa.array([kind for kind, _ in changes])}
    for i, column in enumerate(columns):
        made[column] = pa.array([row[i] for _, row in changes], pa.string() if column == "v" else pa.int64())
    return pa.table(made)


def _past(rows: Rows) -> dict[tuple[int, object], int]:
    found: Counter[tuple[int, object]] = Counter()
    for row, many in rows.items():
        found.update({(i, value): many for i, value in enumerate(row) if value is not None})
    return {value: many for value, many in found.items() if many > MOST}


def _kept(live: Views, name: str) -> Rows:
    found: Rows = Counter()
    for batch in base_rows(live, name):
        for row in batch.to_pylist():
            *values, many = row.values()
            found[tuple(values)] += many
    return found


@pytest.mark.parametrize("seed", seeds(15))
def test_a_commit_is_refused_exactly_if_it_passes_the_degree(seed: int) -> None:
    chance = Random(f"degrees {seed}")
    planned = plan_spec(SPEC)
    live = Views(planned.spec, planned.kept)
    columns = {r.name: [c.name for c in r.columns] for r in planned.spec.relations}
    state: dict[str, Rows] = {name: Counter() for name in columns}
    refused = 0
    for _ in range(25):
        if chance.random() < 0.4:
            refused += _several_commits(live, chance, state, columns)
            continue
        after = {name: Counter(rows) for name, rows in state.items()}
        names = chance.sample(sorted(columns), chance.randint(1, 3))
        changes = {name: [_change(chance, name, after[name]) for _ in range(chance.randint(1, 4))] for name in names}
        tables = {name: _table(many, columns[name]) for name, many in changes.items()}
        # A value that was told about before may stay past its bound.
        grown = {v for v, many in _past(after["W"]).items() if many > _past(state["W"]).get(v, 0)}
        if any(_past(after[name]) for name in ("E", "K")):
            with pytest.raises(RejectedError, match="max_degree"):
                live.apply(tables)
            refused += 1
            assert not live.take_warnings()
        else:
            live.apply(tables)
            state = after
            assert len(live.take_warnings()) == len(grown), seed
        assert {name: _kept(live, name) for name in columns} == state, seed
    live._check()
    assert refused, seed


def _several_commits(live: Views, chance: Random, state: dict[str, Rows], columns: dict[str, list[str]]) -> int:
    """Commits of one relation in one call, up to the first that is refused."""
    name = chance.choice(["E", "K"])
    rows, changes, ends = Counter(state[name]), list[tuple[str, tuple[object, ...]]](), list[int]()
    held = True
    for _ in range(chance.randint(1, 5)):
        changes += [_change(chance, name, rows) for _ in range(chance.randint(1, 3))]
        ends.append(len(changes))
        held = held and not _past(rows)
        if held:
            state[name] = Counter(rows)
    if held:
        live.apply_commits(name, _table(changes, columns[name]), np.array(ends))
        return 0
    with pytest.raises(RejectedError, match="max_degree"):
        live.apply_commits(name, _table(changes, columns[name]), np.array(ends))
    return 1
