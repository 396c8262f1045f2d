"""Decide which orders of the result a tree can keep; build the layered tree that keeps one.

For an order x₁, …, x_k of the head, layer i is the node over x_i and those earlier variables that
share an atom with it. Three variables break an order if the last shares atoms with the two earlier
ones while they share none (a disruptive trio): then the earlier neighbours of a variable are no
edge. Without a trio each layer hangs below the layer of its latest earlier neighbour, is guarded by
an atom below it, and nested loops over the layers in order visit the result in order; with counts
per subtree the j-th row takes one descent per layer.

A comparison between x_i and a later x_j goes on the edge to layer j, whose parent must have x_i.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, permutations

from dynq_cli.plan.search import Finish, Part, Parts
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.hypergraph import Edge
from dynq_cli.query.normal_form import Comparison
from dynq_cli.query.reduction import State

MOST_COMPLETIONS = 120


def obstacle(edges: Iterable[Edge], comparisons: Iterable[Comparison], order: Sequence[str]) -> str:
    """Empty if the order can be kept, else what stands in its way, in words."""
    edges, comparisons = list(edges), list(comparisons)

    def adjacent(x: str, y: str) -> bool:
        return any(x in e and y in e for e in edges)

    for k, last in enumerate(order):
        for x, y in combinations([v for v in order[:k] if adjacent(v, last)], 2):
            if not adjacent(x, y):
                return (
                    f"{last} comes after {x} and {y} and shares atoms with both, while {x} and {y} share none "
                    f"(a disruptive trio): put {last} before {x} or {y}"
                )
    for k, variable in enumerate(order):
        needed = _needed(edges, comparisons, order, k)
        if needed and not needed <= _layer(edges, order, max(order.index(v) for v in needed)):
            listed = " and ".join(sorted(needed, key=order.index))
            return f"{variable} is joined or compared with {listed}, which no atom before it has together"
    return ""


def _layer(edges: Sequence[Edge], order: Sequence[str], i: int) -> Edge:
    """x_i and the earlier variables that share an atom with it."""
    variable = order[i]
    return frozenset([variable, *(v for v in order[:i] if any(v in e and variable in e for e in edges))])


def _needed(edges: Sequence[Edge], comparisons: Sequence[Comparison], order: Sequence[str], i: int) -> Edge:
    """What the parent of layer i must have: its earlier neighbours, and what it is compared with."""
    variable, earlier = order[i], frozenset(order[:i])
    compared = frozenset().union(*(c.variables - {variable} for c in comparisons if variable in c.variables))
    return (_layer(edges, order, i) - {variable}) | (compared & earlier)


def completions(wanted: Sequence[str], head: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Orders of the whole head that begin with `wanted`, the head's own order first."""
    rest = [v for v in head if v not in wanted]
    return (tuple(wanted) + tail for tail in islice(permutations(rest), MOST_COMPLETIONS))


def layered(order: Sequence[str]) -> Finish:
    """A finish for the search that builds the layered tree of `order`, if there is one."""

    def finish(state: State, parts: Parts) -> list[Node]:
        edges = [edge for _, edge in state.edges]
        if obstacle(edges, state.comparisons, order):
            return []
        return [_build(edges, state.comparisons, order, parts, dict(state.edges))]

    return finish


def _build(
    edges: Sequence[Edge],
    comparisons: Sequence[Comparison],
    order: Sequence[str],
    parts: Mapping[int, Part],
    edge_of: Mapping[int, Edge],
) -> Node:
    below: dict[int, list[Node]] = {i: [] for i in range(-1, len(order))}
    for number, part in parts.items():
        below[max((order.index(v) for v in edge_of[number]), default=-1)].append(part.tree)
    for i in reversed(range(len(order))):
        variables = tuple(sorted(_layer(edges, order, i), key=order.index))
        node = _collapsed(Node(variables, tuple(sorted(below[i], key=lambda c: c.atoms)), output=True), order)
        here = tuple(
            c
            for c in comparisons
            if order[i] in c.variables and c.variables <= frozenset(order[: i + 1]) and not c.variables <= node.vars
        )
        parent = max((order.index(v) for v in _needed(edges, comparisons, order, i)), default=-1)
        below[parent].append(replace(node, comparisons=here))
    return Node((), tuple(sorted(below[-1], key=lambda c: c.atoms)), output=True)


def _collapsed(node: Node, order: Sequence[str]) -> Node:
    """A layer with one child of the same variables, or of just the next one, is that child."""
    if len(node.children) != 1 or node.children[0].comparisons:
        return node
    (child,) = node.children
    new = child.vars - node.vars
    follows = new and min(order.index(v) for v in new) == order.index(node.variables[-1]) + 1
    if node.vars <= child.vars and child.output and (not new or follows):
        ordered = tuple(sorted(child.variables, key=order.index))
        return child if child.kind == "atom" else replace(child, variables=ordered)
    return node
