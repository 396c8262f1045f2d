"""What a manifest says, as records: the version in force, its counts, and the files that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.errors import DamagedError
from dynq_cli.records import record
from dynq_cli.storage.layout import FORMAT, era_name, plans_name, snapshot_name, spec_name, wal_name
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
    """The contents of `CURRENT`, and in memory what the tail of the log adds to them (`log_tail`).

    - `number` counts manifests and commits of the tail, `version` the versions, `generation` the snapshots
    - `plans`: fingerprints of the queries' plans; `counts` are None for queries that keep no count
    - `made`, `applied`: when the state was made and last changed, in microseconds since 1970, in UTC
    - `commits`: the last `_commit_version` of each relation; `sources`: the applied batches of each source
    - `before`: the version before the last command that applied changes
    - `written`: the version whose outputs were written last, or -1
    - `marks`: named versions; `past`: logs of earlier generations back to the oldest mark, ascending
    - `floor`: versions before it were pruned
    - `tables`: sizes of relations and views; None if an earlier version of dynq wrote the manifest
    - `spec_since`: the version since which the spec holds; `eras`: what came before versions that made the views anew
    - `unwritten`: entries of the ledger, as JSON, that only the tail of the log has; `tail`: its length in bytes
    - `format`: the format of the file
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
    unwritten: tuple[Any, ...] = ()
    tail: int = 0
    format: int = FORMAT

    @property
    def spec_file(self) -> str:
        return spec_name(self.spec_since)

    @property
    def plans_file(self) -> str:
        """The name of the file with the plans, which may be missing."""
        return plans_name(self.spec_since)

    @property
    def versions_noted(self) -> int:
        """The number of entries of the ledger, with those of the tail."""
        return self.ledger.entries + len(self.unwritten)

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


def damaged(path: Path, what: str) -> DamagedError:
    """Return the error for a damaged file; `what` completes the sentence after its path."""
    return DamagedError(f"{path} {what}: the state is damaged\n  hint: put the directory back from a copy of it")
