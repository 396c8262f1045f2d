"""Queries that are kept in several steps: what trees pass on to relations is what came and went in their results."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import pytest

from tests.engine.programs import stepped
from tests.engine.random_queries import Case, random_case
from tests.engine.random_runs import described, failure, minimise

SEEDS = range(int(24 * float(os.environ.get("DYNQ_FUZZ", "1"))))


def stepped_case(seed: int) -> Case:
    case, chance = random_case(seed, 4), Random(seed)
    return replace(case, queries=tuple(stepped(q, case.spec, chance) for q in case.queries))


@pytest.mark.parametrize("seed", SEEDS)
def test_results_in_steps_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = stepped_case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
