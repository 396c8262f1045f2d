"""What a tree costs under changes; the search takes the tree of least cost.

A change of an atom climbs from its leaf to the root. Across a guard it touches one row; across
another edge it touches every row of the parent that agrees on the shared variables:

    KEYED      the shared variables contain a key of every relation that guards the parent: one row
    EQUAL      a group of rows
    COMPARED   a range of rows
    FILTERED   a range of rows by one variable of the child, filtered by another: no range that could be kept, so any
               tree without is better, however often its relations change
    PRODUCT    all rows: nothing is shared

The cost of a tree is the sum over atoms of what their changes touch on the way, weighted by how
often the relation changes; then the number of edges that are no guards; then the sum over atoms of
the levels that their changes climb, weighted likewise: each has a row to be found and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dynq_cli.plan.view_tree import Node

KEYED, EQUAL, COMPARED, PRODUCT, FILTERED = 0.1, 1.0, 2.0, 3.0, 1e6
WEIGHTS: Mapping[str, float] = {"rare": 0.1, "normal": 1.0, "often": 10.0}

Cost = tuple[float, int, float]


@dataclass(frozen=True)
class Weights:
    """Per atom: how often it changes, and the keys of its relation that it binds, as variables."""

    changes: tuple[float, ...]
    keys: tuple[frozenset[str] | None, ...] = field(default=())

    def key(self, atom: int) -> frozenset[str] | None:
        return self.keys[atom] if self.keys else None


def cost_of(root: Node, weights: Weights) -> Cost:
    """Compares as a tuple; less is better."""
    touched = _touched(root, 0.0, weights)
    plain = sum(1 for parent, child in root.edges() if not child.guards(parent))
    return (round(touched, 6), plain, round(_climbed(root, 0, weights), 6))


def _touched(node: Node, above: float, weights: Weights) -> float:
    if node.atom is not None:
        return weights.changes[node.atom] * above
    return sum(_touched(c, above + edge_cost(node, c, weights), weights) for c in node.children)


def _climbed(node: Node, levels: int, weights: Weights) -> float:
    if node.atom is not None:
        return weights.changes[node.atom] * levels
    return sum(_climbed(c, levels + 1, weights) for c in node.children)


def edge_cost(parent: Node, child: Node, weights: Weights) -> float:
    """What a changed group of `child` touches in `parent`, beyond the one row of a guard."""
    if child.guards(parent):
        return 0.0
    shared = frozenset(parent.shared(child))
    compared = {v for c in child.comparisons for v in c.variables if v not in parent.vars}
    if len(compared) > 1:
        return FILTERED
    if is_keyed(parent, shared, weights):
        return KEYED
    if compared:
        return COMPARED
    return EQUAL if shared else PRODUCT


def is_keyed(parent: Node, shared: frozenset[str], weights: Weights) -> bool:
    """Whether given values of `shared` fix the row of `parent`: in every guard, since each of them has
    rows of its own that the parent keeps, live or not. Of a joined node, one child that has all of its
    variables is enough."""
    if not parent.variables:
        return True
    if parent.atom is not None:
        key = weights.key(parent.atom)
        return key is not None and key <= shared
    wide = [c for c in parent.children if parent.vars <= c.vars]
    keyed = [is_keyed(c, shared, weights) for c in wide]
    return any(keyed) if parent.kind == "join" else bool(keyed) and all(keyed)
