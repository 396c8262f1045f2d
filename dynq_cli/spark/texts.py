r"""Parse texts of CSV, JSON and partitions in Spark, by the rules of change logs (`io.logs.texts`).

    parse(text, type) is NULL for a text that is not exactly a value of the type

Texts that only Spark accepts are refused first: suffixes (`1d`), spaces, incomplete base64, nonzero digits beyond the
scale or beyond microseconds, numbers too large for a float. A decimal with an exponent may have at most 15 digits.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from dynq_cli.spark.types import to_spark
from dynq_cli.spec.types import Type

_DATE = r"-?\d{4,7}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}0*)?)?"
_ZONE = r"(Z|[-+]([01]\d|2[0-3])(:?[0-5]\d)?)"
_NUMBER = r"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,4})?"
_NAMED = r"(?i)(nan|[-+]?inf(inity)?)"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_SHORT_ZONE = r"([-+]\d\d)$"
_JOINED_ZONE = r"([-+]\d\d)(\d\d)$"
_SURE_DIGITS = 15  # so many a double keeps


def parse(text: Column, kind: Type) -> Column:
    """Return the value of a text in the type `to_spark(kind)`; NULL if it is not valid."""
    if kind.name == "string":
        return text
    family = "integer" if kind.is_integer else "float" if kind.is_float else kind.name
    return _PARSERS[family](text, kind)


def _cast(text: Column, kind: Type) -> Column:
    return text.try_cast(to_spark(kind))


def _matching(text: Column, pattern: str, value: Column) -> Column:
    return f.when(text.rlike(f"^({pattern})$"), value)


def _integer(text: Column, kind: Type) -> Column:
    return _matching(text, r"-?\d+", _cast(text, kind))


def _decimal(text: Column, kind: Type) -> Column:
    plain = text.rlike(rf"^-?(\d+(\.\d{{0,{kind.scale}}}0*)?|\.\d{{1,{max(kind.scale, 1)}}}0*)$")
    digits = f.length(f.regexp_replace(f.regexp_replace(text, "[eE].*", ""), r"\D", ""))
    number = t.DoubleType()
    exact = _cast(text, kind).cast(number) == text.try_cast(number)
    exponent = text.rlike(f"^({_NUMBER})$") & text.rlike("[eE]") & (digits <= _SURE_DIGITS) & exact
    # A scale of 0 leaves `.5` to the pattern above, which takes one digit: the value decides.
    return f.when(plain & ((kind.scale > 0) | exact) | exponent, _cast(text, kind))


def _float(text: Column, kind: Type) -> Column:
    number = _cast(f.regexp_replace(text, r"(?i)inf(inity)?$", "Infinity"), kind)
    is_named = text.rlike(f"^({_NAMED})$")
    is_number = text.rlike(f"^({_NUMBER})$") & (f.abs(number) < f.lit(float("inf")))
    return f.when(is_named | is_number, number)


def _bool(text: Column, kind: Type) -> Column:
    return _matching(f.lower(text), "true|false", f.lower(text) == "true")


def _date(text: Column, kind: Type) -> Column:
    return _matching(text, _DATE, _cast(text, kind))


def _time(text: Column, kind: Type) -> Column:
    return _matching(text, _TIME, _cast(_without_zeros(text), kind))


def _timestamp(text: Column, kind: Type) -> Column:
    moment = f.when(
        text.rlike(r"[T ]"),
        f.regexp_replace(f.regexp_replace(_without_zeros(text), _JOINED_ZONE, "$1:$2"), _SHORT_ZONE, "$1:00"),
    ).otherwise(text)
    return _matching(text, f"{_DATE}([T ]{_TIME}{_ZONE}?)?", _cast(moment, kind))


def _without_zeros(text: Column) -> Column:
    return f.regexp_replace(text, r"(\.\d{6})0+", "$1")


def _binary(text: Column, kind: Type) -> Column:
    return _matching(text, _BASE64, f.try_to_binary(text, f.lit("base64")))


_PARSERS: dict[str, Callable[[Column, Type], Column]] = {
    "integer": _integer,
    "decimal": _decimal,
    "float": _float,
    "bool": _bool,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "binary": _binary,
}
