"""Comparisons on an edge of a tree, as bounds on codes; see `kernels.bounds`.

A bound is on one variable of the child. Its codes must compare like values: one type, and an offset that is a whole
number of its units.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.records import record


@record(frozen=True)
class Bound:
    """`position` is the index of the parent's variable in its record; for the rest see `plan.lower.ranges.Bound`."""

    position: int
    is_upper: bool
    is_strict: bool
    offset: int

    def numbers(self) -> tuple[int, ...]:
        """As kernels have it."""
        return self.position, int(self.is_upper), int(self.is_strict), self.offset


@record(frozen=True)
class Edge:
    """The bounds of an edge. `variable` is the child's; readers are ordered by the variable of the first bound."""

    variable: str
    bounds: tuple[Bound, ...]


def ranges_of(query: ConjunctiveQuery, above: Sequence[str], child: Node) -> Edge:
    """Return the bounds on the edge to a child from a node whose records have the variables `above`, in this order."""
    # Import the planner only if a tree has ranges: opening a state should not wait for it.
    from dynq_cli.plan.lower.ranges import bounds_of

    found = bounds_of(query, frozenset(above), child)
    assert found is not None, f"{child.comparisons} are no range"
    variable, bounds = found
    made = (Bound(above.index(b.variable), b.is_upper, b.is_strict, b.offset) for b in bounds)
    return Edge(variable, tuple(made))
