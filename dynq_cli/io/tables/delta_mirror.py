"""A Delta table that is kept equal to a result.

The version is the table's application transaction, and the stamp is in the commit's metadata: both are in the commit
that changes the rows. A later commit by anybody else that may have changed rows is noticed; compaction, VACUUM and
checkpoints are none. A commit that comes in between is a conflict, and nothing is written.

A change merges the delta by all columns: the files that may have its rows are read, those that have are written again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from dynq_cli.errors import DynqError, RejectedError
from dynq_cli.io.tables.delta_library import deltalake, said
from dynq_cli.io.tables.mirror import COPIES, Stamp, TouchedError, Written, is_bag, place_of, value_columns
from dynq_cli.io.tables.mirror_sql import DELTA_COPIES, delta_schema, signed

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_START, _STAMP = "delta:", "dynq"
# Operations that leave the rows as they are.
_HARMLESS = frozenset(["OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "FSCK", "CHECKPOINT", "REORG"])


@contextmanager
def open_mirror(to: str, table: str) -> Iterator[DeltaMirror]:
    """Open the table in a directory, or at the URL of an object store; it need not be there."""
    place = place_of(to, table)
    library = deltalake(f"a mirror in {place}")
    path = to.removeprefix(_START)
    try:
        yield DeltaMirror(library, path, place)
    except (library.exceptions.DeltaError, OSError) as error:
        raise DynqError(f"{place}: {said(error)}\n  hint: the next `dynq run` goes on from there") from error


class DeltaMirror:
    """See the module."""

    def __init__(self, library: Any, path: str, place: str) -> None:
        self._library, self._path, self._place = library, path, place
        self._table: DeltaTable | None = None

    def stamp(self) -> Stamp | None:
        if not self._library.DeltaTable.is_deltatable(self._path):
            if (
                "://" not in self._path
                and os.path.exists(self._path)
                and (not os.path.isdir(self._path) or os.listdir(self._path))
            ):
                raise RejectedError(
                    f"{self._place}: it is there already and no Delta table; nothing was written to it\n"
                    "  hint: mirror to another directory"
                )
            return None
        self._table = table = self._library.DeltaTable(self._path)
        for commit in self._commits(table):
            if _STAMP in commit:
                stamp = Stamp.of(commit[_STAMP])
                if table.transaction_version(_application(stamp)) != stamp.version:
                    raise TouchedError.at(self._place, f"its transaction is not that of version {stamp.version}")
                return stamp
            operation = str(commit.get("operation", "a commit without a name"))
            if operation not in _HARMLESS:
                by = commit.get("engineInfo", "somebody else")
                what = f"{operation} by {by} changed it in its version {commit['version']}"
                if not any(_STAMP in earlier for earlier in self._commits(table)):
                    what = "it is there already, and dynq did not make it"
                raise TouchedError.at(self._place, what)
        raise TouchedError.at(self._place, "it is there already, and dynq did not make it")

    def load(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        value_columns(schema)
        deleted = self._table.count() if self._table is not None else 0
        made, rows = _with_zone(schema), 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield _cast(batch, made)

        self._library.write_deltalake(
            self._path if self._table is None else self._table,
            pa.RecordBatchReader.from_batches(made, counted()),
            mode="error" if self._table is None else "overwrite",
            schema_mode=None if self._table is None else "overwrite",
            commit_properties=self._properties(stamp),
        )
        return Written(int(deleted), rows)

    def change(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], stamp: Stamp) -> Written:
        assert self._table is not None
        staged = _with_zone(delta_schema(schema))
        delta = pa.Table.from_batches([_cast(b, staged) for b in signed(schema, batches)], staged)
        if not len(delta):
            return self._only_stamp(stamp)
        columns, copies = value_columns(schema), f's."{DELTA_COPIES}"'
        same = " AND ".join(f"({_of('t', n)} IS NOT DISTINCT FROM {_of('s', n)})" for n in columns)
        merge = self._table.merge(
            delta, same, source_alias="s", target_alias="t", commit_properties=self._properties(stamp)
        )
        before = _of("t", COPIES) if is_bag(schema) else "1"
        merge = merge.when_matched_delete(f"{before} + {copies} <= 0")
        values = {_name(n): _of("s", n) for n in columns}
        if is_bag(schema):
            merge = merge.when_matched_update({_name(COPIES): f"{before} + {copies}"})
            values[_name(COPIES)] = copies
        done = merge.when_not_matched_insert(values, predicate=f"{copies} > 0").execute()
        went, came = done["num_target_rows_deleted"], done["num_target_rows_inserted"]
        changed = done["num_target_rows_updated"]
        if went + came + changed != len(delta):
            raise TouchedError.at(self._place, f"{len(delta) - went - came - changed:,} rows of it are gone")
        return Written(went + changed, came + changed)

    def _only_stamp(self, stamp: Stamp) -> Written:
        """Commit a version in which nothing of the result has changed."""
        assert self._table is not None
        self._table.create_write_transaction(
            [], "append", self._table.schema(), commit_properties=self._properties(stamp)
        )
        return Written(0, 0)

    def _properties(self, stamp: Stamp) -> CommitProperties:
        # No retries: a commit that came in between is somebody else's.
        return self._library.CommitProperties(  # type: ignore[no-any-return]
            custom_metadata={_STAMP: stamp.text()},
            max_commit_retries=0,
            app_transactions=[self._library.Transaction(_application(stamp), stamp.version)],
        )

    @staticmethod
    def _commits(table: DeltaTable) -> Iterator[dict[str, Any]]:
        """Yield the commits, the latest first; the latest one alone is read where it is enough."""
        (latest,) = table.history(1)
        yield latest
        yield from table.history()[1:]


def _application(stamp: Stamp) -> str:
    return f"dynq:{stamp.state}:{stamp.query}"


def _name(column: str) -> str:
    """A column as the library reads it: a quoted identifier."""
    return '"' + column.replace('"', '""') + '"'


def _of(table: str, column: str) -> str:
    return f"{table}.{_name(column)}"


def _with_zone(schema: pa.Schema) -> pa.Schema:
    """Timestamps are instants: without a zone they would be another type of Delta, which few read."""
    return pa.schema([f.with_type(pa.timestamp("us", "UTC")) if pt.is_timestamp(f.type) else f for f in schema])


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [c.cast(f.type) if c.type != f.type else c for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
