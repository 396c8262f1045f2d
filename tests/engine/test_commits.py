"""A log of many commits does what its commits do one by one, and stops where one of them cannot be."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import engine as engine_module
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_queries import random_case
from tests.engine.random_runs import failure

SPEC = """
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {b: int64, c: string}, key: [b]}
queries:
  joined: {sql: "SELECT R.a, R.b, S.c FROM R, S WHERE R.b = S.b"}
  paths: {rule: "paths(x, y, z) :- R(x, y), R(y, z)", semantics: bag}
"""


def fresh() -> Views:
    spec = parse_spec(SPEC, "spec")
    live = Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})
    live.apply({"S": pa.table({"b": [0, 1, 2], "c": ["x", "y", "z"]})})
    return live


def drawn_log(seed: int) -> tuple[pa.Table, list[int]]:
    """Changes of R in commits of nought to five: inserts, and deletes of what is there."""
    rng, kinds, ends = Random(seed), [], []
    rows: list[tuple[int, int]] = []
    there: list[tuple[int, int]] = []
    for _ in range(rng.randint(1, 40)):
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            if there and rng.random() < 0.4:
                rows.append(there.pop(rng.randrange(len(there))))
                kinds.append("delete")
            else:
                rows.append((rng.randrange(4), rng.randrange(4)))
                there.append(rows[-1])
                kinds.append("insert")
        ends.append(len(rows))
    columns = {"a": pa.array([r[0] for r in rows], pa.int64()), "b": pa.array([r[1] for r in rows], pa.int64())}
    return pa.table({"_change_type": pa.array(kinds, pa.string()), **columns}), ends


def shown(live: Views) -> list[list[dict[str, object]]]:
    return [[row for batch in live.enum(q) for row in batch.to_pylist()] for q in ("joined", "paths")]


@pytest.mark.parametrize("chunk", [1, 3, 8192])
@pytest.mark.parametrize("seed", range(12))
def test_a_log_is_its_commits_one_after_the_other(seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, ends = drawn_log(seed)
    one_by_one = fresh()
    for start, stop in zip([0, *ends], ends, strict=False):
        one_by_one.apply({"R": table.slice(start, stop - start)})
    monkeypatch.setattr(engine_module, "CHUNK", chunk)
    together = fresh()
    together.apply_commits("R", table, ends)
    together._check()
    assert shown(together) == shown(one_by_one), "the same rows in the same order"
    assert [together.count(q) for q in ("joined", "paths")] == [one_by_one.count(q) for q in ("joined", "paths")]


@pytest.mark.parametrize("chunk", [1, 2, 8192])
def test_a_commit_that_cannot_be_is_named_and_those_before_it_hold(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "CHUNK", chunk)
    live = fresh()
    table = pa.table(
        {"_change_type": ["insert", "insert", "delete", "insert"], "a": [1, 2, 9, 3], "b": [1, 2, 9, 0]},
    )
    with pytest.raises(RejectedError, match="R: row 3: deletes a row that is not there"):
        live.apply_commits("R", table, [1, 2, 3, 4])
    live._check()
    assert live.count("joined") == (2, 2)
    live.apply_commits("R", table.slice(3), [1])
    assert live.count("joined") == (3, 3)


def test_insert_and_delete_cancel_within_a_commit_and_not_across_commits() -> None:
    backwards = pa.table({"_change_type": ["delete", "insert"], "a": [1, 1], "b": [1, 1]})
    live = fresh()
    live.apply_commits("R", backwards, [2])
    assert live.count("joined") == (0, 0)
    with pytest.raises(RejectedError, match="row 1: deletes"):
        live.apply_commits("R", backwards, [1, 2])


@pytest.mark.parametrize("ends", [[], [1], [2, 1], [3]])
def test_ends_that_do_not_ascend_to_the_number_of_rows_are_refused(ends: list[int]) -> None:
    live = fresh()
    with pytest.raises(UsageError, match="ascend"):
        live.apply_commits("R", pa.table({"a": [1, 2], "b": [1, 2]}), np.array(ends, np.int64))
    assert live.count("joined") == (0, 0)


def test_a_change_that_reaches_a_table_from_two_leaves_finds_room_for_both() -> None:
    text = SPEC.split("queries:")[0] + 'queries:\n  both: {rule: "both(x, y) :- R(x, y), R(y, x)"}\n'
    spec = parse_spec(text, "spec")
    for ends in ([*range(1, 41)], [40]):
        live = Views(spec, {name: plan_query(q, spec) for name, q in compile_spec(spec).items()})
        live.apply_commits("R", pa.table({"a": list(range(40)), "b": list(range(100, 140))}), ends)
        live._check()
        assert live.test("both", {"x": 1, "y": 2}) == 0
        live.apply({"R": pa.table({"a": [100], "b": [0]})})
        assert live.count("both") == (2, 2)


def test_seed_374_of_the_random_queries_ends() -> None:
    """A table was filled to its last slot there, and looking for a row that it does not have went on for ever."""
    assert failure(random_case(374, 8)) == ""
