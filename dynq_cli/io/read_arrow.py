"""Arrow IPC, the file format and the stream format, batch by batch, in memory that is bounded.

How much batches unpack to is read off them first (`ipc_messages`). A file is a stream with an index at its end: it is
read as a stream, and must have the batches that the index says. A stream must have its end mark, or it was cut off.
The file is not mapped: a mapped one that becomes shorter meanwhile ends the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

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
    yield Raw(names, [pa.array([], declared.field(i).type) for i in kept], 0, unusable)
    for batch in _batches(path):
        yield Raw(names, [batch.column(i) for i in kept], batch.num_rows)


def schema(path: str) -> pa.Schema:
    """The columns, and what the file says about itself."""
    with _opened(path) as source:
        return ipc.open_stream(source).schema


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
    with _opened(path) as source:
        yield from ipc.open_stream(source)


def _opened(path: str) -> pa.OSFile:
    """The file at the begin of its stream of messages, which are checked."""
    start = ipc_messages.check(path)
    source = pa.OSFile(path)
    if start:
        indexed = ipc.open_file(source).schema
        source.seek(start)
        if not ipc.open_stream(source).schema.equals(indexed, check_metadata=True):
            raise ValueError("its index has other columns than its batches")
    source.seek(start)
    return source


def _unusable(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        try:
            from_arrow(field.type)
        except NoTypeError as error:
            yield field.name, str(error)
