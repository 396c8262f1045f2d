"""The manifest of a state of shards: the version in force, and the plan by which rows go to shards.

The file `SHARDS` is a line with a checksum, then JSON. Replacing it puts a version of all shards in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from dynq_cli.errors import NoStateError
from dynq_cli.plan.codec import CodecError, decode, encode
from dynq_cli.plan.shards import ShardPlan
from dynq_cli.records import record
from dynq_cli.storage.layout import SHARDS, checksum_of, write_whole
from dynq_cli.storage.manifest import damaged

MEMBERS = "shards"
# Version of this manifest and of the hashes of values.
FORMAT = 1


@record(frozen=True)
class ShardsManifest:
    """The contents of `SHARDS`; `number` counts manifests, `queries` are in the order of the spec.

    `clock` is the time that the last version set the clocks of the shards to; `before`, `written` and `marks` are as in
    the manifest of a state.
    """

    number: int
    version: int
    spec: str
    queries: tuple[str, ...]
    plan: ShardPlan
    made: int
    clock: int
    before: int = 0
    written: int = -1
    marks: Mapping[str, int] = field(default_factory=dict)

    @property
    def members(self) -> tuple[tuple[str, int], ...]:
        """Every shard, as its group and its number in it."""
        return tuple((group.name, i) for group in self.plan.groups for i in range(group.size))


def member_directory(directory: Path, group: str, number: int) -> Path:
    """Return the directory of a shard."""
    return directory / MEMBERS / f"{group}-{number}"


def read_shards(directory: Path) -> ShardsManifest:
    """Read the manifest in force. DamagedError if it is damaged, NoStateError if it has another format."""
    path = directory / SHARDS
    try:
        checksum, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise NoStateError(f"there is no state of shards in {directory}") from None
    if checksum != checksum_of(text).encode():
        raise damaged(path, "is not what was written")
    read = json.loads(text)
    if read.pop("format") != FORMAT:
        raise NoStateError(f"{directory} has shards of another format\n  hint: use the version of dynq that wrote it")
    try:
        return decode(ShardsManifest, read["manifest"])
    except CodecError:
        raise NoStateError(f"{directory} was written by another version of dynq; nothing was changed") from None


def write_shards(directory: Path, manifest: ShardsManifest) -> ShardsManifest:
    """Put a manifest in force, durably, under the next number; return it."""
    made = replace(manifest, number=manifest.number + 1)
    text = json.dumps({"format": FORMAT, "manifest": encode(ShardsManifest, made)}, separators=(",", ":")).encode()
    text += b"\n"
    write_whole(directory / SHARDS, checksum_of(text).encode() + b"\n" + text)
    return made
