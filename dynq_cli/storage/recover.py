"""From files to an engine: map the snapshot, replay the log.

    open_engine(directory, manifest) = the engine that wrote the manifest: the same rows, ids and order

Replaying is deterministic: a snapshot is what every process goes on from, the one that wrote it included, and
a record is what the engine was given. O(log), and O(snapshot) at the speed of a checksum. Where the views are those of
another version of dynq, they are built anew (`rebuild`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dynq_cli.engine.views import Views
from dynq_cli.phases import phase
from dynq_cli.records import record
from dynq_cli.storage.layout import snapshot_name, wal_name
from dynq_cli.storage.manifest import Manifest, WalFacts, damaged, read_manifest
from dynq_cli.storage.plans import Planned
from dynq_cli.storage.rebuild import has_views, rebuild
from dynq_cli.storage.snapshot import Mapped, open_snapshot
from dynq_cli.storage.wal import no_records, read_records

# In the time that a change takes to copy its pages one by one, 16 KB are copied at once. When a process has spent a
# quarter of what copying everything takes, everything is copied.
BYTES_PER_CHANGE = 64 * 1024


@record()
class Opened:
    """An engine, the manifest whose version it is at, and the snapshot that it was mapped from.

    `plans` are the fingerprints of the plans that its views are of. `applied` counts the changes that this process
    applied itself.
    """

    manifest: Manifest
    live: Views
    snapshot: Mapped
    plans: Mapping[str, str]
    is_rebuilt: bool = False
    applied: int = 0

    def count_applied(self, changes: int) -> None:
        """Note changes; from some number on the process is taken for one that will apply many more."""
        self.applied += changes
        if self.applied * BYTES_PER_CHANGE > self.manifest.snapshot.length:
            self.snapshot.make_private()


def open_latest(directory: Path, planned: Planned) -> Opened:
    """The engine of the version in force, whatever a writer does meanwhile."""
    while True:
        manifest = read_manifest(directory)
        try:
            return open_engine(directory, manifest, planned)
        except FileNotFoundError as error:
            # A writer that went on removes what nothing names any more.
            if read_manifest(directory).number == manifest.number:
                raise damaged(Path(error.filename), "is missing") from None


def open_engine(directory: Path, manifest: Manifest, planned: Planned) -> Opened:
    """The engine of a manifest. FileNotFoundError, or DamagedError, if a file is not there as it was written."""
    path = directory / snapshot_name(manifest.generation)
    mapped = open_snapshot(path, manifest.snapshot)
    if not has_views(manifest, planned):
        live = Views(planned.spec, planned.kept)
        rebuild(directory, manifest, live, mapped.arrays)
        return Opened(manifest, live, mapped, planned.fingerprints, is_rebuilt=True)
    try:
        live = Views(planned.spec, planned.kept, mapped.arrays)
    except ValueError:
        raise damaged(path, "has other tables than this version writes") from None
    opened = Opened(manifest, live, mapped, planned.fingerprints)
    _replay(directory, opened, no_records(manifest.snapshot), manifest)
    return opened


def catch_up(directory: Path, opened: Opened, manifest: Manifest) -> None:
    """Bring an engine to a later manifest of its generation. If it fails, the engine is of no use any more."""
    _replay(directory, opened, opened.manifest.wal, manifest)


def _replay(directory: Path, opened: Opened, since: WalFacts, manifest: Manifest) -> None:
    with phase("replaying the write-ahead log", "changes", manifest.wal.changes - since.changes) as replaying:
        for entry in read_records(directory / wal_name(manifest.generation), since, manifest.wal):
            opened.live.dictionaries.extend(entry.values)
            opened.live.attempt(entry.batch, entry.ends)
            replaying.add(sum(map(len, entry.batch.values())))
    opened.manifest = manifest
