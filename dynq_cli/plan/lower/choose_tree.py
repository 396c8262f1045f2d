"""Choose the cheapest tree for a free-connex join: the last step, which has the query's name.

query    q(a, b, c) :- R(a, b), S(b, c)
before   q(a, b, c) :- R(a, b), S(b, c)
steps    tree q(a, b, c) :- R(a, b), S(b, c)

    query    q(a, b, c) :- R(a, b), S(b, c)
    before   q(a, b, c) :- R(a, b), S(b, c)
    steps    tree q(a, b, c) :- R(a, b), S(b, c)
"""

from __future__ import annotations

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.query.normal_form import ConjunctiveQuery


def choose_tree(query: ConjunctiveQuery, program: PartialProgram) -> tuple[None, PartialProgram]:
    _, program = program.add_tree(query, program.name)
    return None, program
