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
from dynq_cli.spec.types import Type, common_type

FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


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


def link(context: Context, node: exp.Expr) -> Link | None:
    """The link a comparison of two tables says; None if it says none."""
    op = COMPARISONS[type(node)]
    left, right = node.args["this"], node.args["expression"]
    if isinstance(bare(left), exp.Tuple) or isinstance(right, exp.Any | exp.All):
        return None
    if len(tables_of(left)) == 1 == len(tables_of(right)):
        if tables_of(left) == tables_of(right):
            return None
        left_base, left_offset = _base(context, left)
        right_base, right_offset = _base(context, right)
        is_declared = _is_declared(context, left) and _is_declared(context, right)
        if common_type(scalar(context, left_base).type, scalar(context, right_base).type) is None and not is_declared:
            return _cast(context, Link(left, op, right, Decimal(0), context.at(node)))
        return Link(left_base, op, right_base, right_offset - left_offset, context.at(node))
    if len(tables_of(node)) != 2:
        return None
    return _apart(context, node, op, _sum(left).minus(_sum(right)))


def null_safe_link(context: Context, node: exp.NullSafeEQ) -> Link | None:
    """The link of IS NOT DISTINCT FROM between two tables; None if a side reads both, or none."""
    left, right = node.args["this"], node.args["expression"]
    if len(tables_of(left)) != 1 or len(tables_of(right)) != 1 or tables_of(left) == tables_of(right):
        return None
    return Link(left, "=", right, Decimal(0), context.at(node), null_safe=True)


def _is_declared(context: Context, node: exp.Expr) -> bool:
    """Whether a side is a column as the spec declares it: there, types that do not meet are a mistake."""
    inner = bare(node)
    return isinstance(inner, exp.Column) and context.spec.relation(context.tables[int(inner.table)].source) is not None


def _cast(context: Context, made: Link) -> Link | None:
    """A comparison as DuckDB makes it between types without a common one: of floats, or of timestamps."""
    kinds = [scalar(context, side).type for side in (made.left, made.right)]
    wanted = next((k for k in kinds if k.is_float), None) if all(k.is_numeric for k in kinds) else None
    if {k.name for k in kinds} == {"date", "timestamp"}:
        wanted = next(k for k in kinds if k.name == "timestamp")
    if wanted is None:
        return None if all(k.is_numeric for k in kinds) else made
    sides = [
        side if kind == wanted else exp.cast(side.copy(), wanted.sql, dialect="duckdb")
        for side, kind in zip((made.left, made.right), kinds, strict=True)
    ]
    return replace(made, left=sides[0], right=sides[1])


def _base(context: Context, side: exp.Expr) -> tuple[exp.Expr, Decimal]:
    """A side of one table as term and offset; all of it is the term where adding is not exact."""
    parts = _sum(side)
    if parts.opaque or len(parts.parts) != 1 or parts.parts[0][0] < 0 or not (parts.numbers or parts.spans != NO_SPAN):
        return side, Decimal(0)
    base = parts.parts[0][1]
    kind = scalar(context, base).type
    if kind.is_float or not (kind.is_numeric or kind.is_temporal):
        return side, Decimal(0)
    offset = _offset(kind, parts)
    return (side, Decimal(0)) if offset is None else (base, offset)


def _offset(kind: Type, parts: _Sum) -> Decimal | None:
    """The constants of a sum in the unit of the type: 1, a day, a microsecond; None if they are no number of it."""
    if kind.is_numeric:
        return parts.numbers if parts.spans == NO_SPAN else None
    if kind.name == "time" or parts.spans.months:
        # Times of day wrap at midnight, months have no fixed length.
        return None
    if kind.name == "date":
        days, rest = divmod(parts.spans.microseconds, DAY)
        return None if rest or parts.numbers != parts.numbers.to_integral_value() else parts.numbers + days
    return None if parts.numbers else Decimal(parts.spans.microseconds)


def _apart(context: Context, node: exp.Expr, op: str, total: _Sum) -> Link | None:
    """`total op 0` with the terms of one table on each side; None where they cannot be brought apart exactly."""
    tables = tables_of(node)
    if total.opaque or any(len(tables_of(part)) != 1 for _, part in total.parts):
        return None
    groups = {t: [(s, part) for s, part in total.parts if tables_of(part) == [t]] for t in tables}
    if not any(_all(groups[t], -1) for t in tables):
        total, op = _Sum([]).minus(total), FLIPPED[op]
        groups = {t: [(-s, part) for s, part in group] for t, group in groups.items()}
    negative = next((t for t in tables if _all(groups[t], -1)), None)
    other = next((t for t in tables if t != negative), None)
    if negative is None or other is None or _all(groups[other], -1):
        return None
    left, right = _added(groups[other]), _added([(-s, part) for s, part in groups[negative]])
    kinds = [scalar(context, side).type for side in (left, right)]
    if not all((kind.is_numeric and not kind.is_float) or kind.name in ("date", "timestamp") for kind in kinds):
        return None
    if common_type(kinds[0], kinds[1]) is None or (kinds[0].name == "date" and total.spans != NO_SPAN):
        return None
    offset = _offset(kinds[0], total)
    return None if offset is None else Link(left, op, right, -offset, context.at(node))


def _all(group: list[tuple[int, exp.Expr]], sign: int) -> bool:
    return all(s == sign for s, _ in group)


def _added(group: list[tuple[int, exp.Expr]]) -> exp.Expr:
    ordered = sorted(group, key=lambda part: -part[0])
    made: exp.Expr = ordered[0][1].copy()
    for sign, part in ordered[1:]:
        kind = exp.Add if sign > 0 else exp.Sub
        made = kind(this=closed(made), expression=closed(part.copy()))
    return made
