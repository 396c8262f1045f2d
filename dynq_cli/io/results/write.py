"""Write a stream of record batches as one file of results.

The same batches give the same bytes. Memory is that of a few blocks, whatever the size of the result: at most six
groups of rows, each of as many as the format asks for or of 32 MiB. What is written is complete only when `write` has
returned; that it appears whole or not at all is up to the sink.

The module of a format is imported when it is asked for: importing takes longer than writing a small result.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pyarrow as pa

from dynq_cli.errors import UsageError
from dynq_cli.io.results.background_writer import feed
from dynq_cli.io.results.forms import Form, Sink
from dynq_cli.spec.output_formats import extensions, find

_GROUP_BYTES = 32 << 20


def write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, sink: Sink, form: Form) -> int:
    """Write all batches; the number of rows. O(bytes). The calling thread makes the batches, another one writes."""
    format_ = find(form)
    assert format_ is not None, form
    if format_.needs_columns and not schema.names:
        others = [e for e in extensions() if not _needs_columns(e)]
        raise UsageError(
            f"a result without columns has no {format_.extension} file: use {' '.join(others)}, or `dynq count`"
        )
    rows = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for group in _grouped(batches, schema, format_.least_rows):
            rows += group.num_rows
            yield group

    writer = import_module(format_.module).write_groups
    feed(counted(), lambda groups: writer(groups, schema, sink))
    return rows


def _needs_columns(extension: str) -> bool:
    found = find(extension.removeprefix("."))
    return found is not None and found.needs_columns


def _grouped(batches: Iterator[pa.RecordBatch], schema: pa.Schema, least: int) -> Iterator[pa.Table]:
    """Batches in tables of `least` rows or more, fewer where they are large and at the end."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= least or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held, schema)
