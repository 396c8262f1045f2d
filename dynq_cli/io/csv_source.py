r"""Rewrite the bytes of a CSV file to RFC 4180: quotes inside quotes are doubled, a backslash is a backslash.

Spark writes `\"` for a quote and `\\` for a backslash inside quotes, and leaves backslashes alone elsewhere. A file
is Spark's if it is named as Spark names its parts, or if it has a `\"` and cannot be read as RFC 4180. Its quoted
fields are respelled on the way; all other files pass as they are.

The stream ends with a row of its own, `MARK` in each column. A file that breaks off inside quotes swallows it, so a
reader that does not find it has not read whole rows.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

BLOCK = 4 << 20
MARK = "\x1e\x04dynq end of file\x04\x1e"

_SPARK_NAME = re.compile(r"part-\d{5}-")
# No possessive repetition (`*+`): Python before 3.11.5 reads on behind its end, now and then.
_QUOTED = re.compile(rb'(?:\A|(?<=[,\r\n]))"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"?', re.DOTALL)
_ESCAPED = re.compile(rb'\\(["\\])')
_DOUBLED = re.compile(rb'"[^"]*(?:""[^"]*)*"?', re.DOTALL)
_AROUND_FIELDS = b",\r\n"
_SEPARATOR = re.compile(rb"[,\r\n]")
_QUOTE = ord('"')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BESIDE_QUOTES = np.isin(np.arange(256), list(_AROUND_FIELDS + b'"'))
_LONGEST_FIELD = 8 << 20
_READ_AHEAD_ENDS = 1.0  # seconds; what has read far enough ahead is not running, and is waited for in vain


def uses_backslashes(path: str) -> bool:
    """Whether a backslash escapes quotes in this file. O(bytes), mostly at the speed of a search for two bytes."""
    if _SPARK_NAME.match(os.path.basename(path)):
        return True
    before = b""
    for block in _blocks(path):
        if b'\\"' in before + block:
            return not _is_strict(path)
        before = block[-1:]
    return False


def _is_strict(path: str) -> bool:
    """Whether quotes are as RFC 4180 has them: around whole fields, and doubled inside."""
    rest = b"\n"  # what is not decided yet, after the byte before it
    for block in _blocks(path):
        data = rest + block
        start = data.find(b'"', 1)
        while start > 0:
            end = _end_of_quoted(data, start)
            if end == len(data):
                break
            if data[start - 1] not in _AROUND_FIELDS or data[end] not in _AROUND_FIELDS:
                return False
            start = data.find(b'"', end)
        rest = data[start - 1 :] if start > 0 else data[-1:]
        if len(rest) > _LONGEST_FIELD:
            return False
    closed = re.fullmatch(rb'[,\r\n]"[^"]*(?:""[^"]*)*"', rest)
    return closed is not None or b'"' not in rest[1:]


def _end_of_quoted(data: bytes, start: int) -> int:
    found = _DOUBLED.match(data, start)
    return found.end() if found else start


class _End(bytes):
    """The end of a file; `gone` is set when Arrow, which asks for nothing after it, has let go of it."""

    def __new__(cls, gone: threading.Event) -> _End:
        return super().__new__(cls)

    def __init__(self, gone: threading.Event) -> None:
        self._gone = gone

    def __del__(self) -> None:
        self._gone.set()


class CsvSource:
    """A file to hand to Arrow's CSV reader; `columns` is how many fields the mark's row has."""

    def __init__(self, path: str, columns: int, *, backslashes: bool) -> None:
        self._stream = pa.input_stream(path, compression="detect")

        def spelled(blocks: Iterator[bytes]) -> Iterator[bytes]:
            return _respelled(blocks) if backslashes else blocks

        strict = _strict(spelled(_blocks_of(self._stream)), lambda: spelled(_blocks(path)))
        self._pieces = _with_mark(strict, columns)
        self._rest = bytearray()
        self._reading = threading.Lock()
        self._is_over = threading.Event()
        self.closed = False

    def read(self, size: int) -> bytes:
        """So many bytes, less only at the end: Arrow takes what it gets for a block, which must have whole rows."""
        with self._reading:
            while len(self._rest) < size and not self.closed:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest += piece
            taken = b"" if self.closed else bytes(self._rest[:size])
            del self._rest[:size]
            return taken or _End(self._is_over)

    def close(self) -> None:
        """Let the thread that reads ahead for Arrow come to its end, which it meets at its next read.

        Arrow waits for it when the reader goes, and Python when it ends; neither lets it call back, and both would hang
        or abort.
        """
        self.closed = True
        with self._reading:
            self._rest.clear()
        self._is_over.wait(_READ_AHEAD_ENDS)
        self._stream.close()

    def readable(self) -> bool:
        return True


def _blocks(path: str) -> Iterator[bytes]:
    with pa.input_stream(path, compression="detect") as stream:
        yield from _blocks_of(stream)


def _blocks_of(stream: pa.NativeFile) -> Iterator[bytes]:
    """The bytes of a file without a byte order mark, behind which a quoted field would not seem to begin."""
    mark = _BYTE_ORDER_MARK
    while block := stream.read(BLOCK):
        yield block.removeprefix(mark)
        mark = b""


def _with_mark(blocks: Iterator[bytes], columns: int) -> Iterator[bytes]:
    last = b""
    for block in blocks:
        last = block[-1:] or last
        yield block
    if last and columns:
        newline = b"" if last in (b"\n", b"\r") else b"\n"
        yield newline + ",".join([MARK] * columns).encode() + b"\n"


def _strict(blocks: Iterator[bytes], again: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """The blocks as they are. ValueError where a field goes on after its closing quote, which Arrow reads somehow.

    A quote that is lost swallows rows up to the next one, which is then followed by text. `again` has all blocks anew.
    """
    last, is_open, is_checked = b"\n\n", False, False
    for block in blocks:
        if not is_checked and (b'"' in block or b'"' in last):
            data = last + block
            are_paired, is_open = _are_paired(data, is_open)
            if not are_paired:
                _refuse_text_after_quotes(again())
                is_checked = True
            last = data[-2:]
        else:
            last = (last + block)[-2:]
        yield block


def _are_paired(data: bytes, is_open: bool) -> tuple[bool, bool]:
    """Whether quotes open after separators and close before them, or are doubled; and whether the last one opens.

    Of all quotes but those at the first and the last byte. False also where fields without quotes around them have
    quotes inside. O(bytes), vectorised.
    """
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes[1:-1] == _QUOTE) + 1
    opening, closing = quotes[int(is_open) :: 2], quotes[1 - int(is_open) :: 2]
    fits = _BESIDE_QUOTES[codes[opening - 1]].all() and _BESIDE_QUOTES[codes[closing + 1]].all()
    return bool(fits), is_open ^ bool(len(quotes) % 2)


def _refuse_text_after_quotes(blocks: Iterator[bytes]) -> None:
    """ValueError at a quoted field that goes on after its closing quote. O(bytes), streamed."""
    rest, lines = b"\n", 0  # what is not decided yet, after the byte before it
    for block in blocks:
        data = rest + block
        at = 1
        while (start := data.find(b'"', at)) > 0:
            if data[start - 1] in _AROUND_FIELDS:
                end = _end_of_quoted(data, start)
                if end < len(data) and data[end] not in _AROUND_FIELDS:
                    line = lines + data.count(b"\n", 1, end) + 1
                    raise ValueError(f"line {line}: a field goes on after its closing quote: double quotes inside")
            else:
                separator = _SEPARATOR.search(data, start)
                end = separator.start() if separator else len(data)
            if end == len(data):
                break
            at = end
        cut = start - 1 if start > 0 else len(data) - 1
        lines += data.count(b"\n", 1, cut + 1)
        rest = data[cut:]
        if len(rest) > _LONGEST_FIELD:
            return  # too long for a row, as will be said


def _respelled(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""  # begins where a field begins
    for block in blocks:
        data = rest + block
        cut = _last_field(data)
        if len(data) - cut > _LONGEST_FIELD:
            raise ValueError(f"a field is longer than {_LONGEST_FIELD >> 20} MiB, or a quote is never closed")
        yield _QUOTED.sub(_respell, data[:cut])
        rest = data[cut:]
    yield _QUOTED.sub(_respell, rest)


def _last_field(data: bytes) -> int:
    """Where the last field begins that may not be whole."""
    start = end = 0
    for found in _QUOTED.finditer(data):
        if found.end() == len(data):
            return found.start()
        start, end = found.span()
    after = max(data.rfind(mark, end) for mark in (b",", b"\n", b"\r")) + 1
    return after or start


def _respell(found: re.Match[bytes]) -> bytes:
    text = found.group()
    if b"\\" not in text:
        return text
    return _ESCAPED.sub(lambda escape: b'""' if escape[1] == b'"' else b"\\", text)
