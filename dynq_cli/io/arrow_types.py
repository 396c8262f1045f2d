"""The type of the language that holds every value of an Arrow type, or why there is none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.spec.types import DATE, FLOAT64, MAX_PRECISION, STRING, TIME, TIMESTAMP, Type, decimal

_NAMED = {
    pa.bool_(): Type("bool"),
    pa.int8(): Type("int8"),
    pa.int16(): Type("int16"),
    pa.int32(): Type("int32"),
    pa.int64(): Type("int64"),
    pa.uint8(): Type("int16"),
    pa.uint16(): Type("int32"),
    pa.uint32(): Type("int64"),
    pa.uint64(): decimal(20, 0),
    pa.float16(): Type("float32"),
    pa.float32(): Type("float32"),
    pa.float64(): FLOAT64,
}
_FAMILIES = (
    (("is_string", "is_large_string", "is_string_view"), STRING),
    (("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary"), Type("binary")),
    (("is_date",), DATE),
    (("is_time",), TIME),
    (("is_timestamp",), TIMESTAMP),
)


class NoTypeError(Exception):
    """An Arrow type that no type of the language holds; the message says why."""


def from_arrow(kind: pa.DataType) -> Type | None:
    """The spec type of an Arrow type; None is Arrow's null type, which says nothing.

    >>> str(from_arrow(pa.uint16())), str(from_arrow(pa.timestamp("ns", "Europe/Berlin")))
    ('int32', 'timestamp')
    """
    if isinstance(kind, pa.BaseExtensionType):
        return from_arrow(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return from_arrow(kind.value_type)
    if pt.is_null(kind):
        return None
    if kind in _NAMED:
        return _NAMED[kind]
    if pt.is_decimal(kind):
        return _from_decimal(kind)
    for tests, found in _FAMILIES:
        if any(getattr(pt, test)(kind) for test in tests):
            return found
    if pt.is_nested(kind):
        raise NoTypeError(f"{_name(kind)} is nested: flatten it first")
    raise NoTypeError(f"{_name(kind)} has no counterpart")


def _from_decimal(kind: pa.DataType) -> Type:
    precision, scale = kind.precision, kind.scale
    if scale < 0:
        precision, scale = precision - scale, 0
    if precision > MAX_PRECISION or scale > precision:
        raise NoTypeError(f"{_name(kind)} has more than {MAX_PRECISION} digits")
    return decimal(precision, scale)


def _name(kind: pa.DataType) -> str:
    text = " ".join(str(kind).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
