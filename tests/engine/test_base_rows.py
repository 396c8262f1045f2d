"""Base tables as Arrow: what was inserted and not deleted, in the spec's columns, whatever the size of a block."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from dynq_cli.engine.base_rows import base_rows, base_schema
from dynq_cli.errors import UsageError
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, apply, make_live, plain
from tests.storage.states import small_live


@pytest.mark.parametrize("block", [1, 7, 65536])
@pytest.mark.parametrize("seed", range(12))
def test_base_rows_are_what_the_changes_add_up_to(seed: int, block: int) -> None:
    case = random_case(seed, queries=2)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
        for relation in case.spec.relations:
            found: Counter[tuple[object, ...]] = Counter()
            for part in base_rows(live, relation.name, block):
                assert part.schema == base_schema(relation)
                assert 0 < len(part) <= block
                for *row, copies in zip(*(c.to_pylist() for c in part.columns), strict=True):
                    assert copies > 0
                    assert tuple(map(plain, row)) not in found, "a row comes once"
                    found[tuple(map(plain, row))] = copies
            wanted: Counter[tuple[object, ...]] = Counter()
            for values, copies in stored.rows[relation.name].items():
                wanted[tuple(map(plain, values))] += copies
            assert found == wanted, f"seed {seed}, {relation.name}"


def test_rows_that_were_freed_do_not_come() -> None:
    live = small_live(1)
    everything = pa.Table.from_batches(base_rows(live, "R"))
    live.apply({"R": everything.append_column("_change_type", pa.array(["delete"] * len(everything)))})
    assert list(base_rows(live, "R")) == []
    live.apply({"R": pa.table({"x": [5], "y": ["five"]})})
    assert pa.Table.from_batches(base_rows(live, "R")).to_pylist() == [{"x": 5, "y": "five", "_count": 1}]


def test_an_unknown_relation_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no relation T in the spec; there is R, S"):
        next(base_rows(small_live(0), "T"))
