"""What follows from comparisons is exactly what holds in every solution.

A solution may be shifted as a whole, so the first variable is 0 and the others lie within the sum of the
offsets of it. On dense types with whole offsets, k variables that have a solution have one in steps of
1/(k + 1): the same search on a finer grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from random import Random

import pytest

from dynq_cli.query import comparisons as comparisons_module
from dynq_cli.query.comparisons import Closure, Edge, bound_of, redundant, step_of
from dynq_cli.spec.types import BOOL, DATE, FLOAT64, INT64, STRING, TIMESTAMP, Type
from tests.property.cases import fuzz

NAMES = "xyzw"
MOST = 2
Solution = dict[str, int]
Bounds = tuple[str, str, str, int]


@dataclass(frozen=True)
class System:
    """Comparisons between the first `size` variables; `step` is that of their type."""

    size: int
    edges: tuple[Edge, ...]
    step: Decimal | None

    def smaller(self) -> Iterator[System]:
        for i in range(len(self.edges)):
            yield replace(self, edges=self.edges[:i] + self.edges[i + 1 :])

    @property
    def names(self) -> str:
        return NAMES[: self.size]

    @property
    def stepped(self) -> list[tuple[Edge, Decimal | None]]:
        return [(e, self.step) for e in self.edges]

    @property
    def unit(self) -> Decimal:
        return self.step or Decimal(1)

    @property
    def per_unit(self) -> int:
        """Grid steps in one unit of the offsets."""
        return 1 if self.step is not None else self.size + 1

    def solutions(self) -> Iterator[Solution]:
        """Solutions in grid steps: enough of them to refute what does not follow within offsets of MOST units."""
        reach = self.size * (MOST + 2) * self.per_unit
        edges = [(e.left, e.op, e.right, int(e.offset / self.unit) * self.per_unit) for e in self.edges]
        return _solved({self.names[0]: 0}, self.names[1:], edges, range(-reach, reach + 1))

    def differences(self) -> dict[tuple[str, str], set[Fraction]]:
        """Per pair of variables the values of x − y in units; empty without a solution."""
        found: dict[tuple[str, str], set[int]] = {}
        for solution in self.solutions():
            for x, y in permutations(self.names, 2):
                found.setdefault((x, y), set()).add(solution[x] - solution[y])
        return {pair: {Fraction(d, self.per_unit) for d in values} for pair, values in found.items()}


def _solved(known: Solution, left: str, edges: Sequence[Bounds], values: range) -> Iterator[Solution]:
    for x, op, y, offset in edges:
        if x in known and y in known and not (known[x] < known[y] + offset + (op == "<=")):
            return
    if not left:
        yield known
        return
    for value in values:
        yield from _solved({**known, left[0]: value}, left[1:], edges, values)


def random_system(random: Random, step: Decimal | None) -> System:
    size = random.choice((2, 3, 3, 3, 3, 4)) if step is not None else random.choice((2, 3, 3))
    edges = []
    for _ in range(random.randint(1 if size < 4 else 4, size + 2)):
        x, y = random.sample(NAMES[:size], 2)
        offset = random.randint(-MOST, MOST) if random.random() < 0.7 else 0
        edges.append(Edge(x, random.choice(("<", "<=")), y, offset * (step or Decimal(1))))
    return System(size, tuple(edges), step)


def holds_always(edge: Edge, system: System, differences: set[Fraction]) -> bool:
    offset = Fraction(edge.offset) / Fraction(system.unit)
    return all(d < offset if edge.op == "<" else d <= offset for d in differences)


def check_closure(system: System) -> None:
    closure, differences = Closure(system.stepped), system.differences()
    assert (closure.contradiction() is None) == bool(differences), "contradiction"
    for (x, y), values in differences.items():
        for i in range(-MOST, MOST + 1):
            for op in ("<", "<="):
                edge = Edge(x, op, y, i * system.unit)
                assert closure.implies(edge, system.step) == holds_always(edge, system, values), edge
            assert closure.implies_different(x, y, i * system.unit) == (i not in values), f"{x} != {y} + {i} units"


def check_equalities(system: System) -> None:
    closure, differences = Closure(system.stepped), system.differences()
    if not differences:
        return
    found = {(x, y): Fraction(c / system.unit) for x, y, c in closure.equalities()}
    found |= {(y, x): -c for (x, y), c in found.items()}
    assert found == {pair: next(iter(values)) for pair, values in differences.items() if len(values) == 1}


def check_redundant(system: System) -> None:
    if not system.differences():
        return
    random = Random(repr(system))
    filters = [random.random() < 0.2 for _ in system.edges]
    gone = redundant(system.stepped, filters)
    assert not any(g and f for g, f in zip(gone, filters, strict=True)), "a filter stays"
    for i, edge in enumerate(system.edges):
        if not filters[i]:
            others = tuple(e for j, e in enumerate(system.edges) if j != i and not gone[j])
            values = replace(system, edges=others).differences()[edge.left, edge.right]
            assert gone[i] == holds_always(edge, system, values), edge


STEPS = [
    pytest.param(Decimal(1), id="integers"),
    pytest.param(Decimal("0.1"), id="decimals"),
    pytest.param(None, id="dense"),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_closure_implies_what_holds_in_every_solution_and_nothing_else(step: Decimal | None) -> None:
    fuzz(250, lambda random: random_system(random, step), check_closure)


@pytest.mark.parametrize("step", STEPS)
def test_equalities_are_the_differences_that_every_solution_shares(step: Decimal | None) -> None:
    fuzz(250, lambda random: random_system(random, step), check_equalities)


@pytest.mark.parametrize("step", STEPS)
def test_redundant_comparisons_go_and_no_other(step: Decimal | None) -> None:
    fuzz(120, lambda random: random_system(random, step), check_redundant)


def test_neighbouring_integers_are_equal_with_an_offset() -> None:
    edges = [(Edge("x", "<", "y"), Decimal(1)), (Edge("y", "<", "x", Decimal(2)), Decimal(1))]
    assert Closure(edges).equalities() == [("x", "y", Decimal(-1))]
    dense = [(edge, None) for edge, _ in edges]
    assert Closure(dense).equalities() == []


def test_bounds_between_steps_are_rounded_to_what_values_can_reach() -> None:
    half = Decimal("0.5")
    for op, offset in product(("<", "<="), (half * i for i in range(-5, 6))):
        bound, strict = bound_of(op, offset, Decimal(1))
        reached = [d for d in range(-9, 10) if (d < offset if op == "<" else d <= offset)]
        assert (bound, strict) == (Decimal(max(reached)), 0)


def test_steps_are_those_of_the_type() -> None:
    assert [step_of(t) for t in (INT64, DATE, TIMESTAMP, BOOL)] == [Decimal(1)] * 4
    assert step_of(Type("decimal", 15, 2)) == Decimal("0.01")
    assert step_of(FLOAT64) is None and step_of(STRING) is None


def test_a_closure_that_ignores_strictness_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons_module, "bound_of", lambda op, offset, step: (offset, 0))
    with pytest.raises(AssertionError):
        fuzz(60, lambda random: random_system(random, Decimal(1)), check_closure)
    with pytest.raises(AssertionError):
        fuzz(60, lambda random: random_system(random, None), check_closure)
