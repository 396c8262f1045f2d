"""Open views from files: map the snapshot, replay the write-ahead log.

    open_views(directory, manifest, plans) = the views that wrote the manifest: the same rows, ids and order

Replay is deterministic: every process starts from a snapshot, also the one that wrote it, and applies the same records.
O(log), and O(snapshot) at the speed of a checksum. If another version of dynq wrote the views, `rebuild` builds them
anew.
"""

from __future__ import annotations

from pathlib import Path

from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError
from dynq_cli.phases import phase
from dynq_cli.storage.layout import snapshot_name, wal_name
from dynq_cli.storage.manifest import Manifest, WalFacts, damaged, read_manifest
from dynq_cli.storage.plans import Planned, plans_for
from dynq_cli.storage.rebuild import has_views, rebuild
from dynq_cli.storage.snapshot import open_snapshot
from dynq_cli.storage.wal import no_records, read_records


def open_latest(directory: Path, planned: Planned) -> tuple[Manifest, Views]:
    """Open the version in force; try again if a writer replaces it meanwhile.

    Plans of another spec than that of the version in force are read anew.
    """
    while True:
        manifest = read_manifest(directory)
        try:
            return manifest, open_views(directory, manifest, plans_for(directory, manifest, planned))
        except (FileNotFoundError, DamagedError) as error:
            # A writer that has committed meanwhile removes files that are no longer needed.
            if read_manifest(directory).number != manifest.number:
                continue
            if isinstance(error, DamagedError):
                raise
            raise damaged(Path(error.filename), "is missing") from None


def open_views(directory: Path, manifest: Manifest, planned: Planned) -> Views:
    """Open the views of a manifest. FileNotFoundError if a file is missing, DamagedError if one is damaged."""
    path = directory / snapshot_name(manifest.generation)
    arrays = open_snapshot(path, manifest.snapshot)
    if not has_views(manifest, planned):
        views = Views(planned.spec, planned.kept)
        rebuild(directory, manifest, views, arrays)
        return views
    try:
        views = Views(planned.spec, planned.kept, arrays)
    except ValueError:
        raise damaged(path, "has other tables than this version writes") from None
    _replay(directory, views, no_records(manifest.snapshot), manifest)
    return views


def catch_up(directory: Path, views: Views, since: Manifest, manifest: Manifest) -> None:
    """Replay the log up to a later manifest of the same generation. After a failure the views must be discarded."""
    _replay(directory, views, since.wal, manifest)


def _replay(directory: Path, views: Views, since: WalFacts, manifest: Manifest) -> None:
    with phase("replaying the write-ahead log", "changes", manifest.wal.changes - since.changes) as replaying:
        for entry in read_records(directory / wal_name(manifest.generation), since, manifest.wal):
            views.dictionaries.extend(entry.values)
            views.attempt(entry.batch, entry.ends)
            replaying.add(sum(map(len, entry.batch.values())))
