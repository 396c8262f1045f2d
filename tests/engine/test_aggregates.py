"""Aggregate queries give what DuckDB computes anew, after every batch of a random history."""

from __future__ import annotations

import os

import pytest

from tests.engine.random_aggregates import random_aggregates
from tests.engine.random_runs import described, failure, minimise

QUERIES = 8
# Those that found something once stay; 94: a table that grew when a history came again.
SEEDS = sorted({*range(int(40 * float(os.environ.get("DYNQ_FUZZ", "1")))), 94})


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_aggregates(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
