"""What was appended to an Iceberg table, read without Spark.

Bounds are sequence numbers of snapshots. Only snapshots that append files, or replace files by others with the same
rows, can be read; where any other lies between, rows went that the appended files do not name, and the feed is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.io.tables.feed import CHANGE_TYPE, plain
from dynq_cli.io.tables.mirror import not_installed
from dynq_cli.spec.shown import visible

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_KEEPS_ROWS = ("append", "replace")


@contextmanager
def open_feed(named: str, stop: int | None) -> Iterator[IcebergFeed]:
    """Open a table of a catalog up to a snapshot, the last one by default. UsageError if there is no such table."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    except ImportError:
        raise not_installed("pyiceberg", "iceberg", "an Iceberg table") from None
    catalog, _, table = named.rpartition(":")
    try:
        opened = load_catalog(catalog or None).load_table(table)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise UsageError(f"the catalog has no table {visible(table)}") from None
    except Exception as error:  # every catalog has errors of its own
        said = " ".join(str(error).split())
        raise DynqError(f"{visible(named)} cannot be opened: {said}") from error
    yield IcebergFeed(named, opened, stop)


class IcebergFeed:
    """See `feed`."""

    def __init__(self, named: str, table: Table, stop: int | None) -> None:
        self._table, self._shown = table, visible(named)
        if table.format_version < 2:
            raise RejectedError(
                f"{self._shown} has format version 1, whose snapshots have no sequence numbers\n"
                "  hint: upgrade it to version 2, or read it with Spark: dynq extract snapshot"
            )
        self._snapshots = list(_ancestors(table))
        if not self._snapshots:
            raise RejectedError(f"{self._shown} has no snapshot yet, so nothing to extract")
        self._last = self._snapshots[0]
        if stop is not None:
            found = [s for s in self._snapshots if s.sequence_number == stop]
            if not found:
                known = f"{self._snapshots[-1].sequence_number} to {self._last.sequence_number}"
                raise RejectedError(f"{self._shown} has no snapshot with sequence number {stop}; it has {known}")
            self._last = found[0]
        self.source, self.stop = f"iceberg:{table.metadata.table_uuid}", int(self._last.sequence_number or 0)
        schema = self._scan().to_arrow_batch_reader().schema
        self.schema = pa.schema([pa.field(f.name, plain(f.type), f.nullable) for f in schema])

    def _scan(self, names: Sequence[str] = ("*",)) -> Any:
        return self._table.scan(snapshot_id=self._last.snapshot_id, selected_fields=tuple(names))

    def rows(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._scan(names).to_arrow_batch_reader():
            yield self._shaped(batch, names)

    def changes(self, start: int, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        since = [s for s in self._snapshots if start < (s.sequence_number or 0) <= self.stop]
        if not any(s.sequence_number == start for s in self._snapshots):
            raise RejectedError(
                f"{self._shown} has no snapshot with sequence number {start} any more, so what was appended since is"
                " not known\n  hint: dynq apply --replace takes a file with all rows"
            )
        for snapshot in reversed(since):
            operation = snapshot.summary.operation.value if snapshot.summary else "an unknown operation"
            if operation not in _KEEPS_ROWS:
                raise RejectedError(
                    f"{self._shown}: snapshot {snapshot.sequence_number} is no append but {operation}, and which rows"
                    " went cannot be read without Spark\n"
                    "  hint: dynq extract changes with Spark, or dynq apply --replace with a file of all rows"
                )
            if operation == "append":
                yield from self._appended(snapshot, names)

    def _appended(self, snapshot: Snapshot, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        scan = self._table.incremental_append_scan(
            from_snapshot_id_exclusive=snapshot.parent_snapshot_id,
            to_snapshot_id_inclusive=snapshot.snapshot_id,
            selected_fields=tuple(names),
        )
        rows = 0
        for batch in scan.to_arrow_batch_reader():
            rows += batch.num_rows
            made = self._shaped(batch, names)
            kinds = pa.repeat(pa.scalar("insert"), batch.num_rows)
            fields = [pa.field(CHANGE_TYPE, pa.string(), False), *made.schema]
            yield (
                int(snapshot.sequence_number or 0),
                pa.RecordBatch.from_arrays([kinds, *made.columns], schema=pa.schema(fields)),
            )
        said = snapshot.summary.get("added-records") if snapshot.summary else None
        if said is not None and int(said) != rows:
            raise RejectedError(
                f"{self._shown}: snapshot {snapshot.sequence_number} says that {int(said):,} rows were appended, and"
                f" its files have {rows:,}\n  hint: dynq extract snapshot reads the table with Spark"
            )

    def _shaped(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        fields = [self.schema.field(name) for name in names]
        columns = [batch.column(name).cast(field.type) for name, field in zip(names, fields, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _ancestors(table: Table) -> Iterator[Snapshot]:
    """Yield the snapshots that led to the current one, the latest first."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
