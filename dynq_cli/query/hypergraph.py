"""The hypergraph of a query: its variables, an edge per atom, comparisons, and the free variables (the head).

One edge per atom (its variables), comparisons as pairs of variables, and the head's variables as
the free ones. Classes and plans look at nothing else of a query.
"""

from __future__ import annotations

from collections.abc import Iterable

from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery
from dynq_cli.records import record

Edge = frozenset[str]


@record(frozen=True)
class Hypergraph:
    """`tested[i]` says that edge i is a semi or anti atom: it is looked up, never joined into."""

    edges: tuple[Edge, ...]
    comparisons: tuple[Comparison, ...] = ()
    free: Edge = frozenset()
    tested: tuple[bool, ...] = ()
    labels: tuple[str, ...] = ()

    def is_tested(self, edge: int) -> bool:
        return bool(self.tested) and self.tested[edge]

    def label(self, edge: int) -> str:
        if self.labels:
            return self.labels[edge]
        return f"{{{', '.join(sorted(self.edges[edge]))}}}"

    @property
    def variables(self) -> Edge:
        return frozenset().union(*self.edges)

    def edges_of(self, variable: str) -> frozenset[int]:
        return frozenset(i for i, e in enumerate(self.edges) if variable in e)

    def adjacent(self, x: str, y: str) -> bool:
        """Whether two variables stand in one edge."""
        return any(x in e and y in e for e in self.edges)

    def with_free(self, free: Iterable[str]) -> Hypergraph:
        return Hypergraph(self.edges, self.comparisons, frozenset(free), self.tested, self.labels)


def hypergraph_of(query: ConjunctiveQuery) -> Hypergraph:
    return Hypergraph(
        tuple(a.variables for a in query.atoms),
        query.comparisons,
        frozenset(query.head),
        tuple(a.mode != "join" for a in query.atoms),
        tuple(a.brief for a in query.atoms),
    )
