"""Read and write Thrift's compact protocol, as far as Parquet's footers and page headers need it.

    written(read(data)) = data

A struct is a dict from the number of a field to its kind and value, in the order of the fields. What the fields mean
is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Struct = dict[int, "Field"]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_STOP = 0
_WIDEST = 70  # bits that the bytes of a 64-bit number can hold
_DEEPEST = 32  # structs within structs; Parquet has at most ten
_SHORT = 15  # from this many items on a list's size stands by itself; so do steps from a field to one further on


class Field(NamedTuple):
    """A value and its kind; of a list the kind of its items and all of them."""

    kind: int
    value: Any


def read(data: bytes | memoryview) -> Struct:
    """The struct that the data begins with. ValueError or IndexError if there is none."""
    return _Reader(data).struct()


def read_measured(data: bytes | memoryview) -> tuple[Struct, int]:
    """The struct that the data begins with, and its length in bytes. ValueError or IndexError if there is none."""
    reader = _Reader(data)
    return reader.struct(), reader.at


def written(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = bytes(data)  # an index into it costs half of one into a view
        self.at = 0
        self._depth = 0
        self._readers: dict[int, Callable[[], Any]] = {
            TRUE: lambda: True,
            FALSE: lambda: False,
            BYTE: lambda: self._bytes(1),
            I16: self._signed,
            I32: self._signed,
            I64: self._signed,
            DOUBLE: lambda: self._bytes(8),
            BINARY: lambda: self._bytes(self._unsigned()),
            LIST: self._list,
            SET: self._list,
            STRUCT: self.struct,
        }

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("structs are nested too deeply")
        data, readers = self._data, self._readers
        while (head := data[self.at]) != _STOP:
            self.at += 1
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            if number <= 0 or number in found:
                raise ValueError("a field has no number, or that of another")
            if kind not in readers:
                raise ValueError(f"no kind {kind} is known")
            found[number] = Field(kind, readers[kind]())
        self.at += 1
        self._depth -= 1
        return found

    def _list(self) -> Field:
        head = self._bytes(1)[0]
        size, kind = head >> 4, head & 15
        size = self._unsigned() if size == _SHORT else size
        if kind in (TRUE, FALSE):  # among items a truth value is a byte of its own
            return Field(kind, [self._bytes(1) for _ in range(size)])
        if kind not in self._readers and size:
            raise ValueError(f"no kind {kind} is known")
        read = self._readers.get(kind)
        return Field(kind, [read() for _ in range(size)] if read else [])

    def _bytes(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size]
        if len(found) < size:
            raise IndexError("the data ends too early")
        self.at += size
        return found

    def _unsigned(self) -> int:
        data = self._data
        value = data[self.at]
        self.at += 1
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, _WIDEST, 7):
            byte = data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number is longer than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, field in struct.items():
        step = number - before
        if 0 < step <= _SHORT:
            out.append(step << 4 | field.kind)
        else:
            out.append(field.kind)
            _put_signed(out, number)
        _put(out, field)
        before = number
    out.append(_STOP)


def _put(out: bytearray, field: Field) -> None:
    kind, value = field
    if kind in (I16, I32, I64):
        _put_signed(out, value)
    elif kind == BINARY:
        _put_unsigned(out, len(value))
        out += value
    elif kind in (BYTE, DOUBLE):
        out += value
    elif kind in (LIST, SET):
        _put_list(out, value)
    elif kind == STRUCT:
        _put_struct(out, value)


def _put_list(out: bytearray, items: Field) -> None:
    size = len(items.value)
    if size < _SHORT:
        out.append(size << 4 | items.kind)
    else:
        out.append(_SHORT << 4 | items.kind)
        _put_unsigned(out, size)
    for item in items.value:
        if items.kind in (TRUE, FALSE):
            out += item
        else:
            _put(out, Field(items.kind, item))


def _put_unsigned(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int) -> None:
    _put_unsigned(out, value << 1 if value >= 0 else ~value << 1 | 1)
