"""Open an engine from files: map the snapshot, replay the write-ahead log.

    open_engine(directory, manifest) = the engine that wrote the manifest: the same rows, ids and order

Replay is deterministic: every process starts from a snapshot, also the one that wrote it, and applies the same records.
O(log), and O(snapshot) at the speed of a checksum. If another version of dynq wrote the views, `rebuild` builds them
anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError
from dynq_cli.phases import phase
from dynq_cli.records import record
from dynq_cli.storage.layout import snapshot_name, wal_name
from dynq_cli.storage.manifest import Manifest, WalFacts, damaged, read_manifest
from dynq_cli.storage.plans import Planned, plans_for
from dynq_cli.storage.rebuild import has_views, rebuild
from dynq_cli.storage.snapshot import Mapped, open_snapshot
from dynq_cli.storage.wal import no_records, read_records

# A change copies its pages one by one, which takes as long as copying 16 KB at once. When a process has spent a quarter
# of the time that copying the whole snapshot takes, it copies the whole snapshot.
BYTES_PER_CHANGE = 64 * 1024


@record()
class Opened:
    """An engine, the manifest of its version, and its mapped snapshot.

    `plans` are the fingerprints of the plans of its views. `applied` counts the changes applied by this process.
    """

    manifest: Manifest
    views: Views
    snapshot: Mapped
    plans: Mapping[str, str]
    is_rebuilt: bool = False
    applied: int = 0

    def count_applied(self, changes: int) -> None:
        """Count applied changes. After enough of them, copy all pages at once: many more are expected."""
        self.applied += changes
        if self.applied * BYTES_PER_CHANGE > self.manifest.snapshot.length:
            self.snapshot.make_private()


def open_latest(directory: Path, planned: Planned) -> Opened:
    """Open the version in force; try again if a writer replaces it meanwhile.

    Plans of another spec than that of the version in force are read anew.
    """
    while True:
        manifest = read_manifest(directory)
        try:
            return open_engine(directory, manifest, plans_for(directory, manifest, planned))
        except (FileNotFoundError, DamagedError) as error:
            # A writer that has committed meanwhile removes files that are no longer needed.
            if read_manifest(directory).number != manifest.number:
                continue
            if isinstance(error, DamagedError):
                raise
            raise damaged(Path(error.filename), "is missing") from None


def open_engine(directory: Path, manifest: Manifest, planned: Planned) -> Opened:
    """Open the engine of a manifest. FileNotFoundError if a file is missing, DamagedError if one is damaged."""
    path = directory / snapshot_name(manifest.generation)
    mapped = open_snapshot(path, manifest.snapshot)
    if not has_views(manifest, planned):
        views = Views(planned.spec, planned.kept)
        rebuild(directory, manifest, views, mapped.arrays)
        return Opened(manifest, views, mapped, planned.fingerprints, is_rebuilt=True)
    try:
        views = Views(planned.spec, planned.kept, mapped.arrays)
    except ValueError:
        raise damaged(path, "has other tables than this version writes") from None
    opened = Opened(manifest, views, mapped, planned.fingerprints)
    _replay(directory, opened, no_records(manifest.snapshot), manifest)
    return opened


def catch_up(directory: Path, opened: Opened, manifest: Manifest) -> None:
    """Replay the log up to a later manifest of the same generation. After a failure the engine must be discarded."""
    _replay(directory, opened, opened.manifest.wal, manifest)


def _replay(directory: Path, opened: Opened, since: WalFacts, manifest: Manifest) -> None:
    with phase("replaying the write-ahead log", "changes", manifest.wal.changes - since.changes) as replaying:
        for entry in read_records(directory / wal_name(manifest.generation), since, manifest.wal):
            opened.views.dictionaries.extend(entry.values)
            opened.views.attempt(entry.batch, entry.ends)
            replaying.add(sum(map(len, entry.batch.values())))
    opened.manifest = manifest
