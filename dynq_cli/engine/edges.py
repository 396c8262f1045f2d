"""Comparisons on an edge of a tree as bounds that codes can be held against; see `kernels.bounds`.

They have to be on one variable of the child, and between codes that compare like their values: of one type, with an
offset that is a whole number of its units.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.records import record


@record(frozen=True)
class Bound:
    """`position` is where the parent's variable stands in its record; see `plan.lower.ranges.Bound` for the rest."""

    position: int
    is_upper: bool
    is_strict: bool
    offset: int

    def numbers(self) -> tuple[int, ...]:
        """As kernels have it."""
        return self.position, int(self.is_upper), int(self.is_strict), self.offset


@record(frozen=True)
class Edge:
    """`variable` is the child's; readers are ordered by the variable of the first bound."""

    variable: str
    bounds: tuple[Bound, ...]


def ranges_of(query: ConjunctiveQuery, above: Sequence[str], child: Node) -> Edge:
    """The bounds on the edge to a child from a node with these variables, which are in its records in this order."""
    # What plans queries is imported where a tree has ranges, and not whenever a state is opened.
    from dynq_cli.plan.lower.ranges import bounds_of

    found = bounds_of(query, frozenset(above), child)
    assert found is not None, f"{child.comparisons} are no range"
    variable, bounds = found
    made = (Bound(above.index(b.variable), b.is_upper, b.is_strict, b.offset) for b in bounds)
    return Edge(variable, tuple(made))
