"""MEDIAN, quantiles, MODE, and the value of the first row in some order, read off an order-statistic tree of a group.

    quantile_disc, quantile_cont    the value at a fraction of the values; between two of them, if need be
    mode                            the value that is there most often; of several the least
    first                           a value of the first row by some keys, then by the value itself

An aggregate of normal forms says the rest in its `detail`: a `Fraction`, or a `Key` for each of its variables.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import FLOAT64, Type

MOST_DIGITS = 9


class Fraction(NamedTuple):
    """A fraction of a group's values, counted from the least, or from the greatest."""

    value: Decimal
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.value:f}{' desc' if self.descending else ''}"

    @property
    def integral(self) -> int:
        """The fraction in units of its last digit, `MOST_DIGITS` behind the point."""
        return int(self.value.scaleb(MOST_DIGITS))


def fraction_of(detail: str) -> Fraction:
    """The fraction of a detail.

    >>> fraction_of(str(Fraction(Decimal("0.25"), True)))
    Fraction(value=Decimal('0.25'), descending=True)
    """
    value, _, direction = detail.partition(" ")
    return Fraction(Decimal(value), bool(direction))


class Key(NamedTuple):
    """How one variable orders the rows; rows where it is NULL are left out if it is `required`."""

    descending: bool = False
    nulls_first: bool = False
    required: bool = False

    def __str__(self) -> str:
        said = f"{'desc' if self.descending else 'asc'} nulls {'first' if self.nulls_first else 'last'}"
        return f"{said} required" if self.required else said

    @property
    def sql(self) -> str:
        return str(self).removesuffix(" required")

    def turned(self) -> Key:
        """The key of the opposite order."""
        return Key(not self.descending, not self.nulls_first, self.required)


def keys_of(detail: str) -> tuple[Key, ...]:
    """The keys of a detail, the value's first.

    >>> keys_of(detail_of([Key(required=True), Key(descending=True, nulls_first=True)]))[1].turned().sql
    'asc nulls last'
    """
    return tuple(Key("desc" in k, "first" in k, "required" in k) for k in detail.split(", "))


def detail_of(keys: list[Key]) -> str:
    return ", ".join(map(str, keys))


def in_rules(name: str) -> str | None:
    """The detail of an aggregate that takes nothing but variables; None if it has to be told more."""
    if name == "median":
        return str(Fraction(Decimal("0.5")))
    if name in ("any_value", "arbitrary"):
        return detail_of([Key(required=True)])
    if name in ("arg_min", "argmin", "min_by", "arg_max", "argmax", "max_by"):
        return detail_of([Key(required=True), Key(name in ("arg_max", "argmax", "max_by"), required=True)])
    return "" if name == "mode" else None


def first_sql(values: list[str], detail: str) -> str:
    """The call of `first` in DuckDB's SQL."""
    keys = keys_of(detail)
    pairs = list(zip(values, keys, strict=True))
    order = ", ".join(f"{value} {key.sql}" for value, key in (*pairs[1:], pairs[0]))
    present = " AND ".join(f"{value} IS NOT NULL" for value, key in pairs if key.required)
    return f"FIRST({values[0]} ORDER BY {order})" + (f" FILTER (WHERE {present})" if present else "")


def _same(kind: Type) -> Type:
    return kind


def _between(kind: Type) -> Type:
    """The type of what lies between two values."""
    if kind.is_integer:
        return FLOAT64
    return Type("timestamp") if kind.name == "date" else kind


DEFINITIONS = (
    Basic(
        "quantile_disc", "ordered", "at", "anything", _same, "QUANTILE_DISC(…)",
        synonyms=("percentile_disc", "quantile"), of_copies=True,
    ),
    Basic(
        "quantile_cont", "ordered", "between", "distances", _between, "QUANTILE_CONT(…)",
        synonyms=("percentile_cont", "median"), of_copies=True,
    ),
    Basic("mode", "ordered", "most", "anything", _same, "MODE(…)", of_copies=True, is_choice=True),
    Basic(
        "first", "ordered", "first", "anything", _same, "FIRST(…)", is_choice=True,
        synonyms=("last", "any_value", "arbitrary", "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by"),
    ),
)  # fmt: skip
