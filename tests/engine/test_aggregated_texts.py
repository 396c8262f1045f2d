"""STRING_AGG gives what DuckDB gives after every batch; values that tie in the order asked for are in their own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import parse_type
from tests.engine.random_history import random_history
from tests.engine.random_outer_joins import drawn
from tests.engine.random_queries import Case, Drawn
from tests.engine.random_runs import described, failure, minimise
from tests.seeds import seeds

NULLS = ["", "", " NULLS FIRST", " NULLS LAST"]


def _relations(chance: Random) -> tuple[Relation, ...]:
    made = []
    for name in ("R", "S"):
        kinds = {"g": "int64", "h": chance.choice(["string", "date", "int32"]), "x": "string", "k": "int64"}
        columns = [Column(c, parse_type(kind)[0], chance.random() < 0.5) for c, kind in kinds.items()]
        made.append(Relation(name, tuple(columns)))
    return tuple(made)


def _call(chance: Random, value: str, keys: list[str]) -> tuple[str, str]:
    """A call as it is asked for, and with its order completed."""
    by = [
        f"{key}{chance.choice(['', ' DESC'])}{chance.choice(NULLS)}"
        for key in chance.sample(keys, chance.choice([0, 1, 1]))
    ]
    separator = chance.choice([", ','", ", ''", ", ' | '", ""])
    tail = chance.choice(["", "", f" FILTER (WHERE {keys[0]} IS NOT NULL)"])
    asked = f" ORDER BY {', '.join(by)}" if by else ""
    return (
        f"STRING_AGG({value}{separator}{asked}){tail}",
        f"STRING_AGG({value}{separator} ORDER BY {', '.join([*by, value])}){tail}",
    )


def _texts(chance: Random) -> tuple[str, str]:
    joined = chance.random() < 0.35
    body = chance.choice(["R, S WHERE R.g = S.g", "R LEFT JOIN S ON R.g = S.g"]) if joined else "R"
    values = ["R.x", "S.x", "upper(S.x)"] if joined else ["R.x", "R.x || 'z'"]
    keys = ["R.k", "S.k"] if joined else ["R.k", "R.k + 1"]
    by = chance.choice([[], ["R.g"], ["R.g"], ["R.g", "R.h"]])
    calls = [_call(chance, chance.choice(values), keys) for _ in range(chance.choice([1, 1, 2]))]
    having = chance.choice(["", "", " HAVING COUNT(*) > 1"])
    made = []
    for which in (0, 1):
        shown = [f"{g} AS g{i}" for i, g in enumerate(by)] + [f"{c[which]} AS s{i}" for i, c in enumerate(calls)]
        shown.append("COUNT(*) AS n")
        grouped = (
            f" GROUP BY {'ROLLUP (' + ', '.join(by) + ')' if len(by) > 1 and joined else ', '.join(by)}" if by else ""
        )
        made.append(f"SELECT {', '.join(shown)} FROM {body}{grouped}{having}")
    return made[0], made[1]


def _case(seed: int, queries: int = 3, batches: int = 4) -> Case:
    chance = Random(f"texts {seed}")
    spec = Spec("spec.yaml", _relations(chance), ())
    made: list[Drawn] = []
    while len(made) < queries:
        text, oracle = _texts(chance)
        query = drawn(spec, f"q{len(made)}", text)
        if query is None:
            assert "FILTER" in text and " S" in text, text  # a condition over another table
            continue
        made.append(replace(query, oracle=oracle))
    return Case(seed, spec, tuple(made), tuple(random_history(chance, spec, batches)))


@pytest.mark.parametrize("seed", seeds(12))
def test_results_are_those_of_a_recomputation_after_every_batch(seed: int) -> None:
    case = _case(seed)
    if failure(case):
        pytest.fail(described(minimise(case)), pytrace=False)
