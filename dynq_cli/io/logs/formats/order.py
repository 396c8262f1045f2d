"""Convert columns that order the changes of a commit to sort keys.

    order = together(a, b)     sort rows by a, then by b; equal rows keep the order of the file

Keys are int64, one row of keys per row, so that rows of all chunks and files of a commit are comparable. NULL comes
first. A value that cannot be read is refused with its row, since a partial order would silently be wrong.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import typed
from dynq_cli.io.logs.formats.log_format import Rows
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import INT64, TIMESTAMP
from dynq_cli.values.convert import CodeError, convert

Keys = NDArray[np.int64]

_FIRST = np.iinfo(np.int64).min
_LSN_DIGITS = 20
_SECTIONS, _SECTION_DIGITS = 4, 16
_HEX = re.compile(r"[0-9a-fA-F]+")


def together(*keys: Keys) -> Keys:
    """Combine sort keys; the first is the most significant."""
    return np.column_stack(keys)


def moments(rows: Rows, name: str) -> Keys:
    """Sort by timestamps or their texts, or by whole numbers of seconds, milliseconds or other units."""
    column = rows.columns[name]
    given = [v for v in column if v is not None] if isinstance(column, list) else []
    is_number = all(isinstance(v, int) for v in given) if given else not isinstance(column, list)
    if is_number and (isinstance(column, list) or pt.is_integer(column.type)):
        return whole_numbers(rows, name)
    is_text = rows.is_text or (not isinstance(column, list) and _holds_texts(column.type))
    try:
        values = convert(typed(_decoded(column), TIMESTAMP, is_text=is_text), TIMESTAMP)
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None
    return _filled(values.view("int64"))


def whole_numbers(rows: Rows, name: str) -> Keys:
    """Sort by whole numbers, or texts of digits."""
    column = rows.columns[name]
    is_text = rows.is_text or (not isinstance(column, list) and _holds_texts(column.type))
    try:
        return _filled(convert(typed(_decoded(column), INT64, is_text=is_text), INT64))
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None


def log_positions(rows: Rows, name: str) -> Keys:
    """Sort by SQL Server log positions: ten bytes, as bytes, as base64, or as hex digits with `0x` or colons."""
    return _each(rows, name, 2, _log_position, "is no position in a log: ten bytes, or as in 0x0000002A000001C8001A")


def log_numbers(rows: Rows, name: str) -> Keys:
    """Sort by positions in a database's log: whole numbers, or as in `log_positions`."""
    return _each(rows, name, 2, _log_number, "is no position in a log")


def file_numbers(rows: Rows, name: str) -> Keys:
    """Sort by file names that end with a number, as `mysql-bin.000003`. RejectedError if their prefixes differ."""
    prefixes: set[str] = set()

    def number(value: Any) -> tuple[int, ...]:
        found = re.fullmatch(r"(.*?)(\d{1,18})", str(value), re.DOTALL)
        if found is None:
            raise ValueError
        prefixes.add(found[1])
        if len(prefixes) > 1:
            raise ValueError
        return (int(found[2]),)

    return _each(rows, name, 1, number, "does not continue the files of the log before: their names end with a number")


def sequences(rows: Rows, name: str) -> Keys:
    """Sort by up to four numbers of up to sixteen hex digits, separated by `/`; a missing number is 0."""
    return _each(
        rows, name, _SECTIONS, _sections, "is no sequence number: up to four hexadecimal numbers, as in 2A/0/1F"
    )


def _each(rows: Rows, name: str, width: int, read: Callable[[Any], tuple[int, ...]], wrong: str) -> Keys:
    """Return the sort keys of each value; `read` returns unsigned 64-bit numbers, once per distinct value."""
    column = rows.columns[name]
    values: Sequence[Any] = column if isinstance(column, list) else _decoded(column).to_pylist()
    known: dict[Any, tuple[int, ...] | None] = {None: None}
    for row, value in enumerate(values):
        try:
            if value not in known:
                known[value] = read(value)
        except (TypeError, ValueError, OverflowError, binascii.Error):
            raise rows.rejected(row, name, f"{shown(str(value))} {wrong}") from None
    # Subtract 2^63: the signed numbers have the order of the unsigned ones.
    none = (_FIRST,) * width
    found = {value: none if keys is None else tuple(k + _FIRST for k in keys) for value, keys in known.items()}
    return np.array([found[value] for value in values], np.int64).reshape(len(values), width)


def _log_position(value: Any) -> tuple[int, ...]:
    if isinstance(value, bytes):
        number = int.from_bytes(value, "big")
        digits = 2 * len(value)
    else:
        text = str(value).strip()
        if text.endswith("="):
            return _log_position(base64.b64decode(text, validate=True))
        text = text.removeprefix("0x").removeprefix("0X").replace(":", "")
        if _HEX.fullmatch(text) is None:
            raise ValueError
        number, digits = int(text, 16), len(text)
    if digits > _LSN_DIGITS:
        raise ValueError
    return number >> 16, number & 0xFFFF


def _log_number(value: Any) -> tuple[int, ...]:
    text = str(value)
    if isinstance(value, bool) or (isinstance(value, float) and (value != int(value) or abs(value) > 2.0**53)):
        raise ValueError
    if not isinstance(value, str | bytes) or text.isdigit():
        number = int(value)
        if not 0 <= number < 1 << 63:
            raise ValueError
        return number, 0
    return _log_position(value)


def _sections(value: Any) -> tuple[int, ...]:
    parts = str(value).split("/")
    if len(parts) > _SECTIONS or any(len(p) > _SECTION_DIGITS or _HEX.fullmatch(p) is None for p in parts):
        raise ValueError
    return tuple(int(part, 16) for part in parts) + (0,) * (_SECTIONS - len(parts))


def _filled(values: pa.Array) -> Keys:
    found: Keys = values.fill_null(_FIRST).to_numpy(zero_copy_only=False)
    return found[:, None]


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _holds_texts(kind: pa.DataType) -> bool:
    plain = kind.value_type if pt.is_dictionary(kind) else kind
    return bool(pt.is_string(plain) or pt.is_large_string(plain))
