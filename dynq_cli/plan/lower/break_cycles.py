"""Break cycles, and comparisons between atoms: join some atoms into a relation until one tree has the rest.

A cyclic part is joined by delta (`delta_join`) into a relation of what the rest looks at. If it is all of the query,
it is left to the passes that store its rows, or feed them. Where it is joined in pairs instead (`cyclic_core`), pairs
are relations.

Atoms that a comparison links are joined along the shortest way between them, or others that break up a ring of
comparisons, those first whose join is expected to be smallest (`materialise`), so that later joins start from few rows.
A comparison is applied as soon as both its sides are there. What needs all atoms at once is left: the rows of the last
tree are filtered on their way out.

    query    q(a, b, c, d) :- R(a, b), S(b, c), T(c, a), R(c, d)
    before   q(a, b, c, d) :- R(a, b), S(b, c), T(c, a), R R_2(c, d)
    after    q(a, b, c, d) :- R R_2(c, d), q/2(a, b, c)
    steps    cycle q/1(a, b, c) :- R(a, b), S(b, c), T(c, a)
             relation q/2(a, b, c): rows of +q/1
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.cyclic_core import Breaking, break_up
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import atom_over, columns_of, part_of, with_one
from dynq_cli.plan.materialise import group_exponent, joining, merge, within
from dynq_cli.query.comparisons import Closure, Edge
from dynq_cli.query.hypergraph import Hypergraph, hypergraph_of
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.spec.model import Spec

Group = tuple[int, ...]


def break_cycles(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if program.fits(query):
        return query, program
    breaking = breaking_of(query, program.spec)
    for aliases in [{query.atoms[i].alias for i in group} for group in breaking.groups]:
        group = tuple(i for i, atom in enumerate(query.atoms) if atom.alias in aliases)
        if len(group) == len(query.atoms):
            return query, program
        query, program = joined(query, program, group)
    while groups := next_groups(query, program.spec):
        for aliases in [{query.atoms[i].alias for i in group} for group in groups]:
            group = tuple(i for i, atom in enumerate(query.atoms) if atom.alias in aliases)
            query, program = joined(query, program, group)
    return query, program


def next_groups(query: ConjunctiveQuery, spec: Spec) -> tuple[Group, ...]:
    """The atoms to be joined next, each group into a relation; none if one tree can have all that are left.

    Of a cycle all groups that break it up: one that is joined by itself would be taken for as small as its atoms then,
    and joined with the others.
    """
    graph = hypergraph_of(query)
    if query.comparisons:
        weights, bounds = weights_of(query, spec), _bounds(graph)
        ways = [group for c in query.comparisons for group in _ways(graph, c)]
        ways += [] if is_acyclic(graph) else _breaking(query, spec)
        ranked = [(round(group_exponent(graph, bounds, weights, group), 6), len(group), group) for group in ways]
        *_, best = min(ranked)
        if len(best) < len(query.atoms):
            return (best,)
    plain = replace(graph, comparisons=())
    if is_acyclic(plain):
        return ()
    rank = {v.name: i for i, v in enumerate(query.variables)}
    merged = merge(plain, weights_of(query, spec), rank)
    groups = tuple(g for g in merged.groups if len(g) > 1)
    assert all(len(g) < len(query.atoms) for g in groups), query
    return groups


def breaking_of(query: ConjunctiveQuery, spec: Spec) -> Breaking:
    rank = {v.name: i for i, v in enumerate(query.variables)}
    return break_up(hypergraph_of(query), weights_of(query, spec), rank)


def ring_group(query: ConjunctiveQuery, spec: Spec) -> Group:
    """The atoms to be joined next of a query for which no tree can have all comparisons on its edges."""
    return (breaking_of(query, spec).groups or _breaking(query, spec))[0]


def _breaking(query: ConjunctiveQuery, spec: Spec) -> list[Group]:
    """The groups of a query with a ring that a tree can have the joins of."""
    rank = {v.name: i for i, v in enumerate(query.variables)}
    merged = merge(hypergraph_of(query), weights_of(query, spec), rank)
    return [g for g in merged.groups if len(g) > 1]


def joined(query: ConjunctiveQuery, program: PartialProgram, group: Group) -> tuple[ConjunctiveQuery, PartialProgram]:
    """The query with a relation in place of some atoms: their join, as far as the rest looks at it."""
    inside = [query.atoms[i] for i in group]
    rest = [a for i, a in enumerate(query.atoms) if i not in group]
    have = frozenset().union(*(a.variables for a in inside))
    left = tuple(c for c in query.comparisons if not c.variables <= have)
    needed = frozenset(query.head).union(*(a.variables for a in rest), *(c.variables for c in left))
    part = part_of(query, inside, have & needed, _applied(query, group))
    if not part.head:
        held, one = with_one(part)
        query = replace(query, variables=(*query.variables, held.variable(one)))
        part = replace(held, head=(one,))
    feed, program = program.stream(part)
    table, program = program.add_relation(columns_of(part), [feed])
    bound = frozenset(part.head).union(*(a.variables for a in rest))
    variables = tuple(v for v in query.variables if v.name in bound)
    return replace(query, atoms=(*rest, atom_over(table)), comparisons=left, variables=variables), program


def _bounds(graph: Hypergraph) -> Closure:
    return Closure((Edge(c.left, c.op, c.right, c.offset), None) for c in joining(graph))


def _applied(query: ConjunctiveQuery, group: Group) -> Iterator[Comparison]:
    """The comparisons within a group: those stated, and those that follow where no rounding can break them."""
    graph = hypergraph_of(query)
    for c in within(graph, _bounds(graph), group):
        rounds = any(query.variable(v).type.is_float for v in c.variables) and _has_offsets(query)
        if c in query.comparisons or not rounds:
            yield c


def _has_offsets(query: ConjunctiveQuery) -> bool:
    return any(c.offset for c in query.comparisons)


def _ways(graph: Hypergraph, c: Comparison) -> Iterator[Group]:
    """For each two atoms that a comparison links, the fewest atoms that connect them."""
    for start in sorted(graph.edges_of(c.left)):
        for stop in sorted(graph.edges_of(c.right)):
            yield _path(graph.edges, start, stop)


def _path(edges: Sequence[frozenset[str]], start: int, stop: int) -> Group:
    """A shortest path over shared variables; the two ends alone if there is none."""
    before = {start: start}
    todo = deque([start])
    while todo:
        here = todo.popleft()
        for other, edge in enumerate(edges):
            if other not in before and edge & edges[here]:
                before[other] = here
                todo.append(other)
    path = {start, stop}
    while stop in before and stop != start:
        stop = before[stop]
        path.add(stop)
    return tuple(sorted(path))
