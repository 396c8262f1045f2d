"""Scalars of one table that are sums of products of its columns, multiplied out.

    "price" * (1 - "discount")  =  1 · price  +  -1 · price · discount

Whoever adds such a scalar up needs no value of it per row. Terms are not collected, and one with the coefficient 0
stays: the scalar is NULL where any of its columns is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from dynq_cli.query.sql.constants import number
from dynq_cli.query.sql.context import bare

# Digits of a coefficient, which is to fit 128 bits whatever the point is shifted by.
MOST_DIGITS = 18
_EXACTLY = Context(prec=2 * MOST_DIGITS)


class Term(NamedTuple):
    """coefficient · Π columns."""

    coefficient: Decimal
    columns: tuple[str, ...]

    def times(self, other: Term) -> Term:
        return Term(_EXACTLY.multiply(self.coefficient, other.coefficient), self.columns + other.columns)

    @property
    def is_short(self) -> bool:
        return len(self.coefficient.as_tuple().digits) <= MOST_DIGITS


def expanded(text: str, is_exact: Callable[[str], bool], most: int) -> list[Term] | None:
    """The terms of a scalar's SQL; None if there are more than `most`, or if it is anything but + - * of numbers and
    columns that `is_exact` says are integers or decimals: only those can be multiplied out without a difference."""
    return _terms(sqlglot.parse_one(text, dialect="duckdb"), is_exact, most)


def _terms(node: exp.Expr, is_exact: Callable[[str], bool], most: int) -> list[Term] | None:
    inner = bare(node)
    value = number(inner)
    if value is not None:
        return _short([Term(value, ())])
    if isinstance(inner, exp.Column):
        return [Term(Decimal(1), (inner.name,))] if is_exact(inner.name) else None
    if isinstance(inner, exp.Neg):
        return _negated(_terms(inner.this, is_exact, most))
    if not isinstance(inner, exp.Add | exp.Sub | exp.Mul):
        return None
    left, right = (_terms(side, is_exact, most) for side in (inner.left, inner.right))
    if isinstance(inner, exp.Sub):
        right = _negated(right)
    if left is None or right is None:
        return None
    made = [a.times(b) for a in left for b in right] if isinstance(inner, exp.Mul) else left + right
    return _short(made) if len(made) <= most else None


def _short(terms: list[Term]) -> list[Term] | None:
    return terms if all(t.is_short for t in terms) else None


def _negated(terms: list[Term] | None) -> list[Term] | None:
    return None if terms is None else [Term(-t.coefficient, t.columns) for t in terms]
