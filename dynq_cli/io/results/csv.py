"""Results as CSV with a header."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dynq_cli.io.results.forms import Sink
from dynq_cli.io.results.lines import csv_header, csv_lines, write_lines


def write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    """Write a header, then a line per row."""
    sink.write(csv_header(schema))
    write_lines(groups, sink, csv_lines)
