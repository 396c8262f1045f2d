"""Drop the atoms of a set query that others imply: the query becomes its core.

query    q(a) :- R(a, b), R(a, x), S(b, c)
before   q(a) :- R(a, b), R R_2(a, x), S(b, c)
after    q(a) :- R(a, b), S(b, c)

    query    q(a) :- R(a, b), R(a, x), S(b, c)
    before   q(a) :- R(a, b), R R_2(a, x), S(b, c)
    after    q(a) :- R(a, b), S(b, c)
"""

from __future__ import annotations

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.query.core import core
from dynq_cli.query.normal_form import ConjunctiveQuery


def minimise(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    return core(query), program
