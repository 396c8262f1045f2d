"""A Parquet file taken apart into footer, column chunks and pages, and put together again, truly or with lies.

Parts.of(data).joined() reads as data does
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from dynq_cli.io import thrift
from dynq_cli.io.thrift import I32, I64, LIST, STRUCT, Field, Struct

MAGIC = b"PAR1"
GROUPS, COLUMNS, META = 4, 1, 3
CODEC, PACKED, DATA_AT, DICTIONARY_AT = 4, 7, 9, 11
PAGE_KIND, PAGE_UNPACKED, PAGE_PACKED, PAGE_CHECKSUM, PAGE_V2 = 1, 2, 3, 4, 8
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_DICTIONARY_PAGE = 2
# Offsets to what stands elsewhere in the file, and moves when pages do: indexes, Bloom filters.
_ELSEWHERE, _META_ELSEWHERE = (4, 5, 6, 7), (14, 15)


@dataclass
class Page:
    """A page: its header, and its bytes as they stand in the file."""

    header: Struct
    body: bytes

    @property
    def is_dictionary(self) -> bool:
        kind = self.header.get(PAGE_KIND)
        return kind is not None and kind.value == _DICTIONARY_PAGE

    def unpacked(self, codec: int) -> bytes | None:
        """What the page holds; None if its codec is not known here."""
        plain, packed = self._levels()
        if codec == 0 or not packed:
            return self.body
        if codec not in _CODECS:
            return None
        size = int(self.header[PAGE_UNPACKED].value) - len(plain)
        unpacked: bytes = pa.decompress(packed, size, _CODECS[codec], asbytes=True)
        return plain + unpacked

    def pack(self, content: bytes, codec: int) -> None:
        """Put other content into the page; its header says the sizes."""
        plain = content[: len(self._levels()[0])]
        rest = content[len(plain) :]
        is_packed = codec in _CODECS and len(self._levels()[1]) > 0
        self.body = plain + (pa.compress(rest, _CODECS[codec], asbytes=True) if is_packed else rest)
        self.header[PAGE_UNPACKED] = Field(I32, len(content))
        self.header[PAGE_PACKED] = Field(I32, len(self.body))

    def _levels(self) -> tuple[bytes, bytes]:
        """Of a page of version 2 the levels, which are never compressed, and the rest."""
        if PAGE_V2 not in self.header:
            return b"", self.body
        head = self.header[PAGE_V2].value
        if 7 in head and head[7].kind == thrift.FALSE:
            return self.body, b""
        size = sum(int(head[number].value) for number in (5, 6))
        return self.body[:size], self.body[size:]


@dataclass
class Chunk:
    """The pages of a column in a row group; `place` is the struct in the footer."""

    place: Struct
    pages: list[Page]

    @property
    def meta(self) -> Struct:
        found: Struct = self.place[META].value
        return found

    @property
    def codec(self) -> int:
        return int(self.meta[CODEC].value)


@dataclass
class Parts:
    """A file's footer, and its chunks in the order of the footer."""

    footer: Struct
    chunks: list[Chunk]

    @classmethod
    def of(cls, data: bytes) -> Parts:
        footer = thrift.read(data[footer_at(data) : -8])
        groups = footer[GROUPS].value.value if GROUPS in footer else []
        places = [place for group in groups for place in group[COLUMNS].value.value]
        return cls(footer, [Chunk(place, list(_pages(data, place[META].value))) for place in places])

    def joined(self) -> bytes:
        """The file: pages one after the other, and a footer that says where they are."""
        out = bytearray(MAGIC)
        for chunk in self.chunks:
            start = len(out)
            for page in chunk.pages:
                if not page.is_dictionary and all(p.is_dictionary for p in _before(chunk, page)):
                    chunk.meta[DATA_AT] = Field(I64, len(out))
                out += thrift.written(page.header) + page.body
            if DICTIONARY_AT in chunk.meta:
                chunk.meta[DICTIONARY_AT] = Field(I64, start)
            chunk.meta[PACKED] = Field(I64, len(out) - start)
            for number in _ELSEWHERE:
                chunk.place.pop(number, None)
            for number in _META_ELSEWHERE:
                chunk.meta.pop(number, None)
        return bytes(out) + with_length(thrift.written(self.footer))


def _before(chunk: Chunk, page: Page) -> list[Page]:
    return chunk.pages[: next(i for i, p in enumerate(chunk.pages) if p is page)]


def footer_at(data: bytes) -> int:
    """Where the footer of a file begins."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def with_length(footer: bytes) -> bytes:
    """A footer as it stands at the end of a file."""
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def with_footer(data: bytes, footer: Struct) -> bytes:
    """The file with another footer."""
    return data[: footer_at(data)] + with_length(thrift.written(footer))


def _pages(data: bytes, meta: Struct) -> Iterator[Page]:
    at = int(meta[DATA_AT].value)
    if DICTIONARY_AT in meta and meta[DICTIONARY_AT].value > 0 and not 0 < at < meta[DICTIONARY_AT].value:
        at = int(meta[DICTIONARY_AT].value)
    end = at + int(meta[PACKED].value)
    while at < end:
        header, length = thrift.read_measured(data[at:end])
        at += length
        size = int(header[PAGE_PACKED].value)
        yield Page(header, data[at : at + size])
        at += size


def structs(struct: Struct) -> Iterator[Struct]:
    """A struct and all structs in it."""
    yield struct
    for field in struct.values():
        if field.kind == STRUCT:
            yield from structs(field.value)
        elif field.kind == LIST and field.value.kind == STRUCT:
            for item in field.value.value:
                yield from structs(item)
