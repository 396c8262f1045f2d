"""Hypergraph reduction with comparisons: the two steps that decide acyclicity.

    A  drop from an edge a variable that is in no other edge, no comparison and not in the output
    B  drop edge e into edge f, if the variables e shares with other edges or the output lie in f,
       and every comparison on the rest of e has its other variable in f

Without comparisons this is the classical ear removal (GYO). Pass 1 has the head as output and
drops only edges that still have a variable outside it: the query is free-connex if afterwards
every edge lies in the head. Pass 2 has no output: the query is acyclic if one empty edge and no
comparison is left. Step A goes as far as it can before every step B.

A tested edge (of a semi or anti atom) is never a target: it is looked up below another edge, and
contributes no rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynq_cli.query.hypergraph import Edge, Hypergraph
from dynq_cli.query.normal_form import Comparison
from dynq_cli.records import record

NOTHING: Edge = frozenset()


@record(frozen=True)
class State:
    """What is left: edges by the number of the atom they started as, and comparisons."""

    edges: tuple[tuple[int, Edge], ...]
    comparisons: tuple[Comparison, ...]

    def edge(self, number: int) -> Edge:
        return dict(self.edges)[number]


@record(frozen=True)
class Drop:
    """A step B: edge `e` goes into edge `f`, with the comparisons that go along."""

    e: int
    f: int
    comparisons: tuple[Comparison, ...]


def start(graph: Hypergraph) -> State:
    """All edges, and the comparisons that no single edge holds (those are filters there)."""
    between = tuple(c for c in graph.comparisons if not any(c.variables <= e for e in graph.edges))
    return State(tuple(enumerate(graph.edges)), between)


def step_a(state: State, output: Edge) -> State:
    """Drop every variable that nothing else needs."""
    compared = NOTHING.union(*(c.variables for c in state.comparisons))
    edges = []
    for number, edge in state.edges:
        others = NOTHING.union(*(e for n, e in state.edges if n != number))
        edges.append((number, edge & (others | compared | output)))
    return State(tuple(edges), state.comparisons)


def drops(graph: Hypergraph, state: State, output: Edge, first_pass: bool) -> Iterator[Drop]:
    """Every step B that is possible now."""
    for e, edge in state.edges:
        if first_pass and edge <= output:
            continue
        others = NOTHING.union(*(x for n, x in state.edges if n != e))
        shared = edge & (others | output)
        for f, target in state.edges:
            if f == e or graph.is_tested(f) or not shared <= target:
                continue
            rest = edge - target
            touching = tuple(c for c in state.comparisons if c.variables & rest)
            if all(c.variables - rest <= target for c in touching):
                yield Drop(e, f, touching)


def apply_drop(state: State, drop: Drop) -> State:
    return State(
        tuple((n, x) for n, x in state.edges if n != drop.e),
        tuple(c for c in state.comparisons if c not in drop.comparisons),
    )


def reduce(graph: Hypergraph, state: State, output: Edge, first_pass: bool) -> State:
    """Steps A and B to the end, taking the first B each time: every order ends the same."""
    while True:
        state = step_a(state, output)
        drop = next(drops(graph, state, output, first_pass), None)
        if drop is None:
            return state
        state = apply_drop(state, drop)


def first_pass_done(graph: Hypergraph, state: State) -> bool:
    """Whether every edge lies in the head."""
    return all(edge <= graph.free for _, edge in state.edges)


def second_pass_done(state: State) -> bool:
    return len(state.edges) == 1 and not state.edges[0][1] and not state.comparisons


def is_acyclic(graph: Hypergraph) -> bool:
    """Whether a generalised join tree exists, whatever the head."""
    return second_pass_done(reduce(graph, start(graph), NOTHING, first_pass=False))


def is_free_connex(graph: Hypergraph) -> bool:
    """Whether a generalised join tree exists from which the head can be read with constant delay."""
    left = reduce(graph, start(graph), graph.free, first_pass=True)
    return first_pass_done(graph, left) and second_pass_done(reduce(graph, left, NOTHING, first_pass=False))
