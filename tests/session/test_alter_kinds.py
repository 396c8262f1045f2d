"""Views of every kind of query are carried over an `alter`, and go on: joins, groups, cycles, windows, models."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from dynq_cli.session.alter import alter
from dynq_cli.session.verify import verify
from dynq_cli.storage.state import create, open
from tests.seeds import seeds

RELATIONS = """\
version: 1
relations:
  e: {columns: {x: int64, y: int64}, max_degree: 60}
  o: {columns: {id: int64, c: int64, v: float64?, t: timestamp, w: "decimal(30,2)?"}, key: [id]}
  c: {columns: {c: int64, name: string?}, key: [c]}
queries:
  named: {sql: "SELECT count(*) AS n, max(name) AS m FROM c"}
"""
QUERIES = {
    "counted": '{sql: "SELECT count(*) AS n FROM e a, e b, e c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"}',
    "triangles": '{rule: "triangles(x, y, z) :- e(x, y), e(y, z), e(z, x)"}',
    "tested": '{rule: "tested(x, y) :- c(x, _), e(x, y), c(y, _)", keep: test}',
    "union_in_order": '{sql: "SELECT x FROM e UNION SELECT c FROM c", order_by: [x]}',
    "union_of_rows": '{sql: "SELECT x FROM e UNION SELECT c FROM c", keep: rows}',
    "padded": '{sql: "SELECT o.id, c.name FROM o LEFT JOIN c ON o.c = c.c", order_by: [name, id]}',
    "numbered": '{sql: "SELECT id, row_number() OVER (PARTITION BY c ORDER BY v, id) AS r FROM o"}',
    "medians": "{sql: \"SELECT c, median(v) AS m, sum(w) AS s, string_agg(id, ',' ORDER BY id) l FROM o GROUP BY c\"}",
    "soon": "{rule: \"soon(i, j) :- o(i, _, _, t, _), o(j, _, _, u, _), t < u, u < t + interval '2h'\"}",
    "formula": '{formula: "formula(x) := exists y: e(x, y) and forall z: e(y, z) -> e(x, z)"}',
    "past": '{sql: "SELECT id FROM o WHERE t < now()"}',
    "first": '{sql: "SELECT DISTINCT ON (c) c, id, v FROM o ORDER BY c, v DESC, id"}',
    "without": '{sql: "SELECT c FROM c EXCEPT SELECT x FROM e"}',
    "asked": '{sql: "SELECT id, (SELECT count(*) FROM e WHERE e.x = o.c) AS n FROM o"}',
    "of_one_row": '{sql: "SELECT m FROM named WHERE n > 3"}',
    "projected": '{rule: "projected(x, z) :- e(x, y), e(y, z)"}',
    "cubed": '{sql: "SELECT c, name, count(*) AS n FROM o JOIN c USING (c) GROUP BY CUBE (c, name)"}',
    "filtered": "{sql: \"SELECT c FROM c WHERE name LIKE '%1%'\", order_by: [c]}",
}
MODEL = """\
  fitted: {sql: "SELECT id, v FROM o WHERE v IS NOT NULL"}
models:
  price: {over: fitted, label: v, features: [id]}
"""


def spec_of(names: list[str], *, model: bool) -> str:
    return RELATIONS + "".join(f"  {name}: {QUERIES[name]}\n" for name in names) + (MODEL if model else "")


def rows(chance: Random, first: int, many: int) -> dict[str, pa.Table]:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    orders = {
        "id": [*range(first, first + many)],
        "c": [chance.randint(0, 12) for _ in range(many)],
        "v": [chance.choice([None, chance.random()]) for _ in range(many)],
        "t": [start + timedelta(minutes=chance.randint(0, 3000)) for _ in range(many)],
        "w": [chance.choice([None, Decimal(chance.randint(0, 10**20))]) for _ in range(many)],
    }
    edges = {name: [chance.randint(0, 14) for _ in range(many)] for name in ("x", "y")}
    return {"o": pa.table(orders), "e": pa.table(edges)}


def deleted(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "_change_type": ["delete"] * len(ids)})


@pytest.mark.parametrize("seed", seeds(3))
def test_views_of_every_kind_go_on_after_an_alteration(seed: int, tmp_path: Path) -> None:
    chance = Random(f"kinds {seed}")
    first = chance.sample(list(QUERIES), 6)
    kept = chance.sample(first, 4)
    second = [*kept, *chance.sample([name for name in QUERIES if name not in first], 3)]
    is_modelled = chance.random() < 0.5
    (tmp_path / "first.yaml").write_text(spec_of(first, model=is_modelled))
    (tmp_path / "second.yaml").write_text(spec_of(second, model=is_modelled))
    names = [chance.choice(["n1", "n2", None]) for _ in range(10)]
    with create(tmp_path / "first.yaml", tmp_path / "state") as state:
        state.apply({"c": pa.table({"c": [*range(10)], "name": names}), **rows(chance, 0, 40)})
        state.apply(deleted(chance.sample(range(40), 9)), "o")
        state.apply(rows(chance, 100, 20))
        fits = state.fits("price") if is_modelled else []
    done = alter(tmp_path / "state", tmp_path / "second.yaml")
    # A new reader of a group that is there without rows takes the group's views with it.
    begins = "of_one_row" in second and "of_one_row" not in first
    assert set(done.stayed) >= {*kept, *(["fitted"] if is_modelled else []), *([] if begins else ["named"])}
    with open(tmp_path / "state") as state:
        state.current()._check()
        assert (state.fits("price") if is_modelled else []) == fits
        state.apply(rows(chance, 200, 15))
        state.apply(deleted(chance.sample(range(100, 120), 5)), "o")
        changed = {"c": [3, 50], "name": ["zz1", None], "_change_type": ["update_postimage", "insert"]}
        state.apply(pa.table(changed), "c")
        state.current()._check()
    assert [verdict.query for verdict in verify(tmp_path / "state") if not verdict.agrees] == []
