"""MIN and MAX: the ends of the order-statistic tree of a group's values."""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import Type


def _same(kind: Type) -> Type:
    return kind


DEFINITIONS = (
    Basic("min", "ordered", "least", "anything", _same, "MIN(…)", of_distinct="min"),
    Basic("max", "ordered", "greatest", "anything", _same, "MAX(…)", of_distinct="max"),
)
