"""Kafka Connect's JSON: unwrap `{"schema": …, "payload": …}`, and decode values by the schema.

`logical` has the logical type of each field: days, milliseconds, microseconds, nanoseconds, or the bytes of a decimal.
Without a schema an integer may be a date, in days, but not a time or timestamp, since its unit is not known.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.io.logs.columns import fields, null_mask
from dynq_cli.io.logs.formats.log_format import Rows
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import INT64, Type
from dynq_cli.values.convert import CodeError, arrow_type, convert

_DAYS: dict[str, pa.DataType] = {
    "io.debezium.time.Date": pa.date32(),
    "org.apache.kafka.connect.data.Date": pa.date32(),
}
_UNITS: dict[str, pa.DataType] = {
    "io.debezium.time.Time": pa.time32("ms"),
    "io.debezium.time.MicroTime": pa.time64("us"),
    "io.debezium.time.NanoTime": pa.time64("ns"),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
    "io.debezium.time.Timestamp": pa.timestamp("ms"),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
    "io.debezium.time.NanoTimestamp": pa.timestamp("ns"),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms"),
}
_ZONED_TIMES = ("io.debezium.time.ZonedTime", "io.debezium.time.IsoTime")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"

# What Debezium writes for a large value that an update left as it was and that the database did not log.
_UNAVAILABLE = "__debezium_unavailable_value"
_NOT_THERE = frozenset({_UNAVAILABLE, base64.b64encode(_UNAVAILABLE.encode()).decode()})


@dataclass(frozen=True)
class Logical:
    """The logical type of a field; `scale` is for decimals."""

    name: str
    scale: int = 0


def is_wrapped(free: Collection[str], names: Collection[str]) -> bool:
    """Whether the columns of a file are those of wrapped rows."""
    return "payload" in free and ("schema" in names or len(names) == 1)


def unwrapped(rows: Rows) -> Rows:
    """Unwrap rows; drop tombstones, whose payload is null."""
    payload = rows.columns.get("payload")
    if payload is None:
        return rows.pick(np.empty(0, np.int64))
    kept = np.nonzero(~null_mask(payload))[0]
    inside = objects(rows, "payload")
    schemas = rows.columns.get("schema")
    opened = replace(
        rows, names=frozenset(inside), columns=inside, schemas=schemas if isinstance(schemas, list) else None
    )
    return opened if len(kept) == len(rows) else opened.pick(kept)


def without_tombstones(rows: Rows, names: Iterable[str]) -> Rows:
    """Select the rows with a value in one of these columns."""
    said = np.zeros(len(rows), np.bool_)
    for name in names:
        if name in rows.columns and not said.all():
            said |= ~null_mask(rows.columns[name])
    return rows if said.all() else rows.pick(np.nonzero(said)[0])


def objects(rows: Rows, name: str) -> dict[str, RawColumn]:
    """Return the fields of a column of objects, NULL for NULL objects."""
    column = rows.columns.get(name)
    if column is None or bool(null_mask(column).all()):
        return {}
    found = fields(column)
    if found is None:
        present = np.nonzero(~null_mask(column))[0]
        raise rows.rejected(int(present[0]), name, "an object with the columns of the row has to be here")
    return found


def runs(rows: Rows) -> Iterator[tuple[Rows, Any]]:
    """Yield runs of rows with the same schema, each with its schema, or None."""
    if rows.schemas is None:
        if len(rows):
            yield rows, None
        return
    start = 0
    for row in range(1, len(rows) + 1):
        if row == len(rows) or rows.schemas[row] != rows.schemas[start]:
            part = rows if row - start == len(rows) else rows.pick(np.arange(start, row))
            yield part, rows.schemas[start]
            start = row


def logicals(schema: Any, *inside: str) -> dict[str, Logical] | None:
    """Return the logical types of a schema's fields, or of the first field named in `inside`; None without schema."""
    described = _fields(schema)
    if inside:
        nested = next((f for f in described if f.get("field") in inside), None)
        described = _fields(nested)
    if not described:
        return None
    return {str(f.get("field")): _logical(f) for f in described}


def _fields(schema: Any) -> list[dict[str, Any]]:
    listed = schema.get("fields") if isinstance(schema, dict) else None
    return [f for f in listed if isinstance(f, dict)] if isinstance(listed, list) else []


def _logical(field: Mapping[str, Any]) -> Logical:
    parameters = field.get("parameters")
    scale = parameters.get("scale", 0) if isinstance(parameters, dict) else 0
    try:
        return Logical(str(field.get("name", "")), int(scale))
    except (TypeError, ValueError):
        return Logical("")


def prepared(known: Mapping[str, Logical] | None) -> Callable[[str, RawColumn, Type], RawColumn]:
    """Return the function that converts the values of a field by its logical type."""

    def prepare(name: str, values: RawColumn, kind: Type) -> RawColumn:
        if not isinstance(values, list) and kind.name not in ("string", "bool") and pt.is_string(values.type):
            values = values.to_pylist()
        _refuse_unavailable(values)
        if kind.is_integer:
            return values
        if known is None:
            return _without_schema(values, kind)
        return _with_schema(values, known.get(name, Logical("")))

    return prepare


def _refuse_unavailable(values: RawColumn) -> None:
    if isinstance(values, list):
        row = next((i for i, v in enumerate(values) if type(v) is str and v in _NOT_THERE), None)
    elif pt.is_string(values.type) or pt.is_large_string(values.type):
        row = next((i for i, v in enumerate(values.to_pylist()) if v in _NOT_THERE), None)
    else:
        row = None
    if row is not None:
        reason = "the event leaves out this value, which the update did not change: set REPLICA IDENTITY FULL"
        raise CodeError(row, reason)


def _without_schema(values: RawColumn, kind: Type) -> RawColumn:
    is_integer = _are_integers(values)
    row = next((i for i, whole in enumerate(is_integer) if whole), None)
    if not kind.is_temporal or row is None:
        return values
    if kind.name == "date":
        return _counted(values, pa.date32()) if all(w is not False for w in is_integer) else values
    number = values[row] if isinstance(values, list) else values[row].as_py()
    reason = (
        f"{number} has no unit: write events with their schema (schemas.enable=true), or times as texts "
        "(time.precision.mode=isostring)"
    )
    raise CodeError(row, reason)


def _are_integers(values: RawColumn) -> list[bool | None]:
    """Return for each row whether it is an integer; None for NULL."""
    if isinstance(values, list):
        return [None if v is None else type(v) is int for v in values]
    whole = pt.is_integer(values.type)
    return [None if null else whole for null in null_mask(values)]


def _with_schema(values: RawColumn, logical: Logical) -> RawColumn:
    if logical.name in _DAYS or logical.name in _UNITS:
        return _counted(values, _DAYS.get(logical.name) or _UNITS[logical.name])
    if logical.name in _ZONED_TIMES and isinstance(values, list):
        return [v.removesuffix("Z").removesuffix("+00:00") if isinstance(v, str) else v for v in values]
    if logical.name == _DECIMAL and isinstance(values, list):
        return _each(values, lambda v: _decimal(v, logical.scale) if isinstance(v, str) else v)
    if logical.name == _ANY_SCALE and isinstance(values, list):
        return _each(values, lambda v: _decimal(v["value"], v["scale"]) if isinstance(v, dict) else v)
    return values


def _counted(values: RawColumn, kind: pa.DataType) -> RawColumn:
    """Convert integers to days or units of a time; keep texts, which some writers use instead."""
    if not isinstance(values, list):
        return convert(values, _storage(kind)).view(kind) if pt.is_integer(values.type) else values
    if any(isinstance(v, str) for v in values):
        return values
    row = next((i for i, v in enumerate(values) if v is not None and type(v) is not int), None)
    if row is not None:
        raise CodeError(row, f"{shown(str(values[row]))} is no whole number of {_unit(kind)}")
    limit = 1 << (kind.bit_width - 1)
    row = next((i for i, v in enumerate(values) if v is not None and not -limit <= v < limit), None)
    if row is not None:
        raise CodeError(row, f"{values[row]} {_unit(kind)} are out of range")
    return pa.array(values, arrow_type(_storage(kind))).view(kind)


def _storage(kind: pa.DataType) -> Type:
    return Type("int32") if kind.bit_width == 32 else INT64


def _unit(kind: pa.DataType) -> str:
    names = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    return "days" if pt.is_date(kind) else names[kind.unit]


def _each(values: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(convert(value))
        except (binascii.Error, KeyError, TypeError, ValueError):
            raise CodeError(row, f"{shown(str(value))} is no decimal in bytes, as the schema says it is") from None
    return converted


def _decimal(text: str, scale: int) -> Decimal:
    """Decode base64 bytes, big-endian two's complement."""
    number = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    digits = tuple(int(d) for d in str(abs(number)))
    return Decimal((int(number < 0), digits, -scale))
