"""Encode every value of every type as one int64, its code, and decode it.

    decode(encode(values)) = values       encode(v) = encode(w)  ⟺  v = w
    encode(v) < encode(w)  ⟺  v < w       except for ids, which `labels` orders

bool, integers, date (days), time and timestamp (microseconds) and decimals of up to 18 digits (without the point) are
their own codes. The code of a float is its bits, inverted if it is negative: 0.0 and -0.0 have one code, and all NaNs
have one, the greatest. Strings, binary and wider decimals are encoded as ids of a dictionary. NULL is the smallest
int64, which no value may have as its code.

Columns that are joined or compared must be encoded as the same type, the widened one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dynq_cli.engine.dictionary import Dictionaries, valid_rows, validity
from dynq_cli.engine.kernels.codes import NULL, UNKNOWN
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import CodeError, arrow_type, convert, fixed_width

__all__ = [
    "NULL",
    "UNKNOWN",
    "CodeError",
    "Codes",
    "arrow_type",
    "decode",
    "encode",
    "float_codes",
    "floats",
    "floor",
    "needs_labels",
]

Codes = npt.NDArray[np.int64]

_NARROW_DIGITS = 18
_ALL_BUT_SIGN = np.int64(2**63 - 1)
_NAN = np.array([np.nan]).view(np.int64)[0] & _ALL_BUT_SIGN
_WHOLE = frozenset(("int8", "int16", "int32", "int64", "date"))
_DTYPES: dict[str, Any] = {
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "date": np.int32,
    "float32": np.float32,
}


def needs_labels(kind: Type) -> bool:
    """Whether codes of a type are ids, so that their order is not the order of the values."""
    return kind.name in ("string", "binary") or _is_wide(kind)


def encode(array: pa.Array | pa.ChunkedArray, kind: Type, dictionaries: Dictionaries, *, intern: bool = True) -> Codes:
    """Encode each row. The result is read-only: it may be Arrow's own memory.

    O(bytes); an int64 column in one chunk without NULL is not copied. With `intern=False`, values that are in no
    dictionary become UNKNOWN. Raises `CodeError` for a value that the type does not hold; values of earlier chunks may
    be in the dictionaries then.
    """
    pieces = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    coded: list[Codes] = []
    for piece in pieces:
        try:
            coded.append(_encode(piece, kind, dictionaries, intern))
        except CodeError as error:
            raise CodeError(sum(map(len, coded)) + error.row, error.reason) from None
    codes = coded[0] if len(coded) == 1 else np.concatenate([np.empty(0, np.int64), *coded])
    if not (codes.flags.c_contiguous and codes.flags.aligned):
        codes = np.require(codes, requirements=["C", "A"])
    codes = codes.view()
    codes.flags.writeable = False
    return codes


def floor(value: pa.Array, kind: Type, dictionaries: Dictionaries) -> int:
    """Return the code of the greatest value that is not greater than the one in the array.

    For ids, search the values in the dictionary; -1 if all are greater. O(log N).
    """
    if not needs_labels(kind):
        return int(encode(value, kind, dictionaries)[0])
    (entry,) = (_sortable(value) if _is_wide(kind) else value).to_pylist()
    content = entry.encode() if isinstance(entry, str) else entry
    return dictionaries.label().of(kind.name).floor(dictionaries.of(kind), content)


def _encode(array: pa.Array, kind: Type, dictionaries: Dictionaries, intern: bool) -> Codes:
    if kind.name in _WHOLE and array.type == arrow_type(kind):
        return _whole(array, kind)
    if kind.name == "decimal" and not _is_wide(kind) and array.type == arrow_type(kind):
        narrow = _narrow(array, kind)
        if narrow is not None:
            return narrow
    values = convert(array, kind)
    if needs_labels(kind):
        dictionary = dictionaries.of(kind)
        entries = _sortable(values) if _is_wide(kind) else values
        return dictionary.intern(entries) if intern else dictionary.lookup(entries)
    if kind.is_float:
        codes = float_codes(fixed_width(values.cast(pa.float64()), np.float64))
    elif kind.name == "decimal":
        codes = fixed_width(values, np.int64, lanes=2)[::2]
    elif kind.name in ("time", "timestamp"):
        codes = fixed_width(values, np.int64)
    else:
        numbers = values.view(pa.int32()) if kind.name == "date" else values
        codes = fixed_width(numbers.cast(pa.int64()), np.int64)
    valid = valid_rows(values)
    taken = codes == NULL if kind.name in ("int64", "timestamp") else valid[:0]
    if len(valid):
        taken = taken & valid if len(taken) else taken
        codes = np.where(valid, codes, NULL)
    if taken.any():
        raise CodeError(int(taken.argmax()), f"the smallest {kind} stands for NULL and cannot be stored")
    return codes


def _whole(array: pa.Array, kind: Type) -> Codes:
    """Encode integers and dates of the right type: the fast path of most columns."""
    array.validate()
    codes: Codes = fixed_width(array, _DTYPES.get(kind.name, np.int64)).astype(np.int64, copy=False)
    valid = valid_rows(array)
    if kind.name == "int64" and len(codes) and codes.min() == NULL:
        taken = (codes == NULL) & valid if len(valid) else codes == NULL
        if taken.any():
            raise CodeError(int(taken.argmax()), f"the smallest {kind} stands for NULL and cannot be stored")
    return np.where(valid, codes, NULL) if len(valid) else codes


def _narrow(array: pa.Array, kind: Type) -> Codes | None:
    """Encode decimals of the right type; None if one has more digits than the type."""
    array.validate()
    lanes, valid = fixed_width(array, np.int64, lanes=2), valid_rows(array)
    codes, high, limit = lanes[::2].copy(), lanes[1::2], 10**kind.precision
    if len(valid):
        codes[~valid] = 0
        high = np.where(valid, high, 0)
    if len(codes) and not (-limit < codes.min() and codes.max() < limit and (codes >> 63 == high).all()):
        return None
    if len(valid):
        codes[~valid] = NULL
    return codes


def decode(codes: Codes, kind: Type, dictionaries: Dictionaries, *, nullable: bool = True) -> pa.Array:
    """Decode to an array of `arrow_type(kind)`. O(bytes); int64 without NULL is not copied.

    With `nullable=False` the caller promises that no code is NULL.
    """
    if kind.name in ("string", "binary"):
        return dictionaries.of(kind).decode(codes, arrow_type(kind))
    codes = np.ascontiguousarray(codes, np.int64)
    bitmap = None
    if nullable:
        valid = codes != NULL
        bitmap = validity(valid)
        codes = codes if bitmap is None else np.where(valid, codes, 0)
    content: npt.NDArray[Any]
    if kind.name == "bool":
        content = np.packbits(codes != 0, bitorder="little")
    elif kind.is_float:
        content = floats(codes).astype(_DTYPES.get(kind.name, np.float64), copy=False)
    elif _is_wide(kind):
        content = _from_sortable(dictionaries, codes, kind)
    elif kind.name == "decimal":
        content = np.stack([codes, codes >> 63], axis=1)
    else:
        content = codes.astype(_DTYPES.get(kind.name, np.int64), copy=False)
    return pa.Array.from_buffers(arrow_type(kind), len(codes), [bitmap, pa.py_buffer(content)])


def _is_wide(kind: Type) -> bool:
    return kind.name == "decimal" and kind.precision > _NARROW_DIGITS


def floats(codes: Codes) -> npt.NDArray[np.float64]:
    """Decode floats."""
    return np.where(codes < 0, codes ^ _ALL_BUT_SIGN, codes).view(np.float64)


def float_codes(numbers: npt.NDArray[np.float64]) -> Codes:
    """Encode floats, in a new array."""
    # Adding zero turns -0.0 into 0.0 and keeps every other number; a signalling NaN would warn.
    with np.errstate(invalid="ignore"):
        numbers = numbers + 0.0
    bits = numbers.view(np.int64)
    ordered: Codes = np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    ordered[np.isnan(numbers)] = _NAN
    return ordered


def _sortable(values: pa.Array) -> pa.Array:
    """Encode each wide decimal as sixteen bytes, whose byte order is the order of the numbers."""
    flipped = fixed_width(values, np.uint8, lanes=16).reshape(-1, 16)[:, ::-1].copy()
    flipped[:, 0] ^= 0x80
    offsets = np.arange(len(values) + 1, dtype=np.int64) * 16
    bitmap = validity(valid_rows(values)) if values.null_count else None
    return pa.Array.from_buffers(pa.large_binary(), len(values), [bitmap, pa.py_buffer(offsets), pa.py_buffer(flipped)])


def _from_sortable(dictionaries: Dictionaries, ids: Codes, kind: Type) -> npt.NDArray[np.uint8]:
    dictionary = dictionaries.of(kind)
    if len(dictionary) == 0:
        return np.zeros((len(ids), 16), np.uint8)
    numbers = dictionary.flat.data[: 16 * len(dictionary)].reshape(-1, 16)[ids]
    numbers[:, 0] ^= 0x80
    return np.ascontiguousarray(numbers[:, ::-1])
