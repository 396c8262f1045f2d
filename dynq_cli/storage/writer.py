"""Write to a state: apply changes to its views and its log, then commit them as a version.

    writer.take(batch); writer.take(batch); writer.commit(…)      one version, all or nothing

`take` applies changes to the views and appends them to the log; only `commit` puts them in force. After an error or
`abandon`, the views may have uncommitted changes: use them only if `is_clean`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynq_cli.engine.engine import BatchError, Changes
from dynq_cli.engine.mixed_commits import Ends
from dynq_cli.engine.net_delta import look_around, plain_net_delta
from dynq_cli.engine.tree_delta import Signed
from dynq_cli.engine.views import Views
from dynq_cli.errors import DamagedError, RejectedError
from dynq_cli.phases import phase
from dynq_cli.spec.model import Spec
from dynq_cli.storage.batches import Batch, add_batch
from dynq_cli.storage.clock import clock_changes
from dynq_cli.storage.commit import Coming, commit_version
from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.ledger import AppliedLog, Entry, Ledger, ledger_of
from dynq_cli.storage.log_tail import durable, parse_synced, read_synced
from dynq_cli.storage.manifest import Manifest, read_manifest, remember
from dynq_cli.storage.wal import LogWriter, Record

# Commits of one version after which the deltas of results are not read one by one any more.
MOST_TOLD = 64
# Takes the views, the manifest of a new version, the version before it, and the deltas of results.
Hold = Callable[[Views, Manifest, int, Mapping[str, Signed | None]], None]


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
        log: LogWriter | None = None,
        told: Sequence[str] = (),
        hold: Hold | None = None,
    ) -> None:
        # The results whose deltas are read within each commit, and who gets them when a version is made.
        self._told, self._hold, self._tells = tuple(told), hold, True
        # The time that versions set the clock to, by default that of the system.
        self._now = now
        self._directory = directory
        self._borrow = borrow
        self._rehearsal = rehearsal
        # The log, once it is written to; and one that an earlier writer of this process has left open.
        self._log: LogWriter | None = None
        self._left_open = log
        self._views: Views | None = None
        self._known: Mapping[str, int] = {}
        # Net number of base-row copies inserted by the uncommitted version, by relation.
        self._came: Counter[str] = Counter()
        self._warnings: dict[str, None] = {}
        self._manifest = self._durable = read_manifest(directory)
        self._ledger = ledger_of(directory, self._manifest)
        if rehearsal:
            self._load_ledger()
        else:
            self._adopt()
        self._before = self._manifest.version
        self.is_clean = True

    def _adopt(self) -> None:
        """Sync versions of the tail that a killed process has written, before something is said to be applied."""
        manifest, path = self._manifest, self._directory / wal_name(self._manifest.generation)
        if self._left_open is not None and not self._left_open.continues(path, manifest.wal):
            self._left_open.leave()
            self._left_open = None
        if (
            self._left_open is None
            and manifest.unwritten
            and parse_synced(read_synced(self._directory)) != durable(manifest)
        ):
            self._left_open = LogWriter(path, manifest.generation, manifest.wal)
            self._left_open.sync()
            self._left_open.note_synced()

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
                self._manifest, self._ledger = now, ledger_of(self._directory, now)

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
            self._durable = self._manifest
            self._known = self._views.dictionaries.counts()
            # Those of the changes that the state was opened with.
            self._views.take_warnings()
            self._tell(self._told)
        return self._views

    @property
    def spec(self) -> Spec:
        """The spec of the state."""
        return self.views.spec

    @property
    def skipped(self) -> int:
        """Deletes of missing rows that were skipped so far."""
        return self.views.engine.skipped

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
        if ends is not None and self._tells and max(map(len, ends.values())) > MOST_TOLD:
            # Taking them together is faster, and the difference is found afterwards.
            self._tells = False
            self._tell(())
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

    def _tell(self, queries: Sequence[str]) -> None:
        """Have the deltas of results read from the next commit on; those of none that is given up."""
        if self._views is not None and set(self._views.told) != set(queries):
            self._views.tell(queries)

    def _append(self, record: Record) -> None:
        if self._log is None:
            self._log = self._open_log()
        self._log.append(record)

    def _open_log(self) -> LogWriter:
        path, left = self._directory / wal_name(self._manifest.generation), self._left_open
        self._left_open = None
        if left is not None and left.continues(path, self._manifest.wal):
            return left
        return LogWriter(path, self._manifest.generation, self._manifest.wal)

    def commit(self, origin: Origin, *, sync: bool = True, whole: bool = False) -> int:
        """Commit the changes taken as a version with the time of the clock, durably; return its number.

        Without `sync`, it is durable, and seen by others, after `sync` or the next commit with it. With `whole`, the
        manifest that is replaced has the version, and the log no tail.
        """
        moved = clock_changes(self.views, self._now)
        if moved:
            self.take(moved)
        views, manifest = self.views, self.manifest
        now = time.time_ns() // 1000
        entry = Entry(version=self.version + 1, time=now, logs=tuple(origin.logs), batches=tuple(origin.batches))
        if self._rehearsal:
            sources = dict(manifest.sources)
            for batch in origin.batches:
                sources[batch.source] = add_batch(sources.get(batch.source, ()), batch)
            commits = {**manifest.commits, **origin.commits}
            made = replace(manifest, applied=now, commits=commits, sources=sources, before=self._before)
            self._manifest = replace(made, version=entry.version)
            self._ledger.expect(entry)
            self.is_clean = True
        else:
            self._write(views, Coming(entry, self._before, origin.commits, self._came), sync, whole)
        return self.version

    def _write(self, views: Views, coming: Coming, sync: bool, whole: bool) -> None:
        if self._log is None or self._log.facts == self._manifest.wal:
            self._append(Record(coming.entry.version, {}, {}))
        assert self._log is not None
        log, before = self._log, self._manifest
        self.is_clean = False
        changes = log.facts.changes - before.wal.changes
        with phase(f"writing version {coming.entry.version:,} to disk"), self._undoing():
            self._manifest = commit_version(self._directory, views, before, log, coming, sync=sync, whole=whole)
        if sync or not self._manifest.unwritten:
            self._set_durable()
        self._came = Counter()
        if self._manifest.ledger == before.ledger:
            self._ledger.add(coming.entry)
        else:
            self._ledger = ledger_of(self._directory, self._manifest)
        views.engine.arena.memory.count_applied(changes)
        self.is_clean = True
        deltas = views.take_deltas() if self._tells else {}
        self._tells = True
        self._tell(self._told)
        if self._hold is not None:
            self._hold(views, self._manifest, self._manifest.version - 1, deltas)

    def sync(self) -> None:
        """Make the versions that were committed without `sync` durable: all of them, or none after an error.

        Changes that were taken since are not logged any more.
        """
        if self._log is None or self._durable is self._manifest:
            return
        self._log.abandon()
        with self._undoing():
            self._log.sync()
        self._log.note_synced()
        self._set_durable()

    def _set_durable(self) -> None:
        self._durable = self._manifest
        if self._manifest.unwritten:
            remember(self._directory, self._manifest)

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Go back to the version that is durable if the block fails."""
        try:
            yield
        except BaseException:
            self.is_clean = False
            self._manifest = self._durable
            self._ledger = ledger_of(self._directory, self._manifest)
            raise

    def leave_log(self) -> LogWriter | None:
        """Return the log that the next writer of this process may go on with."""
        log, self._log = self._log or self._left_open, None
        return log

    def take_warnings(self) -> list[str]:
        """Return what the spec wants to be told of the changes taken since the last call."""
        warnings, self._warnings = list(self._warnings), {}
        return warnings

    def abandon(self) -> None:
        """Discard the uncommitted version."""
        self._warnings = {}
        self._came = Counter()
        if self._log is not None:
            self._log.abandon()
        if self.is_clean and self._views is not None:
            self._views.dictionaries.truncate(self._known)
            self._views.engine.told.forget()

    def start_over(self) -> None:
        """Discard the uncommitted version; borrow the views anew if they have uncommitted changes."""
        self.sync()
        self.abandon()
        if not self.is_clean:
            self._views, self.is_clean = None, True
