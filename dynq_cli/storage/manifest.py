"""The manifest: version, counts, lengths and checksums of all files. Every commit replaces it.

The file `CURRENT` is a line with a checksum, then the manifest as JSON. It has the lengths and checksums of all other
files, so a flipped bit in any of them is detected. Replacing `CURRENT` is the commit: it syncs one file beside the
log. Reading it needs neither numpy nor an engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from dynq_cli.atomic import sync_directory
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.errors import DamagedError, NoStateError, UsageError
from dynq_cli.records import record
from dynq_cli.storage.layout import (
    CURRENT,
    FORMAT,
    PREVIOUS,
    SPEC,
    checksum_of,
    era_name,
    plans_name,
    snapshot_name,
    spec_name,
    wal_name,
    write_whole,
)
from dynq_cli.storage.ledger_facts import LedgerFacts


@record(frozen=True)
class Counts:
    """The number of result rows, as a bag or a set as the query says, and of distinct rows."""

    rows: int
    distinct: int


@record(frozen=True)
class ArrayPlace:
    """An array in a snapshot: dtype, shape, and byte offset."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


@record(frozen=True)
class SnapshotFacts:
    """A snapshot file: its version, length, checksum, arrays, and the layout number of its views (`ENGINE`)."""

    version: int
    length: int
    checksum: str
    arrays: Mapping[str, ArrayPlace]
    engine: int


@record(frozen=True)
class WalFacts:
    """The committed part of a log: its length, the checksum of its last record, and the number of changes in it."""

    length: int
    checksum: int
    changes: int


@record(frozen=True)
class PastLog:
    """The log of an earlier generation: the version and checksum at which it starts, and its committed part."""

    generation: int
    version: int
    seed: int
    wal: WalFacts

    @property
    def start(self) -> WalFacts:
        """The empty log, before its first record."""
        return WalFacts(0, self.seed, 0)


@record(frozen=True)
class Era:
    """The versions before an `alter` made the views anew, the oldest of them `since`, the last one `until`.

    They are read with the manifest in the file of the `generation`, whose checksum this is; it needs these `files`.
    """

    generation: int
    since: int
    until: int
    checksum: str
    files: tuple[str, ...]


@record(frozen=True)
class Manifest:
    """The contents of `CURRENT`.

    - `number` counts manifests, `version` the versions, `generation` the snapshots
    - `plans`: fingerprints of the queries' plans; `counts` are None for queries that keep no count
    - `made`, `applied`: when the state was made and last changed, in microseconds since 1970, in UTC
    - `commits`: the last `_commit_version` of each relation; `sources`: the applied batches of each source
    - `before`: the version before the last command that applied changes
    - `written`: the version whose outputs were written last, or -1
    - `marks`: named versions; `past`: logs of earlier generations back to the oldest mark, ascending
    - `floor`: versions before it were pruned
    - `tables`: sizes of relations and views; None if an earlier version of dynq wrote the manifest
    - `spec_since`: the version since which the spec holds; `eras`: what came before versions that made the views anew
    """

    number: int
    version: int
    generation: int
    spec: str
    plans: Mapping[str, str]
    counts: Mapping[str, Counts | None]
    snapshot: SnapshotFacts
    wal: WalFacts
    ledger: LedgerFacts
    made: int
    applied: int
    commits: Mapping[str, int]
    sources: Mapping[str, tuple[tuple[str, str], ...]]
    before: int = 0
    written: int = -1
    marks: Mapping[str, int] = field(default_factory=dict)
    past: tuple[PastLog, ...] = ()
    floor: int = 0
    tables: TableSizes | None = None
    spec_since: int = 0
    eras: tuple[Era, ...] = ()

    @property
    def spec_file(self) -> str:
        return spec_name(self.spec_since)

    @property
    def plans_file(self) -> str:
        """The name of the file with the plans, which may be missing."""
        return plans_name(self.spec_since)

    @property
    def rows_files(self) -> frozenset[str]:
        """The names of the files that the versions since the last era need."""
        logs = [self.generation, *(past.generation for past in self.past)]
        return frozenset([self.spec_file, self.plans_file, snapshot_name(self.generation), *map(wal_name, logs)])

    @property
    def files(self) -> frozenset[str]:
        """The names of the files that this version and the older ones need; `plans_file` may be missing."""
        of_eras = (name for era in self.eras for name in (era_name(era.generation), *era.files))
        return self.ledger.files.union(self.rows_files, of_eras)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Put a manifest in force, durably. The files it names must be durable before."""
    # Left out where they say nothing: so versions of dynq that know no `alter` read states that were never altered.
    said = {name: value for name, value in vars(manifest).items() if value or name not in ("spec_since", "eras")}
    text = json.dumps({"format": FORMAT, **said}, default=vars).encode() + b"\n"
    write_whole(directory / CURRENT, checksum_of(text).encode() + b"\n" + text)


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
    """Read the manifest in force. O(queries). NoStateError if there is no state, DamagedError if it is damaged."""
    path = directory / CURRENT
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if any(directory.glob("snapshot-*")):
            raise damaged(path, "is missing") from None
        raise NoStateError(
            f"there is no state in {directory}\n  hint: make one with `dynq init SPEC`, or name another with --state"
        ) from None
    return parse_manifest(path, content)


def parse_manifest(path: Path, content: bytes) -> Manifest:
    """Parse a manifest. DamagedError if its checksum does not match, NoStateError if it has another format."""
    checksum, _, text = content.partition(b"\n")
    if checksum != checksum_of(text).encode():
        raise damaged(path, "is not what was written")
    return _parse(path, text)


def damaged(path: Path, what: str) -> DamagedError:
    """Return the error for a damaged file; `what` completes the sentence after its path."""
    return DamagedError(f"{path} {what}: the state is damaged\n  hint: put the directory back from a copy of it")


def _parse(path: Path, text: bytes) -> Manifest:
    read: dict[str, Any] = json.loads(text)
    written = read.pop("format")
    if written != FORMAT:
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
