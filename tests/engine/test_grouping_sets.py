"""ROLLUP, CUBE and GROUPING SETS give what DuckDB gives after every batch, over nothing too."""

from __future__ import annotations

import pytest

from tests.engine.random_grouping_sets import grouping_sets_case
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

SEEDS = seeds(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = grouping_sets_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
