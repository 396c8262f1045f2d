"""A state of shards, with the verbs of every state; see `State`.

Every read is of one version of all shards. Shards are opened, changed and read on as many threads as there are cores.
What looks at all rows in one place is refused (`whole_only`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from dynq_cli.errors import DynqError, RejectedError, UsageError
from dynq_cli.plan.shards import Group, Placed
from dynq_cli.spec.load import parse_spec
from dynq_cli.spec.model import CLOCK, Spec
from dynq_cli.storage.history import check_mark
from dynq_cli.storage.layout import SPEC
from dynq_cli.storage.lock import writing_to
from dynq_cli.storage.manifest import Counts, damaged, read_manifest
from dynq_cli.storage.shards.lanes import Lanes
from dynq_cli.storage.shards.manifest import ShardsManifest, member_directory, read_shards, write_shards
from dynq_cli.storage.shards.members import recover, settled
from dynq_cli.storage.shards.routing import Member
from dynq_cli.storage.shards.writer import ShardedWriter, whole_only
from dynq_cli.storage.state import Applied, State

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dynq_cli.engine.models import Fit, Moments
    from dynq_cli.engine.row_tests import RowTests
    from dynq_cli.engine.views import Views
    from dynq_cli.storage.ledger import Entry
    from dynq_cli.storage.plans import Planned
    from dynq_cli.storage.shards.positions import ShardedRanked
    from dynq_cli.storage.shards.results import Result
    from dynq_cli.storage.versions import Diff
    from dynq_cli.storage.writer import Writer

Made = TypeVar("Made")


class ShardedState(State):
    """An open state of shards; see the module. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lanes = Lanes()
        self._states: dict[Member, State] = {}
        self.now: int | None = None
        read_shards(directory)

    def close(self) -> None:
        """Close all shards, each of which may write a snapshot."""
        self._lanes.map(State.close, self._states.values())
        self._states = {}
        self._lanes.close()

    @property
    def top(self) -> ShardsManifest:
        """The manifest in force. O(queries)."""
        return read_shards(self._directory)

    @property
    def version(self) -> int:
        return self.top.version

    @property
    def held(self) -> int:
        return self.version

    @cached_property
    def spec(self) -> Spec:
        """The spec that the state was made for."""
        from dynq_cli.storage.layout import checksum_of

        path = self._directory / SPEC
        content = path.read_bytes()
        if checksum_of(content) != self.top.spec:
            raise damaged(path, "is not what was written")
        return parse_spec(content.decode(), SPEC)

    @property
    def planned(self) -> Planned:
        raise whole_only("the plans of all queries in one place")

    @property
    def queries(self) -> list[str]:
        return list(self.top.queries)

    def queries_at(self, version: int) -> list[str]:
        return self.queries

    @property
    def identity(self) -> str:
        return f"{self.top.made}-{self.top.spec}"

    @property
    def kept_since(self) -> int:
        settled(self._directory)
        return max(State(member_directory(self._directory, *member)).kept_since for member in self.top.members)

    @property
    def written(self) -> int:
        return self.top.written

    @contextmanager
    def _changing_manifest(self) -> Iterator[Callable[..., None]]:
        def change(**fields: Any) -> None:
            top = read_shards(self._directory)
            made = replace(top, **fields)
            needed = set(made.marks.values())
            # A version is kept in the shards before a mark names it, and until none does.
            self._each_place(lambda place: keep_versions(place, needed | set(top.marks.values())))
            write_shards(self._directory, made)
            self._each_place(lambda place: keep_versions(place, needed))

        with self._writing_files(), writing_to(self._directory):
            recover(self._directory)
            yield change

    def _each_place(self, work: Callable[[Path], Made]) -> list[Made]:
        return self._lanes.map(work, [member_directory(self._directory, *m) for m in self.top.members])

    @property
    def marks(self) -> Mapping[str, int]:
        return self.top.marks

    def mark(self, name: str, version: str | int | None = None) -> int:
        check_mark(name)
        named = self.version if version is None else self.version_of(version)
        with self._changing_manifest() as change:
            change(marks={**self.top.marks, name: named})
        return named

    def unmark(self, name: str) -> int:
        with self._changing_manifest() as change:
            marks = dict(self.top.marks)
            if name not in marks:
                raise RejectedError(f"there is no mark {name}; the marks are: {', '.join(marks) or 'none'}")
            version = marks.pop(name)
            change(marks=marks)
        return version

    def note_written(self, version: int, marks: Mapping[str, int] = MappingProxyType({})) -> None:
        with self._changing_manifest() as change:
            change(written=version, marks={**self.top.marks, **marks})

    def version_of(self, named: str | int) -> int:
        """Resolve a version number or a mark; the shards keep the same versions."""
        top, members = settled(self._directory)
        from dynq_cli.storage.history import version_of

        return version_of(replace(next(iter(members.values())), marks=top.marks, before=top.before), named)

    def _group(self, query: str | None) -> tuple[str, Group, Placed]:
        top = self.top
        names = top.queries
        if query is None and len(names) != 1:
            raise UsageError(f"which query? There is {', '.join(names)}")
        name = query or names[0]
        if name not in names:
            raise UsageError(f"no query {name} in the spec; there is {', '.join(names)}")
        return name, *top.plan.group_of(name)

    def _state(self, member: Member) -> State:
        if member not in self._states:
            self._states[member] = State(member_directory(self._directory, *member))
        return self._states[member]

    def shards_of(self, group: Group, at: str | int | None = None) -> list[Views]:
        """Return the views of a group's shards, all at one version."""
        states = [self._state((group.name, i)) for i in range(group.size)]
        while True:
            top, _ = settled(self._directory)
            version = top.version if at is None else self.version_of(at)
            if version != top.version:
                return self._lanes.map(partial(State.views_at, at=version), states)
            found = self._lanes.map(State.current, states)
            if all(state.held == version for state in states) and self.version == version:
                return found

    def result(self, query: str | None, at: str | int | None = None) -> Result:
        """Return a query's result over its shards, at the version in force or another one."""
        from dynq_cli.storage.shards.results import Result

        name, group, placed = self._group(query)
        return Result(name, placed, self.shards_of(group, at))

    def _whole(self, batches: Iterator[pa.RecordBatch], at: str | int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the batches; UsageError if this handle applies changes before all are read."""
        version, number = (self.version, self._number) if at is None else (None, None)

        def rows() -> Iterator[pa.RecordBatch]:
            while True:
                if version is not None and self._number != number:
                    raise UsageError(f"the rows of version {version} cannot be read on after changes were applied")
                batch = next(batches, None)
                if batch is None:
                    return
                if batch.num_rows:
                    yield batch

        return rows()

    # How often this handle has written; rows that are being read are of the version before.
    _number = 0

    def recent(self, many: int) -> tuple[Entry, ...]:
        settled(self._directory)
        return self._state(self.top.members[0]).recent(many)

    def count(self, query: str | None = None) -> int:
        """Count the result rows; O(shards), or O(rows) where several shards may have a row."""
        name, group, placed = self._group(query)
        kept = self.kept_counts(name)
        if kept is not None:
            return kept.rows
        if placed.merge == "copies":
            return sum(views.count(name)[0] for views in self.shards_of(group))
        return self.counts(name).rows

    def counts(self, query: str | None = None, at: str | int | None = None) -> Counts:
        if at is None or self.version_of(at) == self.version:
            kept = self.kept_counts(query)
            return kept or self.result(query).counts()
        return self.result(query, at).counts()

    def kept_counts(self, query: str | None = None) -> Counts | None:
        name, group, placed = self._group(query)
        if placed.merge not in ("none", "whole"):
            return None
        _, members = settled(self._directory)
        found = [members[group.name, i].counts[name] for i in range(group.size)]
        kept = [counts for counts in found if counts is not None]
        if len(kept) < len(found):
            return None
        return Counts(sum(c.rows for c in kept), sum(c.distinct for c in kept))

    def require(self, verb: str, query: str | None = None) -> None:
        from dynq_cli.spec.served import require

        name, _, _ = self._group(query)
        written = self.spec.query(name)
        assert written is not None
        require(name, written.keep, verb)

    def enum(
        self, query: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self._whole(self.result(query, at).enum(block), at)

    def where(
        self, row: Mapping[str, Any], query: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self._whole(self.result(query, at).where(row, block), at)

    def schema(self, query: str | None = None, at: str | int | None = None) -> pa.Schema:
        return self.result(query, at).schema

    def test(self, row: Mapping[str, Any], query: str | None = None) -> int:
        return self.result(query).test(row)

    def test_rows(self, rows: Any, query: str | None = None) -> NDArray[Any]:
        return self.result(query).tests(rows)

    def row_tests(self, query: str | None = None) -> RowTests:
        from dynq_cli.storage.shards.results import ShardedTests

        return ShardedTests(self.result(query))

    def parts(self, query: str | None, at: str | int | None = None) -> list[tuple[Views, str]]:
        result = self.result(query, at)
        if result.merge == "groups":
            raise whole_only("the base rows of groups whose parts lie in several shards")
        return [(views, result.query) for views in result.views]

    def read_whole(self, views: Views, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._whole(batches)

    def jth(self, positions: Sequence[int], query: str | None = None) -> Iterator[pa.RecordBatch]:
        return self._whole(self._ranked(query, "jth").jth(positions))

    def page(self, query: str | None = None, **place: Any) -> Iterator[pa.RecordBatch]:
        return page_of(self, query, **place)

    def sample(self, many: int, query: str | None = None, seed: int | None = None) -> Iterator[pa.RecordBatch]:
        if many < 0:
            raise UsageError("the number of rows of a sample must not be negative")
        return self._whole(self._ranked(query, "sample").sample(many, seed))

    def is_ordered(self, query: str | None = None) -> bool:
        return bool(self.result(query).order)

    def rank(self, row: Mapping[str, Any], query: str | None = None) -> int:
        return self._ranked(query, "rank").rank(row)

    def _ranked(self, query: str | None, verb: str, at: str | int | None = None) -> ShardedRanked:
        from dynq_cli.storage.shards.positions import ShardedRanked

        self.require(verb, query)
        return ShardedRanked(self.result(query, at), verb)

    def dump(
        self, relation: str | None = None, block: int = 65536, at: str | int | None = None
    ) -> Iterator[pa.RecordBatch]:
        from dynq_cli.engine.base_rows import table_rows

        name = self._relation(relation)
        group = self._home(name)
        found = [
            (member, views)
            for member, views in enumerate(self.shards_of(group, at))
            if self._counts(name, (group.name, member))
        ]
        return self._whole((batch for _, views in found for batch in table_rows(views, name, block)), at)

    def relation_schema(self, relation: str | None = None, at: str | int | None = None) -> pa.Schema:
        from dynq_cli.engine.base_rows import table_schema

        found = self.spec.relation(self._relation(relation))
        assert found is not None
        return table_schema(found)

    def _home(self, relation: str) -> Group:
        plan = self.top.plan
        return next(group for group in plan.groups if group.name == plan.homes[relation])

    def _counts(self, relation: str, member: Member) -> bool:
        from dynq_cli.storage.shards.routing import Router

        return Router(self.spec, self.top.plan).counts(relation, member)

    def diff(
        self,
        query: str | None = None,
        since: str | int | None = None,
        block: int = 65536,
        *,
        from_nothing: bool = False,
    ) -> Diff:
        from dynq_cli.storage.shards.differences import difference

        name, group, placed = self._group(query)
        self.require("diff", name)
        while True:
            top, _ = settled(self._directory)
            version = top.before if since is None else self.version_of(since)
            states = [self._state((group.name, i)) for i in range(group.size)]
            several = self._lanes.map(partial(State.diff, query=name, since=version, block=block), states)
            if all(found.until == top.version for found in several):
                at = partial(self.result, name)
                return difference(several, placed, partial(at, version), at)

    @overload
    def apply(self, changes: Any, relation: str | None = None, *, deltas: Literal[False] = False) -> int: ...

    @overload
    def apply(self, changes: Any, relation: str | None = None, *, deltas: Literal[True]) -> Applied: ...

    def apply(self, changes: Any, relation: str | None = None, *, deltas: bool = False) -> int | Applied:
        from dynq_cli.storage.shards.tables import apply_tables

        if deltas:
            return self._applied_with_deltas(changes, relation)
        tables = changes if isinstance(changes, Mapping) else {self._relation(relation): changes}
        with self.writing() as writer:
            assert isinstance(writer, ShardedWriter)
            return apply_tables(writer, tables)

    @contextmanager
    def telling(self, queries: Sequence[str]) -> Iterator[None]:
        """Differences of shards are those between versions: nothing is read within commits."""
        for query in queries:
            self.require("diff", query)
        yield

    def read_on(self) -> None:
        """Nothing: every read of a shard is of the version in force."""

    def refuse_past(self) -> None:
        for member in self.top.members:
            state = self._state(member)
            state.now = self.now
            state.refuse_past()

    def replace(self, tables: Any, relation: str | None = None) -> int:
        raise whole_only("the replacement of whole relations")

    def model(self, name: str | None = None) -> Any:
        return super().model(name)

    def fits(self, model: str | None = None, at: str | int | None = None) -> list[Fit]:
        from dynq_cli.engine import models

        found = self.model(model)
        (views,) = self.result(found.over, at).views
        return list(models.fits(views, found))

    def moments(self, model: str | None = None, at: str | int | None = None) -> list[Moments]:
        from dynq_cli.engine import models

        found = self.model(model)
        (views,) = self.result(found.over, at).views
        return list(models.moments(views, found))

    @contextmanager
    def writing(self, *, rehearsal: bool = False) -> Iterator[Writer]:
        if rehearsal:
            top, _ = settled(self._directory)
            with self._writers(top, rehearsal=True) as writers:
                yield ShardedWriter(self._directory, top, self.spec, writers, self._lanes, rehearsal=True)
            return
        with self._writing_files(), writing_to(self._directory):
            top = recover(self._directory)
            clock = max(top.clock, time.time_ns() // 1000) if self.now is None else self.now
            for member in top.members:
                self._state(member).now = clock if self.spec.relation(CLOCK) is not None else None
            self._number += 1
            with self._writers(top) as writers:
                writer = ShardedWriter(self._directory, top, self.spec, writers, self._lanes, clock=clock)
                try:
                    yield writer
                finally:
                    writer.abandon()
            if writer.failed:
                self._states = {}

    @contextmanager
    def _writers(self, top: ShardsManifest, *, rehearsal: bool = False) -> Iterator[dict[Member, Writer]]:
        """Hold the locks of all shards. In the end each may write a snapshot, on its own thread."""
        held: list[AbstractContextManager[Writer]] = []
        writers: dict[Member, Writer] = {}
        try:
            for member in top.members:
                entered = self._state(member).writing(rehearsal=rehearsal)
                writers[member] = entered.__enter__()
                held.append(entered)
            yield writers
        finally:
            self._lanes.map(lambda entered: entered.__exit__(None, None, None), held)

    @contextmanager
    def _writing_files(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            held = self.version
            raise DynqError(
                f"{self._directory} cannot be written to: {error.strerror or error}; it is at version {held}"
            ) from error

    def views_at(self, at: str | int) -> Views:
        raise whole_only("what looks at the rows of an earlier version in one place")

    def current(self) -> Views:
        raise whole_only("what looks at all rows in one place")

    def reading(self, query: str | None) -> tuple[Views, str]:
        result = self.result(query)
        if len(result.views) == 1:
            return result.views[0], result.query
        raise whole_only("what looks at all rows of a result in one place")


def page_of(
    state: ShardedState,
    query: str | None = None,
    *,
    offset: int | None = None,
    after: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    limit: int = 100,
    at: str | int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield at most `limit` rows, as `positions.page` does for one state."""
    if sum(given is not None for given in (offset, after, before)) > 1:
        raise UsageError("a page has one start: give only one of offset, after and before")
    if limit < 0 or (offset or 0) < 0:
        raise UsageError("the offset and the limit of a page must not be negative")
    ranked = state._ranked(query, "page", at)
    if after is not None:
        found = ranked.after(after, limit)
    elif before is not None:
        found = ranked.before(before, limit)
    else:
        found = ranked.page(offset or 0, limit)
    return state._whole(found, at)


def keep_versions(shard: Path, versions: set[int]) -> None:
    """Let a shard keep these versions, by marks of its own. O(1)."""
    wanted = {f"v{version}": version for version in sorted(versions)}
    if dict(read_manifest(shard).marks) != wanted:
        with State(shard)._changing_manifest() as change:
            change(marks=wanted)
