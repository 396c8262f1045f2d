"""The manifest: version, counts, lengths and checksums of all files.

The file `CURRENT` is a line with a checksum, then the manifest as JSON. It has the lengths and checksums of all other
files, so a flipped bit in any of them is detected. It is a checkpoint: small versions after it are in the tail of the
log (`log_tail`), and `read_manifest` returns the manifest with them. Reading needs neither numpy nor an engine.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from dynq_cli.atomic import sync_directory
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.errors import DamagedError, NoStateError, RejectedError, UsageError
from dynq_cli.storage.layout import (
    CURRENT,
    FORMAT,
    PREVIOUS,
    READABLE,
    SHARDS,
    SPEC,
    checksum_of,
    wal_name,
    write_whole,
)
from dynq_cli.storage.ledger_facts import LedgerFacts
from dynq_cli.storage.log_tail import (
    HEADER,
    TAIL_BYTES,
    commits_after,
    durable,
    fold,
    parse_synced,
    read_synced,
    synced_bytes,
)
from dynq_cli.storage.manifest_facts import (
    ArrayPlace,
    Counts,
    Era,
    Manifest,
    PastLog,
    SnapshotFacts,
    WalFacts,
    damaged,
)

__all__ = [
    "ArrayPlace",
    "Counts",
    "Era",
    "Manifest",
    "PastLog",
    "SnapshotFacts",
    "WalFacts",
    "damaged",
    "drop_previous",
    "keep_manifest",
    "parse_manifest",
    "query_name",
    "read_checkpoint",
    "read_manifest",
    "remember",
    "with_tail",
    "write_manifest",
]

# The name of fields that only a manifest in memory has.
_IN_MEMORY = ("unwritten", "tail", "format")


class _Known(NamedTuple):
    """A manifest that was read before: the bytes of `CURRENT` and `synced`, and the log behind which nothing was."""

    content: bytes
    synced: bytes
    log: str
    manifest: Manifest


_known: dict[str, _Known] = {}
_MOST_KNOWN = 8


def write_manifest(directory: Path, manifest: Manifest) -> Manifest:
    """Put a manifest in force, durably, and return it. The files it names, and its ledger, must be durable before."""
    assert not manifest.unwritten
    # Left out where they say nothing: so versions of dynq that know no `alter` read states that were never altered.
    said = {name: value for name, value in vars(manifest).items() if value or name not in ("spec_since", "eras")}
    for name in _IN_MEMORY:
        said.pop(name, None)
    text = json.dumps({"format": FORMAT, **said}, default=vars).encode() + b"\n"
    write_whole(directory / CURRENT, checksum_of(text).encode() + b"\n" + text)
    return replace(manifest, tail=0, format=FORMAT)


def keep_manifest(directory: Path) -> None:
    """Copy the manifest in force to `PREVIOUS`, as the last one of its generation."""
    write_whole(directory / PREVIOUS, (directory / CURRENT).read_bytes())


def drop_previous(directory: Path) -> int:
    """Remove `PREVIOUS` durably, so that the files of its generation can be removed; return the bytes freed."""
    path = directory / PREVIOUS
    try:
        length = path.stat().st_size
    except FileNotFoundError:
        return 0
    path.unlink()
    sync_directory(directory)
    return length


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest in force, with the tail of the log. NoStateError if there is no state.

    O(tail + queries), and O(1) if it was read before and is the same. DamagedError if a checksum does not match, and
    bytes behind it were durable.
    """
    while True:
        content = _read_current(directory)
        try:
            return with_tail(directory, content)
        except (FileNotFoundError, DamagedError) as error:
            # A writer may have started another generation, or replaced the manifest, which bounds the tail.
            if _read_current(directory) != content:
                continue
            if isinstance(error, DamagedError):
                raise
            raise damaged(Path(error.filename), "is missing") from None


def read_checkpoint(directory: Path) -> Manifest:
    """Read the manifest without the tail of the log, for those who look for damage."""
    return parse_manifest(directory / CURRENT, _read_current(directory))


def _read_current(directory: Path) -> bytes:
    path = directory / CURRENT
    try:
        return _bytes_of(os.path.join(directory, CURRENT))
    except (FileNotFoundError, NotADirectoryError):
        if any(directory.glob("snapshot-*")):
            raise damaged(path, "is missing") from None
        if (directory / SHARDS).exists():
            raise RejectedError(
                f"{directory} is a state of shards, on which this command is not offered; nothing was changed\n"
                "  hint: docs/scale.md lists the commands that work on shards"
            ) from None
        raise NoStateError(
            f"there is no state in {directory}\n  hint: make one with `dynq init SPEC`, or name another with --state"
        ) from None


def _bytes_of(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def with_tail(directory: Path, content: bytes) -> Manifest:
    """Return the manifest with this content, and with the commits behind the log that it names.

    FileNotFoundError if the log is missing.
    """
    name, synced = os.fspath(directory), read_synced(directory)
    witness, known = parse_synced(synced), _known.get(name)
    if known is not None and known.content == content and known.synced == synced and not _has_more(known):
        return known.manifest
    base = None
    if known is not None and known.content == content and witness is not None:
        # Go on from there, if the log still has it.
        base = known.manifest if witness.reaches(known.manifest) else None
    base = base or parse_manifest(directory / CURRENT, content)
    if base.format != FORMAT:
        return base
    log = directory / wal_name(base.generation)
    try:
        commits = commits_after(log, base.wal, TAIL_BYTES - base.tail, witness, base.generation)
    except DamagedError:
        if known is None or base is not known.manifest:
            raise
        del _known[name]
        return with_tail(directory, content)
    manifest = fold(base, commits)
    # A version that is not known to be durable may be withdrawn: what was read is not remembered.
    if not manifest.unwritten or witness == durable(manifest):
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[name] = _Known(content, synced, os.fspath(log), manifest)
    return manifest


def _has_more(known: _Known) -> bool:
    """Whether a record may follow those of a manifest that was read before."""
    with open(known.log, "rb", buffering=0) as file:
        return any(os.pread(file.fileno(), HEADER.size, known.manifest.wal.length))


def remember(directory: Path, manifest: Manifest) -> None:
    """Spare this process from reading the version that it has just added to the tail. The caller holds the lock."""
    known = _known.get(os.fspath(directory))
    if known is not None and known.manifest.generation == manifest.generation:
        _known[os.fspath(directory)] = known._replace(synced=synced_bytes(durable(manifest)), manifest=manifest)


def parse_manifest(path: Path, content: bytes) -> Manifest:
    """Parse a manifest. DamagedError if its checksum does not match, NoStateError if it has another format."""
    checksum, _, text = content.partition(b"\n")
    if checksum != checksum_of(text).encode():
        raise damaged(path, "is not what was written")
    return _parse(path, text)


def _parse(path: Path, text: bytes) -> Manifest:
    read: dict[str, Any] = json.loads(text)
    written = read.pop("format")
    if written not in READABLE:
        raise NoStateError(
            f"{path.parent} has format {written} and this version of dynq reads format {FORMAT}; nothing was changed\n"
            "  hint: use the version that wrote it; or make a new state, `dynq init "
            f"{path.parent / SPEC} --state DIR`, and give it the data again, with --load and `dynq apply`"
        )
    snapshot, tables = read.pop("snapshot"), read.pop("tables", None)
    arrays = {
        name: ArrayPlace(a["dtype"], tuple(a["shape"]), a["offset"]) for name, a in snapshot.pop("arrays").items()
    }
    return Manifest(
        snapshot=SnapshotFacts(arrays=arrays, **snapshot),
        wal=WalFacts(**read.pop("wal")),
        eras=tuple(Era(**{**era, "files": tuple(era["files"])}) for era in read.pop("eras", ())),
        past=tuple(PastLog(wal=WalFacts(**p.pop("wal")), **p) for p in read.pop("past")),
        ledger=LedgerFacts.of(read.pop("ledger")),
        sources={name: tuple((a, b) for a, b in taken) for name, taken in read.pop("sources").items()},
        counts={name: None if c is None else Counts(**c) for name, c in read.pop("counts").items()},
        tables=None if tables is None else TableSizes.of(tables),
        format=written,
        **read,
    )


def query_name(manifest: Manifest, named: str | None) -> str:
    """The query that is meant; the only one where none is named. UsageError if there is no such query, or several."""
    names = list(manifest.counts)
    if named is None and len(names) != 1:
        raise UsageError(f"which query? There is {', '.join(names)}")
    query = named or names[0]
    if query not in names:
        raise UsageError(f"no query {query} in the spec; there is {', '.join(names)}")
    return query
