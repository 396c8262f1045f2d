"""Damaged data files: a seed is a file, the same each time with the same libraries.

    mutant(seed)    an intact file, changed in one of many ways: bits, bytes, blocks, pages, metadata that lies

`HOW` has the ways that know the format; seven files of ten are changed in one of those, since most of the others are
refused by the first check.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from dynq_cli.io import thrift
from dynq_cli.io.thrift import BINARY, DOUBLE, FALSE, I16, I32, I64, LIST, SET, TRUE, Field, Struct
from tests.crash.intact_files import Intact, files
from tests.crash.parquet_parts import (
    PAGE_CHECKSUM,
    Page,
    Parts,
    footer_at,
    structs,
    with_footer,
    with_length,
)

Way = Callable[[bytes, Random], bytes]
_NUMBERS = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 1000, 65_535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_NUMBERS_64 = (1 << 40, (1 << 62) + 1, (1 << 63) - 1)


@dataclass(frozen=True)
class Mutant:
    """A damaged file; `way` is the name of what was done to it."""

    seed: int
    intact: Intact
    way: str
    data: bytes

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.way} of {self.intact.name}"


def mutant(seed: int) -> Mutant:
    """The file of a seed. O(its bytes)."""
    chance = Random(seed)
    form = chance.choices(("parquet", "arrow", "csv", "jsonl"), (62, 20, 9, 9))[0]
    intact = chance.choice([file for file in files().values() if file.form == form])
    ways = {**ANY, **HOW[form]}
    name = chance.choice(list(HOW[form] if chance.random() < 0.7 else ANY))
    data = intact.data
    for _ in range(20):
        try:
            data = ways[name](intact.data, chance)
        except _NothingHereError:
            name = chance.choice(list(ANY))
        if data != intact.data:
            break
    return Mutant(seed, intact, name, data)


class _NothingHereError(Exception):
    """The file has nothing that could be changed in this way."""


def flip(data: bytes, chance: Random, first: int = 0, last: int | None = None) -> bytes:
    """One bit of the bytes from `first` to before `last`."""
    place = chance.randrange(first, len(data) if last is None else last)
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def _flips(data: bytes, chance: Random) -> bytes:
    for _ in range(chance.randrange(2, 9)):
        data = flip(data, chance)
    return data


def _overwrite(data: bytes, chance: Random) -> bytes:
    place = chance.randrange(len(data))
    size = chance.choice((1, 1, 2, 4, 8, 16))
    many = chance.choice((b"\0", b"\xff", b"\x7f", b"\x80", None))
    new = chance.randbytes(size) if many is None else many * size
    return data[:place] + new[: len(data) - place] + data[place + size :]


def _cut(data: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _cut_begin(data: bytes, chance: Random) -> bytes:
    return data[chance.randrange(1, len(data)) :]


def _block(data: bytes, chance: Random) -> tuple[int, int]:
    size = min(chance.choice((1, 4, 8, 64, 512)), len(data))
    start = chance.randrange(len(data) - size + 1)
    return start, start + size


def _remove(data: bytes, chance: Random) -> bytes:
    start, end = _block(data, chance)
    return data[:start] + data[end:]


def _repeat(data: bytes, chance: Random) -> bytes:
    start, end = _block(data, chance)
    return data[:end] + data[start:]


def _swap(data: bytes, chance: Random) -> bytes:
    (a, b), (c, d) = sorted((_block(data, chance), _block(data, chance)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _insert(data: bytes, chance: Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.randbytes(chance.choice((1, 1, 2, 8))) + data[place:]


def _append(data: bytes, chance: Random) -> bytes:
    return data + chance.choice((b"\0", b"\n", data, data[: chance.randrange(len(data))], chance.randbytes(9)))


ANY: dict[str, Way] = {
    "a flipped bit": flip,
    "flipped bits": _flips,
    "overwritten bytes": _overwrite,
    "a cut end": _cut,
    "a cut begin": _cut_begin,
    "a removed block": _remove,
    "a repeated block": _repeat,
    "swapped blocks": _swap,
    "inserted bytes": _insert,
    "appended bytes": _append,
}


# Parquet


def _flip_in_footer(data: bytes, chance: Random) -> bytes:
    return flip(data, chance, footer_at(data))


def _flip_before_footer(data: bytes, chance: Random) -> bytes:
    return flip(data, chance, 4, max(footer_at(data), 5))


def _lie_in_footer(data: bytes, chance: Random) -> bytes:
    footer = thrift.read(data[footer_at(data) : -8])
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        lie(footer, chance)
    return with_footer(data, footer)


def _lie_of_a_kind(number: int, value: Callable[[int, Random], int], within: int) -> Way:
    """Change one field by its number, in structs that have the field `within` as well."""

    def change(data: bytes, chance: Random) -> bytes:
        footer = thrift.read(data[footer_at(data) : -8])
        found = [s for s in structs(footer) if number in s and within in s and isinstance(s[number].value, int)]
        if not found:
            raise _NothingHereError
        struct = chance.choice(found)
        struct[number] = Field(struct[number].kind, value(struct[number].value, chance))
        return with_footer(data, footer)

    return change


def _raw_footer(data: bytes, chance: Random) -> bytes:
    """Bytes of the footer that are inserted or removed; its length is right."""
    footer = data[footer_at(data) : -8]
    change = chance.choice((_remove, _repeat, _insert, _overwrite, _cut, _swap))
    return data[: footer_at(data)] + with_length(change(footer, chance))


def _wide_number(data: bytes, chance: Random) -> bytes:
    """A number of the footer in more bytes than it needs, or than 64 bits need."""
    footer = bytearray(data[footer_at(data) : -8])
    place = chance.choice([i for i, byte in enumerate(footer) if byte < 0x80] or [0])
    footer[place : place + 1] = bytes([footer[place] | 0x80]) + b"\x80" * chance.choice((0, 3, 8, 12)) + b"\0"
    return data[: footer_at(data)] + with_length(bytes(footer))


def _of_another_file(data: bytes, chance: Random) -> bytes:
    """The footer of a file that has the same columns."""
    name = next(name for name, file in files().items() if file.data == data)
    others = [f.data for f in files().values() if f.form == "parquet" and f.name != name and f.relation == name[:4]]
    if not others:
        others = [f.data for f in files().values() if f.form == "parquet" and f.name != name]
    other = chance.choice(others)
    return data[: footer_at(data)] + other[footer_at(other) :]


def _parts(data: bytes) -> Parts:
    parts = Parts.of(data)
    if not any(chunk.pages for chunk in parts.chunks):
        raise _NothingHereError
    return parts


def _lie_in_page_header(data: bytes, chance: Random) -> bytes:
    parts = _parts(data)
    page = _some_page(parts, chance)
    for _ in range(chance.choice((1, 1, 2))):
        lie(page.header, chance)
    return parts.joined()


def _some_page(parts: Parts, chance: Random) -> Page:
    return chance.choice(chance.choice([chunk for chunk in parts.chunks if chunk.pages]).pages)


def _move_pages(data: bytes, chance: Random) -> bytes:
    parts = _parts(data)
    chunk = chance.choice([chunk for chunk in parts.chunks if chunk.pages])
    other = chance.choice([chunk for chunk in parts.chunks if chunk.pages])
    here, there = chance.randrange(len(chunk.pages)), chance.randrange(len(other.pages))
    what = chance.randrange(5)
    if what == 0:
        del chunk.pages[here]
    elif what == 1:
        chunk.pages.insert(here, copy.deepcopy(chunk.pages[here]))
    elif what == 2:
        chunk.pages[here], other.pages[there] = other.pages[there], chunk.pages[here]
    elif what == 3:
        chunk.pages[here] = copy.deepcopy(other.pages[there])
    else:
        chunk.pages[here].header, other.pages[there].header = other.pages[there].header, chunk.pages[here].header
    return parts.joined()


def _swap_chunks(data: bytes, chance: Random) -> bytes:
    parts = _parts(data)
    one, other = chance.choice(parts.chunks), chance.choice(parts.chunks)
    one.pages, other.pages = other.pages, one.pages
    return parts.joined()


def _change_content(change: Way) -> Way:
    """Change what a page holds once it is unpacked, and pack it again: sizes and the checksum are right."""

    def changed(data: bytes, chance: Random) -> bytes:
        parts = _parts(data)
        chunk = chance.choice([chunk for chunk in parts.chunks if chunk.pages])
        page = chance.choice(chunk.pages)
        content = page.unpacked(chunk.codec)
        if not content:
            raise _NothingHereError
        page.pack(change(content, chance), chunk.codec)
        if PAGE_CHECKSUM in page.header:
            page.header[PAGE_CHECKSUM] = Field(I32, _signed(zlib.crc32(page.body), 32))
        return parts.joined()

    return changed


def _begin_of_content(content: bytes, chance: Random) -> bytes:
    """The first bytes say lengths: of levels, of the bits of an index, of blocks of deltas."""
    return flip(content, chance, 0, min(8, len(content)))


def _claim(content: bytes, chance: Random) -> bytes:
    """A length of four bytes somewhere."""
    place = chance.randrange(max(len(content) - 3, 1))
    size = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(content), len(content) - place, 1 << 30))
    return content[:place] + size.to_bytes(4, "little") + content[place + 4 :]


def lie(struct: Struct, chance: Random) -> None:
    """Change one field of a struct or of a struct in it."""
    inside = [s for s in structs(struct) if s]
    if not inside:
        return
    at = chance.choice(inside)
    number = chance.choice(list(at))
    kind, value = at[number]
    what = chance.random()
    if what < 0.06:
        del at[number]
    elif what < 0.1:
        at[number] = Field(chance.randrange(1, 13), value) if kind in (I16, I32, I64) else Field(I32, 7)
    elif what < 0.14:
        at[chance.randrange(1, 40)] = at[number]
    elif what < 0.18:
        other = chance.choice([s for s in structs(struct) if s])
        at[number] = copy.deepcopy(other.get(number, at[number]))  # it may be around this one
    else:
        at[number] = _other(at[number], chance)
    # A field whose value is not of its kind could not be written.
    if not _fits(at.get(number)):
        at[number] = Field(I32, chance.choice(_NUMBERS))


def _fits(field: Field | None) -> bool:
    if field is None:
        return True
    if field.kind in (I16, I32, I64):
        return isinstance(field.value, int)
    if field.kind in (BINARY, DOUBLE, thrift.BYTE):
        return isinstance(field.value, bytes)
    if field.kind in (LIST, SET):
        return isinstance(field.value, Field) and isinstance(field.value.value, list)
    return isinstance(field.value, dict) if field.kind == thrift.STRUCT else field.kind in (TRUE, FALSE)


def _other(field: Field, chance: Random) -> Field:
    kind, value = field
    if kind in (TRUE, FALSE):
        return Field(FALSE if kind == TRUE else TRUE, kind == FALSE)
    if kind in (I16, I32, I64):
        return Field(kind, _number(value, chance))
    if kind in (BINARY, DOUBLE, thrift.BYTE):
        return Field(kind, _bytes(value, chance) if kind == BINARY else flip(value, chance))
    if kind in (LIST, SET):
        return Field(kind, Field(value.kind, _items(list(value.value), chance)))
    return field


def _number(value: int, chance: Random) -> int:
    near = (value + 1, value - 1, value * 2, value // 2, -value, value ^ 1 << chance.randrange(31))
    return chance.choice((*near, *near, *_NUMBERS, *_NUMBERS_64, -1, -(1 << 63)))


def _bytes(value: bytes, chance: Random) -> bytes:
    ways: list[Callable[[], bytes]] = [
        lambda: flip(value, chance) if value else b"x",
        lambda: b"",
        lambda: value[:-1],
        lambda: value + value,
        lambda: value + b"\0",
        lambda: b"\xff\xfe" + value,
        lambda: b"x" * 1000,
        lambda: value + b"." + value,
        lambda: chance.choice((b"a", b"b", b"op", b"_change_type", b"_count", b"_relation", b"_commit_version")),
    ]
    return chance.choice(ways)()


def _items(items: list[Any], chance: Random) -> list[Any]:
    if not items:
        return items
    place = chance.randrange(len(items))
    what = chance.randrange(5)
    if what == 0:
        del items[place]
    elif what == 1:
        items.insert(place, copy.deepcopy(items[place]))
    elif what == 2:
        other = chance.randrange(len(items))
        items[place], items[other] = items[other], items[place]
    elif what == 3:
        items = [copy.deepcopy(items[place]) for _ in range(200)]
    else:
        items = []
    return items


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


_PARQUET: dict[str, Way] = {
    "a flipped bit in the footer": _flip_in_footer,
    "a flipped bit in the pages": _flip_before_footer,
    "a lie in the footer": _lie_in_footer,
    "lies in the footer": _lie_in_footer,
    "a damaged footer of the right length": _raw_footer,
    "a number of many bytes": _wide_number,
    "the footer of another file": _of_another_file,
    "another number of values": _lie_of_a_kind(5, _number, 9),
    "another offset": _lie_of_a_kind(9, _number, 5),
    "another offset of the dictionary": _lie_of_a_kind(11, _number, 9),
    "another size": _lie_of_a_kind(7, _number, 9),
    "another codec": _lie_of_a_kind(4, lambda value, chance: chance.randrange(9), 9),
    "another physical type": _lie_of_a_kind(1, lambda value, chance: chance.randrange(9), 4),
    "another repetition": _lie_of_a_kind(3, lambda value, chance: chance.randrange(4), 4),
    "another converted type": _lie_of_a_kind(6, lambda value, chance: chance.randrange(-1, 23), 4),
    "another number of rows": _lie_of_a_kind(3, _number, 1),
    "a lie in a page header": _lie_in_page_header,
    "lies in a page header": _lie_in_page_header,
    "moved pages": _move_pages,
    "swapped columns": _swap_chunks,
    "a flipped bit in a page": _change_content(flip),
    "flipped bits in a page": _change_content(_flips),
    "a flipped bit where a page begins": _change_content(_begin_of_content),
    "a claimed length in a page": _change_content(_claim),
    "overwritten bytes in a page": _change_content(_overwrite),
    "a page that is shorter": _change_content(_cut),
    "a page that is longer": _change_content(_append),
    "a removed block in a page": _change_content(_remove),
}


# Arrow


def _messages(data: bytes) -> list[tuple[int, int, int]]:
    """The messages of a file or stream: where each begins, where its body begins and where it ends."""
    start = 8 if data.startswith(b"ARROW1") else 0
    source = pa.BufferReader(data)
    source.seek(start)
    found = []
    for message in ipc.MessageReader.open_stream(source):
        end = source.tell()
        found.append((start, end - (message.body.size if message.body is not None else 0), end))
        start = end
    return found


def _in_metadata(change: Way) -> Way:
    """Change the metadata of a message, or the index at the end of a file."""

    def changed(data: bytes, chance: Random) -> bytes:
        messages = _messages(data)
        places = [(start, body) for start, body, _ in messages]
        places.append((messages[-1][2], len(data)))
        start, end = chance.choice(places)
        return data[:start] + change(data[start:end], chance) + data[end:]

    return changed


def _in_body(change: Way) -> Way:
    def changed(data: bytes, chance: Random) -> bytes:
        places = [(body, end) for _, body, end in _messages(data) if end > body]
        start, end = chance.choice(places)
        return data[:start] + change(data[start:end], chance) + data[end:]

    return changed


def _word(data: bytes, chance: Random) -> bytes:
    """A number of one to eight bytes, where such numbers stand."""
    size = chance.choice((1, 2, 4, 4, 8, 8))
    if len(data) < size:
        raise _NothingHereError
    place = chance.randrange(0, len(data) - size + 1, min(size, 4))
    value = int.from_bytes(data[place : place + size], "little")
    new = chance.choice((value + 1, value - 1, value * 2, *_NUMBERS, *_NUMBERS_64, -1, -2))
    return data[:place] + (new % (1 << 8 * size)).to_bytes(size, "little") + data[place + size :]


def _move_messages(data: bytes, chance: Random) -> bytes:
    messages = [(start, end) for start, _, end in _messages(data)]
    pieces = [data[start:end] for start, end in messages]
    one, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
    what = chance.randrange(3)
    if what == 0:
        del pieces[one]
    elif what == 1:
        pieces.insert(other, pieces[one])
    else:
        pieces[one], pieces[other] = pieces[other], pieces[one]
    return data[: messages[0][0]] + b"".join(pieces) + data[messages[-1][1] :]


def _as_a_stream(change: Way) -> Way:
    """A change of the same batches as a stream: no index notices."""

    def changed(data: bytes, chance: Random) -> bytes:
        messages = _messages(data)
        stream = data[messages[0][0] : messages[-1][2]] + b"\xff\xff\xff\xff\0\0\0\0"
        return change(stream, chance)

    return changed


_ARROW: dict[str, Way] = {
    "a flipped bit in metadata": _in_metadata(flip),
    "a number in metadata": _in_metadata(_word),
    "numbers in metadata": _in_metadata(lambda data, chance: _word(_word(data, chance), chance)),
    "a flipped bit in a body": _in_body(flip),
    "a number in a body": _in_body(_word),
    "a removed block in a body": _in_body(_remove),
    "moved batches": _move_messages,
    "moved batches of a stream": _as_a_stream(_move_messages),
    "a flipped bit of a stream": _as_a_stream(flip),
    "a number of a stream": _as_a_stream(_word),
}


# Texts


_SPECIAL = (
    *(b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\\", b'\\"', b";", b"\t"),
    *(b"{", b"}", b"[", b"]", b":", b"null", b"NaN", b"1e999", b"-", b"\xed\xa0\x80", b"\\ud800", b"\x1e", b"9" * 50),
)


def _special(data: bytes, chance: Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(_SPECIAL) + data[place + chance.randrange(2) :]


def _specials(data: bytes, chance: Random) -> bytes:
    for _ in range(chance.randrange(2, 5)):
        data = _special(data, chance)
    return data


def _lines(data: bytes, chance: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.randrange(3)
    if what == 0:
        del lines[one]
    elif what == 1:
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


_TEXT: dict[str, Way] = {
    "a special character": _special,
    "special characters": _specials,
    "a special character in the first line": lambda data, chance: _special(data[:60], chance) + data[60:],
    "moved lines": _lines,
}
HOW: dict[str, dict[str, Way]] = {"parquet": _PARQUET, "arrow": _ARROW, "csv": _TEXT, "jsonl": _TEXT}
