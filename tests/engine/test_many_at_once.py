"""What is done for many rows at a time comes out as if it were done for one row after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import result_reader
from dynq_cli.engine.kernels.enumeration_pipeline import WARMED
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_queries import random_case
from tests.engine.random_runs import Stored, apply, enumerated, make_live

CHAIN = """
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {y: int64, z: int64}}
  T: {columns: {z: int64, u: int64}}
queries:
  q: {rule: "q(x, y, z, u) :- R(x, y), S(y, z), T(z, u)", semantics: bag}
"""


def chain() -> Views:
    spec = parse_spec(CHAIN, "spec.yaml")
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def table(first: str, second: str, rows: list[tuple[int, int]], kind: str = "insert") -> pa.Table:
    one, two = zip(*rows, strict=True)
    return pa.table({"_change_type": [kind] * len(rows), first: one, second: two})


def joined(r: list[tuple[int, int]], s: list[tuple[int, int]], t: list[tuple[int, int]]) -> Counter[tuple[int, ...]]:
    by_y: dict[int, list[int]] = {}
    for x, y in r:
        by_y.setdefault(y, []).append(x)
    by_z: dict[int, list[int]] = {}
    for z, u in t:
        by_z.setdefault(z, []).append(u)
    return Counter((x, y, z, u) for y, z in s for x in by_y.get(y, ()) for u in by_z.get(z, ()))


def result(live: Views, block: int) -> list[tuple[int, ...]]:
    return [row for batch in live.enum("q", block) for row in zip(*batch.to_pydict().values(), strict=True)]


def bag(live: Views) -> Counter[tuple[int, ...]]:
    return Counter({row[:4]: row[4] for row in result(live, 65536)})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stage", [1, 2, 3, 7])
def test_every_size_of_a_stage_gives_the_same_rows_in_the_same_order(
    seed: int, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(seed + 2000, 6, 4)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
    whole = [enumerated(live, query) for query in case.queries]
    monkeypatch.setattr(result_reader, "AT_A_TIME", stage)
    for query, rows in zip(case.queries, whole, strict=True):
        assert enumerated(live, query) == rows, f"seed {seed}: {query.text}"


def test_lists_longer_than_what_is_brought_near_are_followed_to_their_ends() -> None:
    live = chain()
    r = [(x, y) for y in range(2) for x in range(2)]
    s = [(y, z) for y in range(2) for z in range(2)]
    t = [(z, u) for u in range(WARMED + 100) for z in range(2)]
    live.apply({"R": table("x", "y", r), "S": table("y", "z", s), "T": table("z", "u", t)})
    assert bag(live) == joined(r, s, t)
    assert result(live, 1000) == result(live, 65536), "runs that go on in the next block"


@pytest.mark.parametrize("groups", [AHEAD - 1, AHEAD, 5 * AHEAD + 3])
def test_groups_with_few_and_with_many_readers_are_recomputed_in_one_commit(groups: int) -> None:
    rng = np.random.default_rng(groups)
    live = chain()
    # Group y has y % 11 readers, the last one more than fit a batch.
    s = [(y, 1000 * y + i) for y in range(groups) for i in range(y % 11)]
    s += [(groups, i) for i in range(3 * AHEAD + 1)]
    t = [(z, u) for _, z in s if z % 3 for u in range(z % 4)]
    r = [(x, y) for y in range(groups + 1) for x in range(1 + y % 3)]
    live.apply({"S": table("y", "z", s), "T": table("z", "u", t)})
    for _ in range(3):
        live.apply({"R": table("x", "y", r)})
        live._check()
        assert bag(live) == joined(r, s, t)
        gone = [row for row in r if rng.random() < 0.5]
        kept = [row for row in r if row not in set(gone)]
        live.apply({"R": table("x", "y", gone, "delete")})
        live._check()
        assert bag(live) == joined(kept, s, t)
        live.apply({"R": table("x", "y", kept, "delete")})
        assert live.count("q") == (0, 0)


def test_rows_that_come_and_go_in_one_large_commit_leave_what_they_should() -> None:
    live = chain()
    many = 9000
    s = [(i % 97, i % 101) for i in range(97 * 101)]
    live.apply({"S": table("y", "z", s), "R": table("x", "y", [(1, 1)]), "T": table("z", "u", [(1, 1)])})
    r = [(x, x % 97) for x in range(many)]
    live.apply({"R": table("x", "y", r)})
    back = pa.concat_tables([table("x", "y", r, "delete"), table("x", "y", r[: many // 2])])
    live.apply({"R": back, "S": table("y", "z", s[::2], "delete")})
    live._check()
    assert bag(live) == joined([(1, 1), *r[: many // 2]], s[1::2], [(1, 1)])
