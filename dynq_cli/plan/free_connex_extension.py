"""Heads that make an acyclic query free-connex.

The result over an extended head can be read with constant delay; the result asked for is its
projection, kept as a table that is fed by the extended result's changes. The full head always works,
so there is always an extension; the smallest one makes the smallest difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.reduction import is_free_connex

MOST_TRIED = 4000


def extensions(graph: Hypergraph) -> Iterator[tuple[str, ...]]:
    """Sets of further head variables that make the query free-connex: all of the least size."""
    useful = [v for v in sorted(graph.variables - graph.free) if _matters(graph, v)]
    for size in range(1, len(useful) + 1):
        found = False
        for added in islice(combinations(useful, size), MOST_TRIED):
            if is_free_connex(graph.with_free(graph.free | set(added))):
                found = True
                yield added
        if found:
            return
    everything = graph.with_free(graph.variables)
    if is_free_connex(everything):
        yield tuple(sorted(graph.variables - graph.free))


def _matters(graph: Hypergraph, variable: str) -> bool:
    """Variables of one atom that nothing compares never help."""
    return len(graph.edges_of(variable)) > 1 or any(variable in c.variables for c in graph.comparisons)
