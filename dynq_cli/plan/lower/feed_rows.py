"""Feed the rows of an acyclic join into a relation, from one tree; comparisons that no edge has filter them.

query    SELECT a, c FROM R, S WHERE R.b = S.b AND a <> c
before   q(a, c) :- R(b, a), S(b, c), a != c
steps    tree q/1(b, a, c) :- R(b, a), S(b, c)
         fed by +q/1 where a != c

    query    SELECT a, c FROM R, S WHERE R.b = S.b AND a <> c
    before   q(a, c) :- R(b, a), S(b, c), a != c
    steps    tree q/1(b, a, c) :- R(b, a), S(b, c)
             fed by +q/1 where a != c
"""

from __future__ import annotations

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.ranges import partly
from dynq_cli.plan.program import Feed
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery


def feed_rows(query: ConjunctiveQuery, program: PartialProgram) -> tuple[None, PartialProgram]:
    left: tuple[Comparison, ...] = ()
    if query is not program.run.fitting:
        query, left = partly(query, program.spec)
    tree, program = program.add_tree(query)
    return None, program.with_feeds([Feed(tree, tuple(c.name for c in program.run.inputs), 1, left)])
