"""Replace the manifest by one that has the tail of the log. The caller holds the lock.

    checkpoint(directory, manifest)    append the entries of the tail to the ledger, then put the manifest in force

Killed before the end, the state is as it was: the tail still has its versions, and the ledger's new entries are cut.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.ledger import append_entries
from dynq_cli.storage.log_tail import durable, parse_synced, read_synced
from dynq_cli.storage.manifest import Manifest, write_manifest


def checkpoint(directory: Path, manifest: Manifest) -> Manifest:
    """Put a manifest in force, durably, with the ledger's entries of the tail. O(manifest + entries), three syncs."""
    return write_manifest(directory, with_ledger(directory, manifest))


def without_tail(directory: Path, manifest: Manifest) -> Manifest:
    """As `checkpoint`, of the manifest in force; does nothing if `CURRENT` has it."""
    return checkpoint(directory, manifest) if manifest.unwritten else manifest


def with_ledger(directory: Path, manifest: Manifest) -> Manifest:
    """Append the entries of the tail to the ledger, durably; return the manifest with them."""
    if not manifest.unwritten:
        return manifest
    if parse_synced(read_synced(directory)) != durable(manifest):
        # A killed process may have written the tail: no manifest may name bytes that a loss of power can take.
        _sync(directory / wal_name(manifest.generation))
    return replace(manifest, ledger=append_entries(directory, manifest.ledger, manifest.unwritten), unwritten=())


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(file)
    finally:
        os.close(file)
