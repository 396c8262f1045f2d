"""Write to a state: apply changes to its views and its log, then commit them as a version.

    writer.take(batch); writer.take(batch); writer.commit(…)      one version, all or nothing

`take` applies changes to the views and appends them to the log; only `commit` puts them in force. After an error or
`abandon`, the views may have uncommitted changes: use them only if `is_clean`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynq_cli.engine.engine import BatchError, Changes
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.engine.net_delta import look_around, plain_net_delta
from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError, RejectedError
from dynq_cli.phases import phase
from dynq_cli.storage.batches import Batch, add_batch
from dynq_cli.storage.clock import clock_changes
from dynq_cli.storage.commit import commit_version
from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.ledger import AppliedLog, Entry, Ledger
from dynq_cli.storage.manifest import Manifest, read_manifest
from dynq_cli.storage.wal import LogWriter, Record


@dataclass(frozen=True)
class Origin:
    """The origin of a version's changes: its logs, the last `_commit_version` by relation, and its batches."""

    logs: Sequence[AppliedLog] = ()
    commits: Mapping[str, int] = field(default_factory=dict)
    batches: Sequence[Batch] = ()


class Writer:
    """Takes changes and commits versions; see the module.

    The caller holds the lock, except in a rehearsal, which writes nothing. `borrow` returns the version in force and
    its views, which the writer changes. It is called when they are first used, so a command that finds nothing new does
    not wait for them.
    """

    def __init__(
        self,
        directory: Path,
        borrow: Callable[[], tuple[Manifest, Views]],
        *,
        rehearsal: bool = False,
        now: int | None = None,
    ) -> None:
        # The time that versions set the clock to, by default that of the system.
        self._now = now
        self._directory = directory
        self._borrow = borrow
        self._rehearsal = rehearsal
        self._log: LogWriter | None = None
        self._views: Views | None = None
        self._known: Mapping[str, int] = {}
        # Net number of base-row copies inserted by the uncommitted version, by relation.
        self._came: Counter[str] = Counter()
        self._warnings: dict[str, None] = {}
        self._manifest = read_manifest(directory)
        self._ledger = Ledger(directory, self._manifest.ledger)
        if rehearsal:
            self._load_ledger()
        self._before = self._manifest.version
        self.is_clean = True

    def _load_ledger(self) -> None:
        """Load the ledger now: without the lock, a concurrent writer may remove indexes that it has replaced."""
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
        """The manifest in force; in a rehearsal, that of the last rehearsed version."""
        return self._manifest

    @property
    def has_views(self) -> bool:
        """Whether the views are borrowed."""
        return self._views is not None

    @property
    def views(self) -> Views:
        """The views, at the version in force plus the changes taken since; borrowed at the first use."""
        if self._views is None:
            self._manifest, self._views = self._borrow()
            self._known = self._views.dictionaries.counts()
            # Those of the changes that the state was opened with.
            self._views.take_warnings()
        return self._views

    @property
    def ledger(self) -> Ledger:
        """The ledger up to the version in force, in a rehearsal with the rehearsed versions."""
        return self._ledger

    @property
    def version(self) -> int:
        """The version in force, or the last rehearsed one."""
        return self.manifest.version

    def take(self, batch: Mapping[str, Changes], ends: Ends | None = None) -> None:
        """Apply changes to the uncommitted version: one commit, or several with exclusive `ends` by relation.

        BatchError if a change is rejected: then the call has no effect, or, with `ends`, only the commits before the
        bad one. RejectedError if a result or a view would be too large.
        """
        views = self.views
        was_clean, self.is_clean = self.is_clean, False
        around = look_around(views, batch)
        try:
            with phase(f"updating the views with {sum(map(len, batch.values())):,} changes"):
                views.attempt(batch, ends)
        except RejectedError as error:
            reason, *hint = str(error).split("\n")
            raise type(error)("\n".join([f"{reason}; nothing was changed", *hint])) from None
        except BatchError:
            self.is_clean = was_clean and ends is None
            raise
        self._warnings |= dict.fromkeys(views.take_warnings())
        if not self._rehearsal:
            nets = {relation: look.net() for relation, look in around.items()}
            for relation, changes in batch.items():
                self._came[relation] += int((nets.get(relation) or plain_net_delta(changes)).delta.sum())
            self._append(Record(self.version + 1, batch, views.dictionaries.since(self._known), ends, nets))
        self._known = views.dictionaries.counts()

    def _append(self, record: Record) -> None:
        if self._log is None:
            self._log = LogWriter(self._directory / wal_name(self._manifest.generation), self._manifest.wal)
        self._log.append(record)

    def commit(self, origin: Origin) -> int:
        """Commit the changes taken as a version with the time of the clock, durably; return its number."""
        moved = clock_changes(self.views, self._now)
        if moved:
            self.take(moved)
        views, manifest = self.views, self.manifest
        now = time.time_ns() // 1000
        entry = Entry(version=self.version + 1, time=now, logs=tuple(origin.logs), batches=tuple(origin.batches))
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
            self._manifest = replace(made, version=entry.version)
            self._ledger.expect(entry)
            self.is_clean = True
        else:
            self._write(views, made, entry)
        return self.version

    def _write(self, views: Views, made: Manifest, entry: Entry) -> None:
        if self._log is None:
            self._append(Record(entry.version, {}, {}))
        assert self._log is not None
        log, self._log = self._log, None
        self.is_clean = False
        changes = log.facts.changes - made.wal.changes
        with phase(f"writing version {entry.version:,} to disk"):
            self._manifest = commit_version(self._directory, views, replace(made, wal=log.sync()), entry, self._came)
        self._came = Counter()
        self._ledger = Ledger(self._directory, self._manifest.ledger)
        views.engine.arena.memory.count_applied(changes)
        self.is_clean = True

    def take_warnings(self) -> list[str]:
        """Return what the spec wants to be told of the changes taken since the last call."""
        warnings, self._warnings = list(self._warnings), {}
        return warnings

    def abandon(self) -> None:
        """Discard the uncommitted version."""
        self._warnings = {}
        self._came = Counter()
        if self._log is not None:
            log, self._log = self._log, None
            log.abandon()
        if self.is_clean and self._views is not None:
            self._views.dictionaries.truncate(self._known)

    def start_over(self) -> None:
        """Discard the uncommitted version; borrow the views anew if they have uncommitted changes."""
        self.abandon()
        if not self.is_clean:
            self._views, self.is_clean = None, True
