"""What would make a query cheaper to keep: every advice has been tried on the classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from dynq_cli.query.classify import Classification, not_q_hierarchical
from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.reduction import is_acyclic, is_free_connex

MOST_ADDED = 2
NO_TABLE = "no result table would be needed"
ONE_ROW = "a change would touch one row per level"


def advice_of(graph: Hypergraph, classes: Classification, updates_are_constant: bool) -> Iterator[str]:
    if not classes.acyclic:
        yield from _break_cycle(graph)
        return
    if not classes.free_connex:
        added = _smallest(graph, is_free_connex)
        if added:
            yield f"if {_listed(added)} were in the head, {NO_TABLE}"
        return
    if classes.q_hierarchical or updates_are_constant:
        return
    if not graph.comparisons:
        added = _smallest(graph, lambda g: not not_q_hierarchical(g))
        if added:
            yield f"if {_listed(added)} were in the head, {ONE_ROW}"
        for v in sorted(graph.free):
            if not not_q_hierarchical(graph.with_free(graph.free - {v})):
                yield f"without {v} in the head, {ONE_ROW}"


def _break_cycle(graph: Hypergraph) -> Iterator[str]:
    for c in graph.comparisons:
        rest = tuple(x for x in graph.comparisons if x != c)
        if is_acyclic(Hypergraph(graph.edges, rest, graph.free, graph.tested)):
            yield f"without {c}, the query would be acyclic"


def _smallest(graph: Hypergraph, good: Callable[[Hypergraph], bool]) -> tuple[str, ...]:
    """The fewest variables to add to the head so that `good` holds, at most MOST_ADDED."""
    hidden = sorted(graph.variables - graph.free)
    for size in range(1, MOST_ADDED + 1):
        for added in combinations(hidden, size):
            if good(graph.with_free(graph.free | set(added))):
                return added
    return ()


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
