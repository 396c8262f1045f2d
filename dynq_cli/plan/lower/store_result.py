"""Store the result of a join that is not free-connex, or has comparisons left: one atom over a relation of its head.

query    q(a, c) :- R(a, b), S(b, c)
before   q(a, c) :- R(a, b), S(b, c)
after    q(a, c) :- q/2(a, c)
steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
         relation q/2(a, c): rows of +q/1

    query    q(a, c) :- R(a, b), S(b, c)
    before   q(a, c) :- R(a, b), S(b, c)
    after    q(a, c) :- q/2(a, c)
    steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
             relation q/2(a, c): rows of +q/1
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import atom_over, columns_of, with_one
from dynq_cli.query.normal_form import ConjunctiveQuery


def store_result(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    return (query, program) if program.fits(query) else stored(query, program)


def stored(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    """The query as one atom over a relation of its head."""
    held, head = query, query.head
    if not head:
        held, one = with_one(query)
        head = (one,)
    inner = replace(held, head=head)
    feeds, program = program.feeds(inner)
    table, program = program.add_relation(columns_of(inner), feeds)
    variables = tuple(v for v in held.variables if v.name in head)
    return replace(query, atoms=(atom_over(table),), comparisons=(), variables=variables), program
