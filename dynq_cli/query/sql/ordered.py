"""Calls of aggregates that read a group in order → the basic aggregate, its arguments and its detail.

MEDIAN(x), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), ARG_MAX(x, y), LAST(x ORDER BY y, z DESC), …
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from sqlglot import exp

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.query.aggregates.ordered import MOST_DIGITS, Fraction, Key, detail_of
from dynq_cli.query.sql.constants import number
from dynq_cli.query.sql.context import Context, bare

_ARG = (exp.ArgMin, exp.ArgMax)


class Ordered(NamedTuple):
    """`given` are the arguments, the value first; `required` is whether rows where the first is NULL are left out."""

    given: list[exp.Expr]
    detail: str
    required: bool


def canonical(tree: exp.Expr) -> exp.Expr:
    """The tree with WITHIN GROUP as an argument, and ANY_VALUE without the IGNORE NULLS that it means anyway."""
    for node in list(tree.find_all(exp.IgnoreNulls)):
        if isinstance(node.this, exp.AnyValue):
            node.replace(node.this)
    for within in list(tree.find_all(exp.WithinGroup)):
        made = _with_order(within.this, within.expression)
        if made is not None:
            made.meta.update(within.this.meta)
            within.replace(made)
    return tree


def _with_order(call: exp.Expr, order: exp.Expr) -> exp.Expr | None:
    """The call with what it is ordered by as its first argument."""
    keys = order.expressions if isinstance(order, exp.Order) else []
    if len(keys) != 1:
        return None
    if isinstance(call, exp.PercentileCont | exp.PercentileDisc) and call.expression is None:
        return type(call)(this=exp.Order(this=keys[0].this.copy(), expressions=[keys[0]]), expression=call.this)
    return exp.Mode(this=keys[0].this) if isinstance(call, exp.Mode) and call.this is None else None


def takes_order(node: exp.Expr | None) -> bool:
    """Whether ORDER BY may stand among the arguments of a call."""
    return isinstance(node, exp.First | exp.Last | exp.AnyValue | exp.PercentileCont | exp.PercentileDisc) or (
        isinstance(node, exp.Anonymous) and str(node.this).lower() == "arbitrary"
    )


def ordered(context: Context, call: exp.Expr, definition: Basic, given: list[exp.Expr]) -> Ordered:
    """What a call of a basic aggregate that reads a group in order is given."""
    if definition.name == "mode":
        (value,) = _exactly(context, call, given, 1)
        return Ordered([value], "", True)
    if definition.name == "first":
        return _first(context, call, given)
    name = call.sql_name().lower() if isinstance(call, exp.Func) else ""
    if isinstance(call, exp.Median):
        (value,) = _exactly(context, call, given, 1)
        return Ordered([value], str(Fraction(Decimal("0.5"))), True)
    value, share = _exactly(context, call, given, 2)
    value, keys = _without_order(value)
    fraction = _fraction(context, share, name)
    if len(keys) > 1:
        raise context.refuse(call, "a quantile is in the order of its argument", "leave the ORDER BY out")
    return Ordered([value], str(Fraction(fraction, bool(keys and keys[0].args.get("desc")))), True)


def _first(context: Context, call: exp.Expr, given: list[exp.Expr]) -> Ordered:
    if isinstance(call, _ARG):
        value, by = _exactly(context, call, given, 2)
        greatest = isinstance(call, exp.ArgMax)
        return Ordered([value, by], detail_of([Key(required=True), Key(greatest, required=True)]), True)
    (value,) = _exactly(context, call, given, 1)
    value, keys = _without_order(value)
    found = [Key(bool(k.args.get("desc")), bool(k.args.get("nulls_first"))) for k in keys]
    any_value = isinstance(call, exp.AnyValue | exp.Anonymous)
    if not keys and not any_value:
        name = call.sql_name().upper() if isinstance(call, exp.Func) else "FIRST"
        message = f"{name} without an order is any row's value"
        raise context.refuse(call, message, f"write {name}(x ORDER BY y), or ANY_VALUE(x)")
    if isinstance(call, exp.Last):
        found = [key.turned() for key in found]
    return Ordered([value, *(k.this for k in keys)], detail_of([Key(required=any_value), *found]), any_value)


def _exactly(context: Context, call: exp.Expr, given: list[exp.Expr], many: int) -> list[exp.Expr]:
    if len(given) == many:
        return given
    message = f"this aggregate takes {many} argument{'s' if many > 1 else ''} here"
    raise context.refuse(call, message, "columns hold single values: the forms with a list are not supported")


def _without_order(node: exp.Expr) -> tuple[exp.Expr, list[exp.Expr]]:
    return (node.this, node.expressions) if isinstance(node, exp.Order) else (node, [])


def _fraction(context: Context, node: exp.Expr, name: str) -> Decimal:
    hint = f"write a number from 0 to 1 with at most {MOST_DIGITS} digits behind the point, as in 0.95"
    try:
        value = number(bare(node))
    except InvalidOperation:
        value = None
    if value is None or not 0 <= value <= 1:
        raise context.refuse(node, f"the fraction of {name.upper()} is a number from 0 to 1", hint)
    if value.normalize().as_tuple().exponent < -MOST_DIGITS:  # type: ignore[operator]
        raise context.refuse(node, f"this fraction has more than {MOST_DIGITS} digits behind the point", hint)
    return value
