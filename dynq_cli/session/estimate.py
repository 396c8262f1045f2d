"""Estimate the rows, disk space and memory that an `apply` of files would take.

    estimate_spec(spec, paths)         for a new state
    estimate_state(state, paths)       for an existing state, with its rows

The rows, or a sample of them, are read (`session.sample`). DuckDB counts the rows that each table of the engine would
have (`session.table_counts`). The layout gives the sizes of records, slots, snapshots and logs (`engine.forecast`).
Tests require estimates within a `FACTOR` of the sizes that `status` and the system report after a real `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from dynq_cli.engine.base_rows import base_rows
from dynq_cli.engine.derived_relations import BUDGET_PER_ROW, LEAST_BUDGET
from dynq_cli.engine.forecast import Forecast, empty_snapshot, forecast
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.engine.views import Views
from dynq_cli.io.logs.discover import find_groups
from dynq_cli.io.logs.identity import identity_of
from dynq_cli.io.logs.model import Group, LogFile
from dynq_cli.plan.program import Derived
from dynq_cli.query.duck import Duck
from dynq_cli.session.commits import EARLY
from dynq_cli.session.explain import check_supported
from dynq_cli.session.sample import Sample
from dynq_cli.session.table_counts import Counted, TableCounts
from dynq_cli.spec.model import Spec
from dynq_cli.spec.source import read_source
from dynq_cli.storage.commit import CHANGES_PER_SECOND, DUE_SECONDS, WORDS_PER_SECOND
from dynq_cli.storage.facts import facts_of
from dynq_cli.storage.ledger import ledger_of
from dynq_cli.storage.manifest import read_manifest
from dynq_cli.storage.plans import plan_spec, read_plans
from dynq_cli.storage.recover import open_latest

FACTOR = 1.5
_WORD = 8
# Measured memory of a process that applies: the interpreter with its libraries; and per row of an engine call, reading
# it, its codes and their processing, besides a few copies of each code.
_PROCESS = 140_000_000
_PER_ROW, _PER_CODE = 80, 32
# Spec, plans and manifest of a state, about.
_MANIFEST = 20_000

StrPath = str | PathLike[str]
Warn = Callable[[str], None]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Unused:
    """Columns of a relation that no query uses, and their approximate bytes; no columns: the whole relation."""

    relation: str
    columns: tuple[str, ...]
    saves: int


@dataclass(frozen=True)
class TooLarge:
    """A derived relation that would exceed its budget: `apply` would refuse the files."""

    query: str
    step: str
    rows: int
    limit: int


@dataclass(frozen=True)
class Disk:
    """Bytes: `snapshot` and `wal` in force, `history` for older versions, `before` for the previous generation."""

    snapshot: int
    wal: int
    history: int
    before: int

    @property
    def total(self) -> int:
        return self.snapshot + self.wal + self.history + self.before + _MANIFEST


@dataclass(frozen=True)
class Estimate:
    """The estimate of an `apply`.

    - `kept`: the share of a relation's rows in the sample
    - `rough`: steps that could not be counted, whose rows are guessed
    - `stored`: the bytes of the derived relations of each query
    - `changes`: the rows of the files
    """

    tables: TableSizes
    disk: Disk
    memory: int
    changes: Mapping[str, int]
    kept: Mapping[str, float]
    rough: tuple[str, ...]
    unused: tuple[Unused, ...]
    too_large: tuple[TooLarge, ...]

    @property
    def largest(self) -> tuple[str, str, int]:
        """Return the largest part: kind, name and bytes."""
        return max(self.parts(), key=lambda part: part[2])

    def parts(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, name and bytes of each part in memory."""
        for name, relation in self.tables.relations.items():
            yield "relation", name, relation.length
        for name, query in self.tables.queries.items():
            yield "query", name, query.length
        yield "shared", "", self.tables.shared
        yield "dictionaries", "", self.tables.dictionaries

    @property
    def largest_query(self) -> str:
        """Return the query with the largest views; other queries may share them."""
        return max(self.tables.queries, key=lambda name: self.tables.queries[name].length)


def estimate_spec(
    spec: StrPath, paths: Sequence[str], warn: Warn = lambda message: None, progress: Progress = lambda rows: None
) -> Estimate:
    """Estimate a new state of a spec file. RejectedError for a query that cannot be kept."""
    check_supported(spec)
    source = read_source(spec)
    planned = plan_spec(source.text, source.file)
    views = Views(planned.spec, planned.kept)
    files = list(_files(planned.spec, paths, warn))
    return _Estimating(views, Disk(empty_snapshot(views.layout), 0, 0, 0), {}).run(files, progress)


def estimate_state(
    state: StrPath, paths: Sequence[str], warn: Warn = lambda message: None, progress: Progress = lambda rows: None
) -> Estimate:
    """Estimate an existing state after the files; skip logs that are applied already. O(state)."""
    directory = Path(state)
    manifest = read_manifest(directory)
    planned = read_plans(directory, manifest)
    _, views = open_latest(directory, planned)
    ledger, sizes = ledger_of(directory, manifest), facts_of(directory).sizes
    files = []
    for file in _files(planned.spec, paths, warn):
        identity = identity_of(file, ())
        known = ledger.find(identity.relation, identity.name)
        if known is not None and known.log.content == identity.content:
            warn(f"{file.path} was applied before and is left out")
        else:
            files.append(file)
    now = Disk(sizes.snapshot, sizes.wal, sizes.history, sizes.before)
    needs_logs = any(version < manifest.version for version in manifest.marks.values())
    return _Estimating(views, now, views.dictionaries.counts(), needs_logs).run(files, progress, has_rows=True)


def _files(spec: Spec, paths: Sequence[str], warn: Warn) -> Iterator[LogFile]:
    names = [relation.name for relation in spec.relations]
    groups: list[Group] = find_groups(paths, names, relation=None, atomic=False, warn=warn)
    for group in groups:
        yield from group.files


class _Estimating:
    """`known` are the values of a state's dictionaries; `needs_logs`: its marks need versions before the last."""

    def __init__(self, views: Views, now: Disk, known: Mapping[str, int], needs_logs: bool = False) -> None:
        self._views = views
        self._now = now
        self._known = known
        self._needs_logs = needs_logs

    def run(self, files: Sequence[LogFile], progress: Progress, *, has_rows: bool = False) -> Estimate:
        views = self._views
        with Duck() as duck:
            sample = Sample(duck, views.spec)
            if has_rows:
                self._add_rows(sample, progress)
            sample.read(files, progress)
            sample.settle()
            counts = TableCounts(duck, views.layout, sample)
            made = counts.count()
            changes = {name: read.changes for name, read in sample.read_of.items() if read.changes}
            found = forecast(views.layout, views.queries, made.rows, made.groups, made.values, changes)
            unused = tuple(self._unused(counts, made, {n: r.length for n, r in found.tables.relations.items()}))
        calls = {name: min(many, EARLY) for name, many in changes.items()}
        return Estimate(
            tables=found.tables,
            disk=self._disk(found, made, sample),
            memory=self._memory(found, calls),
            changes=changes,
            kept=sample.kept,
            rough=tuple(made.rough),
            unused=unused,
            too_large=tuple(self._too_large(made)),
        )

    def _too_large(self, made: Counted) -> Iterator[TooLarge]:
        layout = self._views.layout
        written = sum(made.rows[b.table].live for name, b in layout.bases.items() if name not in layout.derived)
        for query, program in self._views.queries.items():
            for step in program.steps:
                if isinstance(step, Derived):
                    table = layout.groups[step.name].table if step.groups else layout.bases[step.name].table
                    rows, limit = made.rows[table].live, step.budget
                    if limit is None:
                        limit = max(LEAST_BUDGET, BUDGET_PER_ROW * written)
                    if rows > limit:
                        yield TooLarge(query, step.name, rows, limit)

    def _add_rows(self, sample: Sample, progress: Progress) -> None:
        for relation in self._views.spec.relations:
            for batch in base_rows(self._views, relation.name):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                copies = columns.pop("_count").to_numpy()
                sample.add(relation.name, columns, np.zeros(len(copies), np.int8), copies)
                progress(len(copies))

    def _disk(self, found: Forecast, made: Counted, sample: Sample) -> Disk:
        """The files afterwards: a snapshot is written if replaying the log would take long."""
        log = sum(self._logged(name, sample) for name in sample.read_of)
        log += sum((v.length + _WORD * v.values) for v in made.values.values()) if not self._known else 0
        changes = sum(read.changes for read in sample.read_of.values())
        seconds = changes / CHANGES_PER_SECOND + (found.arena / _WORD / WORDS_PER_SECOND if not self._known else 0)
        now = self._now
        if seconds <= DUE_SECONDS:
            return Disk(now.snapshot, now.wal + log, now.history, now.before)
        if self._needs_logs:
            return Disk(found.snapshot, 0, now.history + now.wal + log, now.snapshot)
        # The version before this command is the oldest that is kept.
        return Disk(found.snapshot, 0, log, now.snapshot)

    def _logged(self, relation: str, sample: Sample) -> int:
        """The bytes of a relation's changes in the write-ahead log."""
        read, base = sample.read_of[relation], self._views.layout.bases[relation]
        computed = max(len(base.computed), 1) if base.computed or base.filters else 0
        per_row = _WORD * (len(base.order) + computed) + len(base.filters)
        per_row += 0 if read.only_inserts else 1
        if read.replaces:
            # What the changes amount to stands there too.
            per_row += _WORD * (len(base.order) + 1)
        return read.changes * per_row

    def _memory(self, found: Forecast, calls: Mapping[str, int]) -> int:
        """The most that the process takes: while it applies, or while it writes the snapshot."""
        widths = {name: len(self._views.layout.bases[name].order) for name in calls}
        rows = max((many * (_PER_ROW + _PER_CODE * widths[name]) for name, many in calls.items()), default=0)
        # The dictionaries' arrays are copied where they grow.
        return _PROCESS + found.arena + found.dictionaries * 3 // 2 + rows + found.moving

    def _unused(self, counts: TableCounts, made: Counted, length_of: Mapping[str, int]) -> Iterator[Unused]:
        """Columns that neither a key nor a query needs."""
        for name, base in self._views.layout.bases.items():
            if name in self._views.layout.derived:
                continue
            used = {c for leaf in base.leaves for b in leaf.atom.bindings for c in b.scalar.columns}
            used |= {c for leaf in base.leaves for s in leaf.atom.filters for c in s.columns}
            for passage in self._views.layout.scans:
                for atom in passage.query.atoms:
                    if atom.source == name:
                        used |= {c for b in atom.bindings for c in b.scalar.columns}
                        used |= {c for s in atom.filters for c in s.columns}
            is_read = base.leaves or any(p.relation == name for p in self._views.layout.scans)
            columns = [c for c in base.relation.columns if c.name not in used and c.name not in base.relation.key]
            if not is_read:
                saves = length_of[name] + sum(counts.value_bytes(base.relation, c) for c in base.relation.columns)
                yield Unused(name, (), round(saves))
            elif columns and len(columns) < len(base.relation.columns):
                rows = made.rows[base.table].live
                saves = sum(_WORD * rows + counts.value_bytes(base.relation, c) for c in columns)
                yield Unused(name, tuple(c.name for c in columns), round(saves))
