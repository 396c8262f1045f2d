"""Replace the manifest by one that has the tail of the log. The caller holds the lock.

    checkpoint(directory, manifest)    append the entries of the tail to the ledger, then put the manifest in force

Killed before the end, the state is as it was: the tail still has its versions, and the ledger's new entries are cut.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dynq_cli.storage.ledger import append_entries
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
    return replace(manifest, ledger=append_entries(directory, manifest.ledger, manifest.unwritten), unwritten=())
