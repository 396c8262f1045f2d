"""What there is to say about a state without opening it: one manifest, the end of the ledger, the sizes of files.

O(queries + files + recent), whatever the size of the state; no engine, no numpy.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dynq_cli.storage.history import kept_since, needed_since
from dynq_cli.storage.layout import LOCK
from dynq_cli.storage.ledger import Entry, Ledger
from dynq_cli.storage.manifest import Counts, read_manifest


@dataclass(frozen=True)
class Sizes:
    """Bytes: of the files in force, of the logs that are kept for versions before, and of all in the directory."""

    snapshot: int
    wal: int
    ledger: int
    history: int
    total: int


@dataclass(frozen=True)
class StateFacts:
    """A state at one moment. Times are microseconds since 1970, in UTC.

    `waiting` are the changes that opening the state replays; they are in the log and not yet in a snapshot. `writer` is
    the process that is writing now. `before` is the version before the last command that applied something,
    `outputs_at` the version of the last outputs, None if there were none. `kept_since` is the oldest version that can
    be read; marks, and `before`, need those since `needed_since`.
    """

    version: int
    generation: int
    made: int
    applied: int
    counts: Mapping[str, Counts]
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
    files = _sizes(directory)
    sizes = Sizes(
        snapshot=manifest.snapshot.length,
        wal=manifest.wal.length,
        ledger=sum(files.get(name, 0) for name in ledger.files),
        history=sum(past.wal.length for past in manifest.past),
        total=sum(files.values()),
    )
    return StateFacts(
        version=manifest.version,
        generation=manifest.generation,
        made=manifest.made,
        applied=manifest.applied,
        counts=manifest.counts,
        waiting=manifest.wal.changes,
        sizes=sizes,
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


def _sizes(directory: Path) -> dict[str, int]:
    found = {}
    for entry in os.scandir(directory):
        # A writer may take away what it has replaced.
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                found[entry.name] = entry.stat().st_size
    return found
