"""Read and check the footer and the page headers of a Parquet file, before Arrow reads them.

pyarrow's accessors of metadata (`row_group(g).column(i)`) end the process where Arrow throws, as it does for
statistics of another type than the column's. So dynq reads the footer itself, refuses one that contradicts itself or
the file, and hands Arrow a footer with the fields that reading needs: no statistics, no indexes, no offsets to either.

Sizes are those of the page headers, which Arrow allocates by; the footer's own may be anything.
Reading a footer is O(its bytes); reading the pages of a column is O(pages), about 30 microseconds each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dynq_cli.io import thrift
from dynq_cli.io.thrift import I32, I64, LIST, STRUCT, Field, Struct

BYTE_ARRAY = 6
MOST_UNPACKED = 1 << 30  # bytes of a page

_MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_TAIL = 8  # bytes: the footer's length and the magic
_DEEPEST = 100  # columns within columns
_HEADER = 256  # bytes of a page header, unless it has long statistics
_LONGEST_HEADER = 16 << 20
# Fields of the structs in the format's parquet.thrift.
_SCHEMA, _ROWS, _GROUPS, _CREATED_BY = 2, 3, 4, 6
_TYPE, _WIDTH, _REPETITION, _NAME, _CHILDREN = 1, 2, 3, 4, 5
_COLUMNS, _GROUP_ROWS = 1, 3
_FILE_PATH, _META, _CRYPTO = 1, 3, 8
_CHUNK_TYPE, _PATH, _VALUES, _PACKED, _DATA_AT, _DICTIONARY_AT = 1, 3, 5, 7, 9, 11
_STATISTICS, _SIZE_STATISTICS = 12, 16
_ELSEWHERE = ((0, 4, 5), (0, 6, 7), (_META, 14, 15))  # offset index, column index, Bloom filter: offsets and lengths
_NULL_COUNT, _REPETITION_HISTOGRAM, _DEFINITION_HISTOGRAM = 3, 2, 3
_PAGE_KIND, _PAGE_UNPACKED, _PAGE_PACKED, _DATA, _DICTIONARY, _DATA_V2 = 1, 2, 3, 5, 7, 8
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_V2_NULLS, _V2_ROWS, _V2_LEVELS = 2, 3, (5, 6)
_REQUIRED, _REPEATED = 0, 2
_DELTA_BYTE_ARRAY = 7
_DELTAS = frozenset({5, 6, _DELTA_BYTE_ARRAY})  # DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY
# What Arrow gets of each struct.
_KEPT_FILE = frozenset({1, _SCHEMA, _ROWS, _GROUPS, 5, _CREATED_BY})
_KEPT_GROUP = frozenset({_COLUMNS, 2, _GROUP_ROWS})
_KEPT_CHUNK = frozenset({2, _META})
_KEPT_META = frozenset({_CHUNK_TYPE, 2, _PATH, 4, _VALUES, 6, _PACKED, _DATA_AT, _DICTIONARY_AT})


@dataclass(frozen=True)
class Leaf:
    """A column that has values: its path, physical type, and the bytes of a value where all have as many.

    `definitions` and `repetitions` are the highest levels: how many of the path's parts are optional, or repeated.
    """

    path: str
    type: int
    width: int
    definitions: int
    repetitions: int

    @property
    def is_repeated(self) -> bool:
        return self.repetitions > 0


@dataclass(frozen=True)
class Chunk:
    """The part of a column in a row group, where it stands in the file."""

    leaf: Leaf
    start: int
    size: int
    values: int
    rows: int
    nulls: int | None


@dataclass(frozen=True)
class Pages:
    """What the page headers of a chunk say: bytes when unpacked, of all pages and of the largest, and encodings.

    `longest` is the most that a single value may take, unless values share prefixes.
    """

    unpacked: int
    largest: int
    longest: int
    has_dictionary: bool
    has_deltas: bool
    has_prefixes: bool


@dataclass(frozen=True)
class Footer:
    """A footer that agrees with itself and with the length of its file."""

    leaves: tuple[Leaf, ...]
    rows: tuple[int, ...]
    groups: tuple[tuple[Chunk, ...], ...]
    end: int  # of all that it says where it is
    metadata: pq.FileMetaData


def read_footer(path: str) -> Footer:
    """The footer of a file. ValueError where there is none that can be trusted. O(bytes) of the footer."""
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head, tail = os.pread(file.fileno(), len(_MAGIC), 0), os.pread(file.fileno(), _TAIL, max(size - _TAIL, 0))
        if _ENCRYPTED in (head, tail[-4:]):
            raise ValueError("it is encrypted, which dynq does not read")
        length = int.from_bytes(tail[:4], "little")
        start = size - _TAIL - length
        if head != _MAGIC or tail[-4:] != _MAGIC or start < len(_MAGIC):
            raise ValueError("it does not begin and end as a Parquet file: it was cut off, or is something else")
        footer = _parsed(os.pread(file.fileno(), length, start), start)
        if os.pread(file.fileno(), _TAIL, max(start - footer.end - len(_MAGIC), 0)) == _MAGIC + _MAGIC:
            raise ValueError("it is two files, one after the other: give each a name of its own")
    return footer


@lru_cache(maxsize=4)  # a file is opened several times on its way into a state
def _parsed(content: bytes, end: int) -> Footer:
    try:
        footer = thrift.read(content)
        leaves = tuple(_leaves(footer))
        groups = tuple(_group(group, leaves, end) for group in _list(footer, _GROUPS, STRUCT))
        rows = tuple(_number(group, _GROUP_ROWS) for group in _list(footer, _GROUPS, STRUCT))
        if sum(rows) != _number(footer, _ROWS):
            raise ValueError("its row groups have another number of rows than it says")
        _refuse_overlaps(chunk for group in groups for chunk in group)
        last = max((place for group in _list(footer, _GROUPS, STRUCT) for place in _ends(group)), default=len(_MAGIC))
        cleaned = thrift.written(_cleaned(footer))
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("its footer lacks a field or ends too early") from error
    _metadata(content)  # Arrow knows which fields a struct must have, also of those that it is not handed
    return Footer(leaves, rows, groups, last, _metadata(cleaned))


def _metadata(footer: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC))


def _leaves(footer: Struct) -> Iterator[Leaf]:
    """The columns that have values, in the order of the schema, which is a tree in preorder."""
    root, *elements = _list(footer, _SCHEMA, STRUCT)
    open_: list[tuple[int, str, int, int]] = [(_number(root, _CHILDREN), "", 0, 0)]
    for element in elements:
        while open_ and open_[-1][0] == 0:
            open_.pop()
        if not open_ or len(open_) > _DEEPEST:
            raise ValueError("its schema is not a tree, or nested too deeply")
        left, above, definitions, repetitions = open_.pop()
        open_.append((left - 1, above, definitions, repetitions))
        name: str = element[_NAME].value.decode()
        path = f"{above}{name}"
        repetition = _number(element, _REPETITION, _REQUIRED)
        if repetition > _REPEATED:
            raise ValueError(f"column {path} is neither required nor optional nor repeated")
        definitions += repetition != _REQUIRED
        repetitions += repetition == _REPEATED
        children = _number(element, _CHILDREN, 0)
        if children:
            open_.append((children, f"{path}.", definitions, repetitions))
        elif _TYPE in element:
            yield Leaf(path, _number(element, _TYPE), _number(element, _WIDTH, 0), definitions, repetitions)
    if any(left for left, *_ in open_):
        raise ValueError("its schema is not a tree")


def _group(group: Struct, leaves: tuple[Leaf, ...], end: int) -> tuple[Chunk, ...]:
    chunks = _list(group, _COLUMNS, STRUCT)
    if len(chunks) != len(leaves):
        raise ValueError(f"a row group has {len(chunks)} columns where the schema has {len(leaves)}")
    rows = _number(group, _GROUP_ROWS)
    return tuple(_chunk(chunk, leaf, rows, end) for chunk, leaf in zip(chunks, leaves, strict=True))


def _chunk(chunk: Struct, leaf: Leaf, rows: int, end: int) -> Chunk:
    if chunk.get(_FILE_PATH, Field(0, b"")).value or _CRYPTO in chunk:
        raise ValueError(f"the values of column {leaf.path} are in another file, or encrypted")
    if chunk[_META].kind != STRUCT:
        raise ValueError("its footer has a field of another type")
    meta: Struct = chunk[_META].value
    said = b".".join(_list(meta, _PATH, thrift.BINARY)).decode()
    if _number(meta, _CHUNK_TYPE) != leaf.type or (said and said != leaf.path):
        raise ValueError(f"the schema and a row group differ on the type or place of column {leaf.path}")
    values, size = _number(meta, _VALUES), _number(meta, _PACKED)
    if values < rows if leaf.is_repeated else values != rows:
        raise ValueError(f"column {leaf.path} has {values:,} values in a row group of {rows:,} rows")
    first, dictionary = _number(meta, _DATA_AT), _number(meta, _DICTIONARY_AT, 0)
    start = dictionary if 0 < dictionary < first else first
    if values and (start < len(_MAGIC) or start + size > end or first >= start + size):
        raise ValueError(f"the pages of column {leaf.path} would begin or end outside of the file")
    _check_histograms(meta, leaf)
    return Chunk(leaf, start, size, values, rows, _null_count(meta, values))


def _check_histograms(meta: Struct, leaf: Leaf) -> None:
    """How often each level occurs, where the writer has counted: another number of levels is another schema."""
    found = meta.get(_SIZE_STATISTICS)
    if found is None or found.kind != STRUCT:
        return
    for field, highest in ((_REPETITION_HISTOGRAM, leaf.repetitions), (_DEFINITION_HISTOGRAM, leaf.definitions)):
        counts = _list(found.value, field, I64)
        if counts and len(counts) != highest + 1:
            raise ValueError(f"the schema and a row group differ on what is optional in column {leaf.path}")


def _ends(group: Struct) -> Iterator[int]:
    """Where the pages, indexes and Bloom filters of a row group end, as far as the footer says."""
    for chunk in _list(group, _COLUMNS, STRUCT):
        meta: Struct = chunk[_META].value
        dictionary = _number(meta, _DICTIONARY_AT, 0)
        first = _number(meta, _DATA_AT)
        yield min(first, dictionary or first) + _number(meta, _PACKED)
        for struct, at, size in _ELSEWHERE:
            found = meta if struct == _META else chunk
            if at in found and size in found:
                yield _number(found, at) + _number(found, size)


def _null_count(meta: Struct, values: int) -> int | None:
    statistics = meta.get(_STATISTICS)
    if statistics is None or statistics.kind != STRUCT or _NULL_COUNT not in statistics.value:
        return None
    count = statistics.value[_NULL_COUNT].value
    return count if isinstance(count, int) and 0 <= count <= values else None


def _refuse_overlaps(chunks: Iterator[Chunk]) -> None:
    placed = sorted((c for c in chunks if c.values), key=lambda chunk: chunk.start)
    for one, other in pairwise(placed):
        if one.start + one.size > other.start:
            raise ValueError(f"the pages of the columns {one.leaf.path} and {other.leaf.path} overlap")


def _cleaned(footer: Struct) -> Struct:
    kept = _only(footer, _KEPT_FILE)
    groups = [_only(group, _KEPT_GROUP) for group in _list(footer, _GROUPS, STRUCT)]
    for group in groups:
        chunks = [_only(chunk, _KEPT_CHUNK) for chunk in _list(group, _COLUMNS, STRUCT)]
        for chunk in chunks:
            chunk[_META] = Field(STRUCT, _only(chunk[_META].value, _KEPT_META))
        group[_COLUMNS] = Field(LIST, Field(STRUCT, chunks))
    kept[_GROUPS] = Field(LIST, Field(STRUCT, groups))
    return kept


def _only(struct: Struct, numbers: frozenset[int]) -> Struct:
    return {number: field for number, field in struct.items() if number in numbers}


def _number(struct: Struct, field: int, missing: int | None = None) -> int:
    """A number that is not negative, as all in a footer that dynq reads."""
    if field not in struct and missing is not None:
        return missing
    kind, value = struct[field]
    if kind not in (I32, I64) or value < 0:
        raise ValueError("its footer or a page header has a number that is negative or of another type")
    return int(value)


def _list(struct: Struct, field: int, kind: int) -> list[Any]:
    if field not in struct:
        return []
    found = struct[field]
    if found.kind != LIST or (found.value.kind != kind and found.value.value):
        raise ValueError("its footer has a field of another type")
    items: list[Any] = found.value.value
    return items


def read_pages(path: str, chunk: Chunk) -> Pages:
    """Walk through the page headers of a chunk. ValueError where they do not lead to all of its values."""
    with open(path, "rb", buffering=0) as file:
        try:
            return _walked(file.fileno(), chunk)
        except (IndexError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a page header of column {chunk.leaf.path} lacks a field or ends too early") from error


def _walked(file: int, chunk: Chunk) -> Pages:
    at, end = chunk.start, chunk.start + chunk.size
    values = unpacked = largest = longest = 0
    has_dictionary = False
    encodings: set[int] = set()
    name = chunk.leaf.path
    while values < chunk.values:
        header, length = _page_header(file, at, end)
        packed, whole = _number(header, _PAGE_PACKED), _number(header, _PAGE_UNPACKED)
        at += length + packed
        if at > end:
            raise ValueError(f"a page of column {name} goes past the end of the column")
        if whole > MOST_UNPACKED:
            raise ValueError(f"a page of column {name} unpacks to {whole:,} bytes, and {MOST_UNPACKED:,} is the most")
        kind = _number(header, _PAGE_KIND)
        count = 0
        if kind == _DICTIONARY_PAGE:
            if has_dictionary or values:
                raise ValueError(f"column {name} has a dictionary after its first page")
            has_dictionary = True
            count = _number(header[_DICTIONARY].value, 1)
        elif kind in (_DATA_PAGE, _DATA_PAGE_V2):
            data: Struct = header[_DATA if kind == _DATA_PAGE else _DATA_V2].value
            count = _number(data, 1)
            values += count
            encodings.add(_number(data, 2 if kind == _DATA_PAGE else 4))
            if kind == _DATA_PAGE_V2:
                _check_v2(data, count, min(packed, whole), chunk.leaf)
        unpacked += whole
        largest = max(largest, whole)
        longest = max(longest, whole // max(count, 1))
    if values != chunk.values:
        raise ValueError(f"the pages of column {name} have {values:,} values where the footer says {chunk.values:,}")
    has_deltas, has_prefixes = not _DELTAS.isdisjoint(encodings), _DELTA_BYTE_ARRAY in encodings
    return Pages(unpacked, largest, longest, has_dictionary, has_deltas, has_prefixes)


def _check_v2(data: Struct, count: int, size: int, leaf: Leaf) -> None:
    rows, nulls = _number(data, _V2_ROWS), _number(data, _V2_NULLS)
    if rows > count or nulls > count or (rows != count and not leaf.is_repeated):
        raise ValueError(f"a page of column {leaf.path} has more rows or NULLs than values")
    if sum(_number(data, field) for field in _V2_LEVELS) > size:
        raise ValueError(f"the levels of a page of column {leaf.path} are longer than the page")


def _page_header(file: int, at: int, end: int) -> tuple[Struct, int]:
    size = _HEADER
    while True:
        data = os.pread(file, min(size, max(end - at, 0)), at)
        try:
            return thrift.read_measured(data)
        except IndexError:
            if len(data) < size or size > _LONGEST_HEADER:
                raise
            size *= 16
