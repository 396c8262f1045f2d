"""What happened to a table of a lake, read without Spark.

    feed.rows(names)             all rows of the table at `stop`
    feed.changes(start, names)   what happened after `start`, up to `stop`, commit by commit: (commit, rows)

Rows of changes have `_change_type` first. Bounds are whole numbers that grow with every commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.types as pt

CHANGE_TYPE, VERSION = "_change_type", "_commit_version"


class Feed(Protocol):
    """See the module. `source` names the table for good, `stop` is the last commit that is read."""

    source: str
    stop: int
    schema: pa.Schema

    def rows(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]: ...

    def changes(self, start: int, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]: ...


@dataclass(frozen=True)
class Counted:
    """Rows of a change log by kind."""

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0


def plain(kind: pa.DataType) -> pa.DataType:
    """A type as Parquet and every reader of it have it."""
    if pt.is_string_view(kind) or pt.is_large_string(kind):
        return pa.string()
    if pt.is_binary_view(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return pa.binary()
    if pt.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return plain(kind.value_type) if pt.is_dictionary(kind) else kind
