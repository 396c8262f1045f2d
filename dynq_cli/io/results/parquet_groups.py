"""Encode the row groups of a Parquet file side by side.

    write_groups(groups) = the bytes that one ParquetWriter gives, a row group for each table

Arrow encodes a file in one thread, and that takes longer than anything else when a result is written. But no row group
depends on another: each is encoded here as a file of its own in memory, several at a time, and the file is made of
them: what the row groups consist of, one after the other, and a footer that says where it went.

Arrow would write every column through a dictionary, until that is too large. Finding the values in it takes most of the
time, and where a result repeats its values in runs or patterns, LZ4 makes the plain column as small. Which of both
holds is tried on the first rows. Texts always have a dictionary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dynq_cli.io.results.forms import Sink
from dynq_cli.io.thrift import Field, Struct, read, written

ENCODERS = 2
_MAGIC = b"PAR1"
_LENGTH = 4
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData in the format's parquet.thrift.
_ROWS, _GROUPS = 3, 4
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
_CHUNK_OFFSET, _CHUNK = 2, 3
_PAGES = (9, 10, 11)  # where data, index and dictionary pages begin
# How many rows a plain column is tried on, and how many more bytes a row it may take.
_TRIED_ROWS = 1 << 14
_BYTES_A_ROW = 0.25


def write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    """Write each table as a row group. Memory is that of ENCODERS + 1 tables and as many encoded ones."""
    file = _File(sink)
    waiting: deque[Future[pa.Buffer]] = deque()
    options: dict[str, Any] = {}
    with ThreadPoolExecutor(ENCODERS, "dynq-encoder") as encoders:
        for group in groups:
            options = options or options_for(group)
            waiting.append(encoders.submit(_encoded, [group], schema, options))
            del group  # it is held by whoever encodes it, and by nobody else
            if len(waiting) > ENCODERS:  # one more, so that no encoder has to wait
                file.add(waiting.popleft().result())
        while waiting:
            file.add(waiting.popleft().result())
    if file.is_empty:
        file.add(_encoded([], schema, options))
    file.end()


def options_for(first: pa.Table) -> dict[str, Any]:
    """Return the options of `pq.ParquetWriter` for a file that begins with these rows."""
    schema = first.schema
    coded = [field.name for field in schema if not pa.types.is_primitive(field.type)]
    open_ = [name for name in schema.names if name not in coded]
    if open_:
        tried = first.select(open_).slice(0, _TRIED_ROWS)
        limit = _BYTES_A_ROW * tried.num_rows
        sizes = zip(_sizes(tried, True), _sizes(tried, False), strict=True)
        coded += [name for name, (with_, without) in zip(open_, sizes, strict=True) if without > with_ + limit]
    return {"compression": "lz4", "use_dictionary": coded or False}


def _sizes(table: pa.Table, has_dictionary: bool) -> list[int]:
    """Return the bytes that each column takes."""
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="lz4", use_dictionary=has_dictionary, write_statistics=False)
    group = pq.read_metadata(pa.BufferReader(out.getvalue())).row_group(0) if table.num_rows else None
    return [group.column(i).total_compressed_size if group else 0 for i in range(table.num_columns)]


def _encoded(groups: list[pa.Table], schema: pa.Schema, options: dict[str, Any]) -> pa.Buffer:
    """A whole file with these row groups."""
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, schema, **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
    groups.clear()
    return out.getvalue()


class _File:
    """A Parquet file that is made of others."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._footer: Struct = {}
        self._groups: list[Struct] = []
        self._size = _put(sink, _MAGIC)

    @property
    def is_empty(self) -> bool:
        return not self._footer

    def add(self, encoded: pa.Buffer) -> None:
        """Take over the row groups of a whole file."""
        content = memoryview(encoded)
        length = int.from_bytes(content[-_LENGTH - len(_MAGIC) : -len(_MAGIC)], "little")
        start = len(content) - len(_MAGIC) - _LENGTH - length
        footer = read(content[start:])
        for group in footer[_GROUPS].value.value:
            self._groups.append(_moved(group, self._size - len(_MAGIC), len(self._groups)))
        rows = footer[_ROWS].value + (self._footer[_ROWS].value if self._footer else 0)
        self._footer = footer
        self._footer[_ROWS] = Field(footer[_ROWS].kind, rows)
        self._size += _put(self._sink, content[len(_MAGIC) : start])

    def end(self) -> None:
        """Write the footer, which has all row groups."""
        kind, held = self._footer[_GROUPS]
        self._footer[_GROUPS] = Field(kind, Field(held.kind, self._groups))
        footer = written(self._footer)
        for part in (footer, len(footer).to_bytes(_LENGTH, "little"), _MAGIC):
            _put(self._sink, part)


def _put(sink: Sink, data: bytes | memoryview) -> int:
    """Write all of the data; its length."""
    sink.write(data)
    return len(data)


def _moved(group: Struct, by: int, ordinal: int) -> Struct:
    """A row group that stands so many bytes further on in its file, as one of several."""
    group = _shifted(group, by, (_GROUP_OFFSET,))
    if _ORDINAL in group:
        group[_ORDINAL] = Field(group[_ORDINAL].kind, ordinal)
    kind, chunks = group[_COLUMNS]
    group[_COLUMNS] = Field(kind, Field(chunks.kind, [_moved_chunk(chunk, by) for chunk in chunks.value]))
    return group


def _moved_chunk(chunk: Struct, by: int) -> Struct:
    chunk = _shifted(chunk, by, (_CHUNK_OFFSET,))
    chunk[_CHUNK] = Field(chunk[_CHUNK].kind, _shifted(chunk[_CHUNK].value, by, _PAGES))
    return chunk


def _shifted(struct: Struct, by: int, offsets: tuple[int, ...]) -> Struct:
    """The struct with its offsets moved; 0 is no offset, since every file begins with its magic number."""
    return {
        number: Field(field.kind, field.value + by) if number in offsets and field.value else field
        for number, field in struct.items()
    }
