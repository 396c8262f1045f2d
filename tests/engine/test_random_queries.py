"""Random acyclic queries over random histories give what DuckDB gives, at every step, on every path.

Several queries of one spec are kept at once. `make fuzz` runs eighty times as many (`DYNQ_FUZZ=80`). A
failure prints its seed and the smallest case found that fails in the same way.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dynq_cli.spec.model import Spec
from tests.engine import random_runs
from tests.engine.random_history import BAD
from tests.engine.random_queries import Case, draw_query, random_case, random_relations
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

QUERIES = 8
SEEDS = seeds(16)
# Of a hundred queries at least so many are expected to have each property.
SHARES = {
    "q-hierarchical": 30,
    "free-connex acyclic": 10,
    "acyclic": 2,
    "cyclic": 1,
    "comparison": 8,
    "subquery": 8,
    "simple tree": 30,
    "other tree": 15,
    "bag": 25,
    "set": 25,
    "rule": 20,
    "empty head": 3,
    "self-join": 25,
    "product": 8,
    "constant": 15,
    "repeated variable": 4,
    "filter": 15,
    "derived column": 8,
    "derived join": 2,
    "widened": 20,
    "NULL in join": 15,
    "keyed": 25,
    **{f"{n} atoms": 5 for n in range(1, 7)},
    **{f"type {kind}": 5 for kind in ("int", "decimal", "float", "string", "binary", "bool", "date", "timestamp")},
    "type time": 3,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = random_case(seed, QUERIES)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)


def test_the_drawn_queries_are_of_all_kinds() -> None:
    tags: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    drawn = 0
    for seed in range(40):
        chance = Random(seed)
        spec = Spec("spec.yaml", random_relations(chance), ())
        for i in range(QUERIES):
            tags.update(draw_query(chance, spec, f"q{i}", refused).tags)
            drawn += 1
    short = {name: tags[name] for name, share in SHARES.items() if 100 * tags[name] < share * drawn}
    assert not short, f"of {drawn} queries too few have {short}"
    assert refused.total() < drawn / 3, f"too many draws are refused: {refused.most_common(5)}"


def test_the_drawn_histories_have_changes_of_all_kinds() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(80):
        for batch in random_case(seed, 1).history:
            kinds.update(c.kind for c in batch.changes)
            kinds.update(["copies"] * any(c.copies > 1 for c in batch.changes))
            kinds.update(["NULL"] * any(None in c.row for c in batch.changes))
            kinds.update(["empty"] * (not batch.changes))
            kinds.update(["several relations"] * (len({c.relation for c in batch.changes}) > 1))
            kinds.update([batch.bad] if batch.bad else [])
    wanted = {"insert", "delete", "update_preimage", "update_postimage", "copies", "NULL", "empty", "several relations"}
    assert all(kinds[kind] >= 5 for kind in wanted), kinds
    assert all(kinds[bad] for bad in BAD), kinds


def test_a_failing_case_is_cut_down_to_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_delete(case: Case) -> str:
        changes = [c for batch in case.history for c in batch.changes]
        return "Mismatch: found" if any(c.kind == "delete" for c in changes) else ""

    monkeypatch.setattr(random_runs, "failure", has_delete)
    small = minimise(random_case(1, 3))
    assert len(small.queries) == 1
    assert [c.kind for batch in small.history for c in batch.changes] == ["delete"]
    assert "seed 1" in described(small)
