"""Parse texts to the types of the spec, a column at a time, exactly; texts without an exact value are refused.

    int8 … int64    `-12`: digits and a minus, nothing else
    decimal(p,s)    `12.50`, `1E-7`: digits past the scale only if they are zeros
    float32, 64     the nearest number; `NaN`, `inf`, `Infinity` with a sign, in any case; too large is refused
    bool            `true`, `false`, in any case
    date            `YYYY-MM-DD`; years before 0 and after 9999 with their sign and digits, proleptic Gregorian
    time            `HH:MM[:SS[.f]]`
    timestamp       a date, or a date, `T` or a space, a time, and `Z` or `±HH[[:]MM]`; without a zone it is UTC
    binary          base64

Fractions of a second past microseconds must be zeros.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.io.logs import wide_years
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import CodeError, arrow_type

_DATE = r"-?\d{4,7}-\d\d-\d\d"
_TIME = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?"
_ZONE = r"(Z|[-+]([01]\d|2[0-3])(:?[0-5]\d)?)"
_NUMBER = r"-?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,4})?"
_PATTERNS = {
    "integer": r"-?\d+",
    "decimal": _NUMBER,
    "float": rf"{_NUMBER}|(?i:nan|[-+]?inf(inity)?)",
    "bool": r"(?i:true|false)",
    "date": _DATE,
    "time": _TIME,
    "timestamp": rf"{_DATE}([T ]{_TIME}{_ZONE}?)?",
}
_HINTS = {
    "integer": "write digits with an optional minus",
    "decimal": "write digits with an optional minus and point",
    "float": "write a number, NaN, inf or -inf",
    "bool": "write true or false",
    "date": "write YYYY-MM-DD",
    "time": "write HH:MM:SS, with at most microseconds",
    "timestamp": "write YYYY-MM-DDTHH:MM:SS, with at most microseconds",
    "binary": "write base64",
}
_USUAL_YEAR = r"^\d{4}-"
_PAST_MICROSECONDS = r"\.\d{7}"
_ZEROS_PAST_MICROSECONDS = r"(\.\d{6})0+(\D|$)"
_LAST = {"date": 2**31 - 1, "timestamp": 2**63 - 1}
_SOME_DAY = "1970-01-01"
_PLAIN_NUMBER = b"-.0123456789"


def parse(texts: pa.Array, kind: Type) -> pa.Array:
    """Parse an array of strings to `arrow_type(kind)`; NULLs stay. CodeError names the first wrong text.

    O(bytes), vectorised except for base64 and unusual years; a wrong text costs O(bytes log rows).
    """
    if kind.name == "string":
        return texts
    family = "integer" if kind.is_integer else "float" if kind.is_float else kind.name
    try:
        return _PARSERS[family](texts, kind)
    except pa.ArrowInvalid:
        row = _first_failure(texts, lambda part: _PARSERS[family](part, kind))
    text = texts[row].as_py()
    raise CodeError(row, f"{shown(text)} {_why_not(text, family, kind)}")


def _why_not(text: str, family: str, kind: Type) -> str:
    """Describe what is wrong with a text: its syntax, or a number out of range."""
    is_number = family in ("integer", "decimal", "float") and re.fullmatch(_PATTERNS[family], text, re.ASCII)
    if family in ("date", "timestamp") and _is_past_range(text, family):
        return f"is out of the range of {kind}"
    if not is_number:
        return f"is not {_article(kind)}: {_HINTS[family]}"
    if kind.name != "decimal":
        return f"is out of the range of {kind}"
    before, after = kind.precision - kind.scale, kind.scale
    return f"does not fit {kind}: at most {before} digits before the point and {after} after it"


def _is_past_range(text: str, family: str) -> bool:
    """Whether a text is a valid date or timestamp outside the range of the type."""
    try:
        found = wide_years.days(text) if family == "date" else wide_years.microseconds(text)
    except ValueError:
        return False
    return not -(last := _LAST[family]) - 1 <= found <= last


def _article(kind: Type) -> str:
    return f"{'an' if kind.name.startswith('int') else 'a'} {kind}"


def _first_failure(texts: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> int:
    """Find the first row that fails, by bisection over prefixes; nothing is tried twice."""
    good, bad = 0, len(texts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            attempt(texts[good:middle])
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _check(texts: pa.Array, family: str) -> None:
    if pc.all(pc.match_substring_regex(texts, f"^({_PATTERNS[family]})$")).as_py() is False:
        raise pa.ArrowInvalid(family)


def _consists_of(texts: pa.Array, allowed: bytes) -> bool:
    """Whether all texts have only allowed bytes: much faster than a pattern, and Arrow is strict enough afterwards."""
    _, offsets, data = texts.buffers()
    if data is None or len(texts) == 0:
        return True
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    return not data[int(bounds[0]) : int(bounds[-1])].to_pybytes().translate(None, allowed)


def _parse_integer(texts: pa.Array, kind: Type) -> pa.Array:
    if not _consists_of(texts, b"-0123456789"):
        _check(texts, "integer")
    return texts.cast(arrow_type(kind))


def _parse_decimal(texts: pa.Array, kind: Type) -> pa.Array:
    if not _consists_of(texts, _PLAIN_NUMBER):
        _check(texts, "decimal")
    return texts.cast(arrow_type(kind))


def _parse_float(texts: pa.Array, kind: Type) -> pa.Array:
    if not _consists_of(texts, _PLAIN_NUMBER):
        _check(texts, "float")
    numbers = texts.cast(arrow_type(kind))
    infinite = pc.is_inf(numbers)
    if pc.any(infinite).as_py():
        # A number too large for its type silently becomes infinite.
        named = pc.match_substring_regex(texts.filter(infinite), "(?i)inf")
        if not pc.all(named).as_py():
            raise pa.ArrowInvalid("float")
    return numbers


def _parse_bool(texts: pa.Array, kind: Type) -> pa.Array:
    _check(texts, "bool")
    return pc.equal(pc.utf8_lower(texts), "true")


def _parse_date(texts: pa.Array, kind: Type) -> pa.Array:
    _check(texts, "date")
    return _usual_years(texts, lambda part: part.cast(pa.date32()), wide_years.days)


def _parse_time(texts: pa.Array, kind: Type) -> pa.Array:
    _check(texts, "time")
    moments = pc.binary_join_element_wise(_SOME_DAY, _without_zeros(texts), "T").cast(pa.timestamp("us"))
    return moments.view(pa.int64()).view(pa.time64("us"))


def _parse_timestamp(texts: pa.Array, kind: Type) -> pa.Array:
    _check(texts, "timestamp")
    return _usual_years(_without_zeros(texts), _moments, wide_years.microseconds)


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Remove zeros after the microseconds, which Arrow does not parse."""
    if not pc.any(pc.match_substring_regex(texts, _PAST_MICROSECONDS)).as_py():
        return texts
    return pc.replace_substring_regex(texts, _ZEROS_PAST_MICROSECONDS, r"\1\2")


def _moments(texts: pa.Array) -> pa.Array:
    zoned = pc.match_substring_regex(texts, rf"[T ].*{_ZONE}$")
    if not pc.any(zoned).as_py():
        return texts.cast(pa.timestamp("us"))
    none = pa.scalar(None, pa.string())
    utc = pc.if_else(zoned, texts, none).cast(pa.timestamp("us", "UTC")).view(pa.int64())
    return pc.coalesce(utc.view(pa.timestamp("us")), pc.if_else(zoned, none, texts).cast(pa.timestamp("us")))


def _usual_years(
    texts: pa.Array, read_usual: Callable[[pa.Array], pa.Array], read_other: Callable[[str], int]
) -> pa.Array:
    usual = pc.match_substring_regex(texts, _USUAL_YEAR)
    if pc.all(usual).as_py() is not False:
        return read_usual(texts)
    values = read_usual(pc.if_else(usual, texts, pa.scalar(None, pa.string())))
    other = pc.fill_null(pc.invert(usual), False)
    try:
        numbers = [read_other(text) for text in texts.filter(other).to_pylist()]
        kind = pa.int32() if pt.is_date(values.type) else pa.int64()
        return pc.replace_with_mask(values, other, pa.array(numbers, kind).view(values.type))
    except (ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _parse_binary(texts: pa.Array, kind: Type) -> pa.Array:
    try:
        decoded = [None if text is None else base64.b64decode(text, validate=True) for text in texts.to_pylist()]
    except ValueError as error:  # binascii.Error, and texts that are not ASCII
        raise pa.ArrowInvalid(str(error)) from error
    return pa.array(decoded, arrow_type(kind))


_PARSERS: dict[str, Callable[[pa.Array, Type], pa.Array]] = {
    "integer": _parse_integer,
    "decimal": _parse_decimal,
    "float": _parse_float,
    "bool": _parse_bool,
    "date": _parse_date,
    "time": _parse_time,
    "timestamp": _parse_timestamp,
    "binary": _parse_binary,
}
