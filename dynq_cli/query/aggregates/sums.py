"""SUM and AVG of numbers: exact in 38 digits, those of floats rounded once."""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import FLOAT64, MAX_PRECISION, Type, decimal


def sum_type(kind: Type) -> Type:
    """The type of a sum of numbers.

    >>> from dynq_cli.spec.types import INT64
    >>> str(sum_type(INT64)), str(sum_type(FLOAT64))
    ('decimal(38,0)', 'float64')
    """
    return FLOAT64 if kind.is_float else decimal(MAX_PRECISION, kind.scale)


def _float64(_: Type) -> Type:
    return FLOAT64


DEFINITIONS = (
    Basic("sum", "sums", "sum", "numbers", sum_type, "SUM(…)", of_distinct="sum_distinct"),
    Basic("avg", "sums", "average", "numbers", _float64, "AVG(…)", of_distinct="avg_distinct", synonyms=("mean",)),
    Basic("sum_distinct", "values", "sum", "numbers", sum_type, "SUM(DISTINCT …)"),
    Basic("avg_distinct", "values", "average", "numbers", _float64, "AVG(DISTINCT …)"),
)
