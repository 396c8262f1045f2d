"""Remove what a state does not need: the previous generation, versions without a mark, files of killed processes.

`PREVIOUS` is removed before the files it names. So a killed prune leaves files without a manifest, which the next prune
removes. Readers that have mapped a removed file keep their mapping; later readers open the files that `CURRENT` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dynq_cli.atomic import sync_directory
from dynq_cli.storage.checkpoint import checkpoint
from dynq_cli.storage.history import kept_since, pruned
from dynq_cli.storage.kinds import verbs_of
from dynq_cli.storage.layout import OURS, PREVIOUS
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Manifest, drop_previous, read_manifest


@dataclass(frozen=True)
class Pruned:
    """The names of the removed files, the bytes freed, the oldest kept version, and the versions no longer kept."""

    removed: tuple[str, ...]
    length: int
    kept_since: int
    given_up: range = range(0)


def prune(directory: Path) -> Pruned:
    """Remove all files that no kept version needs. LockedError if another process is writing. O(files)."""
    if (shards := verbs_of(directory)) is not None:
        done: Pruned = shards["prune"](directory)
        return done
    read_manifest(directory)
    with writing_to(directory):
        held = read_manifest(directory)
        manifest = pruned(held)
        if manifest != held:
            # Which may write an index of the ledger.
            manifest = checkpoint(directory, replace(manifest, number=manifest.number + 1))
        removed: dict[str, int] = {}
        if length := drop_previous(directory):
            removed[PREVIOUS] = length
        for entry in spare_files(directory, manifest):
            removed[entry.name] = entry.stat().st_size
            os.unlink(entry.path)
        sync_directory(directory)
    oldest = kept_since(manifest)
    return Pruned(tuple(removed), sum(removed.values()), oldest, range(kept_since(held), oldest))


def spare_files(directory: Path, *needed_by: Manifest) -> Iterator[os.DirEntry[str]]:
    """Yield dynq's own files that none of these manifests names, sorted by name; skip all other files."""
    names: set[str] = set()
    for manifest in needed_by:
        names |= manifest.files
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        if OURS.fullmatch(entry.name) and entry.name not in names and entry.is_file(follow_symlinks=False):
            yield entry
