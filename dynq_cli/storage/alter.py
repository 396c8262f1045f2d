"""Put a changed spec in force, as one version. The caller holds the lock.

    keep_views(…)     the plans and the columns are those of before: a new spec beside the snapshot and log in force
    commit_views(…)   a new generation with new views; what was there before becomes an era (`eras`)

Both write new files, then replace `CURRENT`: killed before that, the state is as it was, and the next commit or prune
removes the files. Marks, ledger, batches and version numbers go on. O(spec), and O(state) for new views.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dynq_cli.engine.arena_snapshot import parts_of
from dynq_cli.engine.table_sizes import sizes_of
from dynq_cli.engine.views import Views
from dynq_cli.phases import phase
from dynq_cli.storage.checkpoint import without_tail
from dynq_cli.storage.commit import counts_of, files_kept
from dynq_cli.storage.eras import write_era
from dynq_cli.storage.layout import remove_others, snapshot_name, spec_name, wal_name, write_new
from dynq_cli.storage.ledger import AppliedLog, Entry, append_entry
from dynq_cli.storage.manifest import Manifest, drop_previous, keep_manifest, write_manifest
from dynq_cli.storage.plans import Planned, write_plans
from dynq_cli.storage.snapshot import write_snapshot
from dynq_cli.storage.wal import LogWriter, Record, no_records


def has_same_rows(kept: Planned, given: Planned) -> bool:
    """Whether the views of one spec are those of the other: the same columns, keys and programs, in the same order."""
    relations = [[(r.name, r.columns, r.key) for r in planned.spec.relations] for planned in (kept, given)]
    served = [[(q.name, q.keep) for q in planned.spec.queries] for planned in (kept, given)]
    return (
        relations[0] == relations[1]
        and served[0] == served[1]
        and list(kept.programs.items()) == list(given.programs.items())
    )


def keep_views(directory: Path, manifest: Manifest, planned: Planned, text: str, marks: Mapping[str, int]) -> Manifest:
    """Put a spec in force whose views are there. O(spec)."""
    manifest = without_tail(directory, manifest)
    made = _with_spec(directory, manifest, planned, text, marks)
    log = LogWriter(directory / wal_name(manifest.generation), manifest.generation, manifest.wal)
    log.append(Record(made.version, {}, {}))
    made = replace(made, wal=log.sync(), ledger=append_entry(directory, manifest.ledger, _entry(made, ())))
    log.close()
    made = write_manifest(directory, made)
    remove_others(directory, files_kept(made))
    return made


def commit_views(
    directory: Path,
    manifest: Manifest,
    planned: Planned,
    text: str,
    views: Views,
    logs: Sequence[AppliedLog],
    marks: Mapping[str, int],
) -> Manifest:
    """Put a spec in force with views that were filled for it. O(state).

    The generation before the one in force is removed first, so that the disk never holds three snapshots.
    """
    manifest = without_tail(directory, manifest)
    drop_previous(directory)
    remove_others(directory, manifest.files)
    era = write_era(directory, manifest)
    generation = manifest.generation + 1
    made = _with_spec(directory, manifest, planned, text, marks)
    write_new(directory / wal_name(generation), b"")
    snapshot = write_snapshot(directory / snapshot_name(generation), parts_of(views), made.version)
    names = {relation.name for relation in planned.spec.relations}
    made = replace(
        made,
        generation=generation,
        snapshot=snapshot,
        wal=no_records(snapshot),
        past=(),
        eras=(*manifest.eras, era),
        counts=counts_of(views),
        tables=sizes_of(views),
        commits={name: last for name, last in manifest.commits.items() if name in names},
        ledger=append_entry(directory, manifest.ledger, _entry(made, logs)),
    )
    keep_manifest(directory)
    with phase(f"writing version {made.version:,} to disk"):
        made = write_manifest(directory, made)
    remove_others(directory, files_kept(made))
    return made


def _with_spec(directory: Path, manifest: Manifest, planned: Planned, text: str, marks: Mapping[str, int]) -> Manifest:
    """Write a spec and its plans under new names; return the manifest that has them."""
    version = manifest.version + 1
    write_new(directory / spec_name(version), text.encode())
    write_plans(directory, planned, text, version)
    return replace(
        manifest,
        number=manifest.number + 1,
        version=version,
        spec=planned.checksum,
        spec_since=version,
        plans=planned.fingerprints,
        counts={name: manifest.counts[name] for name in planned.plans if name in manifest.counts},
        applied=time.time_ns() // 1000,
        marks={**manifest.marks, **marks},
    )


def _entry(made: Manifest, logs: Sequence[AppliedLog]) -> Entry:
    return Entry(version=made.version, time=made.applied, logs=tuple(logs))
