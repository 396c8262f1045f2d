"""What follows from comparisons is exactly what holds in every solution.

A solution may be shifted as a whole, so the first variable is 0 and the others lie within the sum of the
offsets of it. On dense types with whole offsets, k variables that have a solution have one in steps of
1/(k + 1): the same search, scaled.
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
Solution = dict[str, Fraction]


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
    def widest(self) -> int:
        return max((int(abs(e.offset)) + 1 for e in self.edges), default=1)

    @property
    def stepped(self) -> list[tuple[Edge, Decimal | None]]:
        return [(e, self.step) for e in self.edges]

    def solutions(self, also: Sequence[Edge] = ()) -> Iterator[Solution]:
        """Solutions of the edges and of `also`: all that are needed to refute what does not follow."""
        edges = (*self.edges, *also)
        grid = Fraction(1, self.size + 1) if self.step is None else Fraction(self.step)
        reach = int((self.size - 1) * max(int(abs(e.offset)) + 1 for e in edges) / grid) if edges else 1
        values = [grid * i for i in range(-reach, reach + 1)]
        return _solved({self.names[0]: Fraction(0)}, self.names[1:], edges, values)


def _solved(known: Solution, left: str, edges: Sequence[Edge], values: Sequence[Fraction]) -> Iterator[Solution]:
    if not all(satisfies(known, e) for e in edges if {e.left, e.right} <= known.keys()):
        return
    if not left:
        yield known
        return
    for value in values:
        yield from _solved({**known, left[0]: value}, left[1:], edges, values)


def satisfies(solution: Solution, edge: Edge) -> bool:
    left, right = solution[edge.left], solution[edge.right] + Fraction(edge.offset)
    return left < right if edge.op == "<" else left <= right


def negated(edge: Edge) -> Edge:
    return Edge(edge.right, "<=" if edge.op == "<" else "<", edge.left, -edge.offset)


def random_system(random: Random, step: Decimal | None, most: int = 2) -> System:
    size = random.randint(2, 4 if step is not None else 3)
    edges = []
    for _ in range(random.randint(1, size + 2)):
        x, y = random.sample(NAMES[:size], 2)
        edges.append(Edge(x, random.choice(("<", "<=")), y, random.randint(-most, most) * (step or Decimal(1))))
    return System(size, tuple(edges), step)


def check_closure(system: System) -> None:
    closure = Closure(system.stepped)
    satisfiable = next(system.solutions(), None) is not None
    assert (closure.contradiction() is None) == satisfiable, "contradiction"
    if not satisfiable:
        return
    unit = system.step or Decimal(1)
    for x, y in permutations(system.names, 2):
        for offset in (unit * i for i in range(-3, 4)):
            for op in ("<", "<="):
                edge = Edge(x, op, y, offset)
                follows = next(system.solutions([negated(edge)]), None) is None
                assert closure.implies(edge, system.step) == follows, edge
            equal = [Edge(x, "<=", y, offset), Edge(y, "<=", x, -offset)]
            never = next(system.solutions(equal), None) is None
            assert closure.implies_different(x, y, offset) == never, f"{x} != {y} + {offset}"


def check_equalities(system: System) -> None:
    closure = Closure(system.stepped)
    if closure.contradiction() is not None:
        return
    found = {(x, y): c for x, y, c in closure.equalities()}
    found |= {(y, x): -c for (x, y), c in found.items()}
    differences: dict[tuple[str, str], set[Fraction]] = {}
    for solution in system.solutions():
        for x, y in permutations(system.names, 2):
            differences.setdefault((x, y), set()).add(solution[x] - solution[y])
    forced = {pair: next(iter(values)) for pair, values in differences.items() if len(values) == 1}
    assert {pair: Fraction(c) for pair, c in found.items()} == forced


def check_redundant(system: System) -> None:
    if Closure(system.stepped).contradiction() is not None:
        return
    random = Random(repr(system))
    filters = [random.random() < 0.2 for _ in system.edges]
    gone = redundant(system.stepped, filters)
    kept = replace(system, edges=tuple(e for e, g in zip(system.edges, gone, strict=True) if not g))
    assert not any(g and f for g, f in zip(gone, filters, strict=True)), "a filter stays"
    for edge in system.edges:
        assert next(kept.solutions([negated(edge)]), None) is None, f"{edge} is lost"
    for i, edge in enumerate(system.edges):
        if not gone[i] and not filters[i]:
            others = tuple(e for j, e in enumerate(system.edges) if j != i and not gone[j])
            assert next(replace(kept, edges=others).solutions([negated(edge)]), None) is not None, f"{edge} is left"


STEPS = [
    pytest.param(Decimal(1), id="integers"),
    pytest.param(Decimal("0.1"), id="decimals"),
    pytest.param(None, id="dense"),
]


@pytest.mark.parametrize("step", STEPS)
def test_a_closure_implies_what_holds_in_every_solution_and_nothing_else(step: Decimal | None) -> None:
    fuzz(60, lambda random: random_system(random, step, most=1 if step is None else 2), check_closure)


@pytest.mark.parametrize("step", STEPS)
def test_equalities_are_the_differences_that_every_solution_shares(step: Decimal | None) -> None:
    fuzz(150, lambda random: random_system(random, step, most=1), check_equalities)


@pytest.mark.parametrize("step", STEPS)
def test_redundant_comparisons_go_and_no_other(step: Decimal | None) -> None:
    fuzz(200, lambda random: random_system(random, step), check_redundant)


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
        assert (bound, strict) == (max(reached), 0)


def test_steps_are_those_of_the_type() -> None:
    assert [step_of(t) for t in (INT64, DATE, TIMESTAMP, BOOL)] == [Decimal(1)] * 4
    assert step_of(Type("decimal", 15, 2)) == Decimal("0.01")
    assert step_of(FLOAT64) is None and step_of(STRING) is None


def test_a_closure_that_ignores_strictness_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons_module, "bound_of", lambda op, offset, step: (offset, 0))
    for step in (Decimal(1), None):
        with pytest.raises(AssertionError):
            fuzz(60, lambda random, step=step: random_system(random, step, most=1), check_closure)
