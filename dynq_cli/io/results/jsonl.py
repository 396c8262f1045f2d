"""Results as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dynq_cli.io.results.forms import Sink
from dynq_cli.io.results.lines import json_lines, write_lines


def write_groups(groups: Iterator[pa.Table], schema: pa.Schema, sink: Sink) -> None:
    """Write an object per row."""
    write_lines(groups, sink, json_lines)
