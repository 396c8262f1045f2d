"""Comparisons on codes: both sides of one type, so that a code says the same on either."""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.query_builders import as_type, bind, names_of, same_codes, unique, where_bound
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, Variable
from dynq_cli.query.scalar import decimal_of
from dynq_cli.spec.types import MAX_PRECISION, Type, decimal, widen


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
    kind = widen(query.variable(c.left).type, query.variable(c.right).type)
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
