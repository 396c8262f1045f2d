"""Comparisons that a tree keeps on its edges: those of a child's one variable with variables of its parent.

    z > x,  z < x + 3600        the rows of the child between two bounds, for each row of the parent

Values have to compare as their codes do: they are of one type, and an offset is a whole number of its units. Strings
and wide decimals are compared by labels, and have no offsets; nor have doubles, where a sum is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import localcontext

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower.query_builders import is_wide, part_of, same_codes
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery
from dynq_cli.query.reduction import is_acyclic, is_free_connex
from dynq_cli.spec.model import Spec

# Sums of a code and an offset are looked at in 64 bits.
_LARGEST_OFFSET = 2**62


@dataclass(frozen=True)
class Bound:
    """The child's variable is at least, or at most, or strictly so, the parent's `variable` + `offset` units."""

    variable: str
    is_upper: bool
    is_strict: bool
    offset: int


def bounds_of(query: ConjunctiveQuery, above: frozenset[str], child: Node) -> tuple[str, tuple[Bound, ...]] | None:
    """The variable of a child that is compared, and its bounds, those on the variable with most of them first.

    None if the comparisons are no range: on two variables of the child, with !=, or not between codes.
    """
    variables = {v for c in child.comparisons for v in c.variables - above}
    made = [_bound(query, c, above) for c in child.comparisons]
    if len(variables) != 1:
        return None
    bounds = [b for b in made if b is not None]
    if len(bounds) < len(made):
        return None
    many = {b.variable: sum(1 for other in bounds if other.variable == b.variable) for b in bounds}
    bounds.sort(key=lambda b: (-many[b.variable], b.variable, b.is_upper, b.is_strict, b.offset))
    return variables.pop(), tuple(bounds)


def _bound(query: ConjunctiveQuery, c: Comparison, above: frozenset[str]) -> Bound | None:
    units = _units(query, c)
    if units is None or c.op == "!=" or len(c.variables & above) != 1:
        return None
    if c.right in above:
        return Bound(c.right, True, c.op == "<", units)
    return Bound(c.left, False, c.op == "<", -units)


def _units(query: ConjunctiveQuery, c: Comparison) -> int | None:
    """The offset in units of the codes; None where codes cannot be compared for the values."""
    left, right = query.variable(c.left).type, query.variable(c.right).type
    if left.name in ("string", "binary") or is_wide(left):
        return 0 if left == right and not c.offset else None
    if not same_codes(left, right):
        return None
    if not c.offset:
        return 0
    if left.is_float:
        return None
    # Offsets have up to 38 digits; the default context would round at 28.
    with localcontext(prec=100):
        scaled = c.offset.scaleb(left.scale)
        if scaled != scaled.to_integral_value() or abs(scaled) > _LARGEST_OFFSET:
            return None
        return int(scaled)


def has_ranges(query: ConjunctiveQuery, tree: Node) -> bool:
    """Whether every edge of a tree that compares is a range."""
    edges: Iterator[tuple[Node, Node]] = tree.edges()
    return all(bounds_of(query, p.vars, c) is not None for p, c in edges if c.comparisons)


def in_one_tree(query: ConjunctiveQuery, spec: Spec, *, may_grow: bool = False) -> ConjunctiveQuery | None:
    """The query, if one tree keeps it with its comparisons on edges; if it may grow, with what its head needs."""
    graph = hypergraph_of(query)
    if not is_free_connex(graph):
        if not may_grow or not is_acyclic(graph):
            return None
        wider = plan_query(query, spec)
        assert isinstance(wider, Plan)
        query = part_of(query, query.atoms, wider.head, query.comparisons)
    plan = plan_query(query, spec)
    if not isinstance(plan, Plan) or plan.strategy != "view-tree" or plan.unordered:
        return None
    return query if has_ranges(plan.query, plan.tree) and _is_ascending(plan) else None


def _is_ascending(plan: Plan) -> bool:
    """Whether an order goes through ranges from their first row to their last; with one, a layer adds a variable."""
    compared = frozenset().union(*(c.variables - p.vars for p, n in plan.tree.edges() for c in n.comparisons))
    return not any(o.descending and o.variable in compared for o in plan.order)


def partly(query: ConjunctiveQuery, spec: Spec) -> tuple[ConjunctiveQuery, tuple[Comparison, ...]]:
    """An acyclic equi-join with comparisons, as a tree with some of them on its edges, and those that are left.

    Windows come first, since they are narrow; != is never in a range. The head has what is left to filter by.
    """
    together = {c: sum(1 for d in query.comparisons if d.variables == c.variables) for c in query.comparisons}
    compared = frozenset().union(*(c.variables for c in query.comparisons))
    kept: tuple[Comparison, ...] = ()
    made = _grown(part_of(query, query.atoms, compared.union(query.head)), spec)
    for c in sorted((c for c in query.comparisons if c.op != "!="), key=lambda c: -together[c]):
        tried = in_one_tree(part_of(query, query.atoms, made.head, (*kept, c)), spec, may_grow=True)
        if tried is not None:
            made, kept = tried, (*kept, c)
    return made, tuple(c for c in query.comparisons if c not in kept)


def _grown(query: ConjunctiveQuery, spec: Spec) -> ConjunctiveQuery:
    """An acyclic equi-join with a head that a tree can have."""
    if is_free_connex(hypergraph_of(query)):
        return query
    plan = plan_query(query, spec)
    assert isinstance(plan, Plan)
    return part_of(query, query.atoms, plan.head)
