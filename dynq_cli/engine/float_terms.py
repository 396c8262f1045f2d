"""Compute the term of each row in a sum of doubles, Σ coefficient · Π factors, as DuckDB does, block by block.

Types follow SQL: two float32 give a float32, any other operation with a float gives a double. An integer or decimal is
converted when it meets a float. The sum itself is exact (`kernels.superaccumulator`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.codes import NULL, Codes, float_codes, floats
from dynq_cli.engine.group_layout import Factor, Term
from dynq_cli.engine.pairs import join_lanes
from dynq_cli.spec.types import Type

Doubles = NDArray[np.floating[Any]]


def values_of(terms: tuple[Term, ...], codes: Codes) -> Codes:
    """Return the code of each row's term; NULL if a factor is NULL. O(rows)."""
    missing = np.zeros(codes.shape[1], np.bool_)
    for term in terms:
        for factor in term.factors:
            missing |= codes[factor.columns[0]] == NULL
    # Overflow gives infinity, and infinities may give NaN: no warning.
    with np.errstate(all="ignore"):
        total = _product(terms[0], codes)
        for term in terms[1:]:
            total = _narrowest(total, _product(term, codes), np.add)
        values = float_codes(total[0].astype(np.float64))
    values[missing] = NULL
    return values


# Numbers, and whether they are float32 (True) or double (False); None if they are exact so far.
_Typed = tuple[Doubles, bool | None]


def _product(term: Term, codes: Codes) -> _Typed:
    product: _Typed = np.full(codes.shape[1], float(term.coefficient)), None
    for factor in term.factors:
        product = _narrowest(product, _numbers(factor, codes), np.multiply)
    return product


def _narrowest(left: _Typed, right: _Typed, operation: np.ufunc) -> _Typed:
    """Apply an operation in the type that SQL uses for it."""
    kinds = {left[1], right[1]}
    if kinds == {None}:
        return operation(left[0], right[0]), None
    if False in kinds:
        return operation(left[0].astype(np.float64), right[0].astype(np.float64)), False
    return operation(left[0].astype(np.float32), right[0].astype(np.float32)), True


def _numbers(factor: Factor, codes: Codes) -> _Typed:
    own = codes[factor.columns[0]]
    if factor.type.is_float:
        return floats(np.where(own == NULL, 0, own)), factor.type.name == "float32"
    numbers = own.astype(np.float64)
    if len(factor.columns) > 1:
        lo, hi = join_lanes(own, np.ascontiguousarray(codes[factor.columns[1]]))
        # The lower lane as a signed number: beside -2^64, small numbers would lose their digits.
        numbers = (hi + (lo < 0)) * 2.0**64 + lo
    return _shifted(numbers, factor.type), None


def _shifted(numbers: Doubles, kind: Type) -> Doubles:
    return numbers / 10.0**kind.scale if kind.scale else numbers
