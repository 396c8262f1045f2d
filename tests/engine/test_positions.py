"""Positions are those of `enum --expand`: the j-th row, its inverse, pages and samples agree with it, for every query.

Samples are uniform: over single rows, over ordered pairs, and over huge results.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.kernels.positions import divide
from dynq_cli.engine.positions import Selection, find
from dynq_cli.engine.ranked import Ranked, draw
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.engine.random_history import Row
from tests.engine.random_queries import Drawn, random_case
from tests.engine.random_runs import Stored, apply, enumerated, make_live, plain
from tests.seeds import seeds

SEEDS = seeds(10)
MOST = 1500
SPEC = """
version: 1
relations:
  R: {columns: {x: int64, y: int64}}
  S: {columns: {x: int64, z: int64}}
  U: {columns: {u: int64}}
queries:
  bag: {sql: "SELECT R.x, y, z, u FROM R, S, U WHERE R.x = S.x"}
  set: {rule: "set(x, y, z, u) :- R(x, y), S(x, z), U(u)"}
  ends: {sql: "SELECT R.x, y FROM R, S, U WHERE R.x = S.x"}
  some: {rule: "some() :- R(x, y), S(x, z)"}
  ones: {sql: "SELECT 1 AS one FROM R"}
  ordered: {sql: "SELECT R.x, y, z, u FROM R, S, U WHERE R.x = S.x", order_by: [u desc, x, z, y desc]}
"""


def live_of(spec: str = SPEC) -> Views:
    parsed = parse_spec(spec, "spec.yaml")
    return Views(parsed, {name: plan_query(query, parsed) for name, query in compile_spec(parsed).items()})


def filled(copies: int = 1) -> Views:
    """Groups of several rows in every relation, some of them gone again, each row so many times."""
    live, many = live_of(), [copies]
    x, y = [i % 5 for i in range(20)], list(range(20))
    for name, second in (("R", "y"), ("S", "z")):
        live.apply({name: pa.table({"x": x, second: y, "_count": many * 20})})
        gone = {"_change_type": ["delete"] * 4, "x": x[:4], second: y[:4], "_count": many * 4}
        live.apply({name: pa.table(gone)})
    live.apply({"U": pa.table({"u": [1, 2, 3], "_count": many * 3})})
    return live


def rows_of(batches: Any) -> list[Row]:
    return [tuple(map(plain, row.values())) for batch in batches for row in batch.to_pylist()]


def as_values(query: Drawn, row: Row) -> dict[str, Any]:
    names = [c.name for c in query.plan.query.columns]
    return {n: float("nan") if isinstance(v, str) and v == "NaN" else v for n, v in zip(names, row, strict=True)}


def compare(live: Views, query: Drawn, chance: Random) -> None:
    """Everything that positions promise, against the rows one by one."""
    distinct = enumerated(live, query)
    expanded = [row for row, copies in distinct for _ in range(copies)]
    ranked, total = Ranked(live, query.name, chance.choice([1, 3, 7, 65536])), len(expanded)
    assert ranked.count == total
    everything = list(range(1, total + 1))
    assert rows_of(ranked.jth(everything)) == expanded
    asked = [chance.randint(1, total) for _ in range(min(total, 50))]
    assert rows_of(ranked.jth(asked)) == [expanded[j - 1] for j in asked]
    for j in asked[:10]:
        assert rows_of(ranked.jth([j])) == [expanded[j - 1]]
    first = 1
    for row, copies in distinct:
        if len(distinct) < 100 or chance.random() < 0.05:
            values = as_values(query, row)
            assert ranked.rank(values) == first
            limit = chance.randint(0, 5)
            last = first + copies - 1
            assert rows_of(ranked.after(values, limit)) == expanded[last : last + limit]
            assert rows_of(ranked.before(values, limit)) == expanded[max(last - limit, 0) : last]
        first += copies
    for _ in range(3):
        offset, limit = chance.randint(0, total), chance.randint(0, total + 2)
        assert rows_of(ranked.page(offset, limit)) == expanded[offset : offset + limit]
    many = chance.randint(0, total)
    assert not Counter(rows_of(ranked.sample(many, 1))) - Counter(expanded)
    assert Counter(rows_of(ranked.sample(total, 2))) == Counter(expanded)


@pytest.mark.parametrize("seed", SEEDS)
def test_positions_are_those_of_the_expanded_enumeration(seed: int) -> None:
    case, chance = random_case(seed + 7000, 8, 5), Random(seed)
    live, stored = make_live(case), Stored(case.spec)
    for batch in case.history:
        apply(live, case, batch, stored.applicable(batch.changes))
        for query in case.queries:
            if live.count(query.name)[0] <= MOST:
                compare(live, query, chance)


def test_a_batch_that_goes_on_where_the_last_one_ended_finds_the_same_rows() -> None:
    live = filled(2)
    for query in ("bag", "set", "ends", "ordered"):
        ranked = Ranked(live, query)
        whole = rows_of(ranked.page(0, ranked.count))
        assert len(whole) == ranked.count > 50
        for block in (1, 2, 5, 64):
            assert rows_of(Ranked(live, query, block).page(0, ranked.count)) == whole
            assert rows_of(Ranked(live, query, block).jth(range(ranked.count, 0, -1))) == whole[::-1]


@pytest.mark.parametrize(("query", "like"), [("bag", "set"), ("ordered", "ordered")])
@pytest.mark.parametrize("copies", [2, 2**31, 2**39 + 1])
def test_positions_past_63_bits_are_exact(copies: int, query: str, like: str) -> None:
    """Copies do not change the order, so the result of one copy each says which row is where."""
    one, live = filled(), filled(copies)
    rows = rows_of(Ranked(one, like).page(0, 10**6))
    each = copies**3
    ranked = Ranked(live, query)
    assert ranked.count == len(rows) * each
    for i, row in enumerate(rows):
        values = dict(zip(("x", "y", "z", "u"), row, strict=True))
        assert ranked.rank(values) == i * each + 1
    edges = [(i, i * each + offset) for i in range(len(rows)) for offset in (1, each // 2, each)]
    Random(0).shuffle(edges)
    assert rows_of(ranked.jth([position for _, position in edges])) == [rows[i] for i, _ in edges]
    assert rows_of(ranked.page(ranked.count - 2, 5)) == [rows[-1]] * 2
    assert rows_of(ranked.jth([ranked.count])) == [rows[-1]]


def test_rows_without_columns_and_constant_ones_have_positions_too() -> None:
    live = filled(3)
    assert [b.num_rows for b in Ranked(live, "some").jth([1, 1])] == [2]
    assert Ranked(live, "some").rank({}) == 1
    ones = Ranked(live, "ones")
    assert (ones.count, rows_of(ones.jth([48, 1])), ones.rank({"one": 1})) == (48, [(1,), (1,)], 1)
    assert sum(b.num_rows for b in ones.after({"one": 1}, 10)) == 0
    with pytest.raises(RejectedError):
        ones.rank({"one": 2})


def test_what_is_out_of_range_is_refused_before_anything_is_read() -> None:
    ranked, empty = Ranked(filled(), "set"), Ranked(live_of(), "set")
    for positions in ([0], [-1], [ranked.count + 1], [1, 2**200], [1, 0, 2]):
        with pytest.raises(RejectedError, match="no row at position"):
            ranked.jth(positions)
    with pytest.raises(RejectedError, match="cannot be skipped"):
        ranked.page(ranked.count + 1, 0)
    with pytest.raises(RejectedError, match="without drawing one twice"):
        ranked.sample(ranked.count + 1)
    assert rows_of(ranked.page(ranked.count, 10)) == []
    assert rows_of(empty.page(0, 10)) == rows_of(empty.sample(0)) == rows_of(empty.jth([])) == []
    with pytest.raises(RejectedError):
        empty.jth([1])


def test_a_row_that_is_not_there_has_no_position_and_no_page() -> None:
    ranked = Ranked(filled(), "set")
    for row in ({"x": 0, "y": 0, "z": 5, "u": 1}, {"x": 99, "y": 5, "z": 5, "u": 1}, {"x": 0, "y": 5, "z": 6, "u": 1}):
        with pytest.raises(RejectedError, match="no position"):
            ranked.rank(row)
        for page in (ranked.after, ranked.before):
            with pytest.raises(RejectedError, match="order_by"):
                page(row, 10)
    with pytest.raises(UsageError, match="x, y, z, u"):
        ranked.rank({"x": 0})


def test_codes_and_copies_agree_with_the_engine() -> None:
    live = filled(3)
    variables = live.variables("ends")
    codes = Selection(live.engine, "ends", variables).at([5, 1, 5])
    assert codes.shape == (2, 3)
    row = dict(zip(variables, codes[:, 1].tolist(), strict=True))
    found = find(live.engine, "ends", row)
    assert found is not None
    assert (found.first, found.copies) == (1, live.engine.copies("ends", row))
    assert found.last == found.copies


def test_division_is_that_of_whole_numbers() -> None:
    chance, lane = Random(5), 2**64 - 1

    def lanes(number: int) -> list[int]:
        both: list[int] = np.array([number & lane, number >> 64], np.uint64).view(np.int64).tolist()
        return both

    edges = [1, 2, 3, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**126, 2**127 - 1]
    pairs = [(a, b) for a in [0, *edges] for b in edges]
    for _ in range(2000):
        pairs.append((chance.getrandbits(chance.randint(1, 127)), chance.getrandbits(chance.randint(1, 127)) or 1))
    for a, b in pairs:
        lo, hi = divide(*lanes(a), *lanes(b))
        assert (int(hi) << 64) + (int(lo) & lane) == a // b, (a, b)


def chi_square(observed: Counter[Any], cells: int) -> float:
    expected = observed.total() / cells
    return sum((observed[cell] - expected) ** 2 for cell in observed) / expected + (cells - len(observed)) * expected


def improbable(freedom: int) -> float:
    """What a chi-square value passes once in a thousand times, by Wilson and Hilferty's approximation."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + 3.0902 * part**0.5) ** 3)


@pytest.mark.parametrize("query", ["set", "ordered"])
def test_samples_are_uniform(query: str) -> None:
    live, many, times = filled(), 12, 3000
    ranked = Ranked(live, query)
    seen: Counter[Row] = Counter()
    for seed in range(times):
        rows = rows_of(ranked.sample(many, seed))
        assert len(set(rows)) == many, "none is drawn twice"
        seen.update(rows)
    # Draws without replacement vary less than independent ones.
    spread = chi_square(seen, ranked.count) * (ranked.count - 1) / (ranked.count - many)
    assert spread < improbable(ranked.count - 1)


def test_samples_of_a_bag_are_uniform_over_copies() -> None:
    live = live_of()
    live.apply(
        {"R": pa.table({"x": [0] * 3, "y": [1, 2, 3], "_count": [1, 2, 7]}), "S": pa.table({"x": [0], "z": [0]})}
    )
    live.apply({"U": pa.table({"u": [0]})})
    ranked = Ranked(live, "ends")
    seen = Counter(rows_of(ranked.sample(1, seed))[0][1] for seed in range(4000))
    expected = {1: 400, 2: 800, 3: 2800}
    assert sum((seen[y] - many) ** 2 / many for y, many in expected.items()) < improbable(2)


def test_every_order_of_every_sample_is_equally_likely() -> None:
    seen = Counter(tuple(draw(6, 2, Random(seed))) for seed in range(6000))
    assert len(seen) == 30
    assert chi_square(seen, 30) < improbable(29)
    skewed = Counter({**seen, (1, 2): seen[1, 2] + 100})
    assert chi_square(skewed, 30) > improbable(29), "a bias of this size would be found"


def test_draws_from_huge_results_are_uniform() -> None:
    total = 2**120 + 12345
    seen = Counter(number * 16 // (total + 1) for number in draw(total, 8000, Random(3)))
    assert set(seen) == set(range(16))
    assert chi_square(seen, 16) < improbable(15)


def test_the_same_seed_draws_the_same_and_a_smaller_sample_is_its_beginning() -> None:
    ranked = Ranked(filled(), "set")
    whole = rows_of(ranked.sample(ranked.count, 7))
    assert rows_of(ranked.sample(ranked.count, 7)) == whole
    assert rows_of(ranked.sample(10, 7)) == whole[:10]
    assert rows_of(ranked.sample(ranked.count, 8)) != whole
    assert sorted(whole) == sorted(rows_of(ranked.page(0, ranked.count)))
