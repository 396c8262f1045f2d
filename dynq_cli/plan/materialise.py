"""Join atoms into nodes without a guard until a tree exists: as few and as small joins as possible.

Joining a group of atoms makes one edge of them, and the comparisons between them go away; joining
all atoms always leaves an acyclic query. The search takes the joins expected to be smallest after which a
tree exists, and of equal ones the fewest. The size of a join is estimated as a power of n:

    keyed     + 0      the shared variables contain a key of the atom added
    window    + 0.25   an equality, and a comparison bounded on both sides
    equal     + 0.5    an equality
    range     + 0.5    bounded on both sides, no equality
    product   + 1      anything else, and a little more: it is never smaller than that

A bound that the query states for the two atoms themselves wins a tie over one that only follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations
from math import inf

from dynq_cli.plan.cost import Weights
from dynq_cli.plan.search import leaf
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.comparisons import Closure, Edge
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.normal_form import Comparison
from dynq_cli.query.reduction import is_acyclic

Group = tuple[int, ...]
KEYED, WINDOW, EQUAL, RANGE, PRODUCT = 0.0, 0.25, 0.5, 0.5, 1.05
STATED = 0.01
# Partitions looked at before the search turns greedy.
MOST_TRIED = 2000
# The largest exponent, the sum of those of joins, minus the number of groups; and the groups.
_Ranked = tuple[float, float, int, tuple[Group, ...]]


@dataclass(frozen=True)
class Merged:
    """A hypergraph whose edges are groups of atoms, and the leaf of each."""

    graph: Hypergraph
    groups: tuple[Group, ...]
    leaves: tuple[Node, ...]
    exponents: tuple[float, ...]


def merge(graph: Hypergraph, weights: Weights, rank: Mapping[str, int], given: Sequence[Group] = ()) -> Merged:
    """The cheapest grouping of atoms that leaves an acyclic query: best first, every join adds to the cost.

    Some groups may be given, each of atoms that are joined in any case.
    """
    bounds = Closure((Edge(c.left, c.op, c.right, c.offset), None) for c in joining(graph))
    groups = _cheapest(graph, bounds, weights, given)
    merged = _grouped(graph, groups)
    leaves = tuple(_leaf_of(graph, bounds, merged, i, g, rank) for i, g in enumerate(groups))
    return Merged(merged, groups, leaves, tuple(group_exponent(graph, bounds, weights, g) for g in groups))


def _cheapest(graph: Hypergraph, bounds: Closure, weights: Weights, given: Sequence[Group]) -> tuple[Group, ...]:
    """The first acyclic partition by cost; past MOST_TRIED of them, the one met by joining the cheapest pairs."""
    alone = [(i,) for i in range(len(graph.edges)) if not any(i in g for g in given)]
    start: tuple[Group, ...] = tuple(sorted([*alone, *given]))
    queue = [_ranked(graph, bounds, weights, start)]
    seen = {start}
    while True:
        *_, groups = heappop(queue)
        if is_acyclic(_grouped(graph, groups)):
            return groups
        if len(seen) > MOST_TRIED:
            queue = [min(_ranked(graph, bounds, weights, g) for g in _joins(graph, groups))]
            continue
        for following in _joins(graph, groups):
            if following not in seen:
                seen.add(following)
                heappush(queue, _ranked(graph, bounds, weights, following))


def _ranked(graph: Hypergraph, bounds: Closure, weights: Weights, groups: tuple[Group, ...]) -> _Ranked:
    """The largest join decides, then their sum, then their number."""
    exponents = [group_exponent(graph, bounds, weights, g) for g in groups]
    return (round(max(exponents), 6), round(sum(exponents) - len(exponents), 6), -len(groups), groups)


def joining(graph: Hypergraph) -> list[Comparison]:
    """Comparisons that every result row satisfies: what NOT EXISTS says of its own rows implies nothing outside."""
    joined = frozenset().union(*(e for i, e in enumerate(graph.edges) if not graph.is_tested(i)))
    return [c for c in graph.comparisons if c.op != "!=" and c.variables <= joined]


def _joins(graph: Hypergraph, groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """Every partition with one pair of groups joined; semi and anti atoms stay alone."""
    for a, b in combinations([g for g in groups if not graph.is_tested(g[0])], 2):
        yield tuple(sorted([*(g for g in groups if g not in (a, b)), tuple(sorted(a + b))]))


def _grouped(graph: Hypergraph, groups: Sequence[Group]) -> Hypergraph:
    return Hypergraph(
        tuple(frozenset().union(*(graph.edges[i] for i in g)) for g in groups),
        graph.comparisons,
        graph.free,
        tuple(graph.is_tested(g[0]) for g in groups),
        tuple(" ⋈ ".join(graph.label(i) for i in g) for g in groups),
    )


def group_exponent(graph: Hypergraph, bounds: Closure, weights: Weights, group: Group) -> float:
    """The best over the atom to start with, adding the cheapest next atom each time."""
    best = inf
    for first in group:
        size, have, left = 1.0, [first], [i for i in group if i != first]
        while left:
            step, atom = min((_added(graph, bounds, weights, have, i), i) for i in left)
            size += step
            have.append(atom)
            left.remove(atom)
        best = min(best, size)
    return best


def _added(graph: Hypergraph, bounds: Closure, weights: Weights, have: Sequence[int], atom: int) -> float:
    there: frozenset[str] = frozenset().union(*(graph.edges[i] for i in have))
    here = graph.edges[atom]
    shared = there & here
    key = weights.key(atom)
    if key is not None and key <= shared:
        return KEYED
    window = any(
        (x, y) in bounds.bounds and (y, x) in bounds.bounds for x in there - shared for y in here - shared if x != y
    )
    stated = any(c.offset and c.variables & there and c.variables & here for c in graph.comparisons)
    if shared:
        return (WINDOW if window else EQUAL) - (STATED if stated else 0)
    return (RANGE if window else PRODUCT) - (STATED if stated else 0)


def _leaf_of(
    graph: Hypergraph, bounds: Closure, merged: Hypergraph, index: int, group: Group, rank: Mapping[str, int]
) -> Node:
    if len(group) == 1:
        return leaf(group[0], sorted(graph.edges[group[0]]), rank)
    outside = frozenset().union(*(e for i, e in enumerate(merged.edges) if i != index))
    here = merged.edges[index]
    compared = frozenset().union(*(c.variables for c in graph.comparisons if not c.variables <= here))
    kept = here & (outside | compared | graph.free)
    children = tuple(leaf(i, sorted(graph.edges[i]), rank) for i in group)
    variables = tuple(sorted(kept, key=lambda v: rank[v]))
    return Node(variables, children, kind="join", joined_by=tuple(within(graph, bounds, group)))


def within(graph: Hypergraph, bounds: Closure, group: Group) -> Iterator[Comparison]:
    """Comparisons between the atoms of a group: those stated, and those that follow from others."""
    here = frozenset().union(*(graph.edges[i] for i in group))
    stated = [c for c in graph.comparisons if c.variables <= here]
    yield from stated
    pairs = {(c.left, c.right) for c in stated}
    temporal = {v: c.temporal for c in graph.comparisons for v in c.variables}
    for (x, y), (offset, strict) in sorted(bounds.bounds.items()):
        apart = not any(x in graph.edges[i] and y in graph.edges[i] for i in group)
        if x != y and {x, y} <= here and apart and (x, y) not in pairs:
            yield Comparison(x, "<" if strict else "<=", y, offset, temporal[x])


def loomis_whitney_degree(graph: Hypergraph) -> int | None:
    """d if the query is d atoms over d variables, each atom missing another one (d = 3: triangle)."""
    shared = frozenset(v for v in graph.variables if len(graph.edges_of(v)) > 1)
    edges = {e & shared for e in graph.edges}
    d = len(shared)
    if graph.comparisons or any(graph.tested) or graph.free & graph.variables or d < 3:
        return None
    whole = len(graph.edges) == len(edges) == d and all(len(e) == d - 1 for e in edges)
    return d if whole else None
