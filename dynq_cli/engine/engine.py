"""The engine: base tables and view trees of a spec, updated batch by batch.

    apply(batch)    O(changes) for simple trees; what other trees add is in their plan's guarantees
    count(query)    O(1)
    blocks(query)   constant delay, O(block) memory
    copies(query)   the multiplicity of one row, O(1)

A refused batch changes nothing. Input and output are codes; `evaluator` decodes them for derived relations.

A commit runs the steps of the layout in order. A tree applies the base deltas of its relations, and sends the delta of
its result to the derived relations that it feeds. A derived relation computes its base delta from that, which the next
trees apply. Every base delta takes the same route through its trees, `kernels.commit`: to the end, where its steps are
trees alone, else from step to step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta, DeltaBuffers
from dynq_cli.engine.changes import BatchError, Changes, Codes
from dynq_cli.engine.check import check_engine
from dynq_cli.engine.check_cycles import check_cycles
from dynq_cli.engine.check_derived import check_derived
from dynq_cli.engine.commit_sequence import CommitSequence, SequenceError
from dynq_cli.engine.degrees import Degrees
from dynq_cli.engine.delta_routing import DerivedError
from dynq_cli.engine.derived_relations import DerivedRelations
from dynq_cli.engine.derived_sequence import DerivedSequence
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.journals import Journals
from dynq_cli.engine.kernels import base, update
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.base_delta_scan import keep_computed
from dynq_cli.engine.kernels.commit import NEXT_CHUNK, PASSED_TREE, RESOLVE, Route, advance
from dynq_cli.engine.kernels.fields import Scratch
from dynq_cli.engine.kernels.groups import start_row
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.table import find_or_insert
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.lookup import Lookup
from dynq_cli.engine.lookup_result import LookupResult
from dynq_cli.engine.mixed_commits import Ends, MixedCommits
from dynq_cli.engine.multi_tree_result import MultiTreeResult
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import BLOCK, OverflowedError, ResultReader, record_of
from dynq_cli.engine.sequence_of_deltas import Delta, in_sequence
from dynq_cli.engine.told_results import ToldResults
from dynq_cli.engine.tree_layout import TreeLayout
from dynq_cli.plan.program import Cycle, Derived, Tree
from dynq_cli.records import record

__all__ = ["BLOCK", "BatchError", "Changes", "DerivedError", "Engine", "OverflowedError"]

# Changes that tables are given room for at a time.
CHUNK = 8192
# A stage that no route has: it goes on to the end.
END = -1
# Keep buffers of up to this many rows for the next commit: at most 36 MB.
MOST_KEPT = 1 << 20
# Rows of deltas of many commits that are held at a time.
MOST_ON_THE_WAY = 1 << 20
# Tables that get rows, each with how many a change may add.
Reached = Sequence[tuple[int, int]]


@record(frozen=True)
class _Path:
    """The route of a relation's commits.

    `stages` has the stage of each tree's leaves; after the last tree comes the stage `last`. `reached` are the tables
    that get rows, `reached_at` those of one stage.
    """

    route: Route
    stages: dict[str, int]
    last: int
    reached: Reached
    reached_at: dict[int, Reached]


def _path_of(layout: Layout, relation: str) -> _Path:
    base_ = layout.bases[relation]
    names = list(dict.fromkeys(leaf.query for leaf in base_.leaves))
    stages = {name: 2 * number + 1 for number, name in enumerate(names)}
    leaves: list[int] = []
    reached_at = {RESOLVE: Counter([base_.table])}
    passed = np.zeros(len(names), PASSED_TREE)
    for row, name in zip(passed, names, strict=True):
        tree = layout.trees[name]
        row.first_node, row.stop_node, row.first_leaf = tree.first, tree.stop, len(leaves)
        below = [leaf.node for leaf in base_.leaves if leaf.query == name]
        leaves += below
        row.stop_leaf = len(leaves)
        reached_at[stages[name]] = Counter(table for leaf in below for table in layout.leaf_paths[leaf])
    return _Path(
        Route(base_.table, np.array(leaves, np.int64), passed),
        stages,
        2 * len(names) + 1,
        [*sum(reached_at.values(), Counter[int]()).items()],
        {stage: [*tables.items()] for stage, tables in reached_at.items()},
    )


class _Written:
    """The outlet of written relations: derives from the deltas of commits, as many as `commits`."""

    most = MOST_ON_THE_WAY

    def __init__(self, engine: Engine, commits: int) -> None:
        self._engine = engine
        self._commits = commits

    def take(self, deltas: dict[str, Delta]) -> None:
        self._engine._derive_sequence(deltas, self._commits)

    def take_part(self, step: str, codes: Codes, copies: Codes) -> None:
        self._engine._deriving.pass_block(step, codes, copies)

    def end_part(self) -> None:
        self._engine._run_steps({})


class _OfDerived:
    """The outlet of a derived relation: keeps the deltas of each run."""

    most = 1 << 62

    def __init__(self) -> None:
        self._found: list[dict[str, Delta]] = []

    def take(self, deltas: dict[str, Delta]) -> None:
        self._found.append(deltas)

    def take_part(self, step: str, codes: Codes, copies: Codes) -> None:
        raise AssertionError(step)

    def end_part(self) -> None:
        raise AssertionError

    def joined(self, commits: Sequence[int]) -> dict[str, Delta]:
        """The deltas of all runs by step; `commits` are how many each run has."""
        steps = dict.fromkeys(step for deltas in self._found for step in deltas)
        return {step: in_sequence([deltas.get(step) for deltas in self._found], commits) for step in steps}


class Engine:
    def __init__(self, layout: Layout, meaning: Evaluator, arena: Arena | None = None) -> None:
        self.layout = layout
        self._meaning = meaning
        # Deletes that could miss and did, since the engine is there.
        self.skipped = 0
        key, payloads = np.zeros(6 * layout.widest + 6, np.int64), np.zeros((2, update.PAYLOADS), np.int64)
        self._scratch = Scratch(key, *payloads, *np.zeros((6, AHEAD), np.int64))
        self._work: list[DeltaBuffers] = []
        self._paths = {name: _path_of(layout, name) for name in layout.bases}
        self._stored = {
            name: np.array(list(b.stored.items()), np.int64).reshape(-1, 2) for name, b in layout.bases.items()
        }
        self.arena = arena or Arena(layout.tables.copy(), layout.nodes.copy(), layout.lists)
        self.ordered = CountedTrees(layout, self.arena)
        self.journals = Journals(layout, self.arena)
        self._deriving = DerivedRelations(layout, self.arena, self.ordered, meaning)
        # Relations whose changes feed derived relations, or are told: these have their turn between two trees.
        self._feeding = {
            n for n, b in layout.bases.items() if any(leaf.query in self._deriving.feeding for leaf in b.leaves)
        } | {p.relation for p in layout.scans}
        self._between = frozenset(self._feeding)
        self._read_by = {
            tree: [name for name, path in self._paths.items() if tree in path.stages] for tree in layout.trees
        }
        reached = {name: path.reached for name, path in self._paths.items()}
        # Deltas of written relations may be passed on while a commit is on its way.
        self._sequence, self._sequence_of_derived = (
            CommitSequence(layout, self.arena, self.ordered, self._deriving, self._feeding, reached) for _ in range(2)
        )
        self._derived_sequence = DerivedSequence(layout, self._deriving, meaning)
        self._reading = ResultReader(layout, self.arena, self.ordered)
        self.degrees = Degrees(layout, self._reading)
        self.combined = {name: MultiTreeResult(step, self._reading, meaning) for name, step in layout.together.items()}
        self.told = ToldResults(layout, self.arena, self.ordered, self.journals, self.combined)
        self.tested = {name: LookupResult(step, self._reading, meaning) for name, step in layout.tested.items()}
        if arena is not None:
            return
        for table in range(len(layout.tables)):
            self.arena.reserve(table, 1)
        for tree in layout.trees.values():
            self._start_root(tree)
        self._deriving.start()
        self._commit({})

    def keep_journals(self, trees: frozenset[str]) -> None:
        """Note from the next commit on what changes in these trees, and in no others."""
        feeding = trees & self._deriving.feeding
        assert not feeding, f"{feeding} are read for their delta anyway"
        self.journals.keep(trees)
        told = {name for name, path in self._paths.items() if trees & path.stages.keys()}
        self._between = frozenset(self._feeding | told)

    def tell(self, queries: Sequence[str]) -> None:
        """Read the deltas of these results within each commit from the next one on, and of no others. O(nodes)."""
        self.keep_journals(self.told.tell(queries))

    def _start_root(self, tree: TreeLayout) -> None:
        a = self.arena
        table = int(a.nodes["table"][tree.root])
        row, _ = find_or_insert(a.store, table, self._scratch.key)
        start_row(a.store, tree.root, row, self._scratch.key)
        a.halves[2 * record_of(a, table, row) + a.tables["refs"][table]] = 1

    def apply(self, batch: Mapping[str, Changes]) -> None:
        """Apply one commit, all changes or none. Raises BatchError with nothing changed."""
        if len(batch) == 1:
            ((relation, changes),) = batch.items()
            if len(changes) and relation not in self._between and self.degrees.surely_fit(relation, changes):
                self._run(relation, changes, np.array([len(changes)], np.int64))
                return
        self._commit(batch)

    def apply_commits(self, relation: str, changes: Changes, ends: Codes) -> None:
        """Apply commits of one relation, in order: the k-th ends before change `ends[k]`.

        Raises BatchError at the first refused commit, with the number of commits before it, which are applied.
        """
        if not self.journals.trees and relation in self._feeding and relation in self.in_sequence:
            self.apply_mixed({relation: changes}, {relation: ends})
            return
        done = 0
        while done < len(ends):
            start = int(ends[done - 1]) if done else 0
            # One that is larger than CHUNK has a call of its own.
            many = max(1, int(np.searchsorted(ends, start + CHUNK, side="right")) - done)
            many = 1 if relation in self._between else many
            part = changes.part(start, int(ends[done + many - 1]))
            stops = ends[done : done + many] - start
            try:
                if relation in self._between:
                    self._commit({relation: part})
                elif self.degrees.surely_fit(relation, part):
                    self._run(relation, part, stops)
                else:
                    self._commit_each(relation, part, stops)
            except BatchError as error:
                applied = done + (error.applied or 0)
                raise BatchError(relation, error.reason, error.change + start, applied, error.degree) from None
            done += many

    def apply_mixed(self, batch: Mapping[str, Changes], ends: Ends) -> None:
        """Apply commits of several relations, in order: of each relation, the k-th has changes up to `ends[k]`.

        Raises BatchError at the first refused commit, with the number of commits before it, which are applied.
        """
        commits = MixedCommits(batch, ends)
        for first, stop in commits.blocks(0, CHUNK):
            if self._may_run(commits, first, stop):
                self._run_sequence(commits, first, stop)
                continue
            for commit in range(first, stop):
                try:
                    self.apply(commits.part(commit, commit + 1))
                except BatchError as error:
                    raise commits.in_batch(error, commit, 0) from None

    @property
    def in_sequence(self) -> frozenset[str]:
        """The written relations whose commits kernels take one after the other, in blocks; see `sequence_program`."""
        return self._sequence.taken

    def _may_run(self, commits: MixedCommits, first: int, stop: int) -> bool:
        """Whether kernels can take some commits one after the other, and no bound can be passed."""
        part = commits.part(first, stop)
        return (
            commits.size(first, stop) <= CHUNK
            and self.in_sequence.issuperset(part)
            and not self.journals.trees
            and all(self.degrees.surely_fit(name, changes) for name, changes in part.items())
        )

    def _run_sequence(self, commits: MixedCommits, first: int, stop: int) -> None:
        """Apply some commits, and derive from their deltas, also if one of them is refused: from those before it."""
        outlet = _Written(self, stop - first)
        try:
            self.skipped += self._sequence.run(commits, first, stop, self._scratch, outlet)
        except SequenceError as refused:
            self.skipped += refused.skipped
            raise commits.in_batch(refused.error, first, refused.error.applied or 0) from None

    def _derive_sequence(self, deltas: dict[str, Delta], many: int) -> None:
        """Apply the deltas of `many` commits to the derived relations that they feed, one after the other."""
        for derived in self.layout.derived.values() if deltas else ():
            if deltas.keys().isdisjoint(feed.tree for feed in derived.feeds):
                continue
            table = self._deriving.table_of(derived)
            before = 0 if table is None else int(self.arena.tables["live"][table])
            made = self._derived_sequence.changes(derived, deltas)
            self._label()
            if made is not None:
                deltas |= self._run_derived(derived.name, *made)
            if table is not None:
                rows = int(self.arena.tables["live"][table])
                self._deriving.check_rows(derived, rows, grew=rows > before)

    def _run_derived(self, name: str, changes: Changes, ends: Codes) -> dict[str, Delta]:
        """Apply the commits of a derived relation; return the deltas of the trees that read it."""
        commits, outlet = MixedCommits({name: changes}, {name: ends}), _OfDerived()
        runs = list(commits.blocks(0, CHUNK))
        try:
            for first, stop in runs:
                self._sequence_of_derived.run(commits, first, stop, self._scratch, outlet)
        except SequenceError as refused:
            reason = refused.error.reason
            assert reason == f.TOO_MANY, f"{refused}: a derived relation lost a row that it does not have"
            raise DerivedError.too_many_copies(name) from None
        return outlet.joined([stop - first for first, stop in runs])

    def _commit_each(self, relation: str, changes: Changes, ends: Codes) -> None:
        """Apply commits of a relation one by one, since one of them may pass its `max_degree`."""
        start = 0
        for done, stop in enumerate(ends.tolist()):
            try:
                self._commit({relation: changes.part(start, stop)})
            except BatchError as error:
                raise BatchError(relation, error.reason, error.change + start, done, error.degree) from None
            start = stop

    def _run(self, relation: str, changes: Changes, ends: Codes) -> None:
        """Apply commits of a relation that meets no other step on its route."""
        self._advance(self._delta(relation, changes, ends), END, self._paths[relation].reached)

    def _commit(self, batch: Mapping[str, Changes]) -> None:
        """Apply one commit whose relations meet in a tree, or feed derived relations."""
        deltas: dict[str, BaseDelta] = {}
        degrees = self.degrees.before(batch)
        try:
            for relation, changes in batch.items():
                self._resolve(relation, changes, deltas)
            self.degrees.check(deltas.values(), degrees, self.arena.words, self.arena.tables)
        except BatchError:
            for earlier in deltas.values():
                self._revert(earlier)
            raise
        self._run_steps(deltas)

    def _run_steps(self, deltas: dict[str, BaseDelta]) -> None:
        """Take base deltas through all steps, with what derived relations have taken; then release rows that went."""
        for step in self.layout.steps:
            self._take_step(step, deltas)
        for delta in deltas.values():
            if not delta.done:
                self._advance(delta)

    def fill(self, relation: str, rows: Codes, changes: Changes, steps: Collection[str]) -> None:
        """Insert rows that the base table has, under these ids, into some steps that do not have them yet."""
        delta = self._delta(relation, changes, np.array([len(changes)], np.int64))
        delta.settle(rows)
        self._keep_computed(delta)
        deltas, stages = {relation: delta}, self._paths[relation].stages
        for step in self.layout.steps:
            if step.name in steps:
                if step.name in stages:
                    delta.skip_to(stages[step.name])
                self._take_step(step, deltas)
        for made in deltas.values():
            if made is not delta and not made.done:
                self._advance(made)

    def _take_step(self, step: Tree | Derived | Cycle, deltas: dict[str, BaseDelta]) -> None:
        if isinstance(step, Derived):
            self._derive(step, deltas)
        elif step.name in self.layout.passages:
            self._deriving.pass_through(step.name, deltas)
        elif isinstance(step, Cycle):
            self._deriving.pass_delta(step.name, deltas)
        else:
            self._update_tree(step.name, deltas)

    def _resolve(self, relation: str, changes: Changes, deltas: dict[str, BaseDelta]) -> BaseDelta:
        """Add the base delta of a relation to those of the commit. Raises BatchError with nothing changed."""
        delta = self._delta(relation, changes, np.array([len(changes)], np.int64), len(deltas))
        self._advance(delta, RESOLVE + 1, self._paths[relation].reached_at[RESOLVE])
        self._keep_computed(delta)
        deltas[relation] = delta
        return delta

    def _keep_computed(self, delta: BaseDelta) -> None:
        """Store what was computed from rows that came: of rows that go, only codes may be known."""
        stored = self._stored[delta.relation]
        if len(stored):
            keep_computed(self.arena.store, delta.base.table, delta.entries, delta.n, delta.changes.computed, stored)

    def _update_tree(self, name: str, deltas: Mapping[str, BaseDelta]) -> None:
        """Apply base deltas to a tree, and route the delta of its result."""
        below = [deltas[relation] for relation in self._read_by[name] if relation in deltas]
        if not below:
            return
        feeds, is_told = name in self._deriving.feeding, name in self.told
        before = self._reading.count(name)[0] if feeds or is_told else 0
        if name in self.journals.trees:
            self.journals.begin(name, sum(delta.n for delta in below))
        for delta in below:
            path = self._paths[delta.relation]
            leaves = path.stages[name]
            if delta is not below[-1]:
                self._advance(delta, leaves + 1, path.reached_at[leaves])
                delta.skip_to(leaves + 2)
            elif leaves + 2 < path.last or delta.relation in self._between:
                self._advance(delta, leaves + 2, path.reached_at[leaves])
            else:
                # Nothing reads the rows that went any more.
                self._advance(delta, END, path.reached_at[leaves])
        if feeds:
            self._deriving.pass_on(name, before, self._reading.count(name)[0])
        if is_told:
            self.told.read(name, before, self._reading.count(name)[0])

    def _derive(self, derived: Derived, deltas: dict[str, BaseDelta]) -> None:
        """Apply the collected delta to a derived relation."""
        if derived.name in self._deriving.relays:
            self._deriving.relay(derived)
            self._label()
            return
        changes = self._deriving.changes(derived)
        if changes is None:
            return
        self._label()
        try:
            delta = self._resolve(derived.name, changes, deltas)
        except BatchError as error:
            assert error.reason == f.TOO_MANY, f"{error}: a derived relation lost a row that it does not have"
            raise DerivedError.too_many_copies(derived.name) from None
        came, went = (int(np.count_nonzero(many[: delta.n] == 0)) for many in (delta.entries.old, delta.entries.new))
        self._deriving.check_budget(derived, came, went)

    def _label(self) -> None:
        """Label ids that expressions over derived relations may have added."""
        if self.layout.labelled:
            labels = self._meaning.order_labels()
            self.ordered.label(labels.array, labels.starts)

    def _delta(self, relation: str, changes: Changes, ends: Codes, place: int = 0) -> BaseDelta:
        """Begin commits of one relation, number `place` of the relations that are committed together."""
        many = len(changes)
        while place >= len(self._work):
            self._work.append(DeltaBuffers(2 * CHUNK))
        work = self._work[place]
        if many > CHUNK:
            # A change by key touches the row that goes and the row that comes.
            room = 2 * many if changes.ops.max() >= f.UPSERT else many
            if room > MOST_KEPT:
                work = DeltaBuffers(room)
            elif room > work.room:
                work = self._work[place] = DeltaBuffers(min(2 * room, MOST_KEPT))
        return BaseDelta(self.layout.bases[relation], changes, ends, work, CHUNK)

    def _advance(self, delta: BaseDelta, until: int = END, reached: Reached = ()) -> None:
        """Take commits of a relation along their route: to its end, or to the stage `until`.

        `reached` are the tables that get rows on the way. Raises BatchError, with the number of commits that hold, at
        the first that is refused.
        """
        a, relation, many = self.arena, delta.relation, len(delta.changes)
        path, rows, scratch = self._paths[relation], many, self._scratch
        while True:
            if many > CHUNK:
                # A large commit asks for room CHUNK by CHUNK. What it releases, it releases at once.
                rows, reached = delta.n if delta.stage == path.last else CHUNK, path.reached_at.get(delta.stage, ())
            for table, times in reached:
                a.reserve(table, rows * times)
            self.ordered.reserve({relation: rows})
            batch, entries, may_miss = delta.batch, delta.entries, delta.may_miss
            status = advance(a.store, path.route, batch, delta.ends, entries, scratch, may_miss, delta.progress, until)
            if status == f.NO_ROOM:
                self.ordered.make_room(int(self._scratch.before[0]))
            elif status != NEXT_CHUNK:
                break
        self.skipped += delta.take_skipped()
        if status == f.OVERFLOW:
            raise OverflowedError
        if status != f.OK:
            raise BatchError(relation, status, delta.change, delta.done)

    def _revert(self, delta: BaseDelta) -> None:
        """Revert a resolved batch that no tree has applied yet."""
        a, t = self.arena, delta.base.table
        rows = delta.entries.touched[: delta.n].astype(np.int64)
        places = a.tables["rows"][t] + rows * a.tables["stride"][t] + a.tables["mult"][t]
        a.words[places] = delta.entries.old[: delta.n]
        base.take_back(a.store, t, delta.entries, delta.n)

    def count(self, query: str) -> tuple[int, int]:
        """Return the number of rows, counting copies, and of distinct rows. O(1) if `keeps_count`, else O(rows)."""
        together = self.combined.get(query)
        return self._reading.count(query) if together is None else together.count()

    def keeps_count(self, query: str) -> bool:
        """Whether the count of a query is kept. Otherwise its rows are counted one by one, or not at all."""
        return query not in self.tested and (query not in self.combined or self.combined[query].keeps_count)

    def blocks(self, query: str, variables: Sequence[str], block: int = BLOCK) -> Iterator[tuple[Codes, Codes]]:
        """Yield distinct result rows as codes, one row per variable, and their multiplicities.

        Constant delay, except for rows that comparisons filter out (`multi_tree_result`). Raises OverflowedError if a
        row has more than 2^63 - 1 copies.
        """
        together = self.combined.get(query)
        return self._reading.blocks(query, variables, block) if together is None else together.blocks(variables, block)

    def copies(self, query: str, row: Mapping[str, int]) -> int:
        """Return the multiplicity of the row given by a code per head variable. O(1)."""
        several = self.combined.get(query) or self.tested.get(query)
        return self._reading.copies(query, row) if several is None else several.copies(row)

    def copies_of(self, query: str, variables: Sequence[str], codes: Codes) -> Codes:
        """Return the multiplicities of many rows, in one row of codes per variable; these include the head. O(rows).

        Raises OverflowedError if a row has more than 2^63 - 1 copies.
        """
        if query in self.layout.trees and not self.layout.trees[query].levels:
            rows, _ = self.count(query)
            return np.full(codes.shape[1], min(rows, 2**63 - 1), np.int64)
        if query in self.layout.trees:
            return Lookup(self._reading, query, variables).copies(codes)
        if query in self.tested:
            tested = self.tested[query]
            return tested.total(codes[[variables.index(v) for v in tested.head]])
        together = self.combined[query]
        codes = codes[[variables.index(v) for v in together.head]]
        many, kept = together.total(codes), together.passes(codes)
        return many if kept is None else many * kept

    def _check(self) -> None:
        """Assert every invariant. O(data)."""
        check_engine(self.layout, self.arena, self.ordered)
        check_cycles(self.layout, self.arena)
        check_derived(self.layout, self.arena, self._reading, self._meaning)
        for groups in self._deriving.groups.values():
            groups._check()
        for partitions in self._deriving.partitions.values():
            partitions._check()
        for together in self.combined.values():
            together._check()
