"""Facts about a state, for `status`: read the manifest, the end of the ledger and file sizes; open no engine.

O(queries + files + recent), independent of the size of the state; no numpy.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

from dynq_cli.engine.size_facts import VALUES, TableSizes
from dynq_cli.storage.history import kept_since, needed_since
from dynq_cli.storage.kinds import verbs_of
from dynq_cli.storage.layout import CURRENT, LOCK, PREVIOUS, RUN_LOCK, SYNCED, era_name, snapshot_name, wal_name
from dynq_cli.storage.ledger import Entry, ledger_of
from dynq_cli.storage.manifest import ArrayPlace, Counts, Manifest, read_manifest

_BLOCK = 512  # the unit of `st_blocks`, whatever the block size of the file system


@dataclass(frozen=True)
class Sizes:
    """File sizes of a state, in bytes; `total` sums all fields except `dictionaries` and `allocated`.

    - `snapshot`, `wal`: the generation in force; `dictionaries`: their part of the snapshot
    - `history`: logs of earlier generations, and what was there before an `alter`, from which kept versions are read
    - `before`: the rest of the previous generation: snapshot, manifest, and its log unless a kept version needs it
    - `manifest`: the manifest in force, the spec, its plans and the locks
    - `other`: files left behind, files being written, and files that are not dynq's
    - `allocated`: disk blocks of all files; less than `total` if files have holes
    """

    snapshot: int
    dictionaries: int
    wal: int
    history: int
    before: int
    ledger: int
    manifest: int
    other: int
    total: int
    allocated: int


@dataclass(frozen=True)
class StateFacts:
    """A state at one moment. Times are microseconds since 1970, in UTC.

    - `waiting`: changes in the log after the snapshot, which opening the state replays
    - `writer`: id of the process that is writing now
    - `before`: the version before the last command that applied changes
    - `outputs_at`: the version whose outputs were written last; None if none were
    - `kept_since`: the oldest version that can be read; `needed_since`: the oldest that a mark or `before` needs
    - `tables`: sizes of relations and views in memory; None if an earlier version of dynq wrote the state
    """

    version: int
    generation: int
    made: int
    applied: int
    counts: Mapping[str, Counts | None]
    tables: TableSizes | None
    waiting: int
    sizes: Sizes
    versions_noted: int
    recent: tuple[Entry, ...]
    commits: Mapping[str, int]
    sources: Mapping[str, tuple[tuple[str, str], ...]]
    before: int
    outputs_at: int | None
    marks: Mapping[str, int]
    kept_since: int
    needed_since: int
    writer: int | None


def facts_of(directory: Path, *, recent: int = 5) -> StateFacts:
    """Return the facts of the version in force, with the latest `recent` entries of the ledger.

    NoStateError if there is no state, DamagedError if a checksum does not match.
    """
    if (shards := verbs_of(directory)) is not None:
        found: StateFacts = shards["facts_of"](directory, recent=recent)
        return found
    manifest = read_manifest(directory)
    return StateFacts(
        version=manifest.version,
        generation=manifest.generation,
        made=manifest.made,
        applied=manifest.applied,
        counts=manifest.counts,
        tables=manifest.tables,
        waiting=manifest.wal.changes,
        sizes=_sizes(directory, manifest),
        versions_noted=manifest.versions_noted,
        recent=tuple(ledger_of(directory, manifest).entries(limit=recent)),
        commits=manifest.commits,
        sources=manifest.sources,
        before=manifest.before,
        outputs_at=None if manifest.written < 0 else manifest.written,
        marks=manifest.marks,
        kept_since=kept_since(manifest),
        needed_since=needed_since(manifest),
        writer=writer_of(directory),
    )


def writer_of(directory: Path) -> int | None:
    """Return the id of the process that is writing to a state now, or None.

    A killed writer leaves its process id in the file: so the process must be alive and the lock be held.
    """
    with suppress(FileNotFoundError, ProcessLookupError, ValueError):
        file = os.open(directory / LOCK, os.O_RDONLY)
        try:
            holder = int(os.pread(file, 20, 0))
            # Try the lock only if the process is alive: trying it briefly blocks a writer that starts now.
            with suppress(PermissionError):
                os.kill(holder, 0)
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder
        finally:
            os.close(file)
    return None


def _sizes(directory: Path, manifest: Manifest) -> Sizes:
    """Add up the sizes of all files, each counted once. O(files)."""
    names = {
        "snapshot": {snapshot_name(manifest.generation)},
        "wal": {wal_name(manifest.generation)},
        "history": {wal_name(past.generation) for past in manifest.past} | _era_files(manifest),
        "ledger": manifest.ledger.files,
        "before": {snapshot_name(manifest.generation - 1), wal_name(manifest.generation - 1), PREVIOUS},
        "manifest": {CURRENT, manifest.spec_file, manifest.plans_file, LOCK, RUN_LOCK, SYNCED},
    }
    found = dict.fromkeys([*names, "other"], 0)
    allocated = 0
    for entry in os.scandir(directory):
        # A writer may remove files that it has replaced.
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                kind = next((kind for kind, several in names.items() if entry.name in several), "other")
                found[kind] += facts.st_size
                allocated += facts.st_blocks * _BLOCK
    dictionaries = sum(_length(a) for name, a in manifest.snapshot.arrays.items() if name.startswith(VALUES))
    return Sizes(**found, dictionaries=dictionaries, total=sum(found.values()), allocated=allocated)


def _era_files(manifest: Manifest) -> set[str]:
    return {name for era in manifest.eras for name in (era_name(era.generation), *era.files)}


def _length(array: ArrayPlace) -> int:
    """Return the size of an array in bytes. A dtype such as `<i8` ends with the size of an item."""
    return int(array.dtype.lstrip("<>|=biuf")) * prod(array.shape)
