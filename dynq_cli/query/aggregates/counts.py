"""COUNT: the rows where the argument is not NULL, or all rows. COUNT(DISTINCT): the values that are there.

APPROX_COUNT_DISTINCT is the same number: a group has its values anyway.
"""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import INT64, Type


def _int64(_: Type) -> Type:
    return INT64


DEFINITIONS = (
    Basic("count", "sums", "count", "anything", _int64, "COUNT(…)", of_distinct="count_distinct"),
    Basic(
        "count_distinct",
        "values",
        "count",
        "anything",
        _int64,
        "COUNT(DISTINCT …)",
        synonyms=("approx_count_distinct",),
    ),
)
