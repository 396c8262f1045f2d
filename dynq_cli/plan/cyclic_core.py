"""Find the cyclic parts of a join: what remains when all atoms that a tree can hold are removed.

    e(a, b), e(b, c), e(c, a), f(c, d)            the triangle; f is an ear
    two triangles with one vertex in common       each triangle by itself
    e(a, b), e(b, c), e(c, d), e(d, a), e(a, c)   all five: no variable, taken out, leaves two parts

A part is a biconnected component of the variables, where two are linked if an atom has both: every atom lies in one.
Joined into a relation each, the parts leave an acyclic join. An atom over one variable of a part stays outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynq_cli.plan.cost import WEIGHTS, Weights
from dynq_cli.plan.materialise import merge
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.reduction import NOTHING, is_acyclic, reduce, start

Group = tuple[int, ...]


@dataclass(frozen=True)
class Breaking:
    """Atoms to be joined into a relation each, after which no cycle is left. None are if there is no cycle.

    `by_delta`: each group is a cyclic part, and only the delta of its join is computed. Otherwise the join of a group
    has no cycle of its own, or is broken up likewise; `why` says what decided.
    """

    groups: tuple[Group, ...] = ()
    by_delta: bool = False
    why: str = ""


def break_up(graph: Hypergraph, weights: Weights, rank: Mapping[str, int]) -> Breaking:
    """How the cycles of a join are broken up; comparisons are not looked at.

    Along keys, or where what is joined rarely changes and the rest often does, pairs of rows are kept: then a change of
    the rest is looked up in them. Anything else is joined by delta.
    """
    parts = cyclic_parts(graph)
    if not parts:
        return Breaking()
    merged = merge(Hypergraph(graph.edges, (), graph.free, graph.tested, graph.labels), weights, rank)
    if max(merged.exponents) <= 1:
        groups = tuple(g for g in merged.groups if len(g) > 1)
        return Breaking(groups, why="keys fix what is joined, so that it is no larger than the tables")
    rare = [_rare(graph, part, weights) for part in parts]
    if all(rare):
        return Breaking(
            tuple(rare), why="these change rarely and the others often, whose rows are looked up in the join"
        )
    return Breaking(parts, by_delta=True)


def _rare(graph: Hypergraph, part: Group, weights: Weights) -> Group:
    """The atoms of a part that rarely change, if the others often do and joining those breaks the cycle up."""
    rare = tuple(i for i in part if weights.changes[i] == WEIGHTS["rare"])
    often = [i for i in part if weights.changes[i] == WEIGHTS["often"]]
    joined = NOTHING.union(*(graph.edges[i] for i in rare))
    left = Hypergraph((joined, *(graph.edges[i] for i in often)))
    return rare if len(rare) + len(often) == len(part) and len(rare) > 1 and often and is_acyclic(left) else ()


def cyclic_parts(graph: Hypergraph) -> tuple[Group, ...]:
    """The atoms of each cyclic part; comparisons are not looked at."""
    plain = Hypergraph(graph.edges, (), NOTHING, graph.tested, graph.labels)
    if is_acyclic(plain):
        return ()
    left = dict(reduce(plain, start(plain), NOTHING, first_pass=False).edges)
    found = []
    for variables in _components(list(left.values())):
        # What was an ear belongs to the part if nothing else hangs on it.
        inside = [
            i
            for i, edge in enumerate(graph.edges)
            if not graph.is_tested(i)
            and len(edge & variables) > 1
            and (i in left or all(_is_own(graph, v, i) for v in edge - variables))
        ]
        # A NOT EXISTS that closes a cycle leaves no atoms that are joined.
        if inside and not is_acyclic(Hypergraph(tuple(graph.edges[i] & variables for i in inside))):
            found.append(tuple(inside))
    return tuple(found)


def _is_own(graph: Hypergraph, variable: str, atom: int) -> bool:
    return graph.edges_of(variable) == {atom}


def _components(edges: list[frozenset[str]]) -> Iterator[frozenset[str]]:
    """The biconnected components of the variables of some edges, in a fixed order."""
    linked: dict[str, list[str]] = {}
    for edge in edges:
        for v in edge:
            linked.setdefault(v, [])
            linked[v] = sorted({*linked[v], *(edge - {v})})
    depth: dict[str, int] = {}
    low: dict[str, int] = {}
    for root in sorted(linked):
        if root not in depth:
            yield from _below(root, linked, depth, low)


def _below(
    root: str, linked: dict[str, list[str]], depth: dict[str, int], low: dict[str, int]
) -> Iterator[frozenset[str]]:
    """Tarjan's search from one variable, without recursion."""
    path, edges = [(root, "", iter(linked[root]))], list[tuple[str, str]]()
    depth[root] = low[root] = 0
    while path:
        here, above, following = path[-1]
        other = next(following, None)
        if other is None:
            path.pop()
            if path:
                low[above] = min(low[above], low[here])
                if low[here] >= depth[above]:
                    at = edges.index((above, here))
                    yield frozenset(v for pair in edges[at:] for v in pair)
                    del edges[at:]
        elif other not in depth:
            depth[other] = low[other] = depth[here] + 1
            edges.append((here, other))
            path.append((other, here, iter(linked[other])))
        elif other != above and depth[other] < depth[here]:
            edges.append((here, other))
            low[here] = min(low[here], depth[other])
