"""Read a result with != from several trees, stored nowhere.

    rows     those of a tree without the comparison, filtered while they are read
    count    that of this tree, less that of a tree with = in place of !=; one tree for each set of comparisons, with
             alternating signs

Each has to fit into one tree, and the head has to have both sides. A result in an order is not one of these: an order
needs a table.

    query    q(a, b, c) :- R(a, b), S(b, c), a != c
    before   q(a, b, c) :- R(a, b), S(b, c), a != c
    steps    tree q/1(a, b, c) :- R(a, b), S(b, c)
             tree q/2(a, b) :- R(a, b), S(b, a)
             result q: rows of q/1 where a != c, count + |q/1| - |q/2|
"""

from __future__ import annotations

from dynq_cli.plan.lower.inequality_by_subtraction import (
    MOST_UNEQUAL,
    differing,
    sets,
    with_equalities,
    with_head,
    without,
)
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.program import Member, Term, Together
from dynq_cli.query.normal_form import ConjunctiveQuery, Query, UnionQuery


def read_by_subtraction(query: Query, program: PartialProgram) -> tuple[Query | None, PartialProgram]:
    if isinstance(query, UnionQuery) or query.order or query.grouped:
        return query, program
    made = _subtracted(query, program)
    return (query, program) if made is None else (None, made)


def _subtracted(query: ConjunctiveQuery, program: PartialProgram) -> PartialProgram | None:
    if not 1 <= len(differing(query)) <= MOST_UNEQUAL:
        return None
    plain, program = program.joins(query)
    where = differing(plain)
    if not where:
        # All of them are within subqueries.
        return None
    if not frozenset().union(*(c.variables for c in where)) <= frozenset(plain.head):
        return None
    terms: list[Term] = []
    open_ = without(plain, where)
    for some in ((), *sets(where)):
        made = with_equalities(open_, some)
        if made is None:
            return None
        # What is equal is in the head, computed or not: there is one value of it for each row.
        counted = with_head(made.query, (*made.query.head, *made.said.values()))
        if in_one_tree(counted, program.spec) is None:
            return None
        sign = -1 if len(some) % 2 else 1
        tree, program = program.add_tree(counted, is_read=True)
        terms.append(Term(tree, sign, sign))
    return program.add_result(Together(query.name, open_, (Member(terms[0].tree, open_.head),), tuple(terms), where))
