"""A state directory: the queries of a spec, kept up to date across processes.

    state = create("spec.yaml", ".dynq")     version 0
    state = open(".dynq")
    state.apply({"orders": table})           one version, all or nothing; O(change) once open
    state.count("q")                         from the manifest alone: no engine is opened
    state.enum("q")                          record batches: every distinct row once, `_count` last for bags

One process writes at a time; the others read the version that is in force when they ask, and see it whole. What
`apply` returned is on disk. A failed `apply` changes nothing. Used as a context manager, or closed, a state that was
written to is left so that it opens quickly.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynq_cli.errors import DynqError, LockedError, RejectedError, UsageError
from dynq_cli.storage.layout import CURRENT, SPEC, checksum_of, sync_directory, write_new
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts, Manifest, read_manifest

# The engine is imported where it is needed: whoever only counts must not wait for it.
if TYPE_CHECKING:
    import pyarrow as pa

    from dynq_cli.storage.recover import Opened, Planned

_log = logging.getLogger("dynq")
StrPath = str | os.PathLike[str]


def create(spec: StrPath, state: StrPath = ".dynq") -> State:
    """Make a state for a spec file, at version 0. It is there whole or not at all."""
    from dynq_cli.spec.source import read_source
    from dynq_cli.storage.commit import first_manifest
    from dynq_cli.storage.recover import plan_spec

    directory = Path(state)
    _refuse_existing(directory)
    source = read_source(spec)
    planned, content = plan_spec(source.text, source.file), source.text.encode()
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{directory.name}.", suffix=".tmp", dir=directory.parent))
    try:
        made.chmod(0o777 & ~_umask())
        write_new(made / SPEC, content)
        first_manifest(made, planned, checksum_of(content))
        try:
            made.replace(directory)
        except OSError:
            _refuse_existing(directory)
            raise
        sync_directory(directory.parent)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return State(directory, planned)


def open(state: StrPath = ".dynq") -> State:
    """The state in a directory. NoStateError where there is none."""
    return State(Path(state))


def _refuse_existing(directory: Path) -> None:
    if (directory / CURRENT).exists():
        raise UsageError(
            f"there is a state in {directory} already; nothing was changed\n  hint: name another directory"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there and not empty; nothing was changed\n  hint: name another directory")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


class State:
    """An open state; see the module. Not to be shared between threads."""

    def __init__(self, directory: Path, planned: Planned | None = None) -> None:
        self._directory = directory
        self._planned = planned
        self._opened: Opened | None = None
        self._wrote = False
        read_manifest(directory)

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The version in force. O(1)."""
        return read_manifest(self._directory).version

    def count(self, query: str | None = None) -> int:
        """Result rows under the query's semantics, of the version in force. O(1), without opening the engine."""
        return self.counts(query).rows

    def counts(self, query: str | None = None) -> Counts:
        """Result rows under the query's semantics, and distinct ones. O(1), without opening the engine."""
        manifest = read_manifest(self._directory)
        return manifest.counts[_query(manifest, query)]

    def apply(self, changes: pa.Table | Mapping[str, pa.Table], relation: str | None = None) -> int:
        """Apply one commit of changes, by relation or of one relation; the new version.

        RejectedError if the changes cannot be; LockedError if another process is writing. Either way nothing
        has changed. O(changes) for simple trees; what other trees add is in their plan's guarantees.
        """
        try:
            with writing_to(self._directory):
                opened = self._current()
                tables = changes if isinstance(changes, Mapping) else {self._relation(relation): changes}
                self._commit(opened, tables)
                version = opened.manifest.version
                self._snapshot_if_due(ending=False)
        except OSError as error:
            held = read_manifest(self._directory).version
            raise DynqError(
                f"{self._directory} cannot be written to: {error.strerror}; it is at version {held}"
            ) from error
        return version

    def enum(self, query: str | None = None, block: int = 65536) -> Iterator[pa.RecordBatch]:
        """Every distinct row of the version in force once; constant delay, O(block) memory.

        UsageError if this state applies changes, or is asked about a later version, before the rows are all read.
        """
        opened = self._current()
        return self._rows(opened, _query(opened.manifest, query), block)

    def _rows(self, opened: Opened, query: str, block: int) -> Iterator[pa.RecordBatch]:
        manifest = opened.manifest
        for batch in opened.live.enum(query, block):
            yield batch
            if self._opened is not opened or opened.manifest is not manifest:
                raise UsageError(f"the rows of version {manifest.version} cannot be read on after changes were applied")

    def schema(self, query: str | None = None) -> pa.Schema:
        """The columns of a query's result."""
        opened = self._current()
        return opened.live.schema(_query(opened.manifest, query))

    def test(self, row: Mapping[str, Any], query: str | None = None) -> int:
        """How often the version in force has a row; 0 or 1 for sets. O(1)."""
        opened = self._current()
        return opened.live.test(_query(opened.manifest, query), row)

    def close(self) -> None:
        """Leave the state; if this one wrote to it and opening would take long, write a snapshot first."""
        if self._wrote and self._opened is not None:
            # Whoever is writing now looks after the snapshot too.
            with suppress(LockedError), writing_to(self._directory):
                if read_manifest(self._directory).number == self._opened.manifest.number:
                    self._snapshot_if_due(ending=True)
        self._opened, self._wrote = None, False

    def _current(self) -> Opened:
        """The engine, brought to the version in force."""
        from dynq_cli.storage.recover import catch_up, open_latest, read_plans

        manifest = read_manifest(self._directory)
        if self._planned is None:
            self._planned = read_plans(self._directory, manifest)
        opened, self._opened = self._opened, None
        if opened is None or opened.manifest.generation != manifest.generation:
            opened = open_latest(self._directory, self._planned)
        elif opened.manifest.number != manifest.number:
            try:
                catch_up(self._directory, opened, manifest)
            except FileNotFoundError:
                opened = open_latest(self._directory, self._planned)
        self._opened = opened
        return opened

    def _relation(self, named: str | None) -> str:
        assert self._planned is not None
        relations = [r.name for r in self._planned.spec.relations]
        if named is None and len(relations) != 1:
            raise UsageError(f"which relation is this? Write relation= with one of {', '.join(relations)}")
        return named or relations[0]

    def _commit(self, opened: Opened, tables: Mapping[str, pa.Table]) -> None:
        from dynq_cli.storage.commit import commit_version
        from dynq_cli.storage.wal import Record

        values = opened.live.dictionaries
        known = values.counts()
        # Whatever happens between here and the end, short of a refusal that took everything back: the next use
        # opens what is on disk.
        self._opened = None
        try:
            opened.live.apply(tables)
        except DynqError:
            if not opened.live.is_usable:
                raise RejectedError(
                    "a result would have more than 2^127 - 1 rows; nothing was changed\n  hint: use `semantics: set`"
                ) from None
            self._opened = opened
            raise
        record = Record(opened.manifest.version + 1, dict(opened.engine.taken), values.since(known))
        commit_version(self._directory, opened, record)
        self._opened, self._wrote = opened, True

    def _snapshot_if_due(self, *, ending: bool) -> None:
        from dynq_cli.storage.commit import commit_snapshot, snapshot_is_due
        from dynq_cli.storage.recover import open_engine

        assert self._opened is not None and self._planned is not None
        if not snapshot_is_due(self._opened, ending=ending):
            return
        opened, self._opened = self._opened, None
        try:
            made = commit_snapshot(self._directory, opened)
        except OSError as error:
            # The changes are committed; without the snapshot the state only opens more slowly.
            _log.warning("no snapshot could be written to %s: %s", self._directory, error)
            return
        if not ending:
            self._opened = open_engine(self._directory, made, self._planned)
            self._opened.count_applied(opened.applied)


def _query(manifest: Manifest, named: str | None) -> str:
    names = list(manifest.counts)
    if named is None and len(names) != 1:
        raise UsageError(f"which query? There is {', '.join(names)}")
    query = named or names[0]
    if query not in names:
        raise UsageError(f"no query {query} in the spec; there is {', '.join(names)}")
    return query
