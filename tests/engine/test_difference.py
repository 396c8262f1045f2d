"""The change between any two versions leads from the old result to the new one, and reading the old one is reading it.

For random queries over random histories: of two versions the later one is made twice, one of them goes back, and
what is found between them is compared with what DuckDB found at both.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from random import Random

import pytest

from dynq_cli.engine.live import Live
from dynq_cli.engine.net import Net, joined, look_around, plain_net
from dynq_cli.engine.versions import diff, diff_schema, went_back
from tests.engine.random_history import Change
from tests.engine.random_queries import Case, Drawn, random_case
from tests.engine.random_runs import Rows, Stored, as_table, enumerated, make_live, plain

SEEDS = range(int(40 * float(os.environ.get("DYNQ_FUZZ", "1"))))


def histories(case: Case) -> list[list[Change]]:
    stored = Stored(case.spec)
    return [stored.applicable(batch.changes) for batch in case.history]


def made(case: Case, steps: list[list[Change]]) -> tuple[Live, list[dict[str, Net]]]:
    """An engine after some steps, and what each of them amounts to."""
    live, nets = make_live(case), []
    for changes in steps:
        tables = {
            r.name: as_table(r, changes) for r in case.spec.relations if any(c.relation == r.name for c in changes)
        }
        batch = live.changes(tables)
        around = look_around(live, batch)
        live.take(batch)
        nets.append({name: around[name].net() if name in around else plain_net(c) for name, c in batch.items()})
    return live, nets


def opened(case: Case, steps: list[list[Change]]) -> Live:
    return made(case, steps)[0]


def amount(nets: list[dict[str, Net]]) -> dict[str, Net]:
    names = dict.fromkeys(name for each in nets for name in each)
    return {name: joined([each[name] for each in nets if name in each]) for name in names}


def result(live: Live, query: Drawn) -> Rows:
    return Counter(dict(enumerated(live, query)))


def changed(old: Live, new: Live, query: Drawn, block: int) -> Rows:
    found: Rows = Counter()
    for batch in diff(old, new, query.name, block):
        assert batch.schema == diff_schema(new, query.name)
        for row in batch.to_pylist():
            sign = {"insert": 1, "delete": -1}[row.pop("_change_type")]
            many = row.pop("_count", 1)
            assert many > 0
            key = tuple(map(plain, row.values()))
            assert key not in found, "a row is reported once"
            found[key] = sign * many
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_old_result_and_the_difference_are_the_new_result(seed: int) -> None:
    case, chance = random_case(seed, 8), Random(seed)
    steps = histories(case)
    for _ in range(3):
        later = chance.randint(1, len(steps))
        earlier = chance.randint(0, later)
        new, nets = made(case, steps[:later])
        before, _ = made(case, steps[:earlier])
        for query in case.queries:
            if max(new.count(query.name)[1], before.count(query.name)[1]) > 3000:
                continue
            again = partial(opened, case, steps[:later])
            old = went_back(again, amount(nets[earlier:]), query.name)
            old._check()
            assert old.count(query.name) == before.count(query.name)
            assert result(old, query) == result(before, query)
            expected: Rows = Counter(result(new, query))
            expected.subtract(result(before, query))
            wanted = {row: many for row, many in expected.items() if many}
            assert dict(changed(old, new, query, chance.choice([1, 3, 1000]))) == wanted, query.text
