"""The tail of the write-ahead log: versions that are in force, and that the manifest does not have yet.

    commits_after(path, manifest.wal, synced) = the commits at the end of the log, in order
    fold(manifest, commits) = the manifest with the versions that they made

The last record of a small version is a *commit record*: JSON with all that the version changes in the manifest, and its
entry of the ledger. So one write and one sync of the log make the version durable. The manifest is a checkpoint: it is
replaced when the tail has `MOST_COMMITS` commits or `TAIL_BYTES` bytes, which bounds what every reader reads.

What a killed process or a loss of power left unfinished is no commit, and ends the tail. It is told from damage by two
witnesses that bytes behind it were durable: the file `synced`, which has the length and the checksum of the log at the
last sync, and the commit records behind it, each of which names the length that was durable before it was written.
Damage to the last commit alone is found by the first witness, which a loss of power may take back by seconds.

Nothing here imports numpy: `count` reads the tail.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from dynq_cli.engine.size_facts import QuerySize, RelationSize, TableSizes
from dynq_cli.storage.layout import SYNCED
from dynq_cli.storage.manifest_facts import Counts, Manifest, WalFacts, damaged

TAIL_BYTES = 1 << 18
MOST_COMMITS = 128
# The number of the layout of records.
RECORD = 2
# It, length of the list of arrays, version, length of the content after the header, checksum. A commit has no list.
HEADER = struct.Struct("<IIQQQ")
ALIGN = 8
# Generation, length of the log, checksum of its last record, checksum of these.
_SYNCED = struct.Struct("<QQQQ")
SYNCED_BYTES = _SYNCED.size
_TRIES = 3


class Synced(NamedTuple):
    """What is known to be durable: the log of a generation up to a length, where the last record has this checksum."""

    generation: int
    length: int
    checksum: int

    def reaches(self, manifest: Manifest) -> bool:
        """Whether the log of a manifest, or more of it, is known to be durable."""
        held = durable(manifest)
        return self == held or (self.generation == held.generation and self.length > held.length)


class Commit(NamedTuple):
    """A commit of the tail: the log up to and including its record, and what the record says."""

    wal: WalFacts
    said: Mapping[str, Any]


def record_checksum(before: int, listed: int, version: int, length: int) -> xxhash.xxh3_64:
    """Start the checksum of a record, which covers that of the record before; the caller adds the content."""
    return xxhash.xxh3_64(struct.pack("<IIQQ", RECORD, listed, version, length), seed=before)


def padded(data: bytes) -> bytes:
    """Pad to the alignment of arrays with spaces, which are valid at the end of JSON."""
    return data + b" " * (-len(data) % ALIGN)


def commit_record(before: WalFacts, synced: int, version: int, said: Mapping[str, Any]) -> tuple[bytes, WalFacts]:
    """Return a commit record and the log's facts with it. `before` is the log so far, `synced` its durable length."""
    content = {**said, "changes": before.changes, "after": before.checksum, "synced": synced}
    text = padded(json.dumps(content, separators=(",", ":")).encode())
    made = record_checksum(before.checksum, 0, version, len(text))
    made.update(text)
    checksum = made.intdigest()
    record = HEADER.pack(RECORD, 0, version, len(text), checksum) + text
    return record, WalFacts(before.length + len(record), checksum, before.changes)


def synced_bytes(synced: Synced) -> bytes:
    """Return the content of the file `synced`."""
    body = _SYNCED.pack(*synced, 0)[:-8]
    return body + xxhash.xxh3_64_digest(body)[::-1]


def parse_synced(content: bytes) -> Synced | None:
    """Parse the file `synced`; None if it says nothing, or is not whole."""
    if len(content) != SYNCED_BYTES:
        return None
    found = Synced(*_SYNCED.unpack(content)[:-1])
    return found if synced_bytes(found) == content else None


def read_synced(directory: Path) -> bytes:
    """Read the file `synced`; a missing file reads as empty. A writer replaces its few bytes in place."""
    content = b""
    with suppress(FileNotFoundError):
        for _ in range(_TRIES):
            with open(os.path.join(directory, SYNCED), "rb", buffering=0) as file:
                content = file.read()
            if not any(content) or parse_synced(content) is not None:
                return content
    return content


def durable(manifest: Manifest) -> Synced:
    """Return what the file `synced` says when the log of a manifest is durable."""
    return Synced(manifest.generation, manifest.wal.length, manifest.wal.checksum)


def commits_after(path: Path, checkpoint: WalFacts, limit: int, synced: Synced | None, generation: int) -> list[Commit]:
    """Return the commits within `limit` bytes after a checkpoint of the log. O(limit).

    `synced` is what was known to be durable before the call. DamagedError if a record is not whole and bytes behind it
    were durable. FileNotFoundError if the log is missing.
    """
    with path.open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), limit, checkpoint.length)
    found: list[Commit] = []
    at, checksum, end = 0, checkpoint.checksum, 0
    while (body := at + HEADER.size) <= len(data):
        written, listed, version, size, expected = HEADER.unpack_from(data, at)
        if written != RECORD or listed > size or size > len(data) - body:
            break
        made = record_checksum(checksum, listed, version, size)
        made.update(memoryview(data)[body : body + size])
        if made.intdigest() != expected:
            break
        at, checksum = body + size, expected
        if not listed:
            said = json.loads(data[body:at])
            found.append(Commit(WalFacts(checkpoint.length + at, checksum, said["changes"]), said))
            end = at
    known = synced.length - checkpoint.length if synced and synced.generation == generation else 0
    if known > end or _was_durable(data, at) > checkpoint.length + end:
        raise damaged(path, f"has a record at byte {checkpoint.length + at} that is not what was written")
    return found


def _was_durable(data: bytes, since: int) -> int:
    """Return the largest durable length that a whole commit record behind a broken one names, or 0."""
    most = 0
    if not data.count(0, since) < len(data) - since:
        return most
    for at in range(since + -since % ALIGN, len(data) - HEADER.size + 1, ALIGN):
        written, listed, version, size, expected = HEADER.unpack_from(data, at)
        body = at + HEADER.size
        if written != RECORD or listed or not 0 < size <= len(data) - body:
            continue
        with suppress(ValueError, KeyError, TypeError, struct.error, OverflowError):
            said = json.loads(data[body : body + size])
            made = record_checksum(said["after"], 0, version, size)
            made.update(data[body : body + size])
            if made.intdigest() == expected:
                most = max(most, said["synced"])
    return most


def commit_said(
    entry: Sequence[Any],
    counts: Mapping[str, Counts | None],
    tables: TableSizes,
    before: int,
    commits: Mapping[str, int],
) -> dict[str, Any]:
    """Return the content of a commit record; `entry` is that of the ledger as JSON has it."""
    return {
        "entry": entry,
        "counts": [None if c is None else (c.rows, c.distinct) for c in counts.values()],
        "relations": {name: (size.rows, size.copies, size.length) for name, size in tables.relations.items()},
        "queries": {name: (size.length, size.stored) for name, size in tables.queries.items()},
        "shared": (tables.shared, tables.dictionaries),
        "before": before,
        **({"commits": dict(commits)} if commits else {}),
    }


def fold(manifest: Manifest, commits: Sequence[Commit]) -> Manifest:
    """Return the manifest after commits of its log. O(commits + queries + relations)."""
    if not commits:
        return manifest
    taken, sources = dict(manifest.commits), dict(manifest.sources)
    for commit in commits:
        taken |= commit.said.get("commits", {})
        for batch in commit.said["entry"][3]:
            from dynq_cli.storage.batches import Batch, add_batch

            sources[batch[0]] = add_batch(sources.get(batch[0], ()), Batch(*batch))
    said = commits[-1].said
    return replace(
        manifest,
        number=manifest.number + len(commits),
        version=said["entry"][0],
        applied=said["entry"][1],
        counts={n: None if c is None else Counts(*c) for n, c in zip(manifest.counts, said["counts"], strict=True)},
        tables=TableSizes(
            {name: RelationSize(*size) for name, size in said["relations"].items()},
            {name: QuerySize(*size) for name, size in said["queries"].items()},
            *said["shared"],
        ),
        wal=commits[-1].wal,
        tail=manifest.tail + commits[-1].wal.length - manifest.wal.length,
        commits=taken,
        sources=sources,
        before=said["before"],
        unwritten=(*manifest.unwritten, *(commit.said["entry"] for commit in commits)),
    )
