"""Eras: the versions before an `alter` that made the views anew, each read with the manifest of its end.

    write_era(directory, manifest)     keep the manifest in force under a name of its own, before it is replaced
    manifest_of(directory, m, v)       the manifest with which version v is read: m, or that of its era

An `alter` starts with other columns, codes and dictionaries, so no log leads from its version back to the one before.
What was there stays as it was: the bytes that a manifest refers to never change. An era is a manifest, and costs the
files that it names, for as long as a mark, or the next diff, needs one of its versions (`history`).
"""

from __future__ import annotations

from pathlib import Path

from dynq_cli.storage.history import era_of, kept_since
from dynq_cli.storage.layout import CURRENT, checksum_of, era_name, write_new
from dynq_cli.storage.manifest import Era, Manifest, damaged, parse_manifest


def write_era(directory: Path, manifest: Manifest) -> Era:
    """Keep the manifest in force; durable after the next sync of the directory. O(manifest)."""
    content = (directory / CURRENT).read_bytes()
    write_new(directory / era_name(manifest.generation), content)
    since = max(manifest.past[0].version if manifest.past else manifest.snapshot.version, manifest.floor)
    assert manifest.eras or since == kept_since(manifest)
    return Era(manifest.generation, since, manifest.version, checksum_of(content), tuple(sorted(manifest.rows_files)))


def read_era(directory: Path, era: Era) -> Manifest:
    """Read the manifest of an era. FileNotFoundError if it is gone, DamagedError if it is damaged."""
    path = directory / era_name(era.generation)
    content = path.read_bytes()
    if checksum_of(content) != era.checksum:
        raise damaged(path, "is not what was written")
    return parse_manifest(path, content)


def manifest_of(directory: Path, manifest: Manifest, version: int) -> Manifest:
    """Return the manifest with which a kept version is read. O(manifest)."""
    era = era_of(manifest, version)
    return manifest if era is None else read_era(directory, era)
