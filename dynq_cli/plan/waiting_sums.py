"""Waiting sums: which nodes of a tree read ranges of a child without being touched by its changes.

    [k] ●                          the readers [k, d] of one group of R are one group of [k], so that a change of R
    ╘══ [k, d] ●                   changes the sum of that group, by how many readers have the changed row
        ├── R(k, a) ●  where a < d
        ╘══ S(k, d, e) ●

A node waits if one child is compared, by one of the node's variables, and if the node guards a parent that has just
the variables shared with the child. Enumeration skips readers without rows, so ranges of an output node are open at one
end: then the readers that have rows are one end of their order. Each edge below, but for that to the child, is to a
guard: a change touches one row of the node or of the child, and costs O(log n). Where it touches many, touching readers
is cheaper. `with_groups` puts a node of the shared variables above nodes that wait then.
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.plan import Plan
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.normal_form import ConjunctiveQuery


def waiting_nodes(plan: Plan, *, feeds: bool = False) -> frozenset[Node]:
    """The nodes of a tree that wait; none in one with an order, which has positions within groups.

    In a tree that feeds relations output nodes do not: its delta has old and new multiplicities of their rows.
    """
    if plan.order or not plan.query.comparisons:
        return frozenset()
    return frozenset(
        node
        for above, node in plan.tree.edges()
        if not (feeds and node.output)
        and (shared := _shared(plan.query, node)) is not None
        and node.guards(above)
        and above.vars == shared
    )


def with_groups(plan: Plan, *, feeds: bool = False) -> Plan:
    """The plan with a node of the shared variables above each node that waits then."""
    if plan.order or not plan.query.comparisons:
        return plan
    return replace(plan, tree=_grouped(plan.query, plan.tree, feeds))


def _grouped(query: ConjunctiveQuery, node: Node, feeds: bool) -> Node:
    children = (_grouped(query, child, feeds) for child in node.children)
    return replace(node, children=tuple(c if feeds and c.output else _below(query, node, c) for c in children))


def _below(query: ConjunctiveQuery, above: Node, node: Node) -> Node:
    """A child, or a node of the variables that it shares with its compared child, with it below."""
    shared = _shared(query, node)
    if shared is None or shared == above.vars or not above.vars & node.vars <= shared:
        return node
    return Node(tuple(v for v in node.variables if v in shared), (node,), output=node.output)


def _shared(query: ConjunctiveQuery, node: Node) -> frozenset[str] | None:
    """The variables that a node shares with the child that it may wait for; None if it may for none."""
    # Opening a state without ranges does not wait for the planner.
    from dynq_cli.plan.lower.ranges import bounds_of

    compared = [c for c in node.children if c.comparisons]
    if len(compared) != 1 or node.comparisons or node.kind != "view":
        return None
    (child,) = compared
    shared = node.vars & child.vars
    found = bounds_of(query, node.vars, child)
    if found is None or shared == node.vars or any(b.variable != found[1][0].variable for b in found[1]):
        return None
    if not all(_is_simple(c) and (c is child or c.guards(node)) for c in node.children):
        return None
    if node.output:
        # Values below which the output set ends are no products: they are 1 where there is any row.
        is_open = len({b.is_upper for b in found[1]}) == 1
        return shared if is_open and any(c.output for c in node.children) else None
    return shared if query.semantics == "bag" else None


def _is_simple(node: Node) -> bool:
    """Whether a change below a node touches one of its rows."""
    return all(child.guards(parent) and not child.comparisons for parent, child in node.edges())
