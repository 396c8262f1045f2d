"""Plans come back from JSON as they were, and nothing else passes for one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.codec import CodecError, decode, encode
from dynq_cli.plan.fingerprint import fingerprint
from dynq_cli.plan.plan import Plan, UnionPlan
from dynq_cli.query.compile import compile_spec
from dynq_cli.spec.load import load_spec
from dynq_cli.spec.model import Spec
from tests.engine.random_queries import random_case
from tests.every_case import every_case
from tests.plan.planned import planned
from tests.seeds import seeds

SPECS = sorted((Path(__file__).parents[2] / "specs").rglob("*.yaml"))
Either = Plan | UnionPlan


@dataclass(frozen=True)
class Kept:
    """A union of dataclasses needs a field to be in: alone it is no type that a function could be given."""

    plan: Either


def there_and_back(kind: type[Any], value: Any) -> Any:
    return decode(kind, json.loads(json.dumps(encode(kind, value))))


@every_case("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_with_its_plans_comes_back(path: Path) -> None:
    spec = load_spec(path)
    back = there_and_back(Spec, spec)
    # Places are left out when specs are compared, but not when they are shown.
    assert back == spec and repr(back) == repr(spec)
    for query in compile_spec(spec).values():
        plan = plan_query(query, spec)
        returned = there_and_back(Kept, Kept(plan)).plan
        assert returned == plan and repr(vars(returned)) == repr(vars(plan))
        assert fingerprint(returned) == fingerprint(plan)


@pytest.mark.parametrize("seed", seeds(10))
def test_random_plans_come_back(seed: int) -> None:
    case = random_case(seed, 2, 0)
    assert there_and_back(Spec, case.spec) == case.spec
    for drawn in case.queries:
        assert there_and_back(Plan, drawn.plan) == drawn.plan


def leaves(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or object and key in it, whatever stands there."""
    for key in range(len(data)) if isinstance(data, list) else list(data):
        yield data, key
        if isinstance(data[key], list | dict):
            yield from leaves(data[key])


QUERIES = [
    "SELECT R.x, count(*) AS n, sum(S.z) AS s FROM R, S WHERE R.y = S.y GROUP BY R.x",
    "SELECT R.x, S.z FROM R, S WHERE R.y < S.y",
    "SELECT a FROM A UNION SELECT b FROM B",
    "SELECT x FROM R WHERE EXISTS (SELECT 1 FROM S WHERE S.y = R.y)",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_value_of_another_type_is_found_wherever_it_stands(query: str) -> None:
    kept = Kept(planned(query))
    data: Any = encode(Kept, kept)
    places = list(leaves(data))
    assert len(places) > 50
    for holder, key in places:
        before, holder[key] = holder[key], 0.5
        with pytest.raises(CodecError):
            decode(Kept, data)
        holder[key] = before
    assert decode(Kept, data) == kept


@pytest.mark.parametrize("query", QUERIES)
def test_a_field_too_many_or_too_few_is_found(query: str) -> None:
    data: Any = encode(Kept, Kept(planned(query)))
    ((_, plan),) = data
    for wrong in ([*plan, None], plan[:-1], []):
        with pytest.raises(CodecError):
            decode(Kept, [[data[0][0], wrong]])


@dataclass(frozen=True)
class Sample:
    word: Literal["a", "b"]
    number: int
    exact: Decimal
    pair: tuple[str, int]
    many: tuple[bool, ...]
    maybe: str | None
    named: Mapping[str, int]


SAMPLE = Sample("a", 2**80, Decimal("1.50"), ("x", 1), (True, False), None, {"k": 1})
FORM = ["a", 2**80, "1.50", ["x", 1], [True, False], None, {"k": 1}]


def test_the_form_is_the_fields_in_their_order() -> None:
    assert encode(Sample, SAMPLE) == FORM
    back = there_and_back(Sample, SAMPLE)
    assert back == SAMPLE and str(back.exact) == "1.50"


@every_case(
    ("field", "wrong"),
    [
        (0, "c"),
        (1, True),
        (1, "1"),
        (2, "one"),
        (2, 1),
        (3, ["x"]),
        (3, ["x", 1, 2]),
        (4, [1]),
        (4, None),
        (5, 0),
        (6, []),
        (6, {"k": None}),
    ],
)
def test_what_is_not_of_its_type_is_refused(field: int, wrong: object) -> None:
    form = [*FORM]
    form[field] = wrong
    with pytest.raises(CodecError):
        decode(Sample, form)


@pytest.mark.parametrize("data", [None, {}, "a", FORM[:-1], [*FORM, 1]])
def test_what_is_no_list_of_fields_is_refused(data: object) -> None:
    with pytest.raises(CodecError):
        decode(Sample, data)


def test_a_member_that_a_union_does_not_have_is_refused() -> None:
    for which in (-1, 2, True, None):
        with pytest.raises(CodecError):
            decode(Kept, [[which, []]])


def test_a_value_that_its_type_does_not_allow_is_not_written() -> None:
    wrong: Any = Sample("a", 1, Decimal(1), ("x", 1), (True,), None, {1: 1})  # type: ignore[dict-item]
    with pytest.raises(CodecError):
        encode(Sample, wrong)


def test_a_type_without_a_form_is_refused_at_once() -> None:
    kinds: tuple[Any, ...] = (float, set[int], int | str, list[int])
    for kind in kinds:
        with pytest.raises(TypeError):
            encode(kind, None)
