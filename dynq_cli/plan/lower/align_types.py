"""Align the types of comparisons: both sides as one type, so that a code is the same value on either.

query    SELECT a, price, COUNT(*) AS n FROM R, P WHERE a <> price GROUP BY a, price
before   q(a, price) :- R(a), P(price), a != price
after    q(a, price) :- R(a, a_as_decimal), P(price, price_as_decimal), a_as_decimal != price_as_decimal

    query    SELECT a, price, COUNT(*) AS n FROM R, P WHERE a <> price GROUP BY a, price
    before   q(a, price) :- R(a), P(price), a != price
    after    q(a, price) :- R(a, a_as_decimal), P(price, price_as_decimal), a_as_decimal != price_as_decimal
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import as_type, bind, names_of, same_codes, unique, where_bound
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, Variable
from dynq_cli.query.scalar import decimal_of
from dynq_cli.spec.types import MAX_PRECISION, Type, common_type, decimal, widen


def align_types(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    return (query, program) if program.fits(query) else (aligned(query), program)


def aligned(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """The query with comparisons between variables of one type, which holds the offset too."""
    for c in query.comparisons:
        kind = _common(query, c)
        left, right = c.left, c.right
        query, left = _as(query, left, kind)
        query, right = _as(query, right, kind)
        made = replace(c, left=left, right=right)
        query = replace(query, comparisons=tuple(made if d == c else d for d in query.comparisons))
    return query


def _common(query: ConjunctiveQuery, c: Comparison) -> Type:
    kind = common_type(query.variable(c.left).type, query.variable(c.right).type)
    assert kind is not None, c
    if c.offset and (kind.name == "decimal" or (kind.is_integer and c.offset != c.offset.to_integral_value())):
        fine = decimal_of(c.offset)
        wider = widen(kind, fine)
        return wider or decimal(MAX_PRECISION, max(kind.scale, fine.scale))
    return kind


def _as(query: ConjunctiveQuery, variable: str, kind: Type) -> tuple[ConjunctiveQuery, str]:
    known = query.variable(variable)
    if known.type == kind or same_codes(known.type, kind):
        return query, variable
    name = unique(f"{variable}_as_{kind.name}", names_of(query))
    atom, binding = where_bound(query, variable)
    return bind(query, atom, Variable(name, kind, known.nullable), as_type(binding.scalar, kind)), name
