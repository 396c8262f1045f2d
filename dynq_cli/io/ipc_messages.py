"""What the messages of an Arrow IPC stream unpack to, read off them without unpacking any.

A compressed buffer begins with the length it unpacks to, and Arrow allocates that much. Where the buffers lie is in the
message's metadata, a FlatBuffers table: https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import ipc

_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # of the union MessageHeader
_HEADER_TYPE, _HEADER = 1, 2  # fields of Message
_DATA = 1  # field of DictionaryBatch
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_BUFFER = struct.Struct("<qq")
_NOT_COMPRESSED = -1


def unpacked_sizes(source: pa.NativeFile) -> Iterator[int]:
    """The bytes that each message of the stream at `source` takes when unpacked.

    Raises ValueError for metadata that cannot be followed, and at the end if the stream has no end mark.
    """
    end = source.tell()
    for message in ipc.MessageReader.open_stream(source):
        try:
            yield _unpacked(memoryview(message.metadata), memoryview(message.body or b""))
        except (struct.error, IndexError) as error:
            raise ValueError("the metadata of a batch points past its end") from error
        end = source.tell()
    if source.tell() == end:
        raise ValueError("the stream has no end mark: it was cut off, or its writer was not closed")


def _unpacked(metadata: memoryview, body: memoryview) -> int:
    message = _Table(metadata, _number("<I", metadata, 0))
    header = message.table(_HEADER)
    kind = message.number(_HEADER_TYPE, "<B")
    batch = header.table(_DATA) if header and kind == _DICTIONARY_BATCH else header
    if batch is None or kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or batch.table(_COMPRESSION) is None:
        return len(body)
    return sum(_length(body, offset, length) for offset, length in batch.buffers(_BUFFERS))


def _length(body: memoryview, offset: int, length: int) -> int:
    if length == 0:
        return 0
    unpacked = _number("<q", body, offset)
    if unpacked < _NOT_COMPRESSED:
        raise ValueError("a compressed buffer has a negative length")
    return length if unpacked == _NOT_COMPRESSED else unpacked


class _Table:
    """A FlatBuffers table: its fields are found through a table of offsets, missing ones have none."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._position = position
        self._offsets = position - _number("<i", data, position)

    def _field(self, index: int) -> int | None:
        at = 4 + 2 * index
        if at + 2 > _number("<H", self._data, self._offsets):
            return None
        offset = _number("<H", self._data, self._offsets + at)
        return self._position + offset if offset else None

    def number(self, index: int, form: str) -> int:
        at = self._field(index)
        return 0 if at is None else _number(form, self._data, at)

    def table(self, index: int) -> _Table | None:
        at = self._field(index)
        return None if at is None else _Table(self._data, at + _number("<I", self._data, at))

    def buffers(self, index: int) -> Iterator[tuple[int, int]]:
        at = self._field(index)
        if at is not None:
            start = at + _number("<I", self._data, at)
            count = _number("<I", self._data, start)
            yield from _BUFFER.iter_unpack(self._data[start + 4 : start + 4 + count * _BUFFER.size])


def _number(form: str, data: memoryview, at: int) -> int:
    if at < 0:
        raise IndexError(at)
    number: int = struct.unpack_from(form, data, at)[0]
    return number
