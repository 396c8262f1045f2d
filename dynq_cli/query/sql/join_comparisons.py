"""A comparison between two tables → `left op right + offset`, one table on each side.

Where both sides already read one table each, a constant added to a side becomes the offset and
the rest of the side its term. Where tables are mixed on a side (`a.x - b.y < 5`) the terms are
brought apart, which is exact on integers, decimals, dates and timestamps only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from sqlglot import exp

from dynq_cli.query.sql.allow import COMPARISONS
from dynq_cli.query.sql.constants import DAY, NO_SPAN, Span, number, span
from dynq_cli.query.sql.context import Context, bare, tables_of
from dynq_cli.query.sql.scalars import closed, scalar
from dynq_cli.spec.types import Type

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_APART_HINT = "write a comparison of the form a.x < b.y + 5, with one table on each side"


@dataclass(frozen=True)
class Link:
    """`left op right + offset` between resolved expressions of two different tables.

    `null_safe`: an equality that holds also where both sides are NULL."""

    left: exp.Expr
    op: str
    right: exp.Expr
    offset: Decimal
    at: int
    null_safe: bool = False

    def flipped(self) -> Link:
        return replace(self, left=self.right, right=self.left, op=FLIPPED[self.op], offset=-self.offset)

    @property
    def tables(self) -> tuple[int, int]:
        return tables_of(self.left)[0], tables_of(self.right)[0]


@dataclass
class _Sum:
    """Σ sign · part + constants, of a side."""

    parts: list[tuple[int, exp.Expr]]
    numbers: Decimal = Decimal(0)
    spans: Span = NO_SPAN
    opaque: bool = False

    def minus(self, other: _Sum) -> _Sum:
        parts = self.parts + [(-sign, part) for sign, part in other.parts]
        return _Sum(parts, self.numbers - other.numbers, self.spans + -other.spans, self.opaque or other.opaque)


def _sum(node: exp.Expr) -> _Sum:
    inner = bare(node)
    if not tables_of(inner):
        value, length = number(inner), span(inner)
        if value is not None:
            return _Sum([], numbers=value)
        return _Sum([], spans=length) if length is not None else _Sum([(1, inner)], opaque=True)
    if isinstance(inner, exp.Add):
        return _sum(inner.left).minus(_Sum([]).minus(_sum(inner.right)))
    if isinstance(inner, exp.Sub):
        return _sum(inner.left).minus(_sum(inner.right))
    if isinstance(inner, exp.Neg):
        return _Sum([]).minus(_sum(inner.this))
    return _Sum([(1, inner)])


def link(context: Context, node: exp.Expr) -> Link:
    """The link a comparison of two tables says. Raises QueryProblems if it says none."""
    op = COMPARISONS[type(node)]
    left, right = node.args["this"], node.args["expression"]
    if len(tables_of(left)) == 1 == len(tables_of(right)):
        left_base, left_offset = _base(context, left)
        right_base, right_offset = _base(context, right)
        return Link(left_base, op, right_base, right_offset - left_offset, context.at(node))
    return _apart(context, node, op, _sum(left).minus(_sum(right)))


def null_safe_link(context: Context, node: exp.NullSafeEQ) -> Link | None:
    """The link of IS NOT DISTINCT FROM between two tables; None if a side reads both, or none."""
    left, right = node.args["this"], node.args["expression"]
    if len(tables_of(left)) != 1 or len(tables_of(right)) != 1 or tables_of(left) == tables_of(right):
        return None
    return Link(left, "=", right, Decimal(0), context.at(node), null_safe=True)


def _base(context: Context, side: exp.Expr) -> tuple[exp.Expr, Decimal]:
    """A side of one table as term and offset; all of it is the term where adding is not exact."""
    parts = _sum(side)
    if parts.opaque or len(parts.parts) != 1 or parts.parts[0][0] < 0 or not (parts.numbers or parts.spans != NO_SPAN):
        return side, Decimal(0)
    base = parts.parts[0][1]
    kind = scalar(context, base).type
    if kind.is_float or not (kind.is_numeric or kind.is_temporal):
        return side, Decimal(0)
    return base, _offset(context, side, kind, parts)


def _offset(context: Context, node: exp.Expr, kind: Type, parts: _Sum) -> Decimal:
    """The constants of a sum in the unit of the type: 1, a day, a microsecond."""
    if kind.is_numeric:
        if parts.spans != NO_SPAN:
            raise context.refuse(node, f"an interval cannot be added to {kind}", "add a plain number")
        return parts.numbers
    if kind.name == "time":
        message = "a time of day with an offset wraps at midnight, so it cannot be compared between tables"
        raise context.refuse(node, message, "compare timestamps")
    if parts.spans.months:
        message = "months and years have no fixed length, so they cannot stand between columns of two tables"
        raise context.refuse(
            node, message, "write days, as in interval '30 days', or keep the shifted date in a column"
        )
    if kind.name == "date":
        days, rest = divmod(parts.spans.microseconds, DAY)
        if rest or parts.numbers != parts.numbers.to_integral_value():
            message = "dates are a whole number of days apart"
            raise context.refuse(node, message, "write whole days, or cast the date to timestamp")
        return parts.numbers + days
    if parts.numbers:
        raise context.refuse(node, "a plain number cannot be added to a timestamp", "write interval '1 hour'")
    return Decimal(parts.spans.microseconds)


def _apart(context: Context, node: exp.Expr, op: str, total: _Sum) -> Link:
    """`total op 0` with the terms of one table on each side."""
    tables = tables_of(node)
    if total.opaque or len(tables) != 2 or any(len(tables_of(part)) != 1 for _, part in total.parts):
        raise context.refuse(node, f"the comparison mixes {_named(context, tables)} on one side", _APART_HINT)
    groups = {t: [(s, part) for s, part in total.parts if tables_of(part) == [t]] for t in tables}
    if not any(_all(groups[t], -1) for t in tables):
        total, op = _Sum([]).minus(total), FLIPPED[op]
        groups = {t: [(-s, part) for s, part in group] for t, group in groups.items()}
    negative = next((t for t in tables if _all(groups[t], -1)), None)
    other = next((t for t in tables if t != negative), None)
    if negative is None or other is None or _all(groups[other], -1):
        raise context.refuse(node, f"the comparison adds columns of {_named(context, tables)}", _APART_HINT)
    left, right = _added(groups[other]), _added([(-s, part) for s, part in groups[negative]])
    kinds = [scalar(context, side).type for side in (left, right)]
    if any(kind.is_float for kind in kinds):
        raise context.refuse(node, "floating-point columns cannot be moved between the sides exactly", _APART_HINT)
    if not all(kind.is_numeric or kind.name in ("date", "timestamp") for kind in kinds):
        raise context.refuse(node, "only numbers, dates and timestamps can be subtracted", _APART_HINT)
    if kinds[0].name == "date" and total.spans != NO_SPAN:
        raise context.refuse(node, "the difference of two dates is a number of days", "compare it with a plain number")
    return Link(left, op, right, -_offset(context, node, kinds[0], total), context.at(node))


def _all(group: list[tuple[int, exp.Expr]], sign: int) -> bool:
    return all(s == sign for s, _ in group)


def _added(group: list[tuple[int, exp.Expr]]) -> exp.Expr:
    ordered = sorted(group, key=lambda part: -part[0])
    made: exp.Expr = ordered[0][1].copy()
    for sign, part in ordered[1:]:
        kind = exp.Add if sign > 0 else exp.Sub
        made = kind(this=closed(made), expression=closed(part.copy()))
    return made


def _named(context: Context, tables: list[int]) -> str:
    return " and ".join(context.tables[t].alias for t in tables)
