"""Apply change logs to a state: each file, or each extraction, becomes a version.

    apply_logs(state, paths) applies the new logs below the paths, in their order

A log that was applied before is skipped. A log that contradicts an applied one, by its name or its batch, is refused.
A refused log changes nothing; the versions made before it stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from dynq_cli.engine.views import Views
from dynq_cli.errors import BlockedError, DynqError, RejectedError, SpecError, UsageError
from dynq_cli.io.logs.chunks import rows_in, schema_columns
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.io.logs.identity import Identity, identity_of, refuse_changed
from dynq_cli.io.logs.model import Group, LogFile, LogRows
from dynq_cli.io.logs.read import Log, form_named, read_log
from dynq_cli.phases import phase
from dynq_cli.session.batch_order import Turn, batch_order
from dynq_cli.session.commits import BackwardsError, Commits, TakesRows
from dynq_cli.session.marks import marks_of
from dynq_cli.session.row_counts import RowCounts
from dynq_cli.spec.model import Spec
from dynq_cli.storage.batches import Batch, check_batch
from dynq_cli.storage.ledger import AppliedLog
from dynq_cli.storage.state import State, create_from
from dynq_cli.storage.writer import Origin, Writer


@dataclass(frozen=True)
class Options:
    """How to apply logs: the options of `dynq apply`. With `inbox`, the paths are inboxes (`discover`)."""

    relation: str | None = None
    form: str | None = None
    atomic: bool = False
    upsert: bool = False
    dry_run: bool = False
    allow_replay: bool = False
    skip_missing_deletes: bool = False
    inbox: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of a log: its version and row counts, or the reason for none. `set_aside`: place of a refused log."""

    path: str
    version: int | None
    form: str = ""
    rows: int = 0
    inserted: int = 0
    replaced: int = 0
    deleted: int = 0
    skipped_deletes: int = 0
    replayed: int = 0
    warnings: tuple[str, ...] = ()
    reason: str = ""
    refused: bool = False
    set_aside: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Refused = Callable[[Group, DynqError], Outcome]


def apply_logs(
    state: State,
    paths: Sequence[str],
    options: Options = Options(),
    tell: Callable[[Outcome], None] = lambda outcome: None,
    progress: Callable[[int], None] = lambda rows: None,
    warn: Callable[[str], None] = lambda message: None,
    refuse: Refused | None = None,
) -> list[Outcome]:
    """Apply the new logs below the paths.

    Call `tell` with each outcome once its version is durable, `progress` with the number of rows read, and `warn` with
    a message for each skipped file.

    RejectedError at the first refused log; LockedError if another process is writing. With `refuse`, call it for a log
    with refused content, and apply the others; any other error ends the call (BlockedError).
    """
    form_named(options.form)  # reject a bad form even if all logs are applied already
    outcomes: list[Outcome] = []
    refused: dict[int, DynqError] = {}

    def took(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell(outcome)

    turns: list[Turn] | None = None
    while True:
        with state.writing(rehearsal=options.dry_run) as writer:
            if turns is None:
                turns = batch_order(_groups(state, paths, options, warn, keep_refused=refuse is not None))
            for place, turn in enumerate(turns):
                if place in refused:
                    continue
                try:
                    outcome = _GroupApplication(writer, turn, options, progress).run()
                except DynqError as error:
                    if refuse is None or not _is_content(error):
                        raise _with_version(error, writer.version) from None
                    refused[place] = error
                    took(refuse(turn.group, error))
                    if options.dry_run and not writer.is_clean:
                        break  # the rehearsal begins again, without this log
                    writer.start_over()
                    continue
                if place >= len(outcomes):
                    took(outcome)
            else:
                return outcomes


def _groups(
    state: State, paths: Sequence[str], options: Options, warn: Callable[[str], None], *, keep_refused: bool
) -> list[Group]:
    return find_groups(
        paths,
        [r.name for r in state.spec.own_relations],
        relation=options.relation,
        atomic=options.atomic,
        inbox=options.inbox,
        keep_refused=keep_refused,
        warn=warn,
    )


def _is_content(error: DynqError) -> bool:
    """Whether a refusal is about what a log holds, not about the spec, the plan or the disk."""
    return isinstance(error, RejectedError | UsageError) and not isinstance(error, BlockedError | SpecError)


def _with_version(error: DynqError, version: int) -> DynqError:
    if not isinstance(error, RejectedError):
        return error
    of = RejectedError if isinstance(error, SpecError) else type(error)
    return of(f"{error}\n  nothing of it was applied; the state is at version {version}")


def make(
    spec: str | PathLike[str],
    state: str | PathLike[str],
    loads: Sequence[tuple[str, str]] = (),
    progress: Callable[[int], None] = lambda rows: None,
    now: int | None = None,
    shards: int | None = None,
) -> State:
    """Create the state of a spec at version 0, filled from `loads`, pairs (relation, path). All or nothing.

    With `shards`, a state of so many shards.

    The state has the marks of its outputs from the start: so the diffs of the first `run` begin at version 0, whatever
    is applied and pruned before it.
    """
    if shards is None:
        return create_from(spec, state, lambda views: load(views, loads, progress), marks_of, now)
    made: State = _of_shards("make_sharded")(spec, state, shards, loads, progress, now)
    return made


def load(views: Views, loads: Sequence[tuple[str, str]], progress: Callable[[int], None]) -> list[AppliedLog]:
    """Insert the rows of files into empty relations, pairs (relation, path); return what the ledger has of them."""
    return load_rows(views.spec, lambda: Commits(views, views.attempt, hold=True), loads, progress)


def load_rows(
    spec: Spec, begin: Callable[[], TakesRows], loads: Sequence[tuple[str, str]], progress: Callable[[int], None]
) -> list[AppliedLog]:
    """As `load`; `begin` returns what takes the rows of a relation."""
    logs: list[AppliedLog] = []
    for relation, group in _to_load([r.name for r in spec.own_relations], loads):
        commits, readings = begin(), []
        for file in group.files:
            identity = identity_of(file, group.extractions)
            reading = _Reading(file, identity, read_log(file, spec, relation=relation))
            for rows in reading.rows_read(progress):
                commits.take_rows(file, rows)
            readings.append(reading)
        with phase(f"updating the views with the rows of {relation}"):
            commits.finish()
        logs += [reading.applied(commits) for reading in readings]
    return logs


def columns_in(names: Sequence[str], loads: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the columns that files to load have, each in one of them at least."""
    groups = [group for _, group in _to_load(names, loads)]
    return frozenset(column for group in groups for file in group.files for column in schema_columns(file))


def _to_load(names: Sequence[str], loads: Sequence[tuple[str, str]]) -> list[tuple[str, Group]]:
    """Find the files to load, by relation. UsageError if there is no such relation, or a file is named twice."""
    found = []
    seen: set[tuple[str, str]] = set()
    for relation, path in loads:
        if relation not in names:
            raise UsageError(
                f"--load {relation}={path}: no relation {relation} in the spec; there is {', '.join(names)}"
            )
        for group in find_groups([path], names, relation=relation, atomic=True):
            for file in group.files:
                place = relation, os.path.realpath(file.path)
                if place in seen:
                    raise UsageError(f"--load {relation}={path}: {file.path} is loaded already; name it once")
                seen.add(place)
            found.append((relation, group))
    return found


@dataclass
class _Reading:
    """A file being read, and its number of rows so far."""

    file: LogFile
    identity: Identity
    log: Log
    rows: int = 0

    def rows_read(self, progress: Callable[[int], None]) -> Iterator[LogRows]:
        with phase(f"applying {os.path.basename(self.file.path)}", total=rows_in(self.file)) as applying:
            for rows in self.log.rows():
                yield rows
                self.rows += len(rows)
                applying.add(len(rows))
                progress(len(rows))
        refuse_changed(self.file, self.identity)

    def applied(self, commits: TakesRows) -> AppliedLog:
        """Return the ledger's record of the file. Call it after `Commits.finish`."""
        i, counted = self.identity, commits.counted.get(self.file.path, RowCounts())
        return AppliedLog(
            i.relation,
            i.name,
            i.content,
            i.length,
            self.log.form,
            self.rows,
            counted.inserted,
            counted.deleted,
            counted.replaced,
        )


@dataclass
class _GroupApplication:
    """Applies one group of files as a version."""

    writer: Writer
    turn: Turn
    options: Options
    progress: Callable[[int], None]
    replayed: int = 0
    warnings: list[str] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def group(self) -> Group:
        return self.turn.group

    def run(self) -> Outcome:
        if self.turn.refused is not None:
            raise self.turn.refused
        batch = self.turn.batch
        batches = [] if batch is None else [Batch(batch.source, batch.start, batch.stop)]
        if batches:
            reason = self._known_batch(batches[0])
            files = [] if reason else list(self._identified())
        else:
            files = self._new_files()
            reason = "" if files else "applied before"
        if reason:
            return Outcome(self.group.path, None, reason=reason)
        skipped = self.writer.skipped
        # With several files or relations, the order of `_commit_version`s is known only after reading all.
        hold = len(files) != 1 or files[0][0].relation is None or self.options.dry_run
        try:
            logs = self._take(files, hold)
        except BackwardsError:
            self.writer.start_over()
            skipped = self.writer.skipped
            logs = self._take(files, hold=True)
        skipped = self.writer.skipped - skipped
        version = self.writer.commit(Origin(logs, self.versions, batches))
        return Outcome(
            path=self.group.path,
            version=version,
            form=", ".join(dict.fromkeys(log.form for log in logs)),
            rows=sum(log.rows for log in logs),
            inserted=sum(log.inserted for log in logs),
            replaced=sum(log.replaced or 0 for log in logs),
            deleted=sum(log.deleted for log in logs),
            skipped_deletes=skipped,
            replayed=self.replayed,
            warnings=(*self.warnings, *self.writer.take_warnings()),
        )

    def _identified(self) -> Iterator[tuple[LogFile, Identity]]:
        return ((file, identity_of(file, self.group.extractions)) for file in self.group.files)

    def _new_files(self) -> list[tuple[LogFile, Identity]]:
        """Return the files to apply. RejectedError if a file has the name of another one with other content."""
        new: dict[tuple[str, str], tuple[LogFile, Identity]] = {}
        skipped = []
        for file, identity in self._identified():
            first, like = new.get((identity.relation, identity.name), (file, None))
            if like is None and self._is_new(identity):
                new[identity.relation, identity.name] = file, identity
            elif like is None:
                skipped.append(f"{file.path} was applied before and is skipped")
            elif like.content == identity.content:
                skipped.append(f"{file.path} is the same as {first.path} and is skipped")
            else:
                raise RejectedError(
                    f"{file.path} has the same name as {first.path}, but other content\n"
                    "  hint: give each log its own name"
                )
        if new:
            self.warnings += skipped
        return list(new.values())

    def _known_batch(self, batch: Batch) -> str:
        """Return the reason to skip a batch, or an empty text. RejectedError if it overlaps an applied batch."""
        applied = self.writer.manifest.sources.get(batch.source, ())
        known = self.writer.ledger.find_batch(batch)
        try:
            status = check_batch(applied, batch, is_known=known is not None)
        except RejectedError as error:
            raise RejectedError(f"{self.group.path}: {error}") from None
        return f"the batch {batch} was applied before" if status == "applied" else ""

    def _is_new(self, identity: Identity) -> bool:
        """Whether a file is new. RejectedError if a log with the same name and other content was applied."""
        ledger = self.writer.ledger
        known = ledger.find(identity.relation, identity.name)
        if known is not None and known.log.content == identity.content:
            return False
        if known is not None:
            raise RejectedError(
                f"{self.group.path}: version {known.version} has a log named {identity.name} with other content\n"
                "  hint: give a new log a new name; an applied log must not change"
            )
        others = (ledger.find(identity.relation, name) for name in identity.other_names)
        if any(other is not None and other.log.content == identity.content for other in others):
            return False
        same = ledger.find_content(identity.relation, identity.content)
        if same is not None:
            self.warnings.append(f"{identity.name} has the content of {same.log.name}, which is version {same.version}")
        return True

    def _take(self, files: Sequence[tuple[LogFile, Identity]], hold: bool) -> list[AppliedLog]:
        commits = commits_of(self.writer, may_miss=self.options.skip_missing_deletes, hold=hold)
        self.versions, self.replayed = {}, 0
        readings = []
        for file, identity in files:
            o = self.options
            log = read_log(file, self.writer.spec, form=o.form, upsert=o.upsert, relation=o.relation)
            reading = _Reading(file, identity, log)
            readings.append(reading)
            for rows in reading.rows_read(self.progress):
                commits.take_rows(file, self._not_replayed(file, rows) if log.continues else rows)
        commits.finish()
        return [reading.applied(commits) for reading in readings]

    def _not_replayed(self, file: LogFile, rows: LogRows) -> LogRows:
        """Drop rows of applied `_commit_version`s, with --allow-replay; RejectedError without it."""
        if rows.commits is None or not len(rows):
            return rows
        relation, last_here = rows.relation, int(rows.commits.max())
        self.versions[relation] = max(self.versions.get(relation, last_here), last_here)
        last = self.writer.manifest.commits.get(relation)
        if last is None:
            return rows
        if self.options.allow_replay:
            fresh = rows.commits > last
            self.replayed += int((~fresh).sum())
            self.versions[relation] = max(self.versions[relation], last)
            return rows if fresh.all() else rows.only(np.flatnonzero(fresh))
        if (rows.commits < last).any():
            number = int(rows.numbers[int((rows.commits < last).argmax())])
            version = int(rows.commits[rows.commits < last][0])
            reason = f"{version} comes after {last}, which was applied"
            hint = "--allow-replay skips rows of versions that were applied"
            raise RejectedError.in_row(file.path, number, "_commit_version", reason, hint)
        return rows


def commits_of(writer: Writer, *, may_miss: bool, hold: bool) -> TakesRows:
    """What gives the rows of logs to a writer, commit by commit."""
    if type(writer) is Writer:
        return Commits(writer.views, writer.take, may_miss=may_miss, hold=hold)
    made: TakesRows = _of_shards("sharded_commits")(writer, may_miss=may_miss, hold=hold)
    return made


def _of_shards(verb: str) -> Callable[..., Any]:
    """What a state of shards does instead; a state without shards does not wait for it."""
    found: Callable[..., Any] = getattr(import_module("dynq_cli.session.shard_commits"), verb)
    return found
