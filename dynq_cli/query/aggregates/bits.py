"""BIT_AND, BIT_OR and BIT_XOR of integers: from the number of rows that have each bit, so rows may go as they come."""

from __future__ import annotations

from dynq_cli.query.aggregates.definition import Basic
from dynq_cli.spec.types import Type


def _same(kind: Type) -> Type:
    return kind


DEFINITIONS = (
    Basic("bit_and", "bits", "all", "integers", _same, "BIT_AND(…)", "bit_and", ("bitwise_and_agg",)),
    Basic("bit_or", "bits", "any", "integers", _same, "BIT_OR(…)", "bit_or", ("bitwise_or_agg",)),
    Basic("bit_xor", "bits", "odd", "integers", _same, "BIT_XOR(…)", "", ("bitwise_xor_agg",), of_copies=True),
)
