"""Snapshots in plain local Parquet: files from which Arrow reads exactly the same values as Spark.

All files of a plain snapshot have all columns, each in the Arrow type of the spec's type. Not plain are files that
Spark treats specially: INT96 times, the old calendar, options of its reader, files of other machines. If Hadoop wrote
checksums beside a file, they are checked (`is_sound`).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import iter_unpack, unpack_from
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dynq_cli.spark.columns import value
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import Type
from dynq_cli.values.convert import arrow_type

ROWS_AT_ONCE = 1 << 16
_LARGE = {"string": pa.large_string(), "binary": pa.large_binary()}
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER, _FIRST_EXACT = b"org.apache.spark.version", 3
_DAYS, _MICROS = pa.int32(), pa.int64()
_COUNTED = {"date": _DAYS, "time": _MICROS, "timestamp": _MICROS}  # what of a type is compared as a number
_SMALLEST = -(1 << 63)  # stands for NULL in a state
_MAGIC, _HEADER = b"crc\0", 8


class BadRowError(Exception):
    """There is a bad row."""


@dataclass(frozen=True)
class PlainTable:
    """Files with these columns, and their numbers of rows and bytes."""

    files: tuple[str, ...]
    rows: int
    size: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """The schema of `batches`: columns are named by position."""
        return pa.schema([(value(i), compared_type(column.type)) for i, column in enumerate(self.columns)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, times as numbers; BadRowError if one is bad. O(batch) memory."""
        schema = self.schema()
        names = [column.name for column in self.columns]
        for path in self.files:
            with pq.ParquetFile(path, memory_map=True) as file:
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
                    values = [self._checked(column, batch.column(column.name)) for column in self.columns]
                    yield pa.record_batch(values, schema=schema)

    def _checked(self, column: Column, values: pa.Array) -> pa.Array:
        if values.null_count and (not column.nullable or column.name in self.key):
            raise BadRowError
        if column.type.name == "string":
            values.validate(full=True)
        if column.type.name == "int64" and pc.min(values).as_py() == _SMALLEST:
            raise BadRowError
        wanted = compared_type(column.type)
        return values.view(wanted) if column.type.name in _COUNTED else values.cast(wanted)


def compared_type(kind: Type) -> pa.DataType:
    """Return the Arrow type in which values of a type are compared."""
    return _COUNTED.get(kind.name, arrow_type(kind))


def plain_table(uris: Sequence[str], columns: Sequence[Column], key: Sequence[str]) -> PlainTable | None:
    """Open files, given as Spark's URIs, as a table; None if they are not plain. Reads the footer of each file."""
    files, rows, size = [], 0, 0
    for uri in uris:
        place = urlsplit(uri)
        if place.scheme != "file" or place.netloc:
            return None
        path = unquote(place.path)
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                if not _is_plain(file, columns):
                    return None
                rows += file.metadata.num_rows
            size += os.path.getsize(path)
        except (OSError, pa.ArrowException):
            return None
        files.append(path)
    return PlainTable(tuple(files), rows, size, tuple(columns), tuple(key))


def _is_plain(file: pq.ParquetFile, columns: Sequence[Column]) -> bool:
    said = file.metadata.metadata or {}
    writer = said.get(_WRITER, b"").split(b".")[0]
    if any(name in said for name in _OLD_CALENDAR) or (writer and int(writer) < _FIRST_EXACT):
        return False
    leaves = [file.metadata.schema.column(i) for i in range(file.metadata.num_columns)]
    of_name = {leaf.path: leaf.physical_type for leaf in leaves}
    schema = file.schema_arrow
    return all(
        schema.names.count(column.name) == 1
        and of_name.get(column.name, "INT96") != "INT96"
        and _is_of(schema.field(column.name).type, column.type)
        for column in columns
    )


def _is_of(found: pa.DataType, kind: Type) -> bool:
    if kind.name == "timestamp":
        # With a zone or without: both are microseconds of UTC.
        return bool(pa.types.is_timestamp(found)) and found.unit == "us"
    return found in (arrow_type(kind), _LARGE.get(kind.name))


def is_sound(path: str) -> bool:
    """Whether a file matches the checksums that Hadoop wrote beside it; true if there are none. O(bytes)."""
    folder, name = os.path.split(path)
    try:
        with open(os.path.join(folder, f".{name}.crc"), "rb") as beside:
            sums = beside.read()
    except FileNotFoundError:
        return True
    if sums[:4] != _MAGIC:
        return False
    (step,) = unpack_from(">i", sums, len(_MAGIC))
    with open(path, "rb") as file:
        found = (zlib.crc32(piece) for piece in iter(lambda: file.read(step), b""))
        wanted = [known for (known,) in iter_unpack(">I", sums[_HEADER:])]
        return list(found) == wanted
