"""Put a version or a snapshot in force. The caller holds the lock.

    commit_version    end the log's records with a commit record, or replace the manifest: O(change)
    commit_snapshot   start a new generation at the same version: O(state)

A snapshot is due when opening the state would replay for too long. A process that continues waits until the log is as
long as the snapshot, so it writes at most as many bytes for snapshots as for changes. A process that ends does not
wait, since the next one has to open the state. The previous generation is kept until the next snapshot is written:
its snapshot and log lead to the snapshot in force.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.engine.table_sizes import sizes_of
from dynq_cli.engine.views import Views
from dynq_cli.spec.model import HIDDEN
from dynq_cli.storage.checkpoint import checkpoint, without_tail
from dynq_cli.storage.history import with_past
from dynq_cli.storage.layout import FORMAT, SYNCED, remove_others, snapshot_name, wal_name, write_new
from dynq_cli.storage.ledger import AppliedLog, Entry, append_entry
from dynq_cli.storage.ledger_facts import LedgerFacts
from dynq_cli.storage.log_tail import MOST_COMMITS, TAIL_BYTES, Commit, commit_said, fold
from dynq_cli.storage.manifest import Counts, Manifest, drop_previous, keep_manifest, write_manifest
from dynq_cli.storage.plans import Planned
from dynq_cli.storage.snapshot import write_snapshot
from dynq_cli.storage.wal import LogWriter, no_records

DUE_SECONDS = 0.1
# Replay speed into freshly mapped pages, measured on a chain query of 5 M rows (a star query: more than twice that),
# and the speed at which the arena grows.
CHANGES_PER_SECOND = 100_000
WORDS_PER_SECOND = 70_000_000


@dataclass(frozen=True)
class Coming:
    """A version to commit: its entry of the ledger, and the last `_commit_version` of relations that had one.

    `before` is the version before the first one of the command, `came` the net number of base-row copies inserted, by
    relation.
    """

    entry: Entry
    before: int
    commits: Mapping[str, int] = field(default_factory=dict)
    came: Mapping[str, int] = field(default_factory=dict)


def first_manifest(
    directory: Path,
    planned: Planned,
    views: Views,
    spec_checksum: str,
    logs: Sequence[AppliedLog],
    marks: Sequence[str] = (),
) -> None:
    """Write version 0 of a new state, as generation 1, from the engine's contents. The caller has written the spec."""
    snapshot = write_snapshot(directory / snapshot_name(1), parts_of(views), version=0)
    write_new(directory / wal_name(1), b"")
    write_new(directory / SYNCED, b"")
    now = time.time_ns() // 1000
    ledger = append_entry(directory, LedgerFacts(), Entry(version=0, time=now, logs=tuple(logs)))
    made = Manifest(
        number=1,
        version=0,
        generation=1,
        spec=spec_checksum,
        plans=planned.fingerprints,
        counts=counts_of(views),
        snapshot=snapshot,
        wal=no_records(snapshot),
        ledger=ledger,
        made=now,
        applied=now,
        commits={},
        sources={},
        marks=dict.fromkeys(marks, 0),
        tables=sizes_of(views),
    )
    write_manifest(directory, made)


def counts_of(views: Views) -> dict[str, Counts | None]:
    """The counts of all queries but those behind models; None for those that keep none."""
    kept = {query: views.kept_count(query) for query in views.queries if not query.startswith(HIDDEN)}
    return {query: None if counts is None else Counts(*counts) for query, counts in kept.items()}


def _sizes_after(views: Views, before: TableSizes | None, came: Mapping[str, int]) -> TableSizes:
    """Return the table sizes of a version: those before plus `came` copies. O(rows) if `before` is None."""
    if before is None:
        return sizes_of(views)
    return sizes_of(views, {name: size.copies + came.get(name, 0) for name, size in before.relations.items()})


def commit_version(
    directory: Path,
    views: Views,
    before: Manifest,
    log: LogWriter,
    coming: Coming,
    *,
    sync: bool = True,
    whole: bool = False,
) -> Manifest:
    """Put the version of the views in force, whose records are in the log; return its manifest.

    A small version goes to the tail of the log, with one write and one sync; without `sync`, with the next version that
    is synced. A large one, and one of every `MOST_COMMITS`, replaces the manifest; `whole` asks for that.
    """
    tables = _sizes_after(views, before.tables, coming.came)
    said = commit_said(astuple(coming.entry), counts_of(views), tables, coming.before, coming.commits)
    wal = None
    if not whole and before.format == FORMAT and len(before.unwritten) < MOST_COMMITS:
        wal = log.end(coming.entry.version, said, before.wal.length - before.tail + TAIL_BYTES)
    if wal is None:
        made = checkpoint(directory, fold(before, [Commit(log.sync(), said)]))
        remove_others(directory, files_kept(made))
        return made
    if sync:
        log.sync()
        log.note_synced()
    return fold(before, [Commit(wal, said)])


def replay_seconds(manifest: Manifest, views: Views) -> float:
    """Estimate the seconds to replay the log, without starting the process and checking the snapshot."""
    return manifest.wal.changes / CHANGES_PER_SECOND + views.engine.arena.grown() / WORDS_PER_SECOND


def snapshot_is_due(manifest: Manifest, views: Views, *, ending: bool) -> bool:
    """Decide whether to write a snapshot now; `ending`: this process will apply no more changes."""
    if replay_seconds(manifest, views) <= DUE_SECONDS:
        return False
    return ending or manifest.wal.length > manifest.snapshot.length


def commit_snapshot(directory: Path, before: Manifest, views: Views, planned: Planned) -> None:
    """Write a snapshot of the version in force, that of the views; the caller reopens the state to continue.

    Remove the previous generation first, so that the disk never holds three snapshots. This is safe: this process has
    checked and replayed the generation in force, and the state needs no other.
    """
    before = without_tail(directory, before)
    generation = before.generation + 1
    drop_previous(directory)
    remove_others(directory, before.files)
    path = directory / snapshot_name(generation)
    write_new(directory / wal_name(generation), b"")
    snapshot = write_snapshot(path, parts_of(views), before.version)
    made = replace(
        before,
        number=before.number + 1,
        generation=generation,
        plans=planned.fingerprints,
        snapshot=snapshot,
        wal=no_records(snapshot),
        past=with_past(before),
        tables=_sizes_after(views, before.tables, {}),
    )
    keep_manifest(directory)
    write_manifest(directory, made)
    remove_others(directory, files_kept(made))


def files_kept(manifest: Manifest) -> frozenset[str]:
    """Name the files that the manifest needs, and the snapshot and log of the previous generation."""
    before = manifest.generation - 1
    return manifest.files.union([snapshot_name(before), wal_name(before)])
