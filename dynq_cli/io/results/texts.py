"""Convert values to texts by the rules by which change logs are read.

    texts(array)[i] = the value i, NULL as NULL

Numbers are as short as they can be and still be read back as the same value; floats always look like floats.
Decimals have all digits of their scale and no exponent. Dates and times are ISO 8601, timestamps in UTC without saying
so, fractions of a second only where there are any. Binary is base64. Everything is computed by columns.
"""

from __future__ import annotations

from base64 import b64encode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

_LAST_PLAIN_SCALE = 6  # Arrow writes decimals with more digits behind the point with an exponent where they are small


def texts(array: pa.Array) -> pa.Array:
    """Each value as it stands in CSV before quoting. O(bytes)."""
    kind = array.type
    if pt.is_floating(kind):
        return _floats(array)
    if pt.is_decimal(kind):
        return _decimals(array)
    if pt.is_date(kind) or pt.is_timestamp(kind):
        return _dates(array)
    if pt.is_time(kind):
        return _short(array.cast(pa.string()))
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.array([None if v is None else b64encode(v).decode() for v in array.to_pylist()], pa.string())
    return array.cast(pa.string())


def used_bytes(array: pa.StringArray) -> NDArray[np.bool_]:
    """For each byte whether some text has it. O(bytes)."""
    offsets, content = array.buffers()[1:]
    if content is None or len(array) == 0:
        return np.zeros(256, np.bool_)
    places = np.frombuffer(offsets, np.int32)
    inside = np.frombuffer(content, np.uint8)[places[array.offset] : places[array.offset + len(array)]]
    return np.bincount(inside, minlength=256) > 0


def _floats(array: pa.Array) -> pa.Array:
    shown = array.cast(pa.string())
    is_whole = pc.invert(pc.match_substring_regex(shown, "[.a-z]"))
    shown = pc.if_else(is_whole, pc.binary_join_element_wise(shown, ".0", ""), shown)
    return pc.if_else(pc.is_nan(array), "NaN", shown)


def _decimals(array: pa.Array) -> pa.Array:
    scale = array.type.scale
    if scale <= _LAST_PLAIN_SCALE:
        return array.cast(pa.string())
    whole = pa.Array.from_buffers(
        pa.decimal128(array.type.precision, 0), len(array), array.buffers(), array.null_count, array.offset
    )
    signed = whole.cast(pa.string())
    digits = pc.utf8_lpad(pc.utf8_ltrim(signed, "-"), scale + 1, "0")
    front = pc.utf8_slice_codeunits(digits, 0, -scale)
    sign = pc.if_else(pc.starts_with(signed, "-"), "-", "")
    return pc.binary_join_element_wise(sign, front, ".", pc.utf8_slice_codeunits(digits, -scale), "")


def _dates(array: pa.Array) -> pa.Array:
    shown = array.cast(pa.string())
    is_far = pc.starts_with(shown, "<")  # Arrow spells no years beyond 32767
    if pc.any(is_far).as_py():
        unit = "D" if pt.is_date(array.type) else "us"
        numbers = array.view(pa.int32() if pt.is_date(array.type) else pa.int64()).cast(pa.int64()).fill_null(0)
        far = np.datetime_as_string(numbers.to_numpy().view(f"M8[{unit}]"))
        shown = pc.if_else(is_far, pa.array(far, pa.string()), shown)
    if pt.is_date(array.type):
        return shown
    return _short(pc.replace_substring(shown, " ", "T", max_replacements=1))


def _short(times: pa.Array) -> pa.Array:
    is_whole = pc.ends_with(times, ".000000")
    return pc.if_else(is_whole, pc.utf8_slice_codeunits(times, 0, -len(".000000")), times)
