"""What DuckDB said of a value is remembered as long as its code means that value, and asked for again otherwise."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dynq_cli.engine import expressions
from dynq_cli.engine.codes import NULL
from dynq_cli.engine.expression_cache import MOST_APART, ExpressionCache
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError
from dynq_cli.plan.choose import plan_query
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.types import Type

INT, STRING = Type("int64"), Type("string")


def codes(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_answers_are_those_that_were_learnt_whatever_the_order() -> None:
    chance, memory, known = Random(1), ExpressionCache(), dict[int, int]()
    for _ in range(200):
        some = [chance.choice([NULL, chance.randint(-500, 500), chance.randint(-9, 9)]) for _ in range(5)]
        found = memory.of("x", INT, codes(*some))
        assert (found is None) == any(c not in known for c in some)
        if found is not None:
            assert found.tolist() == [known[c] for c in some]
            continue
        known |= {c: hash(c) % 97 for c in some}
        memory.learn("x", INT, codes(*some), codes(*(known[c] for c in some)))
    assert memory.of("y", INT, codes(1)) is None and memory.of("x", STRING, codes(1)) is None


def test_values_that_lie_far_apart_are_not_remembered() -> None:
    memory = ExpressionCache()
    memory.learn("x", INT, codes(1, 2), codes(1, 0))
    memory.learn("x", INT, codes(MOST_APART + 5), codes(1))
    assert memory.of("x", INT, codes(1)) is None
    memory.learn("x", INT, codes(1), codes(1))
    assert memory.of("x", INT, codes(1)) is None


def test_ids_that_are_given_out_anew_are_forgotten() -> None:
    memory = ExpressionCache()
    for kind in (INT, STRING):
        memory.learn("x", kind, codes(0, 1, 2), codes(1, 1, 0))
    memory.forget({"string": 2, "binary": 0, "decimal": 0})
    assert memory.of("x", STRING, codes(0, 1)) is not None and memory.of("x", STRING, codes(2)) is None
    assert memory.of("x", INT, codes(2)) is not None


SPEC = """\
version: 1
relations: {R: {columns: {k: int64, s: string?, d: date}, key: [k]}}
queries:
  q: {sql: "SELECT k FROM R WHERE s LIKE '%a%' AND d < DATE '2020-01-03'"}
"""


def live() -> Views:
    spec = parse_spec(SPEC, "spec.yaml")
    return Views(spec, {name: plan_query(query, spec) for name, query in compile_spec(spec).items()})


def rows(*given: tuple[int, str | None, int]) -> dict[str, pa.Table]:
    days = pa.array([18262 + d for _, _, d in given], pa.int32()).view(pa.date32())
    return {"R": pa.table({"k": [k for k, _, _ in given], "s": pa.array([s for _, s, _ in given]), "d": days})}


def result(made: Views) -> list[int]:
    return sorted(k for batch in made.enum("q") for k in batch["k"].to_pylist())


def test_known_values_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = live()
    made.apply(rows((1, "a", 0), (2, "b", 1), (3, None, 2), (4, "ba", 3)))
    monkeypatch.setattr(expressions, "conditions_hold", lambda *_: pytest.fail("asked again"))
    made.apply(rows((5, "ba", 0), (6, None, 0), (7, "a", 3), (8, "a", 1)))
    assert result(made) == [1, 5, 8]


def test_what_a_refused_commit_said_of_new_values_is_forgotten() -> None:
    made = live()
    made.apply(rows((1, "a", 0)))
    with pytest.raises(RejectedError):
        made.apply(rows((2, "xa", 0), (1, "y", 0)))
    made.apply(rows((2, "xb", 0), (3, "xa", 0)))
    assert result(made) == [1, 3]
