"""Convert Arrow arrays of related types to the Arrow type of a type of the spec, without loss.

    convert(array, type)[i] = array[i]   for every row i, or `CodeError` names the first row that cannot be converted

The value decides, not only its type: 7 in an int64 column is an int8, and nanoseconds that are whole microseconds are a
timestamp. A double is an integer if it is whole and too small to have been rounded, and a decimal if its shortest
decimal text is one: pandas and JSON readers store such numbers as doubles. Types of other families (text for a number,
a date for a timestamp) are never converted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.spec.types import MAX_PRECISION, Type

Item = TypeVar("Item", bound=np.generic)

_SIMPLE = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
}
_DAY = 86_400_000_000
_SHOWN = 40
# By bits of a floating type: the bound below which every integer is exact, and its number of exact decimal digits.
_EXACT = {16: (2**11, 3), 32: (2**24, 6), 64: (2**53, 15)}
_NOT_DIGITS = r"^-?[0.]*|[eE].*$|\."


class CodeError(ValueError):
    """A value does not fit its column's type; `row` counts from 0, `reason` describes the problem."""

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(f"row {row}: {reason}")


def arrow_type(kind: Type) -> pa.DataType:
    """Return the Arrow type in which columns of a type are read and written."""
    return pa.decimal128(kind.precision, kind.scale) if kind.name == "decimal" else _SIMPLE[kind.name]


def convert(array: pa.Array, kind: Type) -> pa.Array:
    """Convert to an array of `arrow_type(kind)`; strings and binary may stay in large arrays or views.

    O(rows), and no copy if the type is right already. An error costs O(rows log rows).
    """
    try:
        return _convert(array, kind)
    except pa.ArrowInvalid:
        row = _first_failure(array, lambda part: _convert(part, kind))
        raise CodeError(row, _reason(array, row, kind)) from None


def _convert(array: pa.Array, kind: Type) -> pa.Array:
    array = _plain(array)
    if pt.is_null(array.type):
        return pa.nulls(len(array), arrow_type(kind))
    convert = _FAMILIES.get(kind.name, _convert_integer)
    converted = convert(array, kind)
    if converted is None:
        raise CodeError(0, f"a column of type {array.type} cannot be read as {kind}")
    return converted


def _plain(array: pa.Array) -> pa.Array:
    """Remove extension types, dictionaries and run-end encoding, after validating the array."""
    # The full check reads every value; fixed-width numbers cannot be invalid.
    array.validate(full=not pt.is_primitive(array.type))
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pt.is_dictionary(array.type):
        return _plain(without_views(array).dictionary_decode())
    if pt.is_run_end_encoded(array.type):
        import pyarrow.compute as pc

        return _plain(pc.run_end_decode(array))
    return array


def without_views(array: pa.Array) -> pa.Array:
    """Copy texts and bytes that Arrow keeps as views, in dictionaries too: it can neither filter nor take them."""
    if pt.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pt.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    if not pt.is_dictionary(array.type):
        return array
    values = without_views(array.dictionary)
    return array if values is array.dictionary else pa.DictionaryArray.from_arrays(array.indices, values)


def _convert_bool(array: pa.Array, kind: Type) -> pa.Array | None:
    return array if pt.is_boolean(array.type) else None


def nan_as_null(array: pa.Array, kind: Type, *, nullable: bool) -> pa.Array:
    """Replace NaN by NULL in floats for a nullable integer column, as pandas stores missing integers so."""
    if not (pt.is_floating(array.type) and kind.is_integer and nullable):
        return array
    import pyarrow.compute as pc

    wide = array.cast(pa.float64()) if pt.is_float16(array.type) else array
    return pc.if_else(pc.is_nan(wide), pa.scalar(None, wide.type), wide)


def _convert_integer(array: pa.Array, kind: Type) -> pa.Array | None:
    if pt.is_floating(array.type):
        most, _ = _EXACT[array.type.bit_width]
        wide = array.cast(pa.float64())
        bounds = [v for v in _bounds(wide) if v is not None]
        if any(abs(v) > most for v in bounds):
            raise pa.ArrowInvalid("may have been rounded")
        return wide.cast(arrow_type(kind))
    if pt.is_decimal(array.type):
        whole = _rescale(array, 19, 0)
        return None if whole is None else whole.cast(arrow_type(kind))
    return array.cast(arrow_type(kind)) if pt.is_integer(array.type) else None


def _convert_float(array: pa.Array, kind: Type) -> pa.Array | None:
    if pt.is_float64(array.type) and kind.name == "float32":
        import pyarrow.compute as pc

        narrow = array.cast(pa.float32())
        is_changed = pc.and_(pc.not_equal(narrow.cast(pa.float64()), array), pc.invert(pc.is_nan(array)))
        if pc.any(is_changed).as_py():
            raise pa.ArrowInvalid("not a float32")
        return narrow
    return array.cast(arrow_type(kind)) if pt.is_floating(array.type) or pt.is_integer(array.type) else None


def _bounds(array: pa.Array) -> tuple[float | None, float | None]:
    import pyarrow.compute as pc

    found = pc.min_max(array)
    return found["min"].as_py(), found["max"].as_py()


def _convert_decimal(array: pa.Array, kind: Type) -> pa.Array | None:
    if pt.is_floating(array.type):
        return _decimals(array, kind)
    if pt.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0) if pt.is_uint64(array.type) else pa.decimal128(19, 0))
    return _rescale(array, kind.precision, kind.scale) if pt.is_decimal(array.type) else None


def _decimals(array: pa.Array, kind: Type) -> pa.Array:
    """Convert floats by their shortest decimal text; ArrowInvalid if that may not be the intended number."""
    import pyarrow.compute as pc

    most, digits = _EXACT[array.type.bit_width]
    wide = array.cast(pa.float64())
    texts = (array.cast(pa.float32()) if pt.is_float16(array.type) else array).cast(pa.string())
    is_whole = pc.and_(pc.equal(pc.floor(wide), wide), pc.less_equal(pc.abs(wide), float(most)))
    kept = pc.utf8_length(pc.replace_substring_regex(texts, _NOT_DIGITS, ""))
    if pc.all(pc.or_(is_whole, pc.less_equal(kept, digits))).as_py() is False:
        raise pa.ArrowInvalid("may have been rounded")
    return texts.cast(arrow_type(kind))


def _rescale(array: pa.Array, precision: int, scale: int) -> pa.Array | None:
    added = scale - array.type.scale
    if added > MAX_PRECISION:
        return None
    if added > 0:
        # Rescale in 256 bits: Arrow does not detect overflow of 128 bits.
        array = array.cast(pa.decimal128(MAX_PRECISION, array.type.scale)).cast(pa.decimal256(2 * MAX_PRECISION, scale))
    return array.cast(pa.decimal128(precision, scale))


def _convert_string(array: pa.Array, kind: Type) -> pa.Array | None:
    is_text = pt.is_string(array.type) or pt.is_large_string(array.type) or pt.is_string_view(array.type)
    return array if is_text else None


def _convert_binary(array: pa.Array, kind: Type) -> pa.Array | None:
    if pt.is_fixed_size_binary(array.type):
        return array.cast(pa.large_binary())
    is_bytes = pt.is_binary(array.type) or pt.is_large_binary(array.type) or pt.is_binary_view(array.type)
    return array if is_bytes else None


def _convert_date(array: pa.Array, kind: Type) -> pa.Array | None:
    return array.cast(pa.date32()) if pt.is_date(array.type) else None


def _convert_time(array: pa.Array, kind: Type) -> pa.Array | None:
    if not pt.is_time(array.type):
        return None
    import pyarrow.compute as pc

    exact = array.cast(pa.time64("us"))
    bounds = pc.min_max(exact.view(pa.int64()))
    if bounds["min"].is_valid and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < _DAY:
        raise pa.ArrowInvalid("not a time of day")
    return exact


def _convert_timestamp(array: pa.Array, kind: Type) -> pa.Array | None:
    # With or without a zone the number is an instant in UTC: the zone only says how to show it.
    return array.cast(pa.timestamp("us")) if pt.is_timestamp(array.type) else None


_FAMILIES: dict[str, Callable[[pa.Array, Type], pa.Array | None]] = {
    "bool": _convert_bool,
    "float32": _convert_float,
    "float64": _convert_float,
    "decimal": _convert_decimal,
    "string": _convert_string,
    "binary": _convert_binary,
    "date": _convert_date,
    "time": _convert_time,
    "timestamp": _convert_timestamp,
}


def _first_failure(array: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> int:
    """The last row of the shortest prefix that fails."""
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(array[:middle])
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return bad - 1


def _reason(array: pa.Array, row: int, kind: Type) -> str:
    shown = "the value"
    with suppress(ValueError, OverflowError, pa.ArrowException):  # a text that is not UTF-8, a time outside the day
        shown = spelled(array[row])
    if kind.name == "string":
        return "the text is not valid UTF-8"
    if pt.is_floating(array.type) and not kind.is_float:
        why = _why_inexact(array[row].as_py(), array.type, kind)
        if why:
            return f"{shown} {why}, and the column is {kind}"
    return f"{shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + '...'} does not fit {kind}"


def _why_inexact(value: float, given: pa.DataType, kind: Type) -> str:
    most, digits = _EXACT[given.bit_width]
    if not math.isfinite(value) or (kind.is_integer and value != int(value)):
        return "is not whole"
    if abs(value) > most:
        return f"may have been rounded: a {given} is exact up to {most}"
    if value != int(value) and len(re.sub(_NOT_DIGITS, "", repr(value))) > digits:
        return f"may have been rounded: a {given} keeps {digits} digits"
    return ""


def python_value(value: Any) -> Any:
    """A scalar as a Python value; the scalar itself where Python has none: dates before year 1 and after 9999."""
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return value


def spelled(value: pa.Scalar) -> str:
    """A value in a message, dates of any year too.

    >>> spelled(pa.scalar(2_932_897, pa.int32()).cast(pa.date32())), spelled(pa.scalar(7))
    ('10000-01-01', '7')
    """
    plain = python_value(value)
    if isinstance(plain, pa.Date32Scalar | pa.Date64Scalar | pa.TimestampScalar):
        unit = "D" if pt.is_date32(plain.type) else "ms" if pt.is_date64(plain.type) else plain.type.unit
        moment = np.array(plain.value, np.int64).view(f"M8[{unit}]")
        return str(np.datetime_as_string(moment, "D" if pt.is_date(plain.type) else None))
    return "NULL" if plain is None else str(plain)


def fixed_width(array: pa.Array, dtype: type[Item], lanes: int = 1) -> npt.NDArray[Item]:
    """The items of a fixed-width array where they lie, `lanes` per row; rows that are NULL hold anything."""
    content = array.buffers()[1]
    if len(array) == 0 or content is None:
        return np.zeros(len(array) * lanes, dtype)
    return np.frombuffer(content, dtype, len(array) * lanes, array.offset * lanes * np.dtype(dtype).itemsize)
