"""Store a result whose order the tree of the last step cannot keep.

A relation of one atom has any order; the plan of the query in one tree says why there is none.

    query    SELECT DISTINCT R.a, S.b AS s, T.c, d FROM R, S, T WHERE T.c = R.b AND a <= S.c AND a <> S.c ORDER BY a, d
    before   q(a, b, T_c, d) :- T(T_c, d), q/2(T_c, a, b) order by a, d
    after    q(a, b, T_c, d) :- q/4(a, b, T_c, d) order by a, d
    steps    tree q/3(T_c, a, b, d) :- T(T_c, d), q/2(T_c, a, b)
             relation q/4(a, b, T_c, d): rows of +q/3
"""

from __future__ import annotations

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.store_result import stored
from dynq_cli.plan.plan import Plan
from dynq_cli.query.normal_form import ConjunctiveQuery


def order_by(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if query.order:
        plan = plan_query(query, program.spec)
        if isinstance(plan, Plan) and plan.unordered:
            return stored(query, program)
    return query, program
