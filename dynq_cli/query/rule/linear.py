"""A comparison of two sums → `x op constant` or `x op y + offset`.

All variables are brought to the left and all constants to the right. What remains must be one
variable, or one minus another: anything else is no comparison that an order on values can
answer. Offsets come in the unit of the type: 1, a day, a microsecond.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.fit import WIDE, check_range, fit_constant, fit_number, literal, snap, wrong_kind
from dynq_cli.query.rule.intervals import LONGEST, MICROSECONDS_PER_DAY
from dynq_cli.query.rule.syntax import Comparison, Constant, Variable
from dynq_cli.spec.types import Type, common_type

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True)
class WithConstant:
    """variable op literal, the literal in the variable's type."""

    variable: str
    op: str
    literal: Scalar


@dataclass(frozen=True)
class WithVariable:
    """left op right + offset."""

    left: str
    op: str
    right: str
    offset: Decimal


@dataclass(frozen=True)
class _Signed:
    """A constant on the right side, with its sign there."""

    sign: int
    constant: Constant


def reduce(comparison: Comparison, types: Mapping[str, Type]) -> WithConstant | WithVariable:
    """What a comparison says of variables with the given types. Raises QueryProblems."""
    count: dict[str, int] = {}
    constants: list[_Signed] = []
    for side, sum_ in ((1, comparison.left), (-1, comparison.right)):
        for part in sum_.parts:
            if isinstance(part.operand, Variable):
                name = part.operand.name
                count[name] = count.get(name, 0) + side * part.sign
            elif isinstance(part.operand, Constant):
                constants.append(_Signed(-side * part.sign, part.operand))
    at, op = comparison.at, comparison.op
    if not count:
        raise refuse(at, "this compares two constants", "compare a variable, or remove it")
    gone = [name for name, n in count.items() if n == 0]
    if gone:
        hint = "compare it with something else, or remove the comparison"
        raise refuse(at, f"{gone[0]} stands on both sides and cancels out", hint)
    plus, minus = ([name for name, n in count.items() if n == s] for s in (1, -1))
    if len(plus) + len(minus) != len(count) or len(plus) > 1 or len(minus) > 1:
        raise refuse(
            at,
            "a comparison takes one variable on each side, plus or minus a constant",
            "write it as in x <= y + 5, or use sql: where all variables come from one relation",
        )
    if plus and minus:
        if _is_left_alone(comparison, plus[0]) and types[plus[0]].is_float:
            turned = [_Signed(-c.sign, c.constant) for c in constants]
            return _two(at, minus[0], _TURNED[op], plus[0], turned, types)
        return _two(at, plus[0], op, minus[0], constants, types)
    if plus:
        return _one(at, plus[0], op, constants, types[plus[0]])
    turned = [_Signed(-c.sign, c.constant) for c in constants]
    return _one(at, minus[0], _TURNED[op], turned, types[minus[0]])


def _is_left_alone(comparison: Comparison, name: str) -> bool:
    """Whether the left side is `name` and constants, and the right side has none: floats are rounded as written."""
    left = [part.operand for part in comparison.left.parts if isinstance(part.operand, Variable)]
    right = [part.operand for part in comparison.right.parts if isinstance(part.operand, Constant)]
    return [v.name for v in left] == [name] and not right and len(comparison.left.parts) > 1


def _check_order(at: int, name: str, op: str, type_: Type) -> None:
    if op not in ("=", "!=") and type_.name in ("bool", "binary"):
        raise refuse(at, f"{name} is {type_}, which has no order", "compare it with = or !=")


def _one(at: int, name: str, op: str, constants: Sequence[_Signed], type_: Type) -> WithConstant:
    _check_order(at, name, op, type_)
    if type_.is_numeric:
        total, floating = _numbers(name, type_, constants)
        made_op, made = fit_number(name, type_, op, total, floating, constants[0].constant.at if constants else at)
        return WithConstant(name, made_op, made)
    points = [c for c in constants if c.constant.kind != "interval" or not type_.is_temporal]
    steps = [c for c in constants if c not in points]
    if not points:
        raise wrong_kind(name, type_, steps[0].constant)
    first = points[0].constant
    if len(points) > 1 or points[0].sign < 0 or (steps and first.kind != type_.name):
        for other in points:
            if other.constant.kind != type_.name:
                raise _no_sum(other.constant.at, name, type_, other.constant)
        raise refuse(at, f"{name} is {type_}, which cannot be added up", f"compare {name} with one constant")
    if not steps:
        return WithConstant(name, op, fit_constant(name, type_, first))
    return WithConstant(name, op, _moved(at, name, type_, first, _days_or_microseconds(name, type_, steps)))


def _two(
    at: int, left: str, op: str, right: str, constants: Sequence[_Signed], types: Mapping[str, Type]
) -> WithVariable:
    common = common_type(types[left], types[right])
    if common is None:
        raise refuse(
            at,
            f"{left} is {types[left]} and {right} is {types[right]}: they have no common type",
            f"declare both columns {types[left]} or {types[right]}, or cast one side in sql:",
        )
    _check_order(at, left, op, common)
    if not constants:
        return WithVariable(left, op, right, Decimal(0))
    where = constants[0].constant.at
    if not common.is_numeric:
        return WithVariable(left, op, right, Decimal(_days_or_microseconds(right, common, constants)))
    offset, floating = _numbers(right, types[right], constants)
    if common.is_float:
        return WithVariable(left, op, right, offset)
    if floating:
        raise refuse(where, f"{right} is {types[right]}, and a number with an exponent is a float", "write all digits")
    snapped = snap(op, offset, common.scale)
    if snapped is None:
        truth = "never holds" if op == "=" else "always holds"
        message = f"{left} {op} {right} {_shown_offset(offset)} {truth}: both are {common}"
        raise refuse(where, message, "correct the constant, or compare with < or >")
    check_range(f"{left} - {right}", common, snapped[1], where)
    return WithVariable(left, snapped[0], right, snapped[1])


def _numbers(name: str, type_: Type, constants: Sequence[_Signed]) -> tuple[Decimal, bool]:
    total = Decimal(0)
    for c in constants:
        if c.constant.kind != "number":
            raise wrong_kind(name, type_, c.constant)
        assert isinstance(c.constant.value, Decimal)
        total = WIDE.add(total, WIDE.multiply(Decimal(c.sign), c.constant.value))
    return total, any(c.constant.floating for c in constants)


def _shown_offset(offset: Decimal) -> str:
    return f"- {-offset:f}" if offset < 0 else f"+ {offset:f}"


def _no_sum(at: int, name: str, type_: Type, constant: Constant) -> QueryProblems:
    if type_.name in ("date", "timestamp") and constant.kind == "number":
        unit = f"{constant.text}d" if constant.text.isdigit() else "1h"
        return refuse(at, f"{name} is {type_}: a number has no unit there", f"write interval '{unit}'")
    return wrong_kind(name, type_, constant)


def _days_or_microseconds(name: str, type_: Type, steps: Sequence[_Signed]) -> int:
    """The sum of intervals in the unit of a date or timestamp."""
    first = steps[0].constant.at
    if type_.name == "time":
        raise refuse(first, f"{name} is time, and sums would wrap at midnight", "use a timestamp column")
    if type_.name not in ("date", "timestamp"):
        raise refuse(first, f"{name} is {type_}, to which nothing can be added", "compare without a sum")
    total = 0
    for c in steps:
        if c.constant.kind != "interval":
            raise _no_sum(c.constant.at, name, type_, c.constant)
        assert isinstance(c.constant.value, int)
        total += c.sign * c.constant.value
    if abs(total) > LONGEST:
        raise refuse(first, "the intervals add up to more than ten thousand years", "write less")
    if type_.name == "timestamp":
        return total
    days, rest = divmod(total, MICROSECONDS_PER_DAY)
    if rest:
        raise refuse(first, f"{name} is date: only whole days can be added", "write them as in interval '1d'")
    return days


def _moved(at: int, name: str, type_: Type, constant: Constant, by: int) -> Scalar:
    value = constant.value
    assert isinstance(value, dt.date)
    try:
        moved = value + (dt.timedelta(days=by) if type_.name == "date" else dt.timedelta(microseconds=by))
    except OverflowError:
        message = f"{name} is compared with a {type_} before the year 1 or after 9999"
        raise refuse(at, message, "correct the interval") from None
    return literal(type_, moved)
