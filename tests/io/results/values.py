"""Values of every type of the language, as columns and as the texts that results must hold."""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa

# Texts that are hard on CSV and JSON more often than by chance.
STRINGS = st.one_of(
    st.text(alphabet=',"\r\n\\\t \x00\x1f\x7fé漢🙂\u2028ab', max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    digits = st.one_of(st.integers(-most, most), st.integers(-20, 20))
    return digits.map(lambda n: Decimal(f"{n}E-{scale}"))


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63) + 1, 2**63 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "decimal(15,2)": (pa.decimal128(15, 2), _decimals(15, 2)),
    "decimal(38,0)": (pa.decimal128(38, 0), _decimals(38, 0)),
    "decimal(9,6)": (pa.decimal128(9, 6), _decimals(9, 6)),
    "decimal(38,12)": (pa.decimal128(38, 12), _decimals(38, 12)),
    "decimal(10,10)": (pa.decimal128(10, 10), _decimals(10, 10)),
    "string": (pa.string(), STRINGS),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
}


def columns(name: str, min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[pa.Array]:
    """Columns of a type with NULLs, some of them parts of longer ones."""
    kind, values = TYPES[name]
    lists = st.lists(st.one_of(st.none(), values), min_size=min_size, max_size=max_size)
    return st.builds(lambda v, skip: pa.array([None] * skip + v, kind).slice(skip), lists, st.integers(0, 3))


def as_csv(value: Any) -> str:
    """What CSV must hold for a value, before quoting; by Python's own ways of writing it."""
    match value:
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return "NaN"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case _:
            return str(value)


def as_json(value: Any) -> Any:
    """What JSON must hold for a value."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float() if not math.isnan(value):
            return value
        case _:
            return as_csv(value)
