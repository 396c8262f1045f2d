"""The shards of a state, each an ordinary state; and taking back those that a killed commit left ahead.

    keep_before(shard)          before its commit: the manifest in force stays beside it, under the name BEFORE
    take_back(shard, version)   after a killed commit: the kept manifest is in force again

Taking back needs no other file: a manifest names lengths of files that only grow, and a snapshot is written only when
the manifest of all shards has the version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dynq_cli.errors import LockedError
from dynq_cli.storage.layout import CURRENT, write_whole
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Manifest, damaged, parse_manifest, read_manifest, write_manifest
from dynq_cli.storage.shards.manifest import ShardsManifest, member_directory, read_shards
from dynq_cli.storage.shards.routing import Member

BEFORE = "BEFORE"
# How long a reader sleeps while shards are being committed, which takes a few syncs of the disk.
_PAUSE = 0.002


def keep_before(shard: Path) -> None:
    """Keep the manifest in force under another name. O(1): it is a link, or a copy where there are no links."""
    path, coming = shard / BEFORE, shard / f"{BEFORE}.tmp"
    with suppress(FileNotFoundError):
        coming.unlink()
    try:
        os.link(shard / CURRENT, coming)
        coming.replace(path)
    except OSError:
        write_whole(path, (shard / CURRENT).read_bytes())


def take_back(shard: Path, version: int) -> None:
    """Put the version of all shards in force in a shard that is ahead of it. DamagedError if it is not kept there."""
    manifest = read_manifest(shard)
    if manifest.version == version:
        return
    if manifest.version < version:
        raise damaged(shard, f"is at version {manifest.version} and the other shards are at {version}")
    path = shard / BEFORE
    try:
        kept = parse_manifest(path, path.read_bytes())
    except FileNotFoundError:
        raise damaged(path, "is missing") from None
    if kept.version != version:
        raise damaged(path, f"has version {kept.version} and not {version}")
    write_manifest(shard, replace(kept, number=manifest.number + 1))


def settled(directory: Path) -> tuple[ShardsManifest, Mapping[Member, Manifest]]:
    """Return the manifest in force, and those of the shards, which are all at its version.

    While a process commits, wait: that takes a few syncs. Shards that a killed process left ahead are taken back.
    """
    while True:
        top = read_shards(directory)
        found = {member: read_manifest(member_directory(directory, *member)) for member in top.members}
        if all(manifest.version == top.version for manifest in found.values()):
            return top, found
        if read_shards(directory).number != top.number:
            continue
        try:
            with writing_to(directory):
                recover(directory)
        except LockedError:
            time.sleep(_PAUSE)


def recover(directory: Path) -> ShardsManifest:
    """Take back all shards that are ahead; the caller holds the lock. Return the manifest in force."""
    top = read_shards(directory)
    for member in top.members:
        take_back(member_directory(directory, *member), top.version)
    return top
