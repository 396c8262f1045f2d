"""The class of a query, and a witness in words for each class it misses.

From best to worst:

    q-hierarchical   updates O(1), delay O(1)      thesis, Definition 3.1
    free-connex      delay O(1) in linear space    there is a generalised join tree with an output set
    acyclic          a generalised join tree exists
    cyclic           none does

and beside them t-hierarchical (thesis, Definition 3.4): testing a row takes O(1) under O(1)
updates. A comparison between atoms rules out q-hierarchical; it leaves t-hierarchical alone if it
compares two head variables, since a test knows both.
"""

from __future__ import annotations

from collections import deque
from itertools import combinations, permutations

from dynq_cli.query.hypergraph import Hypergraph
from dynq_cli.query.reduction import NOTHING, is_acyclic, is_free_connex, reduce, start
from dynq_cli.records import record


@record(frozen=True)
class Classification:
    """The classes, and per missed class a sentence that says what breaks it."""

    q_hierarchical: bool
    t_hierarchical: bool
    free_connex: bool
    acyclic: bool
    not_q_hierarchical: str = ""
    not_t_hierarchical: str = ""
    not_free_connex: str = ""
    not_acyclic: str = ""

    @property
    def name(self) -> str:
        if self.q_hierarchical:
            return "q-hierarchical"
        if self.free_connex:
            return "free-connex acyclic"
        return "acyclic" if self.acyclic else "cyclic"

    @property
    def witness(self) -> str:
        """What breaks the next better class."""
        if not self.acyclic:
            return self.not_acyclic
        return self.not_free_connex if not self.free_connex else self.not_q_hierarchical


def classify(graph: Hypergraph) -> Classification:
    """Polynomial in the query."""
    acyclic = is_acyclic(graph)
    free_connex = acyclic and is_free_connex(graph)
    crossing = not_q_hierarchical(graph)
    return Classification(
        q_hierarchical=not crossing,
        t_hierarchical=not (untestable := not_t_hierarchical(graph)),
        free_connex=free_connex,
        acyclic=acyclic,
        not_q_hierarchical=crossing,
        not_t_hierarchical=untestable,
        not_free_connex="" if free_connex or not acyclic else _no_free_connex(graph),
        not_acyclic="" if acyclic else _no_tree(graph),
    )


def not_q_hierarchical(graph: Hypergraph) -> str:
    """Empty if the query is q-hierarchical, else the variables and atoms that break it."""
    names = _told_apart(graph)
    for x, y in combinations(names, 2):
        crossing = _crossing(graph, x, y)
        if crossing:
            return crossing
    for x, y in permutations(names, 2):
        in_x, in_y = graph.edges_of(x), graph.edges_of(y)
        if in_x < in_y and x in graph.free and y not in graph.free:
            alone = graph.label(min(in_y - in_x))
            return f"{x} is in the head and {y} is not, though {y} also stands in {alone}, where {x} does not"
    if graph.comparisons:
        return f"{graph.comparisons[0]} compares variables of different atoms"
    return ""


def not_t_hierarchical(graph: Hypergraph) -> str:
    """Empty if the query is t-hierarchical, else what breaks it."""
    names = _told_apart(graph)
    bound = [v for v in names if v not in graph.free]
    for x, y in combinations(bound, 2):
        crossing = _crossing(graph, x, y)
        if crossing:
            return f"{crossing}; neither is in the head"
    for x in (v for v in names if v in graph.free):
        for y in bound:
            in_x, in_y = graph.edges_of(x), graph.edges_of(y)
            if in_x & in_y and not in_y <= in_x:
                alone = graph.label(min(in_y - in_x))
                return f"{y} is not in the head and stands in {alone} without {x}, which is in the head"
    for c in graph.comparisons:
        if not c.variables <= graph.free:
            hidden = sorted(c.variables - graph.free)
            return f"{c} compares {_listed(hidden)}, which {'is' if len(hidden) == 1 else 'are'} not in the head"
    return ""


def _told_apart(graph: Hypergraph) -> list[str]:
    """One variable, the first by name, for all that stand in the same atoms and alike in the head or not.

    The definitions look at nothing else of a variable, and a table may have thousands of columns.
    """
    first: dict[tuple[frozenset[int], bool], str] = {}
    for v in sorted(graph.variables):
        first.setdefault((graph.edges_of(v), v in graph.free), v)
    return sorted(first.values())


def _crossing(graph: Hypergraph, x: str, y: str) -> str:
    """Three atoms that show that neither atoms(x) nor atoms(y) contains the other, or nothing."""
    in_x, in_y = graph.edges_of(x), graph.edges_of(y)
    both, only_x, only_y = in_x & in_y, in_x - in_y, in_y - in_x
    if not (both and only_x and only_y):
        return ""
    return (
        f"{x} and {y} cross: {graph.label(min(both))} has both, {graph.label(min(only_x))} only {x}, "
        f"{graph.label(min(only_y))} only {y}"
    )


def _no_free_connex(graph: Hypergraph) -> str:
    path = _free_path(graph)
    if path:
        inside = ", ".join(path[1:-1])
        verb = "is" if len(path) == 3 else "are"
        return f"the head has {path[0]} and {path[-1]}, which are linked only through {inside}, which {verb} not in it"
    left = reduce(graph, start(graph), graph.free, first_pass=True)
    stuck = [graph.label(n) for n, edge in left.edges if not edge <= graph.free]
    hidden = sorted(NOTHING.union(*(edge for _, edge in left.edges)) - graph.free)
    return f"{', '.join(hidden)} cannot be projected away: {_listed(stuck)} cannot be folded into another atom"


def _free_path(graph: Hypergraph) -> list[str]:
    """A shortest path between two head variables in no common atom, through others only."""
    links: dict[str, set[str]] = {v: set() for v in graph.variables}
    for edge in graph.edges:
        for x in edge:
            links[x] |= edge - {x}
    for c in graph.comparisons:
        links[c.left].add(c.right)
        links[c.right].add(c.left)
    best: list[str] = []
    for origin in sorted(graph.free):
        came: dict[str, str] = {origin: ""}
        queue = deque([origin])
        while queue:
            here = queue.popleft()
            for there in sorted(links[here]):
                if there in came:
                    continue
                came[there] = here
                if there not in graph.free:
                    queue.append(there)
                elif here != origin and not graph.adjacent(origin, there):
                    path = [there]
                    while path[-1] != origin:
                        path.append(came[path[-1]])
                    if not best or len(path) < len(best):
                        best = path[::-1]
    return best


def _no_tree(graph: Hypergraph) -> str:
    left = reduce(graph, start(graph), NOTHING, first_pass=False)
    atoms = [graph.label(n) for n, _ in left.edges]
    if left.comparisons:
        compared = ", ".join(str(c) for c in left.comparisons)
        return f"{compared} and the atoms {_listed(atoms)} close a ring: no tree has each comparison on an edge"
    return f"the atoms {_listed(atoms)} form a cycle: none of them can be folded into another"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
