"""Names of the files of a state, and atomic writes of them.

    CURRENT         the manifest in force: the version, its counts, lengths and checksums of the files below
    PREVIOUS        the last manifest of the previous generation, whose snapshot and log are kept too
    spec.yaml       the spec, as `init` read it; spec-NNNN.yaml as the `alter` read it that made version NNNN
    plans.json      its plans, valid for the version of dynq that made them; plans-NNNN.json with spec-NNNN.yaml
    snapshot-NNNN   the arrays of an engine
    wal-NNNN        the write-ahead log: commits after the snapshot of the same number
    era-NNNN        the last manifest before an `alter`, of generation NNNN: versions up to there are read with it
    ledger          which logs became which version
    ledger-index-NN index of the ledger by log and batch
    synced          the length of the log at the last sync; lost or old, it is missed by nothing but damage
    lock            process id of the writer
    run-lock        process id of `dynq run`

Nothing here imports more than the standard library and xxhash: `count` reads one of these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import xxhash

from dynq_cli.atomic import TEMPORARY, sync_directory

# Version of the layout of files, log records, dictionaries and base rows. Increase it when any of them changes: states
# with another number are refused, but for those in READABLE.
FORMAT = 3
# In states of format 2 every version is in the manifest: what is behind the log that it names was never committed.
READABLE = (2, FORMAT)
# Version of the layout of views in the arena. Increase it when that changes: views with another number are rebuilt from
# the base rows.
ENGINE = 7
CURRENT, PREVIOUS, SPEC, PLANS = "CURRENT", "PREVIOUS", "spec.yaml", "plans.json"
# The manifest of a state of shards, which has no CURRENT of its own (`storage/shards`).
SHARDS = "SHARDS"
LOCK, RUN_LOCK, SYNCED = "lock", "run-lock", "synced"
OURS = re.compile(
    r"(snapshot|wal|ledger-index|era)-\d+(\.tmp)?|(CURRENT|PREVIOUS)\.tmp|spec(-\d+)?\.yaml|plans(-\d+)?\.json"
)


def snapshot_name(generation: int) -> str:
    return f"snapshot-{generation:04d}"


def wal_name(generation: int) -> str:
    return f"wal-{generation:04d}"


def era_name(generation: int) -> str:
    return f"era-{generation:04d}"


def spec_name(since: int) -> str:
    """Name the file of the spec that holds since a version."""
    return f"spec-{since:04d}.yaml" if since else SPEC


def plans_name(since: int) -> str:
    return f"plans-{since:04d}.json" if since else PLANS


def checksum_of(data: bytes | memoryview) -> str:
    """Return the xxh3 checksum as 16 hex digits. O(bytes), about ten gigabytes a second."""
    return xxhash.xxh3_64_hexdigest(data)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically; the new content is durable when this returns."""
    temporary = path.with_name(path.name + TEMPORARY)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that no manifest names yet; its name is durable after the next `sync_directory`."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_at(file: int, place: int, data: bytes | memoryview) -> None:
    """Write all data to an open file, starting at the byte `place`."""
    left = memoryview(data)
    while left:
        done = os.pwrite(file, left, place)
        place, left = place + done, left[done:]


def remove_others(directory: Path, kept: Set[str]) -> None:
    """Remove dynq's own files that are not in `kept`; leave all other files alone."""
    for entry in os.scandir(directory):
        if entry.name not in kept and OURS.fullmatch(entry.name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
