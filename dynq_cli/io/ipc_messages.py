"""Read the headers of the messages of an Arrow IPC file or stream, without Arrow and without their contents.

    check(path)     the messages lead from the begin to the end mark, and the index of a file is about them

polars writes the schema at the begin of a file without its length, so that no stream begins there. Such a file is read
by its index, which is checked like any other; both schemas have to be the same.

How much each batch unpacks to is known before any is unpacked: a compressed buffer begins with that length, and Arrow
allocates as much. Where buffers lie is in a message's metadata, a FlatBuffers table:
https://arrow.apache.org/docs/format/Columnar.html. O(messages), whatever their contents take.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_UNPACKED = 1 << 30  # bytes of a batch

_FILE_MAGIC = b"ARROW1"
_FILE_START = 8  # the magic, padded
_CONTINUED = 0xFFFFFFFF
_END_MARK = 8  # bytes
_LONGEST_METADATA = 256 << 20
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3  # of the union MessageHeader
_HEADER_TYPE, _HEADER, _BODY = 1, 2, 3  # fields of Message
_DATA = 1  # field of DictionaryBatch
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_INDEXED = {_DICTIONARY_BATCH: 2, _RECORD_BATCH: 3}  # fields of Footer
_FOOTER_SCHEMA, _ENDIANNESS = 1, 0  # fields of Footer and of Schema
_BUFFER = struct.Struct("<qq")
_BLOCK = struct.Struct("<qi4xq")  # a message, as the index has it: offset, bytes of metadata, bytes of the body
_NOT_COMPRESSED = -1


@dataclass(frozen=True)
class Message:
    """Where a message of a kind stands, and what its body takes when unpacked."""

    kind: int
    at: int
    metadata: int  # bytes, with the length before them
    body: int
    unpacked: int


@dataclass(frozen=True)
class Walk:
    """Where the stream of messages begins; or, where none does, the message with the schema in front of the batches."""

    start: int
    bare_schema: bytes | None = None


def check(path: str) -> Walk:
    """Walk through the messages. ValueError where they cannot be followed to their end, or are not the index's."""
    with open(path, "rb", buffering=0) as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        is_file = os.pread(number, len(_FILE_MAGIC), 0) == _FILE_MAGIC
        try:
            index, end = _index(number, size) if is_file else ({}, size)
            bare = _bare_schema(number, index, end) if is_file else None
            start = (_FILE_START if is_file else 0) + len(bare or b"")
            messages = list(_messages(number, start, end))
        except (struct.error, IndexError) as error:
            raise ValueError("the metadata of a batch points past its end") from error
    for kind, blocks in index.items():
        if blocks != [(m.at, m.metadata, m.body) for m in messages if m.kind == kind]:
            raise ValueError("its index is not about the batches that it has")
    for message in messages:
        if message.unpacked > MOST_UNPACKED:
            raise ValueError(
                f"a batch unpacks to {message.unpacked:,} bytes: write batches of at most {MOST_UNPACKED:,}"
            )
    return Walk(start, bare)


def _bare_schema(file: int, index: dict[int, list[tuple[int, ...]]], end: int) -> bytes | None:
    """The schema that stands in front of the batches without its length; None if the file begins with a message."""
    first = min((at for blocks in index.values() for at, *_ in blocks), default=end - _END_MARK)
    if not _FILE_START < first <= end or first > _LONGEST_METADATA:
        return None
    data = os.pread(file, first - _FILE_START, _FILE_START)
    if _number("<I", data, 0) == _CONTINUED:
        return None
    try:
        message = _Table(memoryview(data), _number("<I", data, 0))
        is_schema = message.number(_HEADER_TYPE, "<B") == _SCHEMA and message.number(_BODY, "<q") == 0
    except (struct.error, IndexError):
        return None  # the length of a message, as Arrow wrote it before it wrote a mark in front of it
    return data if is_schema else None


def _index(file: int, size: int) -> tuple[dict[int, list[tuple[int, ...]]], int]:
    """The messages of a file as its index has them, by kind, and where the index begins."""
    tail = os.pread(file, 4 + len(_FILE_MAGIC), max(size - 4 - len(_FILE_MAGIC), 0))
    start = size - len(tail) - int.from_bytes(tail[:4], "little")
    if tail[4:] != _FILE_MAGIC or start < _FILE_START:
        raise ValueError("it does not end as an Arrow file: it was cut off, or its writer was not closed")
    data = memoryview(os.pread(file, size - len(tail) - start, start))
    footer = _Table(data, _number("<I", data, 0))
    schema = footer.table(_FOOTER_SCHEMA)
    if schema is None or schema.number(_ENDIANNESS, "<h"):
        raise ValueError("its index is damaged, or its numbers are big-endian")
    return {kind: list(footer.structs(field, _BLOCK)) for kind, field in _INDEXED.items()}, start


def _messages(file: int, at: int, end: int) -> Iterator[Message]:
    """The messages from a place on. They have an end mark, and nothing comes after it."""
    first: bool | None = None
    while True:
        prefix = os.pread(file, min(8, end - at), at)
        if len(prefix) < 4 or (len(prefix) < 8 and _number("<I", prefix, 0) == _CONTINUED):
            raise ValueError("the stream has no end mark: it was cut off, or its writer was not closed")
        is_continued = _number("<I", prefix, 0) == _CONTINUED
        length = _number("<I", prefix, 4 if is_continued else 0)
        start = at + (8 if is_continued else 4)
        first = is_continued if first is None else first
        if is_continued != first:
            raise ValueError("its batches begin in different ways: one of them is longer or shorter than it says")
        if length == 0:
            if start < end:
                raise ValueError(f"{end - start:,} bytes follow the end of its batches, perhaps another file")
            return
        if length > min(end - start, _LONGEST_METADATA):
            raise ValueError("the metadata of a batch goes past the end of the file")
        metadata = os.pread(file, length, start)
        message = _message(file, metadata, at, start + length)
        at = start + length + message.body
        if at > end:
            raise ValueError("a batch goes past the end of the file: it was cut off")
        yield message


def _message(file: int, metadata: bytes, at: int, body_at: int) -> Message:
    data = memoryview(metadata)
    message = _Table(data, _number("<I", data, 0))
    body = message.number(_BODY, "<q")
    if body < 0:
        raise ValueError("a batch has a negative length")
    header, kind = message.table(_HEADER), message.number(_HEADER_TYPE, "<B")
    batch = header.table(_DATA) if header and kind == _DICTIONARY_BATCH else header
    unpacked = body
    if batch is not None and kind in (_DICTIONARY_BATCH, _RECORD_BATCH):
        buffers = list(batch.structs(_BUFFERS, _BUFFER))
        _check_places(buffers, body)
        if batch.table(_COMPRESSION) is not None:
            unpacked = sum(_length(file, body_at, body, *buffer) for buffer in buffers)
    return Message(kind, at, body_at - at, body, unpacked)


def _check_places(buffers: Sequence[tuple[int, ...]], body: int) -> None:
    """Buffers lie one after the other in the body; Arrow's reader of streams takes what it finds elsewhere."""
    end = 0
    for offset, length in buffers:
        if length < 0 or (length and offset < end) or offset + length > body:
            raise ValueError("the buffers of a batch overlap, or go past its end")
        end = max(end, offset + length)


def _length(file: int, body_at: int, body: int, offset: int, length: int) -> int:
    """The bytes that a compressed buffer unpacks to."""
    if length == 0:
        return 0
    if offset < 0 or offset + 8 > body:
        raise IndexError(offset)
    unpacked = _number("<q", os.pread(file, 8, body_at + offset), 0)
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

    def structs(self, index: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        at = self._field(index)
        if at is not None:
            start = at + _number("<I", self._data, at)
            size = _number("<I", self._data, start) * form.size
            if start + 4 + size > len(self._data):
                raise IndexError(size)
            yield from form.iter_unpack(self._data[start + 4 : start + 4 + size])


def _number(form: str, data: bytes | memoryview, at: int) -> int:
    if at < 0:
        raise IndexError(at)
    number: int = struct.unpack_from(form, data, at)[0]
    return number
