"""The one writer of a state: takes changes in, and makes them a version.

    writer.take(batch); writer.take(batch); writer.commit(…)      one version, all or nothing

What `take` is given is in the engine and in the log, and counts for nothing before `commit`. After a refusal, or
`abandon`, the engine may hold what was never committed: `is_clean` says whether it can still be used.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynq_cli.engine.codes import Codes
from dynq_cli.engine.engine import BatchError, Changes
from dynq_cli.engine.net_delta import look_around, plain_net_delta
from dynq_cli.errors import DamagedError, RejectedError
from dynq_cli.phases import phase
from dynq_cli.storage.batches import Batch, add_batch
from dynq_cli.storage.commit import commit_version
from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.ledger import AppliedLog, Entry, Ledger
from dynq_cli.storage.manifest import Manifest, read_manifest
from dynq_cli.storage.recover import Opened
from dynq_cli.storage.wal import LogWriter, Record


@dataclass(frozen=True)
class Origin:
    """Where the changes of a version come from: its logs, the last `_commit_version` by relation, batches."""

    logs: Sequence[AppliedLog] = ()
    commits: Mapping[str, int] = field(default_factory=dict)
    batches: Sequence[Batch] = ()


class Writer:
    """See the module. The caller holds the lock, unless it is a rehearsal, of which nothing reaches the disk.

    The engine is opened when it is first needed: whoever finds nothing new does not wait for it.
    """

    def __init__(self, directory: Path, open_engine: Callable[[], Opened], *, rehearsal: bool = False) -> None:
        self._directory = directory
        self._open = open_engine
        self._rehearsal = rehearsal
        self._log: LogWriter | None = None
        self._opened: Opened | None = None
        self._known: Mapping[str, int] = {}
        # Copies of rows that came, less those that went, in the version in the making.
        self._came: Counter[str] = Counter()
        self._manifest = read_manifest(directory)
        self._ledger = Ledger(directory, self._manifest.ledger)
        if rehearsal:
            self._load_ledger()
        self._before = self._manifest.version
        self.is_clean = True

    def _load_ledger(self) -> None:
        """Open all of the ledger now: without the lock, a writer may remove what it has replaced of it."""
        while True:
            try:
                self._ledger.check()
                return
            except DamagedError:
                now = read_manifest(self._directory)
                if now.number == self._manifest.number:
                    raise
                self._manifest, self._ledger = now, Ledger(self._directory, now.ledger)

    @property
    def manifest(self) -> Manifest:
        """What is in force."""
        return self._manifest if self._opened is None else self._opened.manifest

    @property
    def is_open(self) -> bool:
        """Whether the engine was needed."""
        return self._opened is not None

    @property
    def opened(self) -> Opened:
        """The engine, at the version in force and what was taken since."""
        if self._opened is None:
            self._opened = self._open()
            self._known = self._opened.live.dictionaries.counts()
        return self._opened

    @property
    def ledger(self) -> Ledger:
        """What was applied up to the version in force, or that a rehearsal would be at."""
        return self._ledger

    @property
    def version(self) -> int:
        """The version in force, or in a rehearsal the one that would be."""
        return self.manifest.version

    def take(self, batch: Mapping[str, Changes], ends: Codes | None = None) -> None:
        """Changes of the version in the making: a commit, or several of one relation that end before `ends`.

        BatchError where a change is refused: then nothing of this call holds, or, with `ends`, the commits
        before it. RejectedError if a result, or a view that is kept for it, would be too large.
        """
        live = self.opened.live
        was_clean, self.is_clean = self.is_clean, False
        around = look_around(live, batch)
        try:
            with phase(f"updating the views with {sum(map(len, batch.values())):,} changes"):
                live.attempt(batch, ends)
        except RejectedError as error:
            reason, *hint = str(error).split("\n")
            raise type(error)("\n".join([f"{reason}; nothing was changed", *hint])) from None
        except BatchError:
            self.is_clean = was_clean and ends is None
            raise
        if not self._rehearsal:
            nets = {relation: look.net() for relation, look in around.items()}
            for relation, changes in batch.items():
                self._came[relation] += int((nets.get(relation) or plain_net_delta(changes)).delta.sum())
            self._append(Record(self.version + 1, batch, live.dictionaries.since(self._known), ends, nets))
        self._known = live.dictionaries.counts()

    def _append(self, record: Record) -> None:
        if self._log is None:
            manifest = self.opened.manifest
            self._log = LogWriter(self._directory / wal_name(manifest.generation), manifest.wal)
        self._log.append(record)

    def commit(self, origin: Origin) -> int:
        """Make what was taken a version, durably; its number."""
        now = time.time_ns() // 1000
        entry = Entry(version=self.version + 1, time=now, logs=tuple(origin.logs), batches=tuple(origin.batches))
        manifest = self.opened.manifest
        sources = dict(manifest.sources)
        for batch in origin.batches:
            sources[batch.source] = add_batch(sources.get(batch.source, ()), batch)
        made = replace(
            manifest,
            applied=now,
            commits={**manifest.commits, **origin.commits},
            sources=sources,
            before=self._before,
        )
        if self._rehearsal:
            self.opened.manifest = replace(made, version=entry.version)
            self._ledger.expect(entry)
            self.is_clean = True
        else:
            self._write(made, entry)
        return self.version

    def _write(self, made: Manifest, entry: Entry) -> None:
        if self._log is None:
            self._append(Record(entry.version, {}, {}))
        assert self._log is not None
        log, self._log = self._log, None
        self.is_clean = False
        changes = log.facts.changes - made.wal.changes
        with phase(f"writing version {entry.version:,} to disk"):
            commit_version(self._directory, self.opened, replace(made, wal=log.sync()), entry, self._came)
        self._came = Counter()
        self._ledger = Ledger(self._directory, self.manifest.ledger)
        self.opened.count_applied(changes)
        self.is_clean = True

    def abandon(self) -> None:
        """Give up the version in the making; what was committed stays."""
        self._came = Counter()
        if self._log is not None:
            log, self._log = self._log, None
            log.abandon()
        if self.is_clean and self._opened is not None:
            self._opened.live.dictionaries.truncate(self._known)

    def start_over(self) -> None:
        """Give up the version in the making and go on from the one in force, whatever was taken."""
        self.abandon()
        if not self.is_clean:
            self._opened, self.is_clean = None, True
