"""Results that are chosen or computed by the places of rows are what DuckDB gives after every batch."""

from __future__ import annotations

import pytest

from tests.engine.random_places import places_case
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

SEEDS = seeds(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = places_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
