"""What a changed row of an atom touches in the tree of a query.

A changed row climbs from its leaf to the root. Across a guard it touches one row of the parent;
across another edge the rows of the parent that agree on the shared variables (one, if these contain
a key), or a range of them where the edge compares. Reading a compared child, or keeping an order,
goes through a counted tree and costs O(log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from dynq_cli.plan.bounds import larger, power
from dynq_cli.plan.cost import Weights, is_keyed
from dynq_cli.plan.plan import DistinctTree, UpdateCost
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery


def show(node: Node) -> str:
    return f"[{', '.join(node.variables)}]"


@dataclass(frozen=True)
class Kept:
    """What the costs depend on."""

    query: ConjunctiveQuery
    tree: Node
    weights: Weights
    ordered: bool
    distinct: tuple[DistinctTree, ...] = ()


def updates_of(kept: Kept) -> tuple[UpdateCost, ...]:
    """What a changed row touches, atom by atom; of several trees, where it touches most."""
    found: dict[int, UpdateCost] = {}
    for tree in (kept.tree, *(d.tree for d in kept.distinct)):
        _climb(kept, tree, [], found)
    return tuple(found[i] for i in sorted(found))


def _climb(kept: Kept, node: Node, path: list[tuple[Node, Node]], found: dict[int, UpdateCost]) -> None:
    if node.atom is not None:
        cost = _cost_along(kept, kept.query.atoms[node.atom], path)
        if node.atom not in found or larger(cost.bound, found[node.atom].bound):
            found[node.atom] = cost
    for child in node.children:
        _climb(kept, child, [(node, child), *path], found)


def _cost_along(kept: Kept, atom: Atom, path: list[tuple[Node, Node]]) -> UpdateCost:
    name, wide, bound, exponent = atom.brief, [], "O(1)", 1
    if _has_nulls(atom):
        wide.append(f"every row of {show(path[0][0])} by a NULL")
    for parent, child in path:
        siblings = [c for c in parent.children if c is not child]
        before = len(wide)
        if parent.kind == "join":
            wide.append(f"its partners in {' and '.join(_names(kept, c) for c in siblings)}")
        elif child.comparisons:
            compared = ", ".join(str(c) for c in child.comparisons)
            wide.append(f"the rows of {show(parent)} in the range {compared}")
        elif not child.guards(parent):
            shared = parent.shared(child)
            if not is_keyed(parent, frozenset(shared), kept.weights):
                same = f"with the same {', '.join(shared)}" if shared else "(nothing is shared)"
                wide.append(f"every row of {show(parent)} {same}")
        if any(c.comparisons for c in siblings):
            bound = "O(log n)"
        for sibling in siblings:
            second = _second(parent, sibling)
            if second:
                wide.append(f"the rows of {_names(kept, sibling)}, filtered by {second}")
        if len(wide) > before:
            met = parent.vars.union(*(c.vars for c in siblings)) if parent.kind == "join" else parent.vars
            exponent = max(exponent, _cover(kept, parent, met if before else met - child.vars))
    if kept.ordered or _has_extremum(kept):
        bound = "O(log n)"
    if wide:
        return UpdateCost(name, power(exponent), f"touches {'; then '.join(wide)}")
    if bound == "O(1)":
        return UpdateCost(name, bound, "touches one row per level")
    return UpdateCost(name, bound, "touches one row per level, each through an ordered tree")


def _cover(kept: Kept, node: Node, variables: frozenset[str]) -> int:
    """The fewest atoms below a node that have all of some of its variables: these take at most n^cover values."""
    atoms = [kept.query.atoms[i].variables for i in node.atoms]
    sizes = range(1, len(atoms) + 1)
    return next(k for k in sizes if any(variables <= frozenset().union(*some) for some in combinations(atoms, k)))


def _has_nulls(atom: Atom) -> bool:
    """Whether it is the inner side of a NOT IN where one NULL rules out every row."""
    binding = atom.binding(atom.null_aware) if atom.null_aware is not None else None
    return binding is not None and binding.scalar.nullable


def _names(kept: Kept, node: Node) -> str:
    return ", ".join(kept.query.atoms[i].brief for i in node.atoms)


def _has_extremum(kept: Kept) -> bool:
    return any(basic(a.function).state == "ordered" for a in kept.query.aggregates)


def _second(parent: Node, child: Node) -> str:
    """A comparison on a second variable of the child, whose rows are ordered by the first, or nothing."""
    sides = sorted({v for c in child.comparisons for v in c.variables if v not in parent.vars})
    return next((str(c) for c in child.comparisons if sides[1] in c.variables), "") if len(sides) > 1 else ""
