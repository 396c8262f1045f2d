"""Monomials in columns instead of expressions, where the difference cannot be seen.

SUM(price * (1 - discount)) adds up a decimal of 31 digits that nobody stores. Multiplied out it is a sum of products
of two columns, which base rows have anyway: no value to be computed, to be kept with each row, or to be carried as a
pair. Decimals alone are treated so, whose arithmetic is exact and does not overflow before 38 digits.
"""

from __future__ import annotations

from decimal import Decimal

from dynq_cli.plan.lower.query_builders import is_wide
from dynq_cli.query.normal_form import ConjunctiveQuery, Factor, Monomial, Scalar
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Spec

# Terms that one monomial may become, and digits behind the point that it may have.
MOST_TERMS, MOST_SCALE = 16, 18


def multiplied_out(monomial: Monomial, query: ConjunctiveQuery, spec: Spec) -> tuple[Monomial, ...]:
    """Monomials with the same sum, whose factors are columns wherever that is possible."""
    made = [Monomial(monomial.coefficient, ())]
    for factor in monomial.factors:
        made = [_times(m, each) for m in made for each in _terms(factor, query, spec)]
    return tuple(made) if len(made) <= MOST_TERMS else (monomial,)


def _times(left: Monomial, right: Monomial) -> Monomial:
    return Monomial(left.coefficient * right.coefficient, left.factors + right.factors)


def _terms(factor: Factor, query: ConjunctiveQuery, spec: Spec) -> list[Monomial]:
    """A factor as a sum of monomials; itself if it is a column, or anything but sums and products of columns."""
    scalar, relation = factor.scalar, spec.relation(query.atoms[factor.atom].source)
    as_it_is = [Monomial(Decimal(1), (factor,))]
    is_simple = scalar.sql in map(quote, scalar.columns) or scalar.type.name != "decimal"
    if relation is None or is_simple or scalar.type.scale > MOST_SCALE:
        return as_it_is
    # What reads SQL is loaded only where there is something to be read.
    from dynq_cli.query.sql.expanded import expanded

    columns = {c.name: c for c in relation.columns}
    terms = expanded(scalar.sql, lambda name: name in columns and _is_exact(columns[name]), MOST_TERMS)
    if terms is None:
        return as_it_is
    return [Monomial(t.coefficient, tuple(_factor(factor.atom, columns[name]) for name in t.columns)) for t in terms]


def _is_exact(column: Column) -> bool:
    return column.type.is_integer or (column.type.name == "decimal" and not is_wide(column.type))


def _factor(atom: int, column: Column) -> Factor:
    return Factor(atom, Scalar(quote(column.name), column.type, column.nullable, (column.name,)))
