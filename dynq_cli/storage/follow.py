"""Follow the results of a state: their differences from one version to the next one, without opening files anew.

    follow = Follow(directory); follow.start(planned)
    follow.advance(planned, queries)      the differences to the version in force, if it is the next one

Two more copies of the views replay the log, one a step behind the other: that one has the version before. They have the
same row ids, so `engine.difference` reads what changed: O(change) per version, where `State.diff` replays the log.

The copies are at version v, and the log has one commit of version v + 1:

    after  lists the frontier rows that the commit changes, and takes it
    before is read beside it, and takes the commit then
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dynq_cli.engine.difference import differences, is_noted, watch
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.versions import diff_schema
from dynq_cli.engine.views import Views
from dynq_cli.storage.layout import wal_name
from dynq_cli.storage.manifest import Manifest, read_manifest
from dynq_cli.storage.plans import Planned
from dynq_cli.storage.rebuild import has_views
from dynq_cli.storage.recover import open_latest
from dynq_cli.storage.wal import Record, read_records

_ROOM = 4096


class Follow:
    """Two copies of the views, at the version that was asked for last; none before `start`, nor after `end`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._at: Manifest | None = None
        self._before: Views | None = None
        self._after: Views | None = None

    def end(self) -> None:
        """Forget the copies."""
        self._at = self._before = self._after = None

    def start(self, planned: Planned) -> None:
        """Open the copies at the version in force, unless they are there. O(state) at the speed of a checksum."""
        if self._at is not None:
            return
        at, before = open_latest(self._directory, planned)
        also, after = open_latest(self._directory, planned)
        if at.number == also.number and has_views(at, planned):
            self._at, self._before, self._after = at, before, after

    def advance(self, planned: Planned, queries: Sequence[str]) -> tuple[int, dict[str, list[pa.RecordBatch]]] | None:
        """Return the version in force and the difference of each query since the version before it, as `State.diff`.

        None if only `State.diff` can tell: the version in force is not the next one, or was more than one commit, or a
        snapshot or another spec came between. Queries without diff have to be left out. O(change).
        """
        manifest = read_manifest(self._directory)
        records = self._records(manifest, planned)
        at, before, after = self._at, self._before, self._after
        if at is None or before is None or after is None or records is None:
            self.end()
            self.start(planned)
            return None
        found: dict[str, list[pa.RecordBatch]] | None = None
        for record in records:
            before.dictionaries.extend(record.values)
            after.dictionaries.extend(record.values)
        is_next = manifest.version == at.version + 1 and len(records) == 1 and records[0].ends is None
        if is_next:
            for query in queries:
                watch(after.engine, query, _ROOM)
        for record in records:
            after.attempt(record.batch, record.ends)
        if is_next and all(is_noted(after.engine, query) for query in queries):
            before.label()
            found = _differences(before, after, queries)
        for record in records:
            before.attempt(record.batch, record.ends)
        self._at = manifest
        return None if found is None else (manifest.version, found)

    def _records(self, manifest: Manifest, planned: Planned) -> list[Record] | None:
        """Return what the log has since the version of the copies; None if it does not lead from there."""
        at = self._at
        if at is None or (at.generation, at.spec) != (manifest.generation, manifest.spec):
            return None
        if not has_views(manifest, planned):
            return None
        try:
            return list(read_records(self._directory / wal_name(manifest.generation), at.wal, manifest.wal))
        except FileNotFoundError:
            return None


def _differences(before: Views, after: Views, queries: Sequence[str]) -> dict[str, list[pa.RecordBatch]] | None:
    try:
        return {query: list(_difference(before, after, query)) for query in queries}
    except OverflowedError:
        return None  # `State.diff` says so


def _difference(before: Views, after: Views, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the difference between copies; the commit was applied to `after`, which has listed what it changed."""
    schema, variables = diff_schema(after, query), after.variables(query)
    # As if the commit had reverted `before` to `after`: the other way round.
    for changed in differences(after.engine, before.engine, query, variables):
        many = len(changed.copies)
        columns = after.decoded(query, variables, changed.codes, many)
        columns.append(pa.repeat(pa.scalar("delete" if changed.is_insert else "insert"), many))
        if schema.names[-1:] == ["_count"]:
            columns.append(pa.array(np.ascontiguousarray(changed.copies)))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
