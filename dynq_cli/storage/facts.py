"""What there is to say about a state without opening it: one manifest, the end of the ledger, the sizes of files.

O(queries + files + recent), whatever the size of the state; no engine, no numpy.
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
from dynq_cli.storage.layout import CURRENT, LOCK, PLANS, PREVIOUS, RUN_LOCK, SPEC, snapshot_name, wal_name
from dynq_cli.storage.ledger import Entry, Ledger
from dynq_cli.storage.manifest import ArrayPlace, Counts, Manifest, read_manifest

_BLOCK = 512  # bytes of `st_blocks`, whatever the file system's are


@dataclass(frozen=True)
class Sizes:
    """Bytes of the files of a state; those of `total` are the sum of all but `dictionaries` and `allocated`.

    `snapshot` and `wal` are in force; `dictionaries` are a part of the snapshot. `history` are the logs of generations
    before that lead to versions which are kept. `before` is the rest of the generation before: its snapshot, its
    manifest, and its log if no version needs it. `manifest` are the manifest in force, the spec, its plans and the
    locks. `other` was left behind, is being written, or is not of the state. `allocated` is the room that the file
    system gives to all of them: less than `total` where files have holes.
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

    `waiting` are the changes that opening the state replays; they are in the log and not yet in a snapshot. `writer` is
    the process that is writing now. `before` is the version before the last command that applied something,
    `outputs_at` the version of the last outputs, None if there were none. `kept_since` is the oldest version that can
    be read; marks, and `before`, need those since `needed_since`. `tables` are the sizes of relations and views in
    memory, None if an earlier version of dynq wrote the state.
    """

    version: int
    generation: int
    made: int
    applied: int
    counts: Mapping[str, Counts]
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
    """The facts of the version in force, with so many of the latest entries of the ledger.

    NoStateError where there is no state, DamagedError where what is read is not what was written.
    """
    manifest = read_manifest(directory)
    ledger = manifest.ledger
    return StateFacts(
        version=manifest.version,
        generation=manifest.generation,
        made=manifest.made,
        applied=manifest.applied,
        counts=manifest.counts,
        tables=manifest.tables,
        waiting=manifest.wal.changes,
        sizes=_sizes(directory, manifest),
        versions_noted=ledger.entries,
        recent=tuple(Ledger(directory, ledger).entries(limit=recent)),
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
    """The process that is writing to a state now, without getting into the way of one that is about to.

    A writer that was killed leaves its number behind, so whoever has that number has to be there and hold the lock.
    """
    with suppress(FileNotFoundError, ProcessLookupError, ValueError):
        file = os.open(directory / LOCK, os.O_RDONLY)
        try:
            holder = int(os.pread(file, 20, 0))
            # Only a living process is worth a try of the lock, which for a moment keeps others from taking it.
            with suppress(PermissionError):
                os.kill(holder, 0)
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder
        finally:
            os.close(file)
    return None


def _sizes(directory: Path, manifest: Manifest) -> Sizes:
    """The sizes of all files, each counted once. O(files)."""
    names = {
        "snapshot": {snapshot_name(manifest.generation)},
        "wal": {wal_name(manifest.generation)},
        "history": {wal_name(past.generation) for past in manifest.past},
        "ledger": manifest.ledger.files,
        "before": {snapshot_name(manifest.generation - 1), wal_name(manifest.generation - 1), PREVIOUS},
        "manifest": {CURRENT, SPEC, PLANS, LOCK, RUN_LOCK},
    }
    found = dict.fromkeys([*names, "other"], 0)
    allocated = 0
    for entry in os.scandir(directory):
        # A writer may take away what it has replaced.
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                kind = next((kind for kind, several in names.items() if entry.name in several), "other")
                found[kind] += facts.st_size
                allocated += facts.st_blocks * _BLOCK
    dictionaries = sum(_length(a) for name, a in manifest.snapshot.arrays.items() if name.startswith(VALUES))
    return Sizes(**found, dictionaries=dictionaries, total=sum(found.values()), allocated=allocated)


def _length(array: ArrayPlace) -> int:
    """The bytes of an array: a dtype ends with those of an item, as in `<i8`."""
    return int(array.dtype.lstrip("<>|=biuf")) * prod(array.shape)
