"""A format from outside the package: results as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dynq_cli.io.results.forms import Sink


def write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    sink.write(f"| {' | '.join(schema.names)} |\n|{' --- |' * len(schema.names)}\n".encode())
    for group in groups:
        for row in group.to_pylist():
            sink.write(f"| {' | '.join('' if v is None else str(v) for v in row.values())} |\n".encode())
    sink.flush()
