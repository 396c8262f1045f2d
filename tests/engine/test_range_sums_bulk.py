"""Where readers are many, they are marked in order, leaf by leaf, and all of them follow: whatever the groups, the
bounds, the types and the distances between values."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.every_case import every_case

LEAST, MOST = -(2**63) + 1, 2**63 - 1
SPEC = """\
version: 1
relations:
  R: {columns: {k: int64, a: TYPE, b: int64}}
  S: {columns: {k: int64, d: TYPE, e: int64}}
queries:
  below: {rule: "below(a, b, d, e) :- R(k, a, b), S(l, d, e), a < d"}
  each: {rule: "each(k, a, b, d, e) :- R(k, a, b), S(k, d, e), a <= d"}
  held: {rule: "held(a, b, d, e) :- R(k, a, b), S(l, d, e), R(m, u, v), a < d, d <= u"}
"""
NEAR = """\
  near: {rule: "near(a, b, d, e) :- R(k, a, b), S(l, d, e), a < d, d <= a + 40"}
  far: {rule: "far(a, b, d, e) :- R(k, a, b), S(l, d, e), a + 4611686018427387904 < d"}
"""
Rows = dict[tuple[int, int, int], None]


def _wanted(query: str, stored: dict[str, Rows]) -> list[tuple[int, int]]:
    """The serial numbers of the rows that meet."""
    r, s = (np.array(list(rows), object).reshape(-1, 3) for rows in stored.values())
    a, d = r[:, None, 1], s[None, :, 1]
    meet: dict[str, Callable[[], Any]] = {
        "below": lambda: a < d,
        # Readers of two ranges do not wait; those of one do.
        "held": lambda: (a < d) & (d <= max(r[:, 1], default=LEAST)),
        "each": lambda: (r[:, None, 0] == s[None, :, 0]) & (a <= d),
        "near": lambda: (a < d) & (d <= a + 40),
        "far": lambda: a + 2**62 < d,
    }
    left, right = np.nonzero(meet[query]())
    return sorted(zip(r[left, 2], s[right, 2], strict=True))


def _found(live: Views, query: str) -> list[tuple[int, int]]:
    batches = list(live.enum(query))
    return sorted(
        (b, e) for batch in batches for b, e in zip(batch["b"].to_pylist(), batch["e"].to_pylist(), strict=True)
    )


@every_case("groups", [1, 30])
@every_case("values", [(0, 3000), (0, 50), (LEAST, MOST), (MOST - 2000, MOST), (LEAST, LEAST + 2000)])
def test_all_readers_have_the_sums_of_their_ranges(groups: int, values: tuple[int, int]) -> None:
    _follow(SPEC.replace("TYPE", "int64") + NEAR, groups, values, lambda value: value)


def test_readers_of_texts_have_the_sums_of_their_ranges() -> None:
    _follow(SPEC.replace("TYPE", "string"), 3, (0, 2000), lambda value: f"{value:05}")


def _follow(text: str, groups: int, values: tuple[int, int], shown: Callable[[int], int | str]) -> None:
    spec = parse_spec(text, "spec.yaml")
    live = Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})
    chance = Random(groups)
    stored: dict[str, Rows] = {"R": {}, "S": {}}
    # Many at first, then few that leave most leaves between them alone, then those of one place only.
    for turn, (size, part) in enumerate(((400, 1.0), (100, 1.0), (8, 1.0), (60, 0.02))):
        for relation, rows in stored.items():
            most = values[0] + int((values[1] - values[0]) * part)
            gone = chance.sample(sorted(rows), min(len(rows), size // 3))
            come = [
                (chance.randrange(groups), chance.randint(values[0], most), n)
                for n in range(10_000 * turn, 10_000 * turn + size)
            ]
            names, kinds = ("k", "a", "b") if relation == "R" else ("k", "d", "e"), ["delete"] * len(gone)
            columns = [list(column) for column in zip(*gone, *come, strict=True)]
            columns[1] = [shown(value) for value in columns[1]]
            table = {"_change_type": kinds + ["insert"] * len(come), **dict(zip(names, columns, strict=True))}
            live.apply({relation: pa.table(table)})
            for row in gone:
                del rows[row]
            rows.update(dict.fromkeys(come))
        for query in spec.queries:
            assert _found(live, query.name) == _wanted(query.name, stored), (query.name, size)
