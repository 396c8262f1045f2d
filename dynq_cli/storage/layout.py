"""The names of a state's files, and writing them so that they appear whole or not at all.

    CURRENT         the manifest in force: the version, its counts, lengths and checksums of the files below
    PREVIOUS        the last manifest of the generation before, whose snapshot and log are kept too
    spec.yaml       the spec, frozen
    plans.json      its plans, for the version of dynq that made them
    snapshot-NNNN   an engine's arrays
    wal-NNNN        what was committed after the snapshot of the same number
    ledger          which logs became which version
    ledger-index-NN where in the ledger
    lock            who is writing
    run-lock        who is running `dynq run`

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

# The layout of files, log records, dictionaries and base rows; a change of any of them is a new number, and states of
# another one are refused.
FORMAT = 2
# How views stand in the arena; a change is a new number, and views of another one are built anew from the base rows.
ENGINE = 5
CURRENT, PREVIOUS, SPEC, PLANS = "CURRENT", "PREVIOUS", "spec.yaml", "plans.json"
LOCK, RUN_LOCK = "lock", "run-lock"
OURS = re.compile(r"(snapshot|wal|ledger-index)-\d+(\.tmp)?|(CURRENT|PREVIOUS)\.tmp")


def snapshot_name(generation: int) -> str:
    return f"snapshot-{generation:04d}"


def wal_name(generation: int) -> str:
    return f"wal-{generation:04d}"


def checksum_of(data: bytes | memoryview) -> str:
    """Sixteen hex digits of xxh3; O(bytes), ten gigabytes a second."""
    return xxhash.xxh3_64_hexdigest(data)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole, or as it was, whatever happens; durable when this returns."""
    temporary = path.with_name(path.name + TEMPORARY)
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that nothing names yet; its name is durable with the next `sync_directory`."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_at(file: int, place: int, data: bytes | memoryview) -> None:
    """Write all of the data from a byte of an open file on."""
    left = memoryview(data)
    while left:
        done = os.pwrite(file, left, place)
        place, left = place + done, left[done:]


def remove_others(directory: Path, kept: Set[str]) -> None:
    """Remove the state's files that are not in `kept`; other files are none of our business."""
    for entry in os.scandir(directory):
        if entry.name not in kept and OURS.fullmatch(entry.name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
