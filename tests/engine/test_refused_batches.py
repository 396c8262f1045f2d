"""A batch is refused exactly if it cannot be, and of all that is wrong with it the first is named."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dynq_cli.engine import engine as engine_module
from dynq_cli.engine.changes import BatchError, Changes
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec

SPEC = """
version: 1
relations:
  K: {columns: {k: int64, v: int64}, key: [k]}
queries:
  all_of_it: {sql: "SELECT k, v FROM K"}
"""
Row = tuple[int, int]


def after(there: set[Row], batch: list[tuple[Row, int]]) -> dict[Row, int]:
    """How often each row would be there: a change is a row and +1 or -1."""
    many = dict.fromkeys(there, 1)
    for row, sign in batch:
        many[row] = many.get(row, 0) + sign
    return many


def wrong_with(many: dict[Row, int], batch: list[tuple[Row, int]]) -> tuple[int, set[int]] | None:
    """What is wrong with a batch, and the changes that may be named for it."""
    last = {row: change for change, (row, _) in enumerate(batch)}
    for row in dict.fromkeys(row for row, _ in batch):
        if many[row] < 0:
            return f.NEGATIVE, {last[row]}
        twins = [other for other in many if other[0] == row[0] and other != row and many[other] > 0]
        if many[row] > 1 or (many[row] == 1 and twins):
            return f.DUPLICATE_KEY, {max(last[row], last.get(other, -1)) for other in twins or [row]}
    return None


@pytest.mark.parametrize("chunk", [3, 8192])
@pytest.mark.parametrize("seed", range(6))
def test_of_all_that_is_wrong_with_a_batch_the_first_is_named(
    seed: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "CHUNK", chunk)
    rng, spec = Random(seed), parse_spec(SPEC, "spec")
    live = Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})
    there: set[Row] = set()
    refused = 0
    for _ in range(200):
        batch: list[tuple[Row, int]] = []
        for _ in range(rng.randint(1, 6)):
            gone = sorted(there - {row for row, _ in batch})
            if gone and rng.random() < 0.5:
                batch.append((rng.choice(gone), -1))
            row = (rng.randrange(40), rng.randrange(2))
            batch.append((row, rng.choice([1] * 9 + [-1])))
        codes = np.array([row for row, _ in batch], np.int64)
        ops = np.array([f.INSERT if sign > 0 else f.DELETE for _, sign in batch], np.int8)
        changes, many = Changes(codes, ops, np.ones(len(batch), np.int64)), after(there, batch)
        wrong = wrong_with(many, batch)
        if wrong is None:
            live.engine.apply({"K": changes})
            there = {row for row, copies in many.items() if copies}
        else:
            with pytest.raises(BatchError) as error:
                live.engine.apply({"K": changes})
            assert error.value.reason == wrong[0] and error.value.change in wrong[1]
            refused += 1
        live._check()
        assert live.count("all_of_it") == (len(there), len(there))
    assert 20 < refused < 180
