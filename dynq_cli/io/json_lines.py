"""Read JSON lines, one object at a time. Blank lines are skipped; an error names the number of its line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa

_LONGEST_LINE = 16 << 20
_BUFFER = 1 << 16
_ONE_PER_LINE = "each line has to be one whole object"

Row = dict[str, Any]


class _TwiceError(Exception):
    """A key that an object has twice."""


def read_rows(path: str) -> Iterator[tuple[int, int, Row]]:
    """The number of each line, its bytes and its object; numbers that are not whole are floats."""
    for number, line in _lines(path):
        row = _parse(number, line, json.JSONDecoder())
        if row is None:
            raise _no_object(number)
        yield number, len(line), row


def read_exact_rows(path: str) -> Iterator[tuple[int, int, Row]]:
    """As `read_rows`, with Decimals instead of floats, for change logs.

    A line that is `null` is an empty object, as the tombstones of Kafka are written. A key that an object has twice
    is an error.
    """
    decoder = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=_unique)
    for number, line in _lines(path):
        row = _parse(number, line, decoder)
        yield number, len(line), {} if row is None else row


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    with pa.input_stream(path, compression="detect") as stream, io.BufferedReader(stream, _BUFFER) as lines:
        number = 0
        while line := lines.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise ValueError(f"line {number} is longer than {_LONGEST_LINE >> 20} MiB")
            if line.strip():
                yield number, line
            else:
                number += _skip_blank(lines)


def _skip_blank(lines: io.BufferedReader) -> int:
    """Go past whole blank lines that are read already; how many. A file of kilobytes unpacks to millions of them."""
    read = lines.peek()
    blank = read[: len(read) - len(read.lstrip())]
    return lines.read(blank.rfind(b"\n") + 1).count(b"\n")


def _unique(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return row


def _parse(number: int, line: bytes, decoder: json.JSONDecoder) -> Row | None:
    try:
        row = decoder.decode(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.pos + 1}: {error.msg}; {_ONE_PER_LINE}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"line {number}, byte {error.start + 1} is not UTF-8: save the file as UTF-8") from error
    except _TwiceError as error:
        raise ValueError(f"line {number} has the column {error} twice") from error
    except ValueError as error:  # Python's limit on the digits of an integer
        raise ValueError(f"line {number} holds an integer of thousands of digits: write it as a string") from error
    except RecursionError as error:
        raise ValueError(f"line {number} is nested too deeply: flatten it first") from error
    if row is not None and not isinstance(row, dict):
        raise _no_object(number)
    return row


def _no_object(number: int) -> ValueError:
    return ValueError(f'line {number}: expected an object, {{"column": value, ...}}; {_ONE_PER_LINE}')
