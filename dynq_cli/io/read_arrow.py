"""Arrow IPC, the file format and the stream format, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import ipc

from dynq_cli.io.arrow_types import NoTypeError, from_arrow
from dynq_cli.io.raw import Raw

_FILE_MAGIC = b"ARROW1"


def read(path: str) -> Iterator[Raw]:
    with pa.OSFile(path) as source:
        is_file = source.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        source.seek(0)
        reader = ipc.open_file(source) if is_file else ipc.open_stream(source)
        schema: pa.Schema = reader.schema
        unusable = dict(_unusable(schema))
        kept = [i for i, field in enumerate(schema) if field.name not in unusable]
        names = [schema.names[i] for i in kept]
        yield Raw(names, [pa.array([], schema.field(i).type) for i in kept], 0, unusable)
        for batch in _batches(reader, is_file):
            yield Raw(names, [batch.column(i) for i in kept], batch.num_rows)


def _batches(
    reader: ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader, is_file: bool
) -> Iterator[pa.RecordBatch]:
    if is_file:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from reader


def _unusable(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        try:
            from_arrow(field.type)
        except NoTypeError as error:
            yield field.name, str(error)
