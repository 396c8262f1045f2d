"""Read a change log as a stream of chunks, in bounded memory, also if the file's metadata is wrong.

A chunk has at most `MOST_ROWS` rows, and at most `MOST_BYTES` bytes of decoded values, unless a single row has more.
Columns are not converted yet: texts of a CSV, Python values of JSON lines (Decimals for numbers that are not whole),
Arrow arrays otherwise. Arrays are validated, so that later reads stay in bounds. Dictionary-encoded texts of Parquet
stay encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dynq_cli.errors import RejectedError
from dynq_cli.io import json_lines, read_arrow, read_csv, sizes
from dynq_cli.io.damage import refusing
from dynq_cli.io.logs.model import Chunk, LogFile
from dynq_cli.lazy import Lazy
from dynq_cli.spec.shown import visible
from dynq_cli.values.convert import without_views

if TYPE_CHECKING:
    from dynq_cli.io import read_parquet
else:
    read_parquet = Lazy("dynq_cli.io.read_parquet")

_JSON_ROWS = 16_384
_SAMPLED_ROWS = 1_000
_SAMPLED_BYTES = 4 << 20


def schema_columns(file: LogFile) -> list[str]:
    """Return the names of a file's columns; for JSON lines, the keys of its first rows. Reads as little as possible.

    RejectedError for a damaged file and for a repeated name.
    """
    with refusing(file.path, file.format):
        if file.format == "jsonl":
            return _first_keys(file.path)
        names = _names(file)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise RejectedError(f"{file.path} has the column {visible(twice[0])} twice: rename one of them")
    return names


def rows_in(file: LogFile) -> int | None:
    """Return the number of rows in a file's metadata; None if it has none."""
    if file.format != "parquet":
        return None
    with refusing(file.path, file.format):
        return read_parquet.rows_in(file.path)


def read_chunks(file: LogFile, wanted: Collection[str] | None = None) -> Iterator[Chunk]:
    """Yield all rows in order, with the columns in `wanted` that the file has (None: all columns).

    A chunk of JSON lines has the keys that occurred up to its end. Columns of lists and maps, which no type of the spec
    holds, are read only if wanted. RejectedError for a bad file; chunks before the damage may have been yielded.
    """
    if file.format != "jsonl":
        schema_columns(file)
    with refusing(file.path, file.format):
        first = 1
        for chunk in _read_json(file.path, wanted) if file.format == "jsonl" else _read_arrays(file, wanted):
            yield Chunk(first, chunk.rows, chunk.columns)
            first += chunk.rows


def _names(file: LogFile) -> list[str]:
    if file.columns:
        return list(file.columns)
    if file.format == "csv":
        return read_csv.header(file.path)
    schema = read_parquet.schema(file.path) if file.format == "parquet" else read_arrow.schema(file.path)
    return list(schema.names)


def _read_arrays(file: LogFile, wanted: Collection[str] | None) -> Iterator[Chunk]:
    for batch in _batches(file, wanted):
        for part in sizes.cut(batch):
            yield Chunk(0, part.num_rows, dict(zip(part.schema.names, map(_usual, part.columns), strict=True)))


def _usual(array: pa.Array) -> pa.Array:
    """Convert to an encoding that all Arrow functions support: no views, run-end encoding or extension types."""
    if isinstance(array, pa.ExtensionArray):
        return _usual(array.storage)
    if pt.is_run_end_encoded(array.type):
        return _usual(pc.run_end_decode(array))
    if pt.is_struct(array.type) and array.type.num_fields:
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(list(map(_usual, array.flatten())), names=names, mask=array.is_null())
    return without_views(array)


def _batches(file: LogFile, wanted: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    if file.format == "csv":
        return read_csv.stream(file.path, wanted, file.columns)
    if file.format == "parquet":
        return read_parquet.stream(file.path, wanted)
    return read_arrow.stream(file.path, wanted)


def _read_json(path: str, wanted: Collection[str] | None) -> Iterator[Chunk]:
    names: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    size = 0
    for _, length, row in json_lines.read_exact_rows(path):
        names.update(dict.fromkeys(row))
        rows.append(row)
        size += length
        if len(rows) == _JSON_ROWS or size > sizes.MOST_BYTES:
            yield _json_chunk(rows, names, wanted)
            rows, size = [], 0
    if rows:
        yield _json_chunk(rows, names, wanted)


def _json_chunk(rows: list[dict[str, Any]], names: Collection[str], wanted: Collection[str] | None) -> Chunk:
    kept = [name for name in names if wanted is None or name in wanted]
    return Chunk(0, len(rows), {name: [row.get(name) for row in rows] for name in kept})


def _first_keys(path: str) -> list[str]:
    names: dict[str, None] = {}
    size = 0
    for _, length, row in islice(json_lines.read_exact_rows(path), _SAMPLED_ROWS):
        names.update(dict.fromkeys(row))
        size += length
        if size > _SAMPLED_BYTES:
            break
    return list(names)
