"""Joins with comparisons, kept on the edges of a tree or in steps, give what DuckDB gives after every batch.

Counts, rows, what each batch changed, and rows by position where there is an order. Blocks are small in half of the
runs, so that counted trees of few rows split and join, too.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dynq_cli.engine import layout
from tests.engine import random_runs
from tests.engine.random_queries import Case
from tests.engine.random_ranges import range_case, wide_case
from tests.engine.random_runs import Stored, apply, described, enumerated, failure, make_live, minimise
from tests.engine.test_difference import check_differences
from tests.engine.test_order import SMALL, check_places
from tests.engine.test_positions import MOST
from tests.engine.test_positions import compare as compare_positions
from tests.seeds import seeds

QUERIES = 4
SEEDS = seeds(48)


def check(case: Case) -> None:
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def check_positions(case: Case, chance: Random) -> None:
    """After every batch."""
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
        for query in case.queries:
            if live.count(query.name)[0] < MOST:
                compare_positions(live, query, chance)
                check_places(live, query, chance)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case = range_case(seed, QUERIES)
    check(case)
    check_differences(case, Random(seed), every_batch=True)


@pytest.mark.parametrize("seed", seeds(8, first=4000))
def test_many_rows_in_a_group_are_those_of_a_recomputation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_runs, "MOST_ROWS", 20_000)
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case = wide_case(seed)
    check(case)
    check_differences(case, Random(seed), every_batch=True)


@pytest.mark.parametrize("seed", seeds(12, first=2000))
def test_groups_over_ranges_are_those_of_a_recomputation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    check(range_case(seed, QUERIES, form="groups"))
    if seed % 5 == 0:
        check(wide_case(seed, form="groups"))


@pytest.mark.parametrize("seed", seeds(12, first=3000))
def test_orders_and_their_places_are_those_of_the_sorted_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    for case in (range_case(seed, QUERIES, 5, form="order"), wide_case(seed, 1, 4, form="order")):
        check(case)
        check_positions(case, Random(seed))


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_positions_and_blocks_of_any_size_have_the_same_rows(seed: int) -> None:
    case = range_case(seed, QUERIES, 5)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    for query in case.queries:
        whole = enumerated(live, query)
        for block in (1, 3, 7):
            assert enumerated(live, query, block) == whole, f"{query.text} in blocks of {block}"
        if sum(copies for _, copies in whole) < MOST:
            compare_positions(live, query, Random(seed))


def test_most_of_the_drawn_queries_are_kept_in_ranges() -> None:
    drawn = [query for seed in range(90) for query in range_case(seed, QUERIES, 0).queries]
    tags = Counter(tag for query in drawn for tag in query.tags)
    assert tags["in ranges"] > len(drawn) / 2 and tags["with a ring"] >= 5, tags


def test_groups_and_orders_are_kept_in_ranges_too() -> None:
    groups = [q for seed in range(2000, 2012) for q in range_case(seed, QUERIES, 0, "groups").queries]
    orders = [q for seed in range(3000, 3012) for q in range_case(seed, QUERIES, 0, "order").queries]
    assert sum("feeds from ranges" in q.tags for q in groups) > len(groups) / 2
    assert sum("in ranges" in q.tags for q in orders) > len(orders) / 4
