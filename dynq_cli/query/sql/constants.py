"""The values of constant expressions: exact numbers and intervals.

Only what is exact in DuckDB too is evaluated: integers and decimals with + - *, and intervals of
whole units. Everything else is None and stays SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from dynq_cli.query.sql.context import bare


@dataclass(frozen=True)
class Span:
    """An INTERVAL: months have no fixed length, days and microseconds do."""

    months: int = 0
    microseconds: int = 0

    def __add__(self, other: Span) -> Span:
        return Span(self.months + other.months, self.microseconds + other.microseconds)

    def __neg__(self) -> Span:
        return Span(-self.months, -self.microseconds)


NO_SPAN = Span()
DAY = 86_400_000_000
_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "yr": 12, "y": 12, "decade": 120, "century": 1200}
_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "usec": 1,
    "millisecond": 1000,
    "ms": 1000,
    "msec": 1000,
    "second": 10**6,
    "sec": 10**6,
    "s": 10**6,
    "minute": 60 * 10**6,
    "min": 60 * 10**6,
    "m": 60 * 10**6,
    "hour": 3600 * 10**6,
    "hr": 3600 * 10**6,
    "h": 3600 * 10**6,
    "day": DAY,
    "d": DAY,
    "week": 7 * DAY,
    "w": 7 * DAY,
}
_BY_FUNCTION = {
    "to_years": "year",
    "to_months": "month",
    "to_weeks": "week",
    "to_days": "day",
    "to_hours": "hour",
    "to_minutes": "minute",
    "to_seconds": "second",
    "to_milliseconds": "millisecond",
    "to_microseconds": "microsecond",
}
_FRACTIONS = ("second", "millisecond")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*,?")


def _span(amount: Decimal, unit: str) -> Span | None:
    name = unit.lower()
    name = name if name in _MONTHS or name in _MICROSECONDS else name.removesuffix("s")
    if name in _MONTHS:
        months = amount * _MONTHS[name]
        return Span(months=int(months)) if months == months.to_integral_value() else None
    if name not in _MICROSECONDS:
        return None
    size = amount * _MICROSECONDS[name]
    return Span(microseconds=int(size)) if size == size.to_integral_value() else None


def parse_span(text: str) -> Span | None:
    """An interval as text.

    >>> parse_span("1 hour 30 minutes")
    Span(months=0, microseconds=5400000000)
    """
    clock = re.fullmatch(r"\s*(-?)(\d+):(\d{2})(?::(\d{2}))?\s*", text)
    if clock:
        size = (int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)) * 10**6
        return Span(microseconds=-size if clock[1] else size)
    total, position = Span(), 0
    while position < len(text.rstrip()):
        part = _PART.match(text.lower(), position)
        made = _span(Decimal(part[1]), part[2]) if part else None
        if part is None or made is None:
            return None
        total, position = total + made, part.end()
    return total if position else None


def number(node: exp.Expr) -> Decimal | None:
    """The exact value of a constant number, or None."""
    inner = bare(node)
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return Decimal(inner.this) if re.fullmatch(r"\d+(\.\d*)?|\.\d+", inner.this) else None
    if isinstance(inner, exp.Neg):
        value = number(inner.this)
        return None if value is None else -value
    if isinstance(inner, exp.Add | exp.Sub | exp.Mul):
        left, right = number(inner.left), number(inner.right)
        if left is None or right is None:
            return None
        if isinstance(inner, exp.Mul):
            return left * right
        return left + right if isinstance(inner, exp.Add) else left - right
    return None


def span(node: exp.Expr) -> Span | None:
    """The value of a constant interval, or None."""
    inner = bare(node)
    if isinstance(inner, exp.Interval):
        amount, unit = inner.this, inner.args.get("unit")
        if amount is None:
            return None
        amount = bare(amount)
        if unit is None:
            return parse_span(amount.this) if isinstance(amount, exp.Literal) and amount.is_string else None
        try:
            many = Decimal(amount.this) if isinstance(amount, exp.Literal) else number(amount)
        except ArithmeticError:
            return None
        if many is None or not many.is_finite():
            return None
        return _span(many, unit.name) if inner.args.get("fraction_in_string") else _of_unit(many, unit.name)
    if isinstance(inner, exp.Neg):
        value = span(inner.this)
        return None if value is None else -value
    if isinstance(inner, exp.Add | exp.Sub):
        left, right = span(inner.left), span(inner.right)
        if left is None or right is None:
            return None
        return left + (right if isinstance(inner, exp.Add) else -right)
    return _function(inner)


def _function(node: exp.Expr) -> Span | None:
    """to_days(3) and its kin."""
    name, argument = "", None
    if isinstance(node, exp.ToDays):
        name, argument = "to_days", node.this
    elif isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        name, argument = str(node.this).lower(), node.expressions[0]
    many = number(argument) if name in _BY_FUNCTION and argument is not None else None
    return None if many is None else _of_unit(many, _BY_FUNCTION[name])


def _of_unit(amount: Decimal, unit: str) -> Span | None:
    """A number outside of the text of an interval: DuckDB drops its fraction, but of seconds and milliseconds."""
    is_whole = amount == amount.to_integral_value()
    return _span(amount, unit) if is_whole or unit.lower().removesuffix("s") in _FRACTIONS else None
