"""Results as an Arrow file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dynq_cli.io.results.forms import Sink


def write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    """Write the batches as they come."""
    with pa.ipc.new_file(sink, schema) as writer:
        for group in groups:
            for batch in group.to_batches():
                writer.write_batch(batch)
