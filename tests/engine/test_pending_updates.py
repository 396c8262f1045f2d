"""Notes are put in order however many they are and however far apart, and all readers follow them."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine.kernels.sort_pending import GROUP, IMAGE, NOTE_FIELDS, ROW, sort_notes
from dynq_cli.engine.views import Views
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from tests.every_case import every_case

LEAST, MOST = -(2**63), 2**63 - 1
SPEC = parse_spec(
    """\
version: 1
relations:
  R: {columns: {a: int64, b: int64}}
  S: {columns: {d: int64, e: int64}}
queries:
  rows: {sql: "SELECT a, b, d, e FROM R, S WHERE a < d"}
  values: {rule: "values(a, d) :- R(a, b), S(d, e), a < d"}
  groups: {sql: "SELECT d, COUNT(*) AS n FROM R, S WHERE a < d GROUP BY d"}
""",
    "spec.yaml",
)
COLUMNS = {"R": ("a", "b"), "S": ("d", "e")}


@every_case("many", [0, 1, 2, 15, 17, 33, 2047, 2048, 2049, 5000])
@every_case("groups", [1, 70])
@every_case("images", [(0, 1), (-5, 2000), (-(2**40), 2**21), (LEAST, MOST)])
def test_notes_are_in_the_order_of_group_image_and_row(many: int, groups: int, images: tuple[int, int]) -> None:
    chance = Random(many)
    notes = np.zeros((NOTE_FIELDS, max(many, 1)), np.int64)
    rows = chance.sample(range(3 * many + 1), many)
    for i, row in enumerate(rows):
        notes[[GROUP, IMAGE, ROW], i] = chance.randrange(groups), chance.randint(*images), row
    wanted = sorted(map(tuple, notes[[GROUP, IMAGE, ROW], :many].T.tolist()))
    sort_notes(notes, many)
    assert list(map(tuple, notes[[GROUP, IMAGE, ROW], :many].T.tolist())) == wanted


@pytest.mark.parametrize("copies", [1, 3, 2**33])
def test_all_of_many_readers_follow_in_commits_of_any_size(copies: int) -> None:
    """With so many copies that a change of a sum does not fit the mark of a reader, too."""
    live = Views(SPEC, {name: plan_query(query, SPEC) for name, query in compile_spec(SPEC).items()})
    chance = Random(copies)
    stored: dict[str, dict[tuple[int, int], int]] = {"R": {}, "S": {}}
    for size in (120, 60, 20, 1, 1, 60):
        for relation, rows in stored.items():
            gone = chance.sample(sorted(rows), min(len(rows), size // 3))
            most = copies if relation == "R" else 2
            come = {(chance.randrange(150), n): chance.choice([1, most]) for n in chance.sample(range(10**6), size)}
            live.apply({relation: _log(COLUMNS[relation], {r: rows.pop(r) for r in gone}, come)})
            rows.update(come)
            _compare(live, stored)
    live._check()


def _log(columns: tuple[str, str], gone: dict[tuple[int, int], int], come: dict[tuple[int, int], int]) -> pa.Table:
    rows = [*gone, *come]
    table = {"_change_type": ["delete"] * len(gone) + ["insert"] * len(come)}
    values = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
    return pa.table({**table, "_count": [*gone.values(), *come.values()], **values})


def _compare(live: Views, stored: dict[str, dict[tuple[int, int], int]]) -> None:
    below = {d: sum(n for (a, _), n in stored["R"].items() if a < d) for d, _ in stored["S"]}
    values = {a for a, _ in stored["R"]}
    assert live.count("rows")[0] == sum(n * below[d] for (d, _), n in stored["S"].items())
    assert live.count("values")[0] == sum(a < d for a in values for d in below)
    per_value: dict[int, int] = {}
    for (d, _), n in stored["S"].items():
        per_value[d] = per_value.get(d, 0) + n * below[d]
    found = {row["d"]: row["n"] for batch in live.enum("groups") for row in batch.to_pylist()}
    assert found == {d: n for d, n in per_value.items() if n}
