"""Read Arrow IPC files and streams, batch by batch, in bounded memory.

How much batches unpack to is read off them first (`ipc_messages`). A file is a stream with an index at its end: it is
read as a stream, and must have the batches that the index says. Where it begins like no stream, as polars writes it, it
is read by the index. A stream must have its end mark, or it was cut off.
The file is not mapped: a mapped one that becomes shorter meanwhile ends the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import ipc

from dynq_cli.errors import RejectedError
from dynq_cli.io import ipc_messages
from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from dynq_cli.io.raw import Raw

_NOT_LISTS = (pt.is_struct, pt.is_dictionary, pt.is_run_end_encoded)


def read(path: str) -> Iterator[Raw]:
    """All columns that a spec can use, by position; first a piece of no rows."""
    declared = schema(path)
    unusable = dict(_unusable(declared))
    kept = [i for i, field in enumerate(declared) if field.name not in unusable]
    names = [declared.names[i] for i in kept]
    yield Raw(names, [pa.nulls(0, declared.field(i).type) for i in kept], 0, unusable)
    for batch in _batches(path):
        yield Raw(names, [batch.column(i) for i in kept], batch.num_rows)


def schema(path: str) -> pa.Schema:
    """The columns, and what the file says about itself."""
    with _opened(path) as reader:
        return reader.schema


def stream(path: str, wanted: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """The columns `wanted` of all rows (None: all but lists and maps), checked; no name stands twice."""
    kept = []
    for field in schema(path):
        if wanted is not None and field.name not in wanted:
            continue
        if any(is_fine(field.type) for is_fine in _NOT_LISTS) or not pt.is_nested(field.type):
            kept.append(field.name)
        elif wanted is not None:
            raise RejectedError(
                f"{path}: column {field.name} has the type {field.type}, which no type of a spec holds:"
                " flatten it, or leave it out of the spec"
            )
    for batch in _batches(path):
        part = batch.select(kept)
        part.validate(full=True)  # Arrow trusts offsets and UTF-8: unchecked, a damaged file is read past its end
        yield part


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    with _opened(path) as reader:
        if isinstance(reader, pa.RecordBatchFileReader):
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            yield from reader


@contextmanager
def _opened(path: str) -> Iterator[pa.RecordBatchFileReader | pa.RecordBatchStreamReader]:
    """A reader of the messages, which are checked: of the stream, or by the index where no stream begins."""
    walk = ipc_messages.check(path)
    with pa.OSFile(path) as source:
        if walk.bare_schema is not None:
            by_index, length = ipc.open_file(source), len(walk.bare_schema).to_bytes(4, "little")
            _refuse_other_columns(ipc.read_schema(pa.py_buffer(length + walk.bare_schema)), by_index.schema)
            yield by_index
            return
        indexed = ipc.open_file(source).schema if walk.start else None
        source.seek(walk.start)
        reader = ipc.open_stream(source)
        if indexed is not None:
            _refuse_other_columns(reader.schema, indexed)
        yield reader


def _refuse_other_columns(schema: pa.Schema, indexed: pa.Schema) -> None:
    if not schema.equals(indexed, check_metadata=True):
        raise ValueError("its index has other columns than its batches")


def _unusable(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        try:
            from_arrow(field.type)
        except NoTypeError as error:
            yield field.name, str(error)
