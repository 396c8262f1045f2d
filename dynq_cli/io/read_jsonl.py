"""Read JSON lines as columns: one object per line; a key that a line leaves out is NULL."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dynq_cli.io.json_lines import read_rows
from dynq_cli.io.raw import Raw

_LINES = 8_192
_LONGEST_PIECE = 32 << 20
_FAMILIES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", dict: "an object", list: "a list"}
_INT64 = range(-(1 << 63), 1 << 63)
_DECIMAL = pa.decimal128(38, 0)


def read(path: str) -> Iterator[Raw]:
    families: dict[str, str] = {}
    unusable: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    size = 0
    for number, length, row in read_rows(path):
        for name, value in row.items():
            reason = _misfit(families, name, value, number)
            if reason:
                unusable.setdefault(name, reason)
        rows.append(row)
        size += length
        if len(rows) == _LINES or size > _LONGEST_PIECE:
            yield _raw(rows, families, unusable)
            rows, size = [], 0
    yield _raw(rows, families, unusable)


def _misfit(families: dict[str, str], name: str, value: Any, number: int) -> str | None:
    """Why a column cannot be used, seen at this value; otherwise remembers what the column holds."""
    if value is None:
        families.setdefault(name, "")
        return None
    family = _FAMILIES[type(value)]
    if isinstance(value, (dict, list)):
        return f"line {number} holds {family}: flatten it first"
    before = families.get(name) or family
    families[name] = before
    if before != family:
        return f"line {number} holds {family}, earlier lines {before}"
    if type(value) is int and value not in _INT64 and len(str(abs(value))) > _DECIMAL.precision:
        return f"line {number} holds an integer of more than {_DECIMAL.precision} digits"
    return None


def _raw(rows: list[dict[str, Any]], families: dict[str, str], unusable: dict[str, str]) -> Raw:
    names = [name for name in families if name not in unusable]
    return Raw(names, [_array([row.get(name) for row in rows]) for name in names], len(rows), dict(unusable))


def _array(values: list[Any]) -> pa.Array:
    types = {type(v) for v in values} - {type(None)}
    if float in types:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    if int in types:
        if all(v is None or v in _INT64 for v in values):
            return pa.array(values, pa.int64())
        return pa.array([None if v is None else Decimal(v) for v in values], _DECIMAL)
    return pa.array(values, pa.bool_() if bool in types else pa.string())
