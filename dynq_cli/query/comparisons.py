"""Derive what a conjunction of comparisons implies.

Comparisons `x ≤ y + c` and `x < y + c` are difference constraints: edges x → y of weight c. Paths
add up, so the closure (all-pairs shortest paths) says everything that follows:

    contradiction   a cycle of weight < 0, or of weight 0 with a strict edge
    equality        a cycle of weight 0:  x = y + c
    redundant       an edge with another path at least as tight

On a discrete type with step s, `x < y + c` is `x ≤ y + c − s`, so `x < y, y < x + 2` on integers
says y = x + 1. After all equalities have been taken out no cycle of weight 0 is left, hence the
set of irredundant edges is unique and all redundant ones can go at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

from dynq_cli.spec.types import Type, common_type

# A bound on x − y: its value, and 0 if it may be reached or −1 if not; tuples order by tightness.
Bound = tuple[Decimal, int]
ZERO: Bound = (Decimal(0), 0)
# Decimals have up to 38 digits, and so may offsets; the default context would round at 28.
_EXACT = Context(prec=120)


@dataclass(frozen=True)
class Edge:
    """`left op right + offset` between variables named by `left` and `right`; `op` is < or <=."""

    left: str
    op: str
    right: str
    offset: Decimal = Decimal(0)


def step_of(type_: Type) -> Decimal | None:
    """The distance of neighbouring values of a type, or None where values are dense."""
    if type_.is_integer or type_.is_temporal or type_.name == "bool":
        return Decimal(1)
    return Decimal(1).scaleb(-type_.scale) if type_.name == "decimal" else None


def step_between(a: Type, b: Type) -> Decimal | None:
    """The step of the differences between values of two types, or None where they are dense."""
    common = common_type(a, b)
    return None if common is None else step_of(common)


def bound_of(op: str, offset: Decimal, step: Decimal | None) -> Bound:
    """The tightest bound on left − right that `op offset` states."""
    if step is None:
        return (offset, -1 if op == "<" else 0)
    with localcontext(_EXACT):
        steps = offset / step
        if op == "<":
            return ((steps.to_integral_value(ROUND_CEILING) - 1) * step, 0)
        return (steps.to_integral_value(ROUND_FLOOR) * step, 0)


def _add(a: Bound, b: Bound) -> Bound:
    return (_EXACT.add(a[0], b[0]), a[1] or b[1])


class Closure:
    """All bounds that follow from a set of edges. O(v³) for v variables."""

    def __init__(self, edges: Iterable[tuple[Edge, Decimal | None]]) -> None:
        self.bounds: dict[tuple[str, str], Bound] = {}
        names: list[str] = []
        for edge, step in edges:
            names += [n for n in (edge.left, edge.right) if n not in names]
            self._tighten(edge.left, edge.right, bound_of(edge.op, edge.offset, step))
        for via in names:
            for x in names:
                for y in names:
                    first, second = self.bounds.get((x, via)), self.bounds.get((via, y))
                    if first is not None and second is not None:
                        self._tighten(x, y, _add(first, second))
        self.names: Sequence[str] = names

    def _tighten(self, x: str, y: str, bound: Bound) -> None:
        old = self.bounds.get((x, y))
        if old is None or bound < old:
            self.bounds[x, y] = bound

    def contradiction(self) -> str | None:
        """A variable on a cycle that can never hold, or None."""
        return next((x for x in self.names if self.bounds.get((x, x), ZERO) < ZERO), None)

    def equalities(self) -> list[tuple[str, str, Decimal]]:
        """Pairs (x, y, c), x before y, with x = y + c in every solution."""
        found = []
        for i, x in enumerate(self.names):
            for y in self.names[i + 1 :]:
                there, back = self.bounds.get((x, y)), self.bounds.get((y, x))
                if there and back and _add(there, back) == ZERO:
                    found.append((x, y, there[0]))
        return found

    def implies(self, edge: Edge, step: Decimal | None) -> bool:
        known = self.bounds.get((edge.left, edge.right))
        return known is not None and known <= bound_of(edge.op, edge.offset, step)

    def implies_different(self, x: str, y: str, offset: Decimal) -> bool:
        """Whether x != y + offset follows."""
        return any(
            bound is not None and (bound[0] < limit or (bound[0] == limit and bound[1] < 0))
            for bound, limit in ((self.bounds.get((x, y)), offset), (self.bounds.get((y, x)), -offset))
        )


def redundant(edges: Sequence[tuple[Edge, Decimal | None]], free: Sequence[bool]) -> list[bool]:
    """Which edges follow from the others; `free` edges (filters of one atom) cost nothing and stay."""
    gone = [False] * len(edges)
    for i, (edge, step) in enumerate(edges):
        if free[i]:
            continue
        rest = [e for j, e in enumerate(edges) if j != i and not gone[j]]
        gone[i] = Closure(rest).implies(edge, step)
    return gone
