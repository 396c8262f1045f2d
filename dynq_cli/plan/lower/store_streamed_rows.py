"""Store the result of a query with comparisons that one tree, or a sum over several, can feed into a relation.

Its rows are found without joining any atoms into a relation of their own, which `break_cycles` would do.

    query    q(a, d) :- R(a, b), S(b, c), T(c, d), b < d
    before   q(a, d) :- R(a, b), S(b, c), T(c, d), b < d
    after    q(a, d) :- q/2(a, d)
    steps    tree q/1(a, b, c, d) :- R(a, b), S(b, c), T(c, d), b < d
             relation q/2(a, d): rows of +q/1
"""

from __future__ import annotations

from dynq_cli.plan.lower.feed_by_subtraction import subtracted
from dynq_cli.plan.lower.keep_ranges import fitting, to_stream
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.store_result import stored
from dynq_cli.query.normal_form import ConjunctiveQuery


def store_streamed_rows(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if program.fits(query):
        return query, program
    # Trials: the programs that they give are dropped.
    if fitting(to_stream(query), program, may_grow=True) or subtracted(query, program, query.head):
        return stored(query, program)
    return query, program
