"""Random acyclic queries over random histories give what DuckDB gives, at every step, on every path.

`DYNQ_FUZZ=20 pytest tests/engine/test_random_queries.py` runs twenty times as many (`make fuzz`). A failure
prints its seed and the smallest case found that fails in the same way.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from dynq_cli.spec.model import Spec
from tests.engine.random_queries import draw_query, random_case, random_relations
from tests.engine.random_runs import described, failure, minimise

QUERIES = 8
SEEDS = range(64 * int(os.environ.get("DYNQ_FUZZ", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_case(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
