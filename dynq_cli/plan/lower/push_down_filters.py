"""Push comparisons that have both sides in one atom into that atom, as filters.

The normal form has none of these. Relations in place of subqueries bring them: they have all that a subquery looks at,
and with that both sides of comparisons around it.

    query    SELECT R.a, T.c FROM R, T WHERE a < c AND NOT EXISTS (SELECT 1 FROM S WHERE S.b = R.a AND S.c = T.c)
    before   q(a, c) :- R(a), T(c), q/3(a, c), a < c
    after    q(a, c) :- R(a), T(c), q/3(a, c) where "a" < "c"
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import Atom, Comparison, ConjunctiveQuery


def push_down_filters(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    return filtered_within(query), program


def filtered_within(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """The query with a filter in place of each comparison that has both sides in one atom that joins."""
    atoms, left = list(query.atoms), []
    for c in query.comparisons:
        within = [i for i, a in enumerate(atoms) if a.mode == "join" and c.variables <= a.variables]
        for i in within:
            atoms[i] = _compared(atoms[i], c)
        if not within:
            left.append(c)
    return replace(query, atoms=tuple(atoms), comparisons=tuple(left))


def _compared(atom: Atom, c: Comparison) -> Atom:
    left, right = (b.scalar for v in (c.left, c.right) if (b := atom.binding(v)) is not None)
    made = sql.compare_shifted(left, c.op, right, c.offset)
    return replace(atom, filters=tuple(dict.fromkeys((*atom.filters, made))))
