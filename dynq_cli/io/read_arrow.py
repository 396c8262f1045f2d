"""Arrow IPC, the file format and the stream format, batch by batch, in memory that is bounded.

The file is mapped, so batches that are not compressed cost nothing; how much the compressed ones unpack to is
read off them first. A file is a stream with an index at its end: it is read as a stream, and must have as many batches
as the index says. A stream must have its end mark, or it was cut off.
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

_FILE_MAGIC = b"ARROW1"
_FILE_START = 8  # the magic, padded
_NOT_LISTS = (pt.is_struct, pt.is_dictionary, pt.is_run_end_encoded)
_MOST_UNPACKED = 1 << 30  # bytes


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
    with pa.memory_map(path) as source:
        source.seek(_start(source))
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
    with pa.memory_map(path) as source:
        start = _start(source)
        declared = ipc.open_file(source).num_record_batches if start else None
        source.seek(start)
        for size in ipc_messages.unpacked_sizes(source):
            if size > _MOST_UNPACKED:
                raise ValueError(f"a batch unpacks to {size:,} bytes: write batches of at most {_MOST_UNPACKED:,}")
        source.seek(start)
        read = 0
        for batch in ipc.open_stream(source):
            read += 1
            yield batch
        if declared not in (None, read):
            raise ValueError(f"it has {read} batches where its index says {declared}")


def _start(source: pa.MemoryMappedFile) -> int:
    """Where the stream begins: in the file format, after the magic."""
    source.seek(0)
    return _FILE_START if source.read(len(_FILE_MAGIC)) == _FILE_MAGIC else 0


def _unusable(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        try:
            from_arrow(field.type)
        except NoTypeError as error:
            yield field.name, str(error)
