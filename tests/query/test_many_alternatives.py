"""Formulas of many disjunctions: each that an atom guards is kept as a view of that atom's rows."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from dynq_cli.engine.views import Views
from dynq_cli.plan.program import Tree
from dynq_cli.storage.plans import plan_spec
from tests.engine.random_formulas import Drawn, satisfied, spec_text

SAME = [
    ("exists", "u", ("atom", "E", ("x", "u"))),
    ("atom", "S", ("x",)),
    ("atom", "T", ("x",)),
    ("exists", "v", ("atom", "F", ("v", "x"))),
]


def _of_y(f: tuple[object, ...]) -> tuple[object, ...]:
    """The same of y, with a variable of its own."""
    names = {"x": "y", "u": "w", "v": "z"}
    return tuple(_of_y(part) if isinstance(part, tuple) else names.get(str(part), part) for part in f)


def test_ends_of_links_that_agree_in_four_ways_take_one_tree_and_no_multiplied_alternatives() -> None:
    formula: tuple[object, ...] = ("atom", "E", ("x", "y"))
    for f in SAME:
        formula = ("and", formula, ("<->", f, _of_y(f)))
    one = Drawn(("x", "y"), formula)
    planned = plan_spec(spec_text({"q": one.text}))
    live, chance = Views(planned.spec, planned.kept), Random(0)
    steps = live.queries["q"].steps
    assert isinstance(steps[-1], Tree) and len(steps) < 200
    rows: dict[str, list[tuple[int | None, ...]]] = {"E": [], "F": [], "S": [], "T": [], "R": []}
    for _ in range(60):
        name = chance.choice("EEEEFST")
        row = tuple(chance.randrange(4) for _ in range(2 if name in "EF" else 1))
        gone = row in rows[name]
        (rows[name].remove if gone else rows[name].append)(row)
        columns = {"abc"[i]: pa.array([value], pa.int64()) for i, value in enumerate(row)}
        live.apply({name: pa.table({"_change_type": ["delete" if gone else "insert"], **columns})})
        found = {tuple(r.values()) for batch in live.enum("q") for r in batch.to_pylist()}
        assert found == satisfied(one, rows)
    live._check()
