"""The change data feed of a Delta table, read without Spark.

A feed whose rows do not add up to the rows of the table is refused, and so are tables with features that the
library may not know in its feed, such as deletion vectors: their rows would be wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.io.tables.delta_library import deltalake, said
from dynq_cli.io.tables.feed import CHANGE_TYPE, VERSION, plain
from dynq_cli.spec.shown import visible

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Features of tables that do not change what rows a file has, or how its columns are called.
_READ = frozenset(["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "catalogManaged"])
_OLD, _NEW = ("delete", "update_preimage"), ("insert", "update_postimage")
_NAMED = "delta.columnMapping.mode"


@contextmanager
def open_feed(table: str, stop: int | None) -> Iterator[DeltaFeed]:
    """Open a table up to a version, the last one by default. RejectedError if its feed cannot be read."""
    library = deltalake("a Delta table")
    if "://" not in table and not os.path.isdir(os.path.join(table, "_delta_log")):
        raise UsageError(f"{visible(table)} is no Delta table: it has no _delta_log\n  hint: name its directory or URL")
    try:
        opened = library.DeltaTable(table)
        last = opened.version()
        if stop is not None and not 0 <= stop <= last:
            raise RejectedError(f"{visible(table)} has no version {stop}; the last one is {last}")
        yield DeltaFeed(library, table, opened if stop is None else library.DeltaTable(table, version=stop))
    except library.exceptions.DeltaError as error:
        raise DynqError(f"{visible(table)}: {said(error)}") from error


class DeltaFeed:
    """See `feed`."""

    def __init__(self, library: Any, place: str, table: DeltaTable) -> None:
        self._library, self._place, self._table = library, place, table
        self._shown = visible(place)
        protocol, metadata = table.protocol(), table.metadata()
        unknown = set(protocol.reader_features or ()) - _READ
        named = str(metadata.configuration.get(_NAMED) or "none")
        if unknown or named != "none":
            what = ", ".join(sorted(unknown)) or f"{_NAMED}={named}"
            raise RejectedError(
                f"{self._shown} uses {what}, with which its feed may be read wrongly without Spark\n"
                "  hint: dynq extract changes, or dynq extract snapshot --format delta, read it with Spark"
            )
        self.source, self.stop = f"delta:{metadata.id}", table.version()
        schema = pa.schema(table.schema().to_arrow())
        self.schema = pa.schema([pa.field(f.name, plain(f.type), f.nullable) for f in schema])

    def rows(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._table.to_pyarrow_dataset().to_batches(columns=list(names)):
            yield _shaped(batch, [self.schema.field(name) for name in names])

    def changes(self, start: int, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        fields = [pa.field(CHANGE_TYPE, pa.string(), False), *(self.schema.field(name) for name in names)]
        net = 0
        for commit in range(start + 1, self.stop + 1):
            # Old rows first: where all but the key is NULL, they look as deletes by key do.
            for kinds in _OLD, _NEW:
                for batch in self._feed(commit):
                    made = _shaped(batch, fields)
                    chosen = made.filter(pc.is_in(made.column(0), pa.array(kinds)))
                    if kinds is _OLD:
                        _refuse_unknown(self._shown, made.column(0))
                        net -= pc.sum(pc.equal(made.column(0), "delete")).as_py() or 0
                    else:
                        net += pc.sum(pc.equal(made.column(0), "insert")).as_py() or 0
                    if chosen.num_rows:
                        yield commit, chosen
        self._refuse_other_count(start, net)

    def _feed(self, commit: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a commit. RejectedError if they cannot be read."""
        try:
            for batch in pa.RecordBatchReader.from_stream(
                self._table.load_cdf(starting_version=commit, ending_version=commit)
            ):
                if not pc.all(pc.equal(batch.column(VERSION).cast(pa.int64()), commit)).as_py():
                    raise RejectedError(f"{self._shown}: its feed of version {commit} has rows of another version")
                yield batch
        except (self._library.exceptions.DeltaError, pa.ArrowException, OSError) as error:
            why = said(error)
            if "change data enabled" in why:
                why = "it was not switched on: delta.enableChangeDataFeed = true, which holds for later versions"
            elif "Invalid table version" in why:
                why = "its log has this version no more"
            raise RejectedError(
                f"{self._shown}: its feed of version {commit} cannot be read: {why}\n"
                "  hint: dynq apply --replace takes a file with all rows; keep the table's logs and files longer"
            ) from None

    def _refuse_other_count(self, start: int, net: int) -> None:
        """RejectedError if the rows of the feed do not lead from the number of rows at `start` to that at `stop`."""
        if start < 0:
            before = 0
        else:
            try:
                before = self._library.DeltaTable(self._place, version=start).count()
            except self._library.exceptions.DeltaError:
                return  # the checkpoint before it is gone
        if before + net != self._table.count():
            raise RejectedError(
                f"{self._shown}: its feed after version {start} makes {before + net:,} rows of {before:,}, and the"
                f" table has {self._table.count():,} at version {self.stop}: something is missing in it\n"
                "  hint: dynq apply --replace takes a file with all rows"
            )


def _refuse_unknown(shown: str, kinds: pa.Array) -> None:
    known = pc.is_in(kinds, pa.array([*_OLD, *_NEW]))
    if not pc.all(known).as_py():
        raise RejectedError(
            f"{shown}: its feed has a change type that means nothing: {kinds.filter(pc.invert(known))[0]}"
        )


def _shaped(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    columns = [batch.column(f.name) for f in fields]
    made = [c.cast(f.type) if c.type != f.type else c for c, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))
