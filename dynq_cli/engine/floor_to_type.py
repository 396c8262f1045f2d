"""Round a value down to a narrower type.

    floor_to_type(v, type) = the greatest value of the type that is not greater than v

A column that is joined with a narrower one is stored as the narrower type. No row has a value that this type cannot
hold, but a page may be asked to start at one.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.spec.types import MAX_PRECISION, Type
from dynq_cli.values.convert import arrow_type, convert

_EXACT = Context(prec=3 * MAX_PRECISION)


def floor_to_type(value: pa.Array, kind: Type) -> pa.Array | None:
    """Convert an array of one value to `arrow_type(kind)`; None if every value of the type is greater."""
    if not kind.is_numeric:
        return convert(value, kind)
    (given,) = value.to_pylist()
    if kind.is_float:
        return pa.array([_float32(given) if kind.name == "float32" else given], arrow_type(kind))
    if kind.is_integer:
        last = 2 ** (int(kind.name.removeprefix("int")) - 1) - 1
        # The smallest int64 stands for NULL.
        first = -last if kind.name == "int64" else -last - 1
        whole = min(math.floor(given), last)
        return pa.array([whole], arrow_type(kind)) if whole >= first else None
    last = 10**kind.precision - 1
    digits = min(math.floor(Decimal(given).scaleb(kind.scale, _EXACT)), last)
    return pa.array([Decimal(digits).scaleb(-kind.scale, _EXACT)], arrow_type(kind)) if digits >= -last else None


def _float32(value: float) -> Any:
    with np.errstate(over="ignore"):
        near = np.float32(value)
    # Compare as Python floats: numpy would round the other side to a float32 as well.
    return near if float(near) <= value else np.nextafter(near, np.float32(-np.inf))
