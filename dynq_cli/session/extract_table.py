"""Write what happened to a table of a lake as a change log: an extraction, which `apply` takes once.

    extract_table(job, feed)     OUT/RELATION/part-0.parquet, OUT/_batch.json, OUT/_SUCCESS, whole or not at all

The batch id has the table's own id and versions, so the state's ledger knows up to where a table was applied: without
`start`, an extraction begins there. The first one, from nothing, has all rows of the table as inserts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dynq_cli.atomic import atomic_directory
from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.io.logs.identity import BATCH_FILE, SUCCESS
from dynq_cli.io.tables.feed import CHANGE_TYPE, VERSION, Counted
from dynq_cli.phases import phase
from dynq_cli.storage.layout import write_new

if TYPE_CHECKING:
    from dynq_cli.io.tables.feed import Feed
    from dynq_cli.spec.model import Relation

_KINDS = ("insert", "delete", "update_preimage", "update_postimage")


@dataclass(frozen=True)
class TableJob:
    """What to extract: what happened to `table` after version `start`; None is where the state is, or the beginning."""

    table: str
    out: str
    relation: Relation
    start: int | None = None
    source: str | None = None


@dataclass(frozen=True)
class TableExtracted:
    """The result; `to` is None if nothing happened since, and `written` false if OUT was there already."""

    out: str
    source: str
    start: str
    to: str | None
    written: bool
    rows: Counted

    def line(self) -> str:
        if self.to is None:
            return f"nothing happened to the table since version {self.start}, nothing was written"
        if not self.written:
            return f"{self.out}: extracted before, nothing was done"
        r = self.rows
        changes = f"{r.inserted:,} inserted, {r.replaced:,} replaced, {r.deleted:,} deleted"
        return f"{self.out}: {changes}; up to version {self.to}"

    def to_json(self) -> dict[str, Any]:
        said = asdict(self)
        return {"out": said["out"], "source": said["source"], "from": self.start, "to": self.to} | {
            "written": self.written,
            **said["rows"],
        }


def applied_up_to(state: str | None, source: str) -> int | None:
    """Return the version of a table up to which a state has applied it, or None."""
    from dynq_cli.storage.manifest import read_manifest

    if state is None:
        return None
    intervals = read_manifest(Path(state)).sources.get(source, ())
    return int(intervals[-1][1]) if intervals else None


def extract_table(job: TableJob, feed: Feed, state: str | None = None) -> TableExtracted:
    """Extract a table. RejectedError if the feed cannot be read, or lacks columns; then nothing is written."""
    source = job.source or feed.source
    start = job.start if job.start is not None else applied_up_to(state, source)
    if start is not None and start > feed.stop:
        raise RejectedError(f"{job.table}: version {start} comes after {feed.stop}, the last one that is asked for")
    if start == feed.stop:
        return TableExtracted(job.out, source, str(start), None, False, Counted())
    names = _columns(job, feed.schema)
    begin, end = "" if start is None else str(start), str(feed.stop)
    batch = {
        "source": source,
        "from": begin,
        "to": end,
        "relation": job.relation.name,
        "columns": names,
    }
    if _holds(Path(job.out), batch):
        return TableExtracted(job.out, source, begin, end, False, Counted())
    try:
        with atomic_directory(Path(job.out)) as made:
            rows = _write(made / job.relation.name, feed, start, names)
            write_new(made / BATCH_FILE, (json.dumps(batch, ensure_ascii=False, indent=1) + "\n").encode())
            write_new(made / SUCCESS, b"")
    except OSError as error:
        raise DynqError(f"{job.out} cannot be written: {error.strerror or error}") from error
    return TableExtracted(job.out, source, begin, end, True, rows)


def _columns(job: TableJob, schema: pa.Schema) -> list[str]:
    """Return the columns to write: those of the relation, or all. RejectedError if the table lacks one."""
    reserved = [name for name in (CHANGE_TYPE, VERSION) if name in schema.names]
    if reserved:
        raise RejectedError(f"{job.table} has a column {reserved[0]} of its own\n  hint: rename it in the table")
    wanted = [column.name for column in job.relation.columns] or list(schema.names)
    if job.relation.source is not None:
        renamed = dict(job.relation.source.columns)
        wanted = [renamed.get(name, name) for name in wanted]
    missing = [name for name in wanted if name not in schema.names]
    if missing:
        raise RejectedError(
            f"{job.table} has no column {missing[0]}; it has {', '.join(schema.names)}\n"
            "  hint: mend the spec; no row was read"
        )
    return wanted


def _write(folder: Path, feed: Feed, start: int | None, names: Sequence[str]) -> Counted:
    folder.mkdir()
    counts = dict.fromkeys(_KINDS, 0)
    head = [pa.field(CHANGE_TYPE, pa.string(), False), pa.field(VERSION, pa.int64(), False)]
    schema = pa.schema([*head, *(feed.schema.field(name) for name in names)])
    with (
        (folder / "part-0.parquet").open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
        phase(f"extracting {feed.source}") as extracting,
    ):
        for commit, batch in _changes(feed, start, names):
            kinds = batch.column(0)
            for kind in pc.value_counts(kinds).to_pylist():
                counts[kind["values"]] += kind["counts"]
            commits = pa.repeat(pa.scalar(commit, pa.int64()), batch.num_rows)
            writer.write_batch(pa.RecordBatch.from_arrays([kinds, commits, *batch.columns[1:]], schema=schema))
            extracting.add(batch.num_rows)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    return Counted(counts["insert"], counts["update_postimage"], counts["delete"])


def _changes(feed: Feed, start: int | None, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    if start is not None:
        yield from feed.changes(start, names)
        return
    for batch in feed.rows(names):
        kinds = pa.repeat(pa.scalar("insert"), batch.num_rows)
        made = pa.RecordBatch.from_arrays([kinds, *batch.columns], names=[CHANGE_TYPE, *names])
        yield feed.stop, made


def _holds(out: Path, batch: dict[str, Any]) -> bool:
    """Whether OUT is this extraction already. UsageError if anything else is there."""
    if not out.exists() or (out.is_dir() and not os.listdir(out)):
        return False
    try:
        if (out / SUCCESS).exists() and json.loads((out / BATCH_FILE).read_text("utf-8")) == batch:
            return True
    except (OSError, ValueError):
        pass
    raise UsageError(f"{out} holds something else already: name a directory that is not there, or remove it")
