"""Convert constants and offsets to the type of a column, as SQL literals.

A constant must be of the column's kind and in its range. A number between two values of the type
is moved to the nearest value that gives the comparison the same meaning:

    x < 5.5   on integers is   x <= 5          x > 5.5   is   x >= 6
    x = 5.5   never holds and  x != 5.5  always does: both are refused
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.problems import QueryProblems, refuse
from dynq_cli.query.rule.constants import read_date, read_time, read_timestamp
from dynq_cli.query.rule.syntax import Constant
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import Type

# Sums of numbers with 38 digits on either side of the point are exact in it.
WIDE = Context(prec=100)

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_ARTICLE = {"number": "a number", "interval": "an interval", "bool": "a truth value", "binary": "a binary constant"}


def snap(op: str, value: Decimal, scale: int) -> tuple[str, Decimal] | None:
    """The same comparison with a value of `scale` decimals; None if it always or never holds."""
    scaled = value.scaleb(scale, WIDE)
    low = scaled.to_integral_value(ROUND_FLOOR, WIDE)
    if low == scaled:
        return op, low.scaleb(-scale, WIDE)
    if op in ("<", "<="):
        return "<=", low.scaleb(-scale, WIDE)
    if op in (">", ">="):
        return ">=", scaled.to_integral_value(ROUND_CEILING, WIDE).scaleb(-scale, WIDE)
    return None


def fit_number(name: str, type_: Type, op: str, value: Decimal, floating: bool, at: int) -> tuple[str, Scalar]:
    """The operator and the literal for `name op value`. Raises QueryProblems."""
    if type_.is_float:
        return op, Scalar(_float_sql(name, type_, value, at), type_, False, ())
    if floating:
        raise refuse(at, f"{name} is {type_}, and a number with an exponent is a float", "write all digits, as in 1500")
    snapped = snap(op, value, type_.scale)
    if snapped is None:
        never = "is never" if op == "=" else "is always different from"
        raise refuse(at, f"{name} is {type_} and {never} {value:f}", _closest(type_))
    op, value = snapped
    check_range(name, type_, value, at)
    return op, Scalar(f"{value:.{type_.scale}f}", type_, False, ())


def check_range(name: str, type_: Type, value: Decimal, at: int) -> None:
    """That an exact number is a value of an integer or decimal type. Raises QueryProblems."""
    if type_.is_integer:
        limit = 2 ** _BITS[type_.name]
        low, high = Decimal(-limit), Decimal(limit - 1)
    else:
        high = Decimal(10**type_.precision - 1).scaleb(-type_.scale, WIDE)
        low = high.copy_negate()
    if not low <= value <= high:
        raise refuse(at, f"{name} is {type_}, which does not reach {value:f}", f"its values are {low:f} to {high:f}")


def _closest(type_: Type) -> str:
    if type_.is_integer:
        return "write an integer"
    return f"write at most {type_.scale} digits after the point"


def _float_sql(name: str, type_: Type, value: Decimal, at: int) -> str:
    number = float(value) + 0.0  # there is one zero
    if type_.name == "float32":
        try:
            number = float(struct.unpack("<f", struct.pack("<f", number))[0])
        except OverflowError:
            raise refuse(
                at, f"{name} is float32, which does not reach {number!r}", "its values end at 3.4e38"
            ) from None
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def fit_constant(name: str, type_: Type, constant: Constant) -> Scalar:
    """The literal for a constant that is no number, of exactly the type. Raises QueryProblems."""
    if constant.kind != type_.name:
        raise wrong_kind(name, type_, constant)
    return literal(type_, constant.value)


def literal(type_: Type, value: object) -> Scalar:
    """A value of a type that is not numeric, as SQL."""
    if isinstance(value, bool):
        return Scalar("TRUE" if value else "FALSE", type_, False, ())
    if isinstance(value, bytes):
        return Scalar("CAST('" + "".join(f"\\x{b:02X}" for b in value) + "' AS BLOB)", type_, False, ())
    if isinstance(value, str):
        return Scalar("'" + value.replace("'", "''") + "'", type_, False, ())
    assert isinstance(value, dt.date | dt.time)
    text = value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return Scalar(f"CAST('{text}' AS {type_.sql})", type_, False, ())


def wrong_kind(name: str, type_: Type, constant: Constant) -> QueryProblems:
    kind = _ARTICLE.get(constant.kind, f"a {constant.kind}")
    if type_.is_temporal and constant.kind == "interval":
        message = f"{name} is {type_}, and an interval is a distance between two of them"
        return refuse(
            constant.at, message, f"compare with {_example(type_, constant)}, or add the interval to a variable"
        )
    return refuse(
        constant.at, f"{name} is {type_}, and {shown(constant.text)} is {kind}", f"write {_example(type_, constant)}"
    )


def _example(type_: Type, constant: Constant) -> str:
    """A constant of the type, as near as possible to the given one."""
    value = constant.value
    if type_.is_numeric:
        inside = str(value) if constant.kind == "string" else ""
        plain = inside.lstrip("-").replace(".", "", 1)
        return inside if plain.isascii() and plain.isdigit() else "a number, as in 15"
    if type_.name == "string":
        return f"'{constant.text}'" if constant.kind == "number" else "a string in quotes, as in 'abc'"
    if type_.name == "bool":
        return "true or false"
    if type_.name == "binary":
        return "bytes in hexadecimal, as in x'00FF'"
    return f"{type_.name} '{_moment(type_, value)}'"


def _moment(type_: Type, value: object) -> str:
    if isinstance(value, dt.datetime) and type_.name == "date":
        return value.date().isoformat()
    if isinstance(value, dt.date) and type_.name == "timestamp":
        return f"{value.isoformat()} 00:00:00"
    readers = {"date": read_date, "time": read_time, "timestamp": read_timestamp}
    if isinstance(value, str):
        try:
            readers[type_.name](value)
            return value
        except (ValueError, OverflowError):
            pass
    return {"date": "2020-01-31", "time": "12:30:00", "timestamp": "2020-01-31 12:30:00"}[type_.name]
