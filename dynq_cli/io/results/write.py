"""A stream of record batches into one file of results.

The same batches give the same bytes. Memory is that of a few blocks, whatever the size of the result: at most six
row groups of a Parquet file, of 262,144 rows or 32 MiB each. What is written is complete only when `write` has
returned; that it appears whole or not at all is up to the sink.

Each form imports what it needs when it is asked for: importing takes longer than writing a small result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from dynq_cli.errors import UsageError
from dynq_cli.io.results.background_writer import feed
from dynq_cli.io.results.forms import Form

# Row groups that a processor's cache holds while they are encoded.
_GROUP_ROWS, _GROUP_BYTES = 1 << 18, 32 << 20


class Sink(Protocol):
    """What is written to: a file opened in binary mode; for CSV and JSON lines a stream that cannot seek will do."""

    def write(self, data: Any, /) -> int: ...

    def flush(self) -> None: ...


def write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, sink: Sink, form: Form) -> int:
    """Write all batches; the number of rows. O(bytes). The calling thread makes the batches, another one writes."""
    if form == "parquet" and not schema.names:
        raise UsageError("a result without columns has no Parquet file: use .jsonl, .csv or .arrow, or `dynq count`")
    rows = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows
        for group in _grouped(batches, schema, _GROUP_ROWS if form == "parquet" else 1):
            rows += group.num_rows
            yield group

    feed(counted(), lambda groups: _WRITERS[form](groups, schema, sink))
    return rows


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


def _write_parquet(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    from dynq_cli.io.results.parquet_groups import write_groups

    write_groups(groups, schema, sink)


def _write_arrow(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    with pa.ipc.new_file(sink, schema) as writer:
        for group in groups:
            for batch in group.to_batches():
                writer.write_batch(batch)


def _write_csv(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    from dynq_cli.io.results.lines import csv_header, csv_lines

    sink.write(csv_header(schema))
    _write_lines(groups, sink, csv_lines)


def _write_jsonl(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    from dynq_cli.io.results.lines import json_lines

    _write_lines(groups, sink, json_lines)


def _write_lines(groups: Iterator[pa.Table], sink: Sink, lines: Callable[[pa.RecordBatch], pa.Buffer]) -> None:
    from dynq_cli.io.results.lines import pieces

    for group in groups:
        for batch in group.to_batches():
            for piece in pieces(batch):
                sink.write(lines(piece))
    sink.flush()


_WRITERS: dict[Form, Callable[[Iterator[pa.Table], pa.Schema, Sink], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "arrow": _write_arrow,
}
