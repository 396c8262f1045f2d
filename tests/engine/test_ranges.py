"""Joins with comparisons, kept on the edges of a tree or in steps, give what DuckDB gives after every batch."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from tests.engine.random_ranges import range_case
from tests.engine.random_runs import described, failure, minimise
from tests.engine.test_difference import check_differences

QUERIES = 4
SEEDS = range(int(90 * float(os.environ.get("DYNQ_FUZZ", "1"))))


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = range_case(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
    check_differences(case, Random(seed))


def test_most_of_the_drawn_queries_are_kept_in_ranges() -> None:
    drawn = [query for seed in range(90) for query in range_case(seed, QUERIES, 0).queries]
    tags = Counter(tag for query in drawn for tag in query.tags)
    assert tags["in ranges"] > len(drawn) / 2 and tags["with a ring"] >= 5, tags
