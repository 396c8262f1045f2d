"""Keep comparisons on the edges of one tree, if one tree can have them all.

Atoms that form a ring are joined into relations first. Rows that only pass into a relation may have a larger head.

    query    q(a, b, c, d) :- R(a, b), S(b, c), T(a, d), c < d, b < d
    before   q(a, b, c, d) :- R(a, b), S(b, c), T(a, d), c < d, b < d
    after    q(a, b, c, d) :- T(a, d), q/2(a, b, c), c < d, b < d
    steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
             relation q/2(a, b, c): rows of +q/1
"""

from __future__ import annotations

from dynq_cli.plan.lower.align_types import aligned
from dynq_cli.plan.lower.break_cycles import joined, ring_group
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import part_of
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import ConjunctiveQuery
from dynq_cli.query.reduction import is_acyclic


def keep_ranges(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    feeds = program.run.feeds_relation
    found = fitting(to_stream(query) if feeds else query, program, may_grow=feeds)
    return found or (query, program)


def fitting(
    query: ConjunctiveQuery, program: PartialProgram, *, may_grow: bool = False
) -> tuple[ConjunctiveQuery, PartialProgram] | None:
    """The query with its comparisons on edges of one tree, and the relations of its rings; None if no tree has them."""
    if not query.comparisons:
        return None
    while not is_acyclic(hypergraph_of(query)):
        group = ring_group(query, program.spec)
        if len(group) == len(query.atoms):
            break
        query, program = joined(query, program, group)
    found = in_one_tree(query, program.spec, may_grow=may_grow)
    return None if found is None else (found, program.with_fitting(found))


def to_stream(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """A query whose rows go into a relation: without an order, and with comparisons between codes."""
    return aligned(part_of(query, query.atoms, query.head, query.comparisons))
