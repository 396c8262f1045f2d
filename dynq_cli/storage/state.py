"""A state directory: the queries of a spec, kept up to date across processes.

    state = create("spec.yaml", ".dynq")     version 0
    state = open(".dynq")
    state.apply({"orders": table})           one version, all or nothing; O(change) once open
    state.apply_each(tables)                 a version for each, made durable together
    state.replace({"orders": table})         make the table the whole relation: the difference is one version
    state.count("q")                         read the manifest only: no engine is opened
    state.enum("q")                          record batches: every distinct row once, `_count` last for bags
    state.dump("orders")                     record batches: the rows of a base relation

One process writes at a time. The others read the version in force when they ask, and always a whole version. When
`apply` returns, its version is durable; a failed `apply` changes nothing. `close`, or leaving the `with` block, writes
a snapshot if the state would otherwise open slowly.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from dynq_cli.errors import DamagedError, DynqError, LockedError, RejectedError, UsageError
from dynq_cli.storage.history import check_mark, kept_since, version_of
from dynq_cli.storage.kinds import verbs_of
from dynq_cli.storage.layout import CURRENT, LOCK, SHARDS, SPEC, checksum_of, wal_name, write_new
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts, Manifest, query_name, read_manifest

# Functions import the engine themselves: `count` must not wait for that.
if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.engine.kernels.fields import Words
    from dynq_cli.engine.models import Fit, Moments
    from dynq_cli.engine.row_tests import RowTests
    from dynq_cli.engine.tree_delta import Signed
    from dynq_cli.engine.views import Views
    from dynq_cli.spec.model import ModelSpec, Spec
    from dynq_cli.storage.backup import Copied
    from dynq_cli.storage.held_deltas import HeldDeltas
    from dynq_cli.storage.ledger import AppliedLog, Entry
    from dynq_cli.storage.plans import Planned
    from dynq_cli.storage.versions import Diff
    from dynq_cli.storage.wal import LogWriter
    from dynq_cli.storage.writer import Writer

_MOST_TOLD = 12
StrPath = str | os.PathLike[str]


def create(spec: StrPath, state: StrPath = ".dynq") -> State:
    """Create a state for a spec file, at version 0, atomically."""
    return create_from(spec, state, lambda views: ())


def create_from(
    spec: StrPath,
    state: StrPath,
    load: Callable[[Views], Sequence[AppliedLog]],
    marks: Callable[[Spec], Sequence[str]] = lambda spec: (),
    now: int | None = None,
) -> State:
    """Create a state whose version 0 has the rows that `load` puts into the engine; `load` returns the logs it read.

    `marks` returns the marks of version 0; `now` is the time of its clock, by default that of the system.
    """
    from dynq_cli.atomic import atomic_directory
    from dynq_cli.engine.views import Views
    from dynq_cli.spec.source import read_source
    from dynq_cli.storage.clock import clock_changes
    from dynq_cli.storage.plans import plan_new_spec

    directory = Path(state)
    refuse_existing(directory, spec)
    source = read_source(spec)
    planned = plan_new_spec(source.text, source.file)
    views = Views(planned.spec, planned.kept)
    logs = load(views)
    views.take(clock_changes(views, now))
    try:
        with atomic_directory(directory) as made:
            write_first(made, planned, source.text, views, logs, marks(planned.spec))
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # another process was faster
            refuse_existing(directory, spec)
        raise
    return State(directory, planned)


def write_first(
    directory: Path,
    planned: Planned,
    text: str,
    views: Views,
    logs: Sequence[AppliedLog],
    marks: Sequence[str] = (),
) -> None:
    """Write version 0 of a state into an empty directory: the spec's text, its plans, and the rows of the views."""
    from dynq_cli.storage.commit import first_manifest
    from dynq_cli.storage.plans import write_plans

    content = text.encode()
    write_new(directory / SPEC, content)
    write_new(directory / LOCK, b"")
    write_plans(directory, planned, text)
    first_manifest(directory, planned, views, checksum_of(content), logs, marks)


def open(state: StrPath = ".dynq") -> State:
    """Open the state in a directory. NoStateError if there is none."""
    directory = Path(state)
    shards = verbs_of(directory)
    made: State = State(directory) if shards is None else shards["open"](directory)
    return made


def _warn_of(message: str, *of: object) -> None:
    import logging  # which `count` need not wait for

    logging.getLogger("dynq").warning(message, *of)


def _warn(writer: Writer) -> None:
    for warning in writer.take_warnings():
        _warn_of("%s", warning)


def refuse_existing(directory: Path, spec: StrPath) -> None:
    """UsageError if a directory has a state, or is not empty."""
    if (directory / SHARDS).exists():
        raise UsageError(
            f"there is a state of shards in {directory} already; nothing was changed\n"
            "  hint: name another directory with --state"
        )
    if (directory / CURRENT).exists():
        raise UsageError(f"there is a state in {directory} already; nothing was changed\n{_compared(directory, spec)}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there and not empty; nothing was changed\n  hint: name another directory")


def _compared(directory: Path, spec: StrPath) -> str:
    """What the spec of a state and a file have different, as far as both can be read."""
    from dynq_cli.spec.differences import differences
    from dynq_cli.spec.load import parse_spec
    from dynq_cli.spec.source import read_source

    elsewhere = "  hint: name another directory with --state"
    try:
        held = read_manifest(directory).spec_file
        kept, given = (parse_spec(read_source(path).text, os.fspath(path)) for path in (directory / held, spec))
    except DynqError:
        return elsewhere
    found = differences(kept, given)
    if not found:
        return f"  its spec is the same\n  hint: apply change logs to it with `dynq apply`, or{elsewhere[7:]}"
    more = [f"    and {len(found) - _MOST_TOLD:,} more"] if len(found) > _MOST_TOLD else []
    lines = [f"    {line}" for line in found[:_MOST_TOLD]] + more
    alter = "  hint: `dynq alter SPEC` makes the state follow it; or name another directory with --state"
    return "\n".join([f"  {os.fspath(spec)} differs from the spec of the state:", *lines, alter])


class Applied(NamedTuple):
    """The version that changes became, and by query what came and went: change logs, as of `State.diff`."""

    version: int
    deltas: Mapping[str, pa.Table]


class Subscription:
    """The changes of one result from a version on; see `State.subscribe`."""

    def __init__(self, state: State, query: str) -> None:
        self._state, self._query = state, query
        self._telling: AbstractContextManager[None] = state.telling([query])
        self._telling.__enter__()
        state.read_on()
        self.version = state.version

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self) -> Diff:
        """Return what came and went since the last call, as `State.diff` does, with the versions before and after.

        O(changed rows) for versions that this state made or read one after the other.
        """
        self._state.read_on()
        found = self._state.diff(self._query, self.version)
        self.version = found.until
        return found

    def close(self) -> None:
        """Have deltas read no more for this subscription."""
        self._telling.__exit__(None, None, None)
        self._telling = nullcontext()


def _table(diff: Diff) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(diff.batches, diff.schema)


class State:
    """An open state; see the module. Not thread-safe."""

    def __init__(self, directory: Path, planned: Planned | None = None) -> None:
        self._directory = directory
        self._planned = planned
        # The views that are in memory, and the version that they are at.
        self._views: Views | None = None
        self._manifest = read_manifest(directory)
        self._wrote = False
        self._old: tuple[int, Views] | None = None
        # The time that versions set the clock to, in microseconds since 1970; by default that of the system.
        self.now: int | None = None
        # While this process holds the lock, until it commits: the manifest, which nobody else changes.
        self._held: Manifest | None = None
        # The log that this process wrote to last, still open.
        self._log: LogWriter | None = None
        # Changes that this process applied before it last wrote a snapshot.
        self._applied = 0
        # The results whose deltas are read as versions are made, how many ask for each, and what was read.
        self._asked: Counter[str] = Counter()
        self._deltas: HeldDeltas | None = None

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The version in force. O(1)."""
        return read_manifest(self._directory).version

    @property
    def held(self) -> int:
        """The version of the views in memory."""
        return self._manifest.version

    @property
    def spec(self) -> Spec:
        """The spec that the state was made for."""
        return self._plans().spec

    @property
    def planned(self) -> Planned:
        """The spec with the plans of its queries."""
        return self._plans()

    @property
    def queries(self) -> list[str]:
        """The names of the queries, in the order of the spec. O(queries), without opening the engine."""
        return list(read_manifest(self._directory).counts)

    @property
    def identity(self) -> str:
        """What tells this state from others: the time it was made, and the checksum of its spec."""
        manifest = read_manifest(self._directory)
        return f"{manifest.made}-{manifest.spec}"

    @property
    def written(self) -> int:
        """The version whose outputs were written last, or -1 if none were. O(1)."""
        return read_manifest(self._directory).written

    @property
    def kept_since(self) -> int:
        """The oldest version that can be read."""
        return kept_since(read_manifest(self._directory))

    def note_written(self, version: int, marks: Mapping[str, int] = MappingProxyType({})) -> None:
        """Record in one commit that the outputs of a version are written, and move `marks`, the marks of diffs.

        LockedError if another process is writing.
        """
        with self._changing_manifest() as change:
            change(written=version, marks={**read_manifest(self._directory).marks, **marks})

    @contextmanager
    def _changing_manifest(self) -> Iterator[Callable[..., None]]:
        """Yield a function that durably updates manifest fields."""
        from dynq_cli.storage.checkpoint import checkpoint

        def change(**fields: Any) -> None:
            manifest = read_manifest(self._directory)
            made = checkpoint(self._directory, replace(manifest, number=manifest.number + 1, **fields))
            if self._manifest.number == manifest.number:
                self._manifest = made

        with self._writing_files(), writing_to(self._directory):
            yield change

    def recent(self, many: int) -> tuple[Entry, ...]:
        """Return the last entries of the ledger, the latest first."""
        from dynq_cli.storage.ledger import ledger_of

        return tuple(ledger_of(self._directory, read_manifest(self._directory)).entries(limit=many))

    def count(self, query: str | None = None) -> int:
        """Count the result rows of the version in force, as a bag or a set as the query says. See `counts`."""
        return self.counts(query).rows

    def counts(self, query: str | None = None, at: str | int | None = None) -> Counts:
        """Count the result rows, as a bag or a set as the query says, and the distinct rows. O(1); opens no engine.

        With `at`, a version or mark, count the rows of that version: this opens an engine and reverts it (`versions`).
        With `keep: rows`, a union opens an engine and walks its rows. RejectedError with `keep: test`.
        """
        manifest = read_manifest(self._directory)
        if at is None or self.version_of(at) == manifest.version:
            name = query_name(manifest, query)
            return manifest.counts[name] or Counts(*self.current().count(name))
        views = self.views_at(at)
        return Counts(*views.count(self.named_at(views, query, at)))

    def require(self, verb: str, query: str | None = None) -> None:
        """RejectedError if the spec does not keep a query for a command, UsageError if there is no such query."""
        from dynq_cli.spec.served import require

        name = query_name(read_manifest(self._directory), query)
        written = self.spec.query(name)
        assert written is not None
        require(name, written.keep, verb)

    def kept_counts(self, query: str | None = None) -> Counts | None:
        """Return the counts of the version in force if they are kept, else None. O(1); opens no engine."""
        manifest = read_manifest(self._directory)
        return manifest.counts[query_name(manifest, query)]

    @overload
    def apply(self, changes: Any, relation: str | None = None, *, deltas: Literal[False] = False) -> int: ...

    @overload
    def apply(self, changes: Any, relation: str | None = None, *, deltas: Literal[True]) -> Applied: ...

    def apply(self, changes: Any, relation: str | None = None, *, deltas: bool = False) -> int | Applied:
        """Apply changes of one or several relations as one commit; return the new version.

        With `deltas`, return also what came and went in each result that is not kept for tests alone, as `diff` has it.
        It is read within the commit: O(changes + changed rows), whatever the size of the state.

        Changes are Arrow tables, record batches, or pandas or polars frames (`engine/frames`).

        RejectedError if the changes are invalid, LockedError if another process is writing; then nothing has changed.
        O(changes) for simple trees; the plan's guarantees state the cost of other trees.
        """
        from dynq_cli.storage.writer import Origin

        if deltas:
            return self._applied_with_deltas(changes, relation)
        with self.writing() as writer:
            self._take(writer, changes, relation)
            return writer.commit(Origin())

    def _take(self, writer: Writer, changes: Any, relation: str | None) -> None:
        from dynq_cli.engine.engine import BatchError

        tables = changes if isinstance(changes, Mapping) else {self._relation(relation): changes}
        batch = writer.views.changes(tables)
        try:
            writer.take(batch)
        except BatchError as error:
            raise writer.views.rejected(error, batch) from None
        _warn(writer)

    def apply_each(self, several: Iterable[Any], relation: str | None = None) -> int:
        """Apply each of several changes as a version of its own, as `apply`, all durable when this returns.

        Return the last version. One write and one sync for many small versions. If one is rejected, those before it
        stay, and those after it are not applied.
        """
        from dynq_cli.storage.writer import Origin

        with self.writing() as writer:
            for changes in several:
                self._take(writer, changes, relation)
                writer.commit(Origin(), sync=False)
        return self.version

    def replace(self, tables: Any, relation: str | None = None) -> int:
        """Replace whole relations by tables; the difference is one commit. Return the new version.

        Tables are as for `apply`, without `_change_type`; `_count` gives copies. If nothing differs, return the version
        in force. RejectedError and LockedError as for `apply`. O(rows of the tables and the relations), plus the cost
        of the changes.
        """
        from dynq_cli.engine.engine import BatchError
        from dynq_cli.engine.replacement import rejected, replaced
        from dynq_cli.storage.writer import Origin

        with self.writing() as writer:
            named = tables if isinstance(tables, Mapping) else {self._relation(relation): tables}
            views = writer.views
            found = replaced(views, named)
            if not found.changes:
                return writer.version
            try:
                writer.take(found.changes)
            except BatchError as error:
                raise rejected(views, error, found) from None
            _warn(writer)
            return writer.commit(Origin())

    def refuse_past(self) -> None:
        """RejectedError if `now` is before the clock."""
        from dynq_cli.storage.clock import refuse_past

        refuse_past(self.current(), self.now)

    def _applied_with_deltas(self, changes: Any, relation: str | None) -> Applied:
        names = [query.name for query in self.spec.queries if query.keep != "test" and query.name in self.queries]
        with self.telling(names):
            version = self.apply(changes, relation)
            found = {name: self.diff(name, version - 1) for name in names}
            return Applied(version, {name: _table(diff) for name, diff in found.items()})

    def read_on(self) -> None:
        """Read what other processes have committed, so that its deltas are told, too. O(changes)."""
        self.current()

    @contextmanager
    def telling(self, queries: Sequence[str]) -> Iterator[None]:
        """Read the deltas of results as versions are made, for as long as the block lasts.

        `diff` since a version made in the block, or since the one before it, then opens nothing and goes back nowhere.
        UsageError if there is no such query, RejectedError if it is kept for tests alone.
        """
        for query in queries:
            self.require("diff", query)
        self._asked.update(queries)
        try:
            yield
        finally:
            self._asked.subtract(queries)
            self._asked += Counter()
            if not self._asked:
                self._forget_deltas()

    def subscribe(self, query: str | None = None) -> Subscription:
        """Follow a result from the version in force on: each `take` has what came and went since the one before.

        Close it, or leave its `with` block, when it is not needed any more.
        """
        self.require("diff", query)
        return Subscription(self, query if query is not None else self.queries[0])

    def tick(self) -> int:
        """Make a version with a new clock and no change; return it. RejectedError if `now` is before the clock."""
        from dynq_cli.storage.writer import Origin

        with self.writing() as writer:
            return writer.commit(Origin())

    @contextmanager
    def writing(self, *, rehearsal: bool = False) -> Iterator[Writer]:
        """Hold the write lock and yield a writer. LockedError if another process is writing.

        A rehearsal takes no lock and writes nothing.
        """
        from dynq_cli.storage.writer import Writer

        if rehearsal:
            yield Writer(self._directory, self._lent, rehearsal=True, now=self.now)
            return
        told, hold = (tuple(self._asked), self._hold) if self._asked else ((), None)
        with self._writing_files(), writing_to(self._directory):
            log, self._log = self._log, None
            writer = Writer(self._directory, self._lent_to_write, now=self.now, log=log, told=told, hold=hold)
            self._held, before = writer.manifest, writer.version
            try:
                yield writer
            except BaseException:
                self._forget_deltas()
                raise
            finally:
                self._held = None
                try:
                    writer.sync()
                except BaseException:
                    self._forget_deltas()
                    raise
                finally:
                    writer.abandon()
                    self._log = writer.leave_log()
                self._wrote |= writer.version > before
                if writer.has_views and writer.is_clean:
                    self._manifest, self._views = writer.manifest, writer.views
            if self._wrote and self._views is not None:
                self._snapshot_if_due(self._views, writer.manifest, ending=False)

    @contextmanager
    def _writing_files(self) -> Iterator[None]:
        """Turn an OSError into a DynqError that names the version in force."""
        try:
            yield
        except OSError as error:
            held = read_manifest(self._directory).version
            raise DynqError(
                f"{self._directory} cannot be written to: {error.strerror or error}; it is at version {held}"
            ) from error

    def enum(
        self, query: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield every distinct row of the version in force once; constant delay, O(block) memory.

        With `at`, yield the rows of that version or mark, in no particular order; O(changes since) before the first
        row. UsageError if this state applies changes, or reads a later version, before all rows are read.
        """
        if at is not None and self.version_of(at) != self.version:
            views = self.views_at(at)
            return views.enum(self.named_at(views, query, at), block)
        views, name = self.reading(query)
        return self.read_whole(views, views.enum(name, block))

    def where(
        self, row: Mapping[str, Any], query: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the distinct rows that have the given values in some columns, as `enum` does.

        All columns: O(1). The first columns of the query's order: O(log n) per row. Other columns: O(rows).
        """
        from dynq_cli.engine.selected_rows import rows_where

        if at is not None and self.version_of(at) != self.version:
            views = self.views_at(at)
            return rows_where(views, self.named_at(views, query, at), row, block)
        views, name = self.reading(query)
        return self.read_whole(views, rows_where(views, name, row, block))

    def dump(
        self, relation: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield every row of a base relation once. O(block) memory.

        The columns are all declared ones, and `_count` if the relation has no key. The order is not promised.

        With `at`, yield the rows of that version or mark; O(changes since) before the first row. UsageError as for
        `enum`, and if there is no such relation.
        """
        from dynq_cli.engine.base_rows import table_rows

        if at is not None and self.version_of(at) != self.version:
            views = self.views_at(at)
            return table_rows(views, self._relation(relation, views.spec), block)
        views = self.current()
        return self.read_whole(views, table_rows(views, self._relation(relation), block))

    def relation_schema(self, relation: str | None = None, at: str | int | None = None) -> pa.Schema:
        """Return the columns of `dump`."""
        from dynq_cli.engine.base_rows import table_schema

        spec = self.spec if at is None or self.version_of(at) == self.version else self.views_at(at).spec
        found = spec.relation(self._relation(relation, spec))
        assert found is not None
        return table_schema(found)

    def diff(
        self,
        query: str | None = None,
        since: str | int | None = None,
        block: int = 65536,
        *,
        from_nothing: bool = False,
    ) -> Diff:
        """Return the difference of a result since a version or mark, by default since the last `apply`: a change log.

        Old rows have the `_change_type` delete, new rows insert; of bags, `_count` gives the copies. This opens two
        engines and reverts one of them (`versions`); then O(changed rows), independent of the size of the result.
        Across an `alter` that made the views anew it is O(rows of both results).

        A query that was not there then, or had other columns, is a RejectedError; with `from_nothing`, all its rows.
        """
        from dynq_cli.storage.versions import diff_since

        name = query_name(read_manifest(self._directory), query)
        told = self._told_since(name, since, block)
        if told is not None:
            return told
        return diff_since(self._directory, self._plans(), since, name, block, from_nothing=from_nothing)

    def _hold(self, views: Views, made: Manifest, since: int, deltas: Mapping[str, Signed | None]) -> None:
        """Keep the deltas that were read as a version was made."""
        from dynq_cli.storage.held_deltas import HeldDeltas

        if self._deltas is None:
            self._deltas = HeldDeltas()
        self._deltas.add(views, made.spec, since, made.version, deltas)

    def _forget_deltas(self) -> None:
        """Drop the deltas that are kept: nobody asks for them, or their versions may not last."""
        if self._deltas is not None:
            self._deltas.clear()

    def _told_since(self, query: str, since: str | int | None, block: int) -> Diff | None:
        """Return a difference that was read as versions were made; None if `diff_since` has to find it."""
        from dynq_cli.engine.versions import diff_schema, told_rows
        from dynq_cli.storage.versions import Diff

        if query not in self._asked:
            return None
        if self._views is not None:
            self.current()
        held, manifest = self._deltas, read_manifest(self._directory)
        if held is None:
            return None
        first = manifest.before if since is None else since if isinstance(since, int) else version_of(manifest, since)
        delta = held.between(query, manifest.spec, first, manifest.version)
        if delta is None and first != manifest.version:
            return None
        views = held.views or self.current()
        if delta is None:
            return Diff(first, first, diff_schema(views, query), iter(()))
        return Diff(first, manifest.version, diff_schema(views, query), told_rows(views, query, delta, block))

    def version_of(self, named: str | int) -> int:
        """Resolve a version number or a mark. RejectedError if there is no such version, or it is not kept. O(1)."""
        return version_of(read_manifest(self._directory), named)

    def views_at(self, at: str | int) -> Views:
        """Return the views, in memory, as they were at a version or mark. O(changes since); the last ones are kept."""
        from dynq_cli.storage.versions import views_at

        version = self.version_of(at)
        if self._old is None or self._old[0] != version:
            self._old = version, views_at(self._directory, self._plans(), version)
        return self._old[1]

    def queries_at(self, version: int) -> list[str]:
        """Return the names of the queries that were there at a version."""
        return self.queries if version == self.version else list(self.views_at(version).queries)

    def named_at(self, views: Views, query: str | None, at: str | int) -> str:
        """Return the query that is meant in the views of a version. RejectedError if it was not there then."""
        from dynq_cli.spec.model import HIDDEN

        names = [name for name in views.queries if not name.startswith(HIDDEN)]
        named = query if query is not None or len(names) > 1 else names[0]
        if named in names:
            return str(named)
        name = query_name(read_manifest(self._directory), named)
        raise RejectedError(f"there was no query {name} at version {self.version_of(at)}; there was {', '.join(names)}")

    @property
    def marks(self) -> Mapping[str, int]:
        """The marks: versions by name."""
        return read_manifest(self._directory).marks

    def mark(self, name: str, version: str | int | None = None) -> int:
        """Name a version, by default the one in force, so that it is kept. An existing mark moves. O(1)."""
        check_mark(name)
        with self._changing_manifest() as change:
            manifest = read_manifest(self._directory)
            named = manifest.version if version is None else version_of(manifest, version)
            change(marks={**manifest.marks, name: named})
        return named

    def unmark(self, name: str) -> int:
        """Remove a mark; return the version it named. RejectedError if there is no such mark. O(1)."""
        with self._changing_manifest() as change:
            marks = dict(read_manifest(self._directory).marks)
            if name not in marks:
                raise RejectedError(f"there is no mark {name}; the marks are: {', '.join(marks) or 'none'}")
            version = marks.pop(name)
            change(marks=marks)
        return version

    def backup(self, target: StrPath) -> Copied:
        """Copy the state into a new directory, whole and checked, also while a process writes to it. See `backup`."""
        from dynq_cli.storage.backup import backup

        return backup(self._directory, Path(target))

    def read_whole(self, views: Views, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches; UsageError if the views change to another version before all are read."""
        version = self._manifest.version

        def rows() -> Iterator[pa.RecordBatch]:
            while True:
                if self._views is not views or self._manifest.version != version:
                    raise UsageError(f"the rows of version {version} cannot be read on after changes were applied")
                batch = next(batches, None)
                if batch is None:
                    return
                yield batch

        return rows()

    def schema(self, query: str | None = None, at: str | int | None = None) -> pa.Schema:
        """Return the columns of a query's result, in the version in force or at another one."""
        if at is not None and self.version_of(at) != self.version:
            views = self.views_at(at)
            return views.schema(self.named_at(views, query, at))
        views, name = self.reading(query)
        return views.schema(name)

    def jth(self, positions: Sequence[int], query: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows at these positions of `enum`, from 1, copies counted, in the order given. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.jth(self, positions, query)

    def page(self, query: str | None = None, **place: Any) -> Iterator[pa.RecordBatch]:
        """Yield at most `limit` rows: after `offset` rows, `after` a row, or up to `before`. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.page(self, query, **place)

    def sample(self, many: int, query: str | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows at `many` distinct random positions, all equally likely. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.sample(self, many, query, seed)

    def is_ordered(self, query: str | None = None) -> bool:
        """Whether a query has an order. Then a page may start at a row that is not in the result."""
        views, name = self.reading(query)
        return views.is_ordered(name)

    def rank(self, row: Mapping[str, Any], query: str | None = None) -> int:
        """Return the position of the first copy of a row. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.rank(self, row, query)

    def test(self, row: Mapping[str, Any], query: str | None = None) -> int:
        """Return the multiplicity of a row in the version in force; 0 or 1 for sets. O(1)."""
        views, name = self.reading(query)
        return views.test(name, row)

    def test_rows(self, rows: Any, query: str | None = None) -> Words:
        """Return the multiplicity of each row of a table or frame in the version in force; 0 or 1 for sets.

        The rows have the result's columns by name, and may have others. O(rows), where a test is O(1).
        RejectedError if a value is none of its column's type, UsageError if a column is missing.
        """
        from dynq_cli.engine.row_tests import copies_in

        views, name = self.reading(query)
        return copies_in(views, name, rows)

    def row_tests(self, query: str | None = None) -> RowTests:
        """Return what tests rows of a result in the version in force."""
        from dynq_cli.engine.row_tests import RowTests

        views, name = self.reading(query)
        return RowTests(views, name)

    def parts(self, query: str | None, at: str | int | None = None) -> list[tuple[Views, str]]:
        """Return the views whose results make up that of a query: one, or those of the shards."""
        if at is not None and self.version_of(at) != self.version:
            views = self.views_at(at)
            return [(views, self.named_at(views, query, at))]
        return [self.reading(query)]

    def model(self, name: str | None = None) -> ModelSpec:
        """Return a model of the spec; the only one where none is named. UsageError if there is no such model."""
        models = {model.name: model for model in self.spec.models}
        if name is None and len(models) == 1:
            (name,) = models
        if name not in models:
            listed = f"there is {', '.join(models)}" if models else "it has none"
            raise UsageError(f"which model? {listed}" if name is None else f"no model {name} in the spec; {listed}")
        return models[name]

    def fits(self, model: str | None = None, at: str | int | None = None) -> list[Fit]:
        """Fit a model to the rows of its query: one fit, or one per group with `per`.

        O(groups · terms³), independent of the number of rows. With `at`, at a version or mark: O(changes since) more;
        RejectedError if the model was not there then.
        """
        from dynq_cli.engine import models

        return list(models.fits(*self._model_at(model, at)))

    def moments(self, model: str | None = None, at: str | int | None = None) -> list[Moments]:
        """Return the sums that a model is fitted from, per group. O(groups · sums); `at` as for `fits`."""
        from dynq_cli.engine import models

        return list(models.moments(*self._model_at(model, at)))

    def _model_at(self, name: str | None, at: str | int | None) -> tuple[Views, ModelSpec]:
        """Return the views of a version, and the model as it was then."""
        model = self.model(name)
        if at is None or self.version_of(at) == self.version:
            return self.current(), model
        views = self.views_at(at)
        then = views.spec.model(model.name)
        if then is None:
            raise RejectedError(f"there was no model {model.name} at version {self.version_of(at)}")
        return views, then

    def close(self) -> None:
        """Close the state. If it was written to and would open slowly, write a snapshot first."""
        if self._wrote and self._views is not None:
            try:
                # If another process is writing, it writes the snapshot when due.
                with suppress(LockedError), writing_to(self._directory):
                    self._snapshot_if_due(self._views, read_manifest(self._directory), ending=True)
                    self._close_log()
            except OSError as error:
                _warn_of("no snapshot could be written to %s: %s", self._directory, error)
        if self._log is not None:
            self._log.leave()
        self._views, self._old, self._log, self._wrote = None, None, None, False

    def _close_log(self) -> None:
        """Cut the room behind the log's records, unless another process has gone on with it; the lock is held."""
        log, self._log = self._log, None
        manifest = read_manifest(self._directory)
        if log is not None and log.continues(self._directory / wal_name(manifest.generation), manifest.wal):
            log.close()
        elif log is not None:
            log.leave()

    def _plans(self) -> Planned:
        """Return the plans of the version in force; read them again if the spec was altered."""
        from dynq_cli.storage.plans import read_plans

        while self._planned is None or self._planned.checksum != (self._held or read_manifest(self._directory)).spec:
            manifest = read_manifest(self._directory)
            try:
                self._planned = read_plans(self._directory, manifest)
            except DamagedError:
                if read_manifest(self._directory).number == manifest.number:
                    raise
        return self._planned

    def _lent(self) -> tuple[Manifest, Views]:
        """Hand over the views to a caller that will change them; the next use reopens the state from disk."""
        views, self._views = self.current(), None
        return self._manifest, views

    def _lent_to_write(self) -> tuple[Manifest, Views]:
        """Like `_lent`, for the holder of the lock: write a snapshot first if the views were rebuilt."""
        from dynq_cli.storage.rebuild import has_views

        manifest, views = self._lent()
        # The lock is held, so the plans are still those of the version in force.
        if self._planned is None or has_views(manifest, self._planned):
            return manifest, views
        self._views = views
        self.write_snapshot()
        return self._lent()

    def current(self) -> Views:
        """Return the views, brought to the version in force."""
        from dynq_cli.storage.rebuild import has_views
        from dynq_cli.storage.recover import catch_up, open_latest

        manifest, planned = self._held or read_manifest(self._directory), self._plans()
        since, views, self._views = self._manifest, self._views, None
        # Numbers come again where a version was withdrawn, as it could not be made durable.
        if views is not None and (since.number, since.wal) != (manifest.number, manifest.wal):
            is_same = (since.generation, since.spec) == (manifest.generation, manifest.spec)
            # Rebuilt views do not take the log: it may have records of another version of dynq, with other views.
            if not is_same or not has_views(since, planned):
                views = None
            else:
                try:
                    catch_up(self._directory, views, since, manifest)
                    if views.told:
                        self._hold(views, manifest, since.version, views.take_deltas())
                except FileNotFoundError:
                    views = None
                except DamagedError:
                    # The version of the views was withdrawn, or the log is damaged, which opening it tells.
                    self._forget_deltas()
                    views, self._old = None, None
        if views is None:
            manifest, views = open_latest(self._directory, planned)
            views.engine.arena.memory.count_applied(self._applied)
        if set(views.told) != set(self._asked):
            views.tell(tuple(self._asked))
        self._manifest, self._views = manifest, views
        return views

    def reading(self, query: str | None) -> tuple[Views, str]:
        """Return the views at the version in force, and the query that is meant. UsageError if there is none."""
        views = self.current()
        return views, query_name(self._manifest, query)

    def _relation(self, named: str | None, spec: Spec | None = None) -> str:
        relations = [r.name for r in (spec or self.spec).own_relations]
        if named is None and len(relations) != 1:
            raise UsageError(f"which relation is this? Write relation= with one of {', '.join(relations)}")
        if named is not None and named not in relations:
            raise UsageError(f"no relation {named} in the spec; there is {', '.join(relations)}")
        return named or relations[0]

    def _snapshot_if_due(self, views: Views, manifest: Manifest, *, ending: bool) -> None:
        """Write a snapshot if it is due; `manifest` is in force, and the lock is held."""
        from dynq_cli.storage.commit import snapshot_is_due

        # Skip: another process has committed; this snapshot would undo it.
        if manifest.number != self._manifest.number:
            return
        if not snapshot_is_due(self._manifest, views, ending=ending):
            return
        try:
            self.write_snapshot()
        except OSError as error:
            # The changes are committed; without the snapshot the state only opens more slowly.
            _warn_of("no snapshot could be written to %s: %s", self._directory, error)

    def write_snapshot(self) -> None:
        """Write a snapshot of the version in force; the caller holds the lock. O(state).

        The next use opens the snapshot, like every other process does.
        """
        from dynq_cli.storage.commit import commit_snapshot

        views, self._views, self._held = self.current(), None, None
        self._close_log()
        commit_snapshot(self._directory, self._manifest, views, self._plans())
        if self._deltas is not None:
            self._deltas.views = None
        self._applied = views.engine.arena.memory.applied
