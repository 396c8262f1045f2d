"""PRODUCT and PROD: the product of numbers, from which numbers are taken away as they are added.

PRODUCT is a double, as in DuckDB. PROD of integers is exact in 38 digits.
"""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import FLOAT64, MAX_PRECISION, Type, decimal


def _double(_: Type) -> Type:
    return FLOAT64


def _exact(kind: Type) -> Type:
    return decimal(MAX_PRECISION, 0) if kind.is_integer else FLOAT64


def exact_sql(value: str, kind: Type) -> str:
    """The call of `prod` in DuckDB's SQL. A zero is looked for first: what it is multiplied by may have any size."""
    factors = f"LIST(CAST({value} AS HUGEINT)) FILTER (WHERE {value} IS NOT NULL)"
    product = f"CAST(list_reduce({factors}, lambda a, b: a * b) AS {kind.sql})"
    return f"CASE WHEN COUNT_IF({value} = 0) > 0 THEN CAST(0 AS {kind.sql}) ELSE {product} END"


DEFINITIONS = (
    Basic("product", "product", "product", "numbers", _double, "PRODUCT(…)", of_copies=True),
    # Where the product is a double, DuckDB is asked for that.
    Basic("prod", "product", "product", "numbers", _exact, "PRODUCT(…)", of_copies=True, is_duckdbs=False),
)
