"""A state directory: the queries of a spec, kept up to date across processes.

    state = create("spec.yaml", ".dynq")     version 0
    state = open(".dynq")
    state.apply({"orders": table})           one version, all or nothing; O(change) once open
    state.replace({"orders": table})         the table is the whole relation: its difference is one version
    state.count("q")                         from the manifest alone: no engine is opened
    state.enum("q")                          record batches: every distinct row once, `_count` last for bags
    state.dump("orders")                     record batches: the rows of a base relation

One process writes at a time; the others read the version that is in force when they ask, and see it whole. What
`apply` returned is on disk. A failed `apply` changes nothing. Used as a context manager, or closed, a state that was
written to is left so that it opens quickly.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dynq_cli.errors import DynqError, LockedError, RejectedError, UsageError
from dynq_cli.storage.history import check_mark, version_of
from dynq_cli.storage.layout import CURRENT, LOCK, SPEC, checksum_of, write_new
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts, query_name, read_manifest

# The engine is imported where it is needed: whoever only counts must not wait for it.
if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.engine.views import Views
    from dynq_cli.spec.model import Spec
    from dynq_cli.storage.ledger import AppliedLog
    from dynq_cli.storage.plans import Planned
    from dynq_cli.storage.recover import Opened
    from dynq_cli.storage.versions import Diff
    from dynq_cli.storage.writer import Writer

_log = logging.getLogger("dynq")
_MOST_TOLD = 12
StrPath = str | os.PathLike[str]


def create(spec: StrPath, state: StrPath = ".dynq") -> State:
    """Make a state for a spec file, at version 0. It is there whole or not at all."""
    return create_from(spec, state, lambda live: ())


def create_from(
    spec: StrPath,
    state: StrPath,
    load: Callable[[Views], Sequence[AppliedLog]],
    marks: Callable[[Spec], Sequence[str]] = lambda spec: (),
) -> State:
    """Make a state whose version 0 holds what `load` puts into the engine; it returns the logs it took that from.

    Version 0 has the marks that `marks` names.
    """
    from dynq_cli.atomic import atomic_directory
    from dynq_cli.engine.views import Views
    from dynq_cli.spec.source import read_source
    from dynq_cli.storage.commit import first_manifest
    from dynq_cli.storage.plans import plan_spec, write_plans

    directory = Path(state)
    _refuse_existing(directory, spec)
    source = read_source(spec)
    planned, content = plan_spec(source.text, source.file), source.text.encode()
    live = Views(planned.spec, planned.kept)
    logs = load(live)
    try:
        with atomic_directory(directory) as made:
            write_new(made / SPEC, content)
            write_new(made / LOCK, b"")
            write_plans(made, planned, source.text)
            first_manifest(made, planned, live, checksum_of(content), logs, marks(planned.spec))
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):  # somebody was quicker
            _refuse_existing(directory, spec)
        raise
    return State(directory, planned)


def open(state: StrPath = ".dynq") -> State:
    """The state in a directory. NoStateError where there is none."""
    return State(Path(state))


def _refuse_existing(directory: Path, spec: StrPath) -> None:
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
        kept, given = (parse_spec(read_source(path).text, os.fspath(path)) for path in (directory / SPEC, spec))
    except DynqError:
        return elsewhere
    found = differences(kept, given)
    if not found:
        return f"  its spec is the same\n  hint: apply change logs to it with `dynq apply`, or{elsewhere[7:]}"
    more = [f"    and {len(found) - _MOST_TOLD:,} more"] if len(found) > _MOST_TOLD else []
    lines = [f"    {line}" for line in found[:_MOST_TOLD]] + more
    return "\n".join([f"  {os.fspath(spec)} differs from the spec of the state:", *lines, elsewhere])


class State:
    """An open state; see the module. Not to be shared between threads."""

    def __init__(self, directory: Path, planned: Planned | None = None) -> None:
        self._directory = directory
        self._planned = planned
        self._opened: Opened | None = None
        self._wrote = False
        # Changes that this process applied before the snapshot that it wrote last.
        self._applied = 0
        read_manifest(directory)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The version in force. O(1)."""
        return read_manifest(self._directory).version

    @property
    def spec(self) -> Spec:
        """The spec that the state was made for."""
        return self._plans().spec

    @property
    def queries(self) -> list[str]:
        """The names of the queries, in the order of the spec. O(queries), without opening the engine."""
        return list(read_manifest(self._directory).counts)

    @property
    def written(self) -> int:
        """The version whose outputs were written last, or -1. O(1)."""
        return read_manifest(self._directory).written

    def note_written(self, version: int, marks: Mapping[str, int] = MappingProxyType({})) -> None:
        """Note that the outputs of a version are written, and move the marks of diffs to it, at once.

        LockedError if another process is writing.
        """
        with self._changing_manifest() as change:
            change(written=version, marks={**read_manifest(self._directory).marks, **marks})

    @contextmanager
    def _changing_manifest(self) -> Iterator[Callable[..., None]]:
        """For what is in the manifest alone; the caller is given what replaces fields of it, durably."""
        from dynq_cli.storage.manifest import write_manifest

        def change(**fields: Any) -> None:
            manifest = read_manifest(self._directory)
            made = replace(manifest, number=manifest.number + 1, **fields)
            write_manifest(self._directory, made)
            if self._opened is not None and self._opened.manifest.number == manifest.number:
                self._opened.manifest = made

        with self._writing_files(), writing_to(self._directory):
            yield change

    def count(self, query: str | None = None) -> int:
        """Result rows under the query's semantics, of the version in force. O(1), without opening the engine."""
        return self.counts(query).rows

    def counts(self, query: str | None = None, at: str | int | None = None) -> Counts:
        """Result rows under the query's semantics, and distinct ones. O(1), without opening the engine.

        With `at`, a version or mark, of that version: an engine is opened, and goes back (`versions`).
        """
        manifest = read_manifest(self._directory)
        name = query_name(manifest, query)
        if at is None or self.version_of(at) == manifest.version:
            return manifest.counts[name]
        return Counts(*self._at(self.version_of(at)).count(name))

    def apply(self, changes: Any, relation: str | None = None) -> int:
        """Apply one commit of changes, by relation or of one relation; the new version.

        Changes are Arrow tables, record batches, or frames of pandas and polars (`engine/frames`).

        RejectedError if the changes cannot be; LockedError if another process is writing. Either way nothing
        has changed. O(changes) for simple trees; what other trees add is in their plan's guarantees.
        """
        from dynq_cli.engine.engine import BatchError
        from dynq_cli.storage.writer import Origin

        with self.writing() as writer:
            tables = changes if isinstance(changes, Mapping) else {self._relation(relation): changes}
            live = writer.opened.live
            batch = live.changes(tables)
            try:
                writer.take(batch)
            except BatchError as error:
                raise live.rejected(error, batch) from None
            return writer.commit(Origin())

    def replace(self, tables: Any, relation: str | None = None) -> int:
        """Make tables the whole of their relations, by relation or of one: the difference is one version; its number.

        Tables are as for `apply`, without `_change_type`; `_count` says copies. Where nothing differs there is no new
        version, and the one in force is returned. RejectedError, LockedError as for `apply`. O(rows of the tables
        and of the relations) beside the changes.
        """
        from dynq_cli.engine.engine import BatchError
        from dynq_cli.engine.replacement import rejected, replaced
        from dynq_cli.storage.writer import Origin

        with self.writing() as writer:
            named = tables if isinstance(tables, Mapping) else {self._relation(relation): tables}
            live = writer.opened.live
            found = replaced(live, named)
            if not found.changes:
                return writer.version
            try:
                writer.take(found.changes)
            except BatchError as error:
                raise rejected(live, error, found) from None
            return writer.commit(Origin())

    @contextmanager
    def writing(self, *, rehearsal: bool = False) -> Iterator[Writer]:
        """Be the one who writes: versions are what the writer commits. LockedError if another process is writing.

        A rehearsal needs no lock and leaves no trace.
        """
        from dynq_cli.storage.writer import Writer

        if rehearsal:
            yield Writer(self._directory, self._lent, rehearsal=True)
            return
        with self._writing_files(), writing_to(self._directory):
            writer = Writer(self._directory, self._lent_to_write)
            before = writer.version
            try:
                yield writer
            finally:
                writer.abandon()
                self._wrote |= writer.version > before
                if writer.is_open and writer.is_clean:
                    self._opened = writer.opened
            if self._wrote and self._opened is not None:
                self._snapshot_if_due(ending=False)

    @contextmanager
    def _writing_files(self) -> Iterator[None]:
        """What the system refuses is an error that says which version is held."""
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
        """Every distinct row of the version in force once; constant delay, O(block) memory.

        With `at`, a version or mark, the rows of that version, in an order that is not promised; O(changes since)
        before the first one. UsageError if this state applies changes, or is asked about a later version, before
        the rows are all read.
        """
        opened = self.current()
        name = query_name(opened.manifest, query)
        if at is not None and self.version_of(at) != opened.manifest.version:
            return self._at(self.version_of(at)).enum(name, block)
        return self.read_whole(opened, opened.live.enum(name, block))

    def dump(
        self, relation: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Every row of a base relation once, all declared columns, with `_count` where it has no key. O(block) memory.

        With `at`, a version or mark, the rows of that version; O(changes since) before the first one. The order is
        not promised. UsageError as of `enum`, and if there is no such relation.
        """
        from dynq_cli.engine.base_rows import table_rows

        name = self._relation(relation)
        opened = self.current()
        if at is not None and self.version_of(at) != opened.manifest.version:
            return table_rows(self._at(self.version_of(at)), name, block)
        return self.read_whole(opened, table_rows(opened.live, name, block))

    def relation_schema(self, relation: str | None = None) -> pa.Schema:
        """The columns of `dump`."""
        from dynq_cli.engine.base_rows import table_schema

        found = self.spec.relation(self._relation(relation))
        assert found is not None
        return table_schema(found)

    def diff(self, query: str | None = None, since: str | int | None = None, block: int = 65536) -> Diff:
        """What came and went since a version or mark, by default since before the last `apply`: a change log.

        The old rows with `_change_type` delete, the new ones with insert, of bags with `_count` copies. Two engines are
        opened, one of which goes back (`versions`); then O(rows that changed), whatever the size of the result.
        """
        from dynq_cli.storage.versions import diff_since

        name = query_name(read_manifest(self._directory), query)
        return diff_since(self._directory, self._plans(), since, name, block)

    def version_of(self, named: str | int) -> int:
        """The version that a number or a mark means. RejectedError if there is none, or it is not kept. O(1)."""
        return version_of(read_manifest(self._directory), named)

    def live_at(self, at: str | int) -> Views:
        """The queries in memory as they were at a version or mark. O(changes since)."""
        return self._at(self.version_of(at))

    def _at(self, version: int) -> Views:
        from dynq_cli.storage.versions import live_at

        return live_at(self._directory, self._plans(), version)

    @property
    def marks(self) -> Mapping[str, int]:
        """The named versions."""
        return read_manifest(self._directory).marks

    def mark(self, name: str, version: str | int | None = None) -> int:
        """Name a version, by default the one in force, so that it is kept; a mark that is there moves. O(1)."""
        check_mark(name)
        with self._changing_manifest() as change:
            manifest = read_manifest(self._directory)
            named = manifest.version if version is None else version_of(manifest, version)
            change(marks={**manifest.marks, name: named})
        return named

    def unmark(self, name: str) -> int:
        """Forget a mark; the version it named. RejectedError if there is none. O(1)."""
        with self._changing_manifest() as change:
            marks = dict(read_manifest(self._directory).marks)
            if name not in marks:
                raise RejectedError(f"there is no mark {name}; the marks are: {', '.join(marks) or 'none'}")
            version = marks.pop(name)
            change(marks=marks)
        return version

    def read_whole(self, opened: Opened, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of an engine's version; UsageError if it moves on before they are all read."""
        version = opened.manifest.version

        def rows() -> Iterator[pa.RecordBatch]:
            while True:
                if self._opened is not opened or opened.manifest.version != version:
                    raise UsageError(f"the rows of version {version} cannot be read on after changes were applied")
                batch = next(batches, None)
                if batch is None:
                    return
                yield batch

        return rows()

    def schema(self, query: str | None = None) -> pa.Schema:
        """The columns of a query's result."""
        opened = self.current()
        return opened.live.schema(query_name(opened.manifest, query))

    def jth(self, positions: Sequence[int], query: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows at these positions of `enum`, copies counted, from 1, in the order asked. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.jth(self, positions, query)

    def page(self, query: str | None = None, **place: Any) -> Iterator[pa.RecordBatch]:
        """At most `limit` rows: behind the first `offset`, `after` a row, or up to `before`. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.page(self, query, **place)

    def sample(self, many: int, query: str | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows at `many` distinct positions, all equally likely. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.sample(self, many, query, seed)

    def rank(self, row: Mapping[str, Any], query: str | None = None) -> int:
        """The position of a row, of its first copy. See `positions`."""
        from dynq_cli.storage import positions as ranked

        return ranked.rank(self, row, query)

    def test(self, row: Mapping[str, Any], query: str | None = None) -> int:
        """How often the version in force has a row; 0 or 1 for sets. O(1)."""
        opened = self.current()
        return opened.live.test(query_name(opened.manifest, query), row)

    def close(self) -> None:
        """Leave the state; if this one wrote to it and opening would take long, write a snapshot first."""
        if self._wrote and self._opened is not None:
            try:
                # Whoever is writing now looks after the snapshot too.
                with suppress(LockedError), writing_to(self._directory):
                    if read_manifest(self._directory).number == self._opened.manifest.number:
                        self._snapshot_if_due(ending=True)
            except OSError as error:
                _log.warning("no snapshot could be written to %s: %s", self._directory, error)
        self._opened, self._wrote = None, False

    def _plans(self) -> Planned:
        from dynq_cli.storage.plans import read_plans

        if self._planned is None:
            self._planned = read_plans(self._directory, read_manifest(self._directory))
        return self._planned

    def _lent(self) -> Opened:
        """The engine for someone who will change it: whatever comes of that, the next use opens what is on disk."""
        opened, self._opened = self.current(), None
        return opened

    def _lent_to_write(self) -> Opened:
        """As `_lent`, for the one who holds the lock: views that were built anew are kept first."""
        from dynq_cli.storage.commit import commit_snapshot

        opened = self._lent()
        if opened.is_rebuilt:
            commit_snapshot(self._directory, opened)
            opened = self._lent()
        return opened

    def current(self) -> Opened:
        """The engine, brought to the version in force."""
        from dynq_cli.storage.recover import catch_up, open_latest

        manifest, planned = read_manifest(self._directory), self._plans()
        opened, self._opened = self._opened, None
        if opened is not None and opened.is_rebuilt and opened.manifest.number != manifest.number:
            opened = None  # the log may have gone on under the views of another version
        if opened is None or opened.manifest.generation != manifest.generation:
            opened = open_latest(self._directory, planned)
            opened.count_applied(self._applied)
        elif opened.manifest.number != manifest.number:
            try:
                catch_up(self._directory, opened, manifest)
            except FileNotFoundError:
                opened = open_latest(self._directory, planned)
        self._opened = opened
        return opened

    def _relation(self, named: str | None) -> str:
        relations = [r.name for r in self.spec.relations]
        if named is None and len(relations) != 1:
            raise UsageError(f"which relation is this? Write relation= with one of {', '.join(relations)}")
        if named is not None and named not in relations:
            raise UsageError(f"no relation {named} in the spec; there is {', '.join(relations)}")
        return named or relations[0]

    def _snapshot_if_due(self, *, ending: bool) -> None:
        from dynq_cli.storage.commit import commit_snapshot, snapshot_is_due

        assert self._opened is not None
        # An engine that others have gone on from would take their versions back.
        if read_manifest(self._directory).number != self._opened.manifest.number:
            return
        if not snapshot_is_due(self._opened, ending=ending):
            return
        opened, self._opened = self._opened, None
        try:
            # Whoever goes on opens the snapshot, and goes on from there like every other process.
            commit_snapshot(self._directory, opened)
            self._applied = opened.applied
        except OSError as error:
            # The changes are committed; without the snapshot the state only opens more slowly.
            _log.warning("no snapshot could be written to %s: %s", self._directory, error)
