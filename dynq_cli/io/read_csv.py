r"""Read CSV with a header, every field as text: an empty field without quotes is NULL, `""` is the empty string.

Quotes inside quotes may be doubled or, as Spark writes them, escaped by a backslash (`csv_source`). A file that ends
inside quotes is refused: it was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache

import pyarrow as pa
from pyarrow import csv

from dynq_cli.io.csv_source import BLOCK, MARK, CsvSource, uses_backslashes
from dynq_cli.io.raw import Raw
from dynq_cli.spec.shown import visible

_CUT_OFF = "it ends inside quotes: it was cut off, or a quote is never closed"
_ROW = re.compile(r"(?:CSV parse error: )?\bRow #(\d+)")
_KEPT = 1 << 14
_FIELD = re.compile(r"In CSV column #(\d+): (Row #\d+)")


def header(path: str) -> list[str]:
    """The names of the columns, as often as they stand there; reads the first row only."""
    with pa.input_stream(path, compression="detect") as stream:
        start = stream.read(BLOCK)
    first = _first_row(start) or start
    return list(_known_names(first) if len(first) <= _KEPT else _names_in(first))


def _names_in(start: bytes) -> tuple[str, ...]:
    """The names in a first row."""
    with _explained():
        options = csv.ReadOptions(block_size=BLOCK, use_threads=False)
        names: list[str] = csv.open_csv(
            pa.BufferReader(start), read_options=options, parse_options=_dialect()
        ).schema.names
    return tuple(names)


# Kept, as the parser takes longer to start than to read a small file.
_known_names = lru_cache(64)(_names_in)


def _first_row(start: bytes) -> bytes:
    """Up to the first end of a line that is not inside quotes, empty lines left out."""
    row = b""
    for line in start.splitlines(keepends=True):
        if row or line.strip():
            row += line
            if row.count(b'"') % 2 == 0:
                break
    return row


def read(path: str) -> Iterator[Raw]:
    """All columns by position, a few megabytes of text at a time; first a piece of no rows."""
    names = header(path)
    yield Raw(names, [pa.array([], pa.string()) for _ in names], 0)
    for batch in _read(path, names, []):
        yield Raw(names, batch.columns, batch.num_rows)


def stream(path: str, wanted: Collection[str] | None, given: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The columns `wanted` of all rows (None: all), a few megabytes of text at a time; no name stands twice.

    `given` are the names of columns of a file without header.
    """
    names = list(given) or header(path)
    kept = names if wanted is None else [name for name in names if name in wanted]
    # Without any column Arrow does not say how many rows there are.
    for batch in _read(path, names, kept or names[:1], has_header=not given):
        yield batch.select(kept)


def _read(path: str, names: list[str], kept: list[str], *, has_header: bool = True) -> Iterator[pa.RecordBatch]:
    convert = csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        include_columns=kept,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = _dialect()
    parse.ignore_empty_lines = len(names) > 1
    # One thread: only then do errors carry the row's number.
    options = csv.ReadOptions(block_size=BLOCK, use_threads=False, column_names=None if has_header else names)
    backslashes = uses_backslashes(path)
    with closing(CsvSource(path, len(names), backslashes=backslashes)) as source, _explained(names, int(has_header)):
        yield from _without_mark(
            csv.open_csv(source, read_options=options, parse_options=parse, convert_options=convert)
        )


def _dialect() -> csv.ParseOptions:
    return csv.ParseOptions(newlines_in_values=True, double_quote=True, escape_char=False)


def _without_mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    last = None
    for batch in batches:
        if batch.num_rows:
            if last is not None:
                yield last
            last = batch
    if last is None or any(column[-1].as_py() != MARK for column in last.columns):
        raise ValueError(_CUT_OFF)
    yield last.slice(0, last.num_rows - 1)


@contextmanager
def _explained(names: Sequence[str] = (), headers: int = 1) -> Iterator[None]:
    """Arrow's complaints with columns by name, and rows counted as everywhere else: from 1, without the header."""
    try:
        yield
    except pa.ArrowInvalid as error:
        said = str(error)
        if "cannot infer number of columns" in said:
            raise ValueError(f"it has no header line that ends within {BLOCK >> 20} MiB") from error
        if "straddling" in said:
            raise ValueError(f"a row is longer than {BLOCK >> 20} MiB, or a quote is never closed") from error
        if MARK in said:
            raise ValueError(_CUT_OFF) from error
        said = _FIELD.sub(lambda field: f"{field[2]}, column {visible(names[int(field[1])])}", said)
        raise ValueError(_ROW.sub(lambda row: f"row {int(row[1]) - headers}", said)) from error
