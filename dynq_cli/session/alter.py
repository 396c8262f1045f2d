"""Make a state follow a changed spec, as one version, all or nothing.

    alter(".dynq", "shop.yaml")                                    from the rows that are there
    alter(".dynq", "shop.yaml", [("orders", "channels.csv")])      new columns of orders have the file's values by key

Where only outputs, marks or the way that logs are read changed, views and rows stay as they are. After any other change
the views of unchanged queries over unchanged rows are copied (`engine/carried_views`), and the others are filled:
rows of changed relations are moved (`engine/alteration`). Readers go on with the version before until the new one is in
force. Versions before it, and their marks, are still read as they were (`eras`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dynq_cli.engine.alteration import Fill, Moved, fill_relation, moved, past_degree, refuse_lossy
from dynq_cli.engine.carried_views import carry_over, fill, keeps_rows, left_to_fill
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.engine.table_sizes import sizes_of
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.phases import Phase, phase
from dynq_cli.plan.program import Lookups, Together
from dynq_cli.session.apply_logs import columns_in, load
from dynq_cli.session.marks import marks_of
from dynq_cli.spec.differences import differences
from dynq_cli.spec.model import Spec
from dynq_cli.spec.source import read_source
from dynq_cli.storage.alter import commit_views, has_same_rows, keep_views
from dynq_cli.storage.clock import clock_changes
from dynq_cli.storage.commit import counts_of
from dynq_cli.storage.layout import RUN_LOCK
from dynq_cli.storage.ledger import AppliedLog
from dynq_cli.storage.lock import holding, writing_to
from dynq_cli.storage.manifest import Counts, Manifest, read_manifest
from dynq_cli.storage.plans import Planned, plan_new_spec, read_plans
from dynq_cli.storage.recover import open_latest
from dynq_cli.storage.state import StrPath

Loads = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Altered:
    """An alteration: the version that it made, or would make, and what is different, in words.

    - `differences`: empty if the specs mean the same; then there is no new version
    - `is_built`: whether views were filled; else rows and views stay as they are
    - `moved`: base rows that views were filled from, by relation; `loaded`: rows of new relations
    - `stayed`: queries whose views were taken as they are, byte for byte
    - `dropped`: rows of relations that are gone
    - `seconds`: how long filling the views took
    """

    version: int
    differences: tuple[str, ...]
    is_built: bool = False
    moved: Mapping[str, Moved] = field(default_factory=dict)
    stayed: tuple[str, ...] = ()
    loaded: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Counts | None] = field(default_factory=dict)
    sizes: TableSizes | None = None
    seconds: float = 0.0


def alter(
    state: StrPath,
    spec: StrPath,
    loads: Loads = (),
    progress: Callable[[int], None] = lambda rows: None,
    *,
    dry_run: bool = False,
) -> Altered:
    """Make a state follow a spec. With `dry_run`, do all but write; no lock is needed.

    SpecError, or RejectedError with the place, if the spec is wrong, or the rows do not fit it; UsageError if a load
    has no use; LockedError if another process writes to the state or runs on it. Then nothing has changed.
    """
    directory = Path(state)
    read_manifest(directory)
    source = read_source(spec)
    planned = plan_new_spec(source.text, source.file)
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(writing_to(directory))
            stack.enter_context(holding(directory / RUN_LOCK, f"{directory} is being run on by another process"))
        manifest = read_manifest(directory)
        kept = read_plans(directory, manifest)
        found = tuple(differences(kept.spec, planned.spec))
        _refuse_loads(kept.spec, planned.spec, loads)
        if not found and not loads:
            return Altered(manifest.version, (), counts=manifest.counts)
        refuse_lossy(kept.spec, planned.spec)
        _refuse_degrees(directory, kept, planned.spec)
        marks = _new_marks(manifest, planned.spec)
        if has_same_rows(kept, planned):
            if not dry_run:
                keep_views(directory, manifest, planned, source.text, marks)
            return Altered(manifest.version + 1, found, counts=manifest.counts)
        began = time.monotonic()
        views, altered, logs, stayed = _built(directory, kept, planned, loads, progress)
        seconds = time.monotonic() - began
        if not dry_run:
            commit_views(directory, manifest, planned, source.text, views, logs, marks)
        return Altered(
            manifest.version + 1,
            found,
            is_built=True,
            moved=altered,
            stayed=stayed,
            loaded=_loaded(views, kept.spec),
            dropped={r.name: n for r in kept.spec.own_relations if (n := _dropped(manifest, planned.spec, r.name))},
            counts=counts_of(views),
            sizes=sizes_of(views),
            seconds=seconds,
        )


def _built(
    directory: Path, kept: Planned, planned: Planned, loads: Loads, progress: Callable[[int], None]
) -> tuple[Views, dict[str, Moved], list[AppliedLog], tuple[str, ...]]:
    """Fill views for a spec with the rows of the version in force, and with those of the loads.

    Views of which neither the plan nor the rows are others are taken as they are; return their queries, too.
    """
    fills = dict(_fills(kept.spec, planned.spec, loads, progress))
    _, old = open_latest(directory, kept)
    views = Views(planned.spec, planned.kept, values=old.dictionaries.arrays())
    carried = carry_over(old, views, _same_relations(kept.spec, planned.spec, fills))
    if not carried.steps:
        views = Views(planned.spec, planned.kept)
    logs = load(views, [each for each in loads if each[0] not in fills], progress)
    altered = {}
    for relation in planned.spec.relations:
        if kept.spec.relation(relation.name) is None or relation.name in carried.relations:
            continue
        with _building(old, relation.name) as building:
            altered[relation.name] = moved(old, views, relation.name, fills.get(relation.name), building.add)
    for name in left_to_fill(views, carried):
        with _building(views, name) as building:
            rows = fill(views, name, carried, building.add)
        if planned.spec.relation(name) is not None:
            altered[name] = Moved(rows)
    stayed = tuple(
        name
        for name, program in views.queries.items()
        if all(step.name in carried.steps for step in program.steps if not isinstance(step, Together | Lookups))
    )
    for name in stayed:
        assert views.kept_count(name) == old.kept_count(name), f"{name} has other rows than before"
    views.take(clock_changes(views, None))
    views.engine.arena.settle()
    return views, altered, logs, stayed


def _building(views: Views, name: str) -> Phase:
    many = int(views.engine.arena.tables["live"][views.layout.bases[name].table])
    return phase(f"building the views from the rows of {name}", total=many)


def _same_relations(kept: Spec, given: Spec, fills: Mapping[str, Fill]) -> list[str]:
    """Return the relations whose rows stay what they are, at most beside other columns."""
    both = [(after, kept.relation(after.name)) for after in given.relations if after.name not in fills]
    return [after.name for after, before in both if before is not None and keeps_rows(before, after)]


def _fills(kept: Spec, given: Spec, loads: Loads, progress: Callable[[int], None]) -> Iterator[tuple[str, Fill]]:
    """Read the loads of relations that were there before: values of their new columns by key."""
    for name in dict.fromkeys(relation for relation, _ in loads):
        before, after = kept.relation(name), given.relation(name)
        if before is None or after is None:
            continue
        own = [each for each in loads if each[0] == name]
        there = columns_in([name], own)
        filled = [c.name for c in after.columns if before.column(c.name) is None and c.name in there]
        if not filled:
            new = ", ".join(c.name for c in after.columns if before.column(c.name) is None)
            raise RejectedError(f"--load {name}={own[0][1]}: the file has none of the new columns of {name}: {new}")
        relation = fill_relation(after, filled)
        views = Views(Spec(given.file, (relation,), ()), {})
        load(views, own, progress)
        yield name, Fill(views, relation)


def _refuse_loads(kept: Spec, given: Spec, loads: Loads) -> None:
    for name, path in loads:
        before, after = kept.relation(name), given.relation(name)
        if before is None or after is None:
            continue  # a relation that is nowhere is refused when it is loaded
        new = [column.name for column in after.columns if before.column(column.name) is None]
        if not new:
            raise UsageError(
                f"--load {name}={path}: {name} has no new column that it could fill\n"
                f"  hint: `dynq apply --replace {name}={path}` replaces its rows"
            )
        if not after.key or any(before.column(column) is None for column in after.key):
            raise UsageError(
                f"--load {name}={path}: {name} has no key of columns that it had before to fill rows by\n"
                f"  hint: leave --load out, and apply change logs that have {', '.join(new)}"
            )


def _refuse_degrees(directory: Path, kept: Planned, given: Spec) -> None:
    """RejectedError if rows that are there pass a `max_degree` that they did not have to keep before. O(rows)."""
    stricter = []
    for after in given.relations:
        before = kept.spec.relation(after.name)
        if before is None or after.max_degree is None or after.on_degree == "warn":
            continue
        if before.max_degree is None or before.on_degree == "warn" or before.max_degree > after.max_degree:
            stricter.append(after)
    if not stricter:
        return
    _, old = open_latest(directory, kept)
    for relation in stricter:
        for column, value, rows in past_degree(old, relation):
            raise RejectedError(
                f"{relation.name}, column {column}: {value} is in {rows:,} rows, and the given `max_degree` is "
                f"{relation.max_degree:,}\n  hint: write a larger one, or `on_degree: warn`"
            )


def _new_marks(manifest: Manifest, spec: Spec) -> dict[str, int]:
    """Return the marks that new outputs need: at the version before, so that their first diff has what is new."""
    return {name: manifest.version for name in marks_of(spec) if name not in manifest.marks}


def _loaded(views: Views, kept: Spec) -> dict[str, int]:
    """Return the number of rows of the relations that are new."""
    return {
        relation.name: int(views.engine.arena.tables["live"][views.base(relation.name).table])
        for relation in views.spec.own_relations
        if kept.relation(relation.name) is None
    }


def _dropped(manifest: Manifest, given: Spec, name: str) -> int:
    """Return the rows of a relation that the given spec lacks, 0 if it has it."""
    if given.relation(name) is not None or manifest.tables is None:
        return 0
    return manifest.tables.relations[name].copies
