"""Results that are read from several trees: rows, counts, positions and differences are those of a recomputation.

Random unions and joins with != over random histories, beside DuckDB. `make fuzz` runs twenty times as many.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dynq_cli.engine import layout, merged_select, multi_tree_result
from tests.engine.random_runs import Stored, apply, described, failure, make_live, minimise
from tests.engine.random_together import together_case
from tests.engine.test_difference import check_differences
from tests.engine.test_order import SMALL, check_places
from tests.engine.test_positions import compare as compare_positions
from tests.seeds import seeds

FORMS = ("union", "ordered", "unequal", "sums")
SEEDS, FEWER = seeds(10), seeds(5)
SHARES = {
    "union": {
        "2 members": 30,
        "3 members": 15,
        "4 members": 3,
        "UNION": 40,
        "UNION ALL": 15,
        "self-join": 10,
        "empty member": 5,
        "constant": 10,
        "twice": 15,
        "range": 5,
        "NULL": 30,
        "kind pair": 2,
    },
    "ordered": {
        "2 members": 30,
        "3 members": 10,
        "UNION": 40,
        "UNION ALL": 15,
        "self-join": 10,
        "constant": 10,
        "descending": 30,
        "NULL": 30,
        "kind pair": 2,
    },
    "unequal": {"1 !=": 40, "2 !=": 15, "range": 10, "offset": 5, "set": 25, "bag": 25, "NULL": 20},
    "sums": {"1 !=": 40, "2 !=": 10, "range": 8, "projection": 10, "COUNT": 40, "SUM": 8, "MIN": 3, "MAX": 2},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int, form: str) -> None:
    case = together_case(seed, form)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", FEWER)
def test_the_old_result_and_the_difference_are_the_new_result(seed: int, form: str) -> None:
    check_differences(together_case(seed + 1000, form), Random(seed))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", FEWER)
def test_positions_are_those_of_the_expanded_enumeration(seed: int, form: str) -> None:
    case, chance = together_case(seed + 2000, form, batches=5), Random(seed)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    for query in case.queries:
        if live.count(query.name)[0] <= 1500:
            compare_positions(live, query, chance)


@pytest.mark.parametrize("seed", seeds(8))
def test_rows_of_ordered_unions_are_found_by_position_without_a_table(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions, ranks and pages beside rows that may not be there; searched for, and read in small windows."""
    monkeypatch.setattr(merged_select, "WALKED", 0)
    monkeypatch.setattr(merged_select, "WINDOW", 1 + seed % 3)
    monkeypatch.setattr(multi_tree_result, "STEP", 3 + seed % 5)
    if seed % 2:
        monkeypatch.setattr(layout, "BLOCKS", SMALL)
    case, chance = together_case(seed + 3000, "ordered", batches=4), Random(seed)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
        for query in case.queries:
            if live.count(query.name)[0] <= 200:
                compare_positions(live, query, chance)
                check_places(live, query, chance)


@pytest.mark.parametrize("form", FORMS)
def test_the_drawn_queries_are_of_all_kinds(form: str) -> None:
    tags: Counter[str] = Counter()
    drawn = 0
    for seed in range(40):
        for query in together_case(seed, form, batches=0).queries:
            tags.update(query.tags)
            drawn += 1
    short = {name: tags[name] for name, share in SHARES[form].items() if 100 * tags[name] < share * drawn}
    assert not short, f"of {drawn} queries too few have {short}"
