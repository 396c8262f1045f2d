"""The engine: base tables and view trees of a spec, updated batch by batch.

    apply(batch)    O(changes) for simple trees; what other trees add is in their plan's guarantees
    count(query)    O(1)
    blocks(query)   constant delay, O(block) memory
    copies(query)   the multiplicity of one row, O(1)

A refused batch changes nothing. Input and output are codes; `evaluator` decodes them for derived relations.

A commit runs the steps of the layout in order. A tree applies the base deltas of its relations, and sends the delta of
its result to the derived relations that it feeds. A derived relation computes its base delta from that, which the next
trees apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta, DeltaBuffers
from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import BatchError, Changes, Codes
from dynq_cli.engine.check import check_engine
from dynq_cli.engine.check_derived import check_derived
from dynq_cli.engine.delta_routing import DerivedError
from dynq_cli.engine.derived_relations import DerivedRelations
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.kernels import base, update
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.base_delta_scan import keep_computed
from dynq_cli.engine.kernels.commit import release, run_commits, update_tree
from dynq_cli.engine.kernels.fields import DeltaEntries, Scratch
from dynq_cli.engine.kernels.groups import start_row
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.table import find_or_insert
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.lookup import Lookup
from dynq_cli.engine.lookup_result import LookupResult
from dynq_cli.engine.multi_tree_result import MultiTreeResult
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import BLOCK, OverflowedError, ResultReader, record_of
from dynq_cli.engine.tree_layout import TreeLayout
from dynq_cli.plan.program import Derived
from dynq_cli.records import record

__all__ = ["BLOCK", "BatchError", "Changes", "DerivedError", "Engine", "OverflowedError"]

CHUNK = 8192
# Keep buffers of up to this many rows for the next commit: at most 36 MB.
MOST_KEPT = 1 << 20


@record(frozen=True)
class _Leaves:
    """The leaves of a tree on one relation, and the tables above them, each with the number of leaves below it."""

    nodes: Codes
    reached: list[tuple[int, int]]


def _leaves_of(layout: Layout, tree: str) -> dict[str, _Leaves]:
    found = {}
    for relation, base_ in layout.bases.items():
        nodes = [leaf.node for leaf in base_.leaves if leaf.query == tree]
        if nodes:
            reached = Counter(table for node in nodes for table in layout.leaf_paths[node])
            found[relation] = _Leaves(np.array(nodes, np.int64), list(reached.items()))
    return found


class Engine:
    def __init__(self, layout: Layout, meaning: Evaluator, arena: Arena | None = None) -> None:
        self.layout = layout
        self._meaning = meaning
        # Deletes that could miss and did, since the engine is there.
        self.skipped = 0
        key, payloads = np.zeros(6 * layout.widest + 6, np.int64), np.zeros((2, update.PAYLOADS), np.int64)
        self._scratch = Scratch(key, *payloads, *np.zeros((6, AHEAD), np.int64))
        # A change by key touches the row that goes and the row that comes.
        self._work = [DeltaBuffers(2 * CHUNK)]
        self._of_relation = {name: self._reached(b) for name, b in layout.bases.items()}
        # By relation, the tables that its rows may change, each with the number of leaves below it.
        self._paths = {
            name: Counter(table for leaf in b.leaves for table in layout.leaf_paths[leaf.node])
            for name, b in layout.bases.items()
        }
        self._stored = {
            name: np.array(list(b.stored.items()), np.int64).reshape(-1, 2) for name, b in layout.bases.items()
        }
        self.arena = arena or Arena(layout.tables.copy(), layout.nodes.copy(), layout.lists)
        self.ordered = CountedTrees(layout, self.arena)
        self._deriving = DerivedRelations(layout, self.arena, self.ordered, meaning)
        # Relations whose changes feed derived relations: their commits must be applied one by one.
        self._feeding = {
            n for n, b in layout.bases.items() if any(leaf.query in self._deriving.feeding for leaf in b.leaves)
        } | {p.relation for p in layout.passages.values()}
        self._leaves = {name: _leaves_of(layout, name) for name in layout.trees}
        self._reading = ResultReader(layout, self.arena, self.ordered)
        self.combined = {name: MultiTreeResult(step, self._reading, meaning) for name, step in layout.together.items()}
        self.tested = {name: LookupResult(step, self._reading, meaning) for name, step in layout.tested.items()}
        if arena is not None:
            return
        for table in range(len(layout.tables)):
            self.arena.reserve(table, 1)
        for tree in layout.trees.values():
            self._start_root(tree)
        for groups in self._deriving.groups.values():
            groups.start()
        self._go_through({})

    def _reached(self, base_: BaseLayout) -> tuple[Codes, Codes]:
        """Return the leaves on a relation, and the first and last node of their trees."""
        trees = [self.layout.trees[name] for name in dict.fromkeys(leaf.query for leaf in base_.leaves)]
        ranges = [n for tree in trees for n in (tree.first, tree.stop)]
        return np.array([leaf.node for leaf in base_.leaves], np.int64), np.array(ranges, np.int64)

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
            if 0 < len(changes) <= CHUNK and relation not in self._feeding:
                self._run_commits(self.layout.bases[relation], changes, 0, np.array([len(changes)], np.int64))
                return
        resolved: dict[str, BaseDelta] = {}
        for relation, changes in batch.items():
            try:
                room = self._room(len(resolved), changes)
                resolved[relation] = self._resolve(self.layout.bases[relation], changes, room)
            except BatchError:
                for earlier in resolved.values():
                    self._revert(earlier)
                raise
        self._go_through(resolved)

    def _go_through(self, resolved: dict[str, BaseDelta]) -> None:
        """Run all steps, starting from the base deltas of the spec's relations."""
        for r in resolved.values():
            self._store(r)
        for step in self.layout.steps:
            if isinstance(step, Derived):
                self._derive(step, resolved)
            elif step.name in self.layout.passages:
                self._deriving.pass_through(step.name, resolved)
            else:
                self._update_tree(step.name, resolved)
        for r in resolved.values():
            self._release(r.base, r.entries, r.n)

    def _store(self, r: BaseDelta) -> None:
        """Store the values that trees compute from inserted base rows in these rows."""
        stored = self._stored[r.base.relation.name]
        if len(stored):
            keep_computed(self.arena.store, r.base.table, r.entries, r.n, r.changes.computed, stored)

    def _propagate(self, first: int, stop: int) -> None:
        while True:
            done = update.propagate(self.arena.store, first, stop, self._scratch)
            if done == f.OK:
                return
            if done == f.OVERFLOW:
                raise OverflowedError
            self.ordered.make_room(int(self._scratch.before[0]))

    def _release(self, layout: BaseLayout, entries: DeltaEntries, n: int) -> None:
        """What a batch took away leaves the trees and the base table."""
        leaves, _ = self._of_relation[layout.relation.name]
        self.ordered.reserve(layout.relation.name, n)
        release(self.arena.store, layout.table, leaves, entries, n)

    def _update_tree(self, name: str, resolved: Mapping[str, BaseDelta]) -> None:
        """Apply base deltas to a tree, and route the delta of its result."""
        below = [relation for relation in self._leaves[name] if relation in resolved]
        if not below:
            return
        feeds = name in self._deriving.feeding
        before = self._reading.count(name)[0] if feeds else 0
        if len(below) == 1 and resolved[below[0]].n <= CHUNK:
            self._update_few(name, below[0], resolved[below[0]])
        else:
            for relation in below:
                for node in self._leaves[name][relation].nodes:
                    self._update_leaf(int(node), resolved[relation])
            tree = self.layout.trees[name]
            self._propagate(tree.first, tree.stop)
        if feeds:
            self._deriving.pass_on(name, before, self._reading.count(name)[0])

    def _update_few(self, name: str, relation: str, r: BaseDelta) -> None:
        """Update all leaves of a tree on one relation, and the tree, in one kernel call."""
        a, tree, leaves = self.arena, self.layout.trees[name], self._leaves[name][relation]
        for table, times in leaves.reached:
            a.reserve(table, r.n * times)
        self.ordered.reserve(relation, r.n)
        done = update_tree(
            a.store,
            r.base.table,
            leaves.nodes,
            tree.first,
            tree.stop,
            r.entries,
            r.n,
            r.changes.batch,
            self._scratch,
        )
        if done == f.OVERFLOW:
            raise OverflowedError
        if done == f.NO_ROOM:
            self.ordered.make_room(int(self._scratch.before[0]))
            self._propagate(tree.first, tree.stop)

    def _derive(self, derived: Derived, resolved: dict[str, BaseDelta]) -> None:
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
            r = self._resolve(self.layout.bases[derived.name], changes, self._room(len(resolved), changes))
        except BatchError as error:
            assert error.reason == f.TOO_MANY, f"{error}: a derived relation lost a row that it does not have"
            raise DerivedError.too_many_copies(derived.name) from None
        resolved[derived.name] = r
        self._store(r)
        came, went = (int(np.count_nonzero(many[: r.n] == 0)) for many in (r.entries.old, r.entries.new))
        self._deriving.check_budget(derived, came, went)

    def _label(self) -> None:
        """Label ids that expressions over derived relations may have added."""
        if self.layout.labelled:
            labels = self._meaning.order_labels()
            self.ordered.label(labels.array, labels.starts)

    def apply_commits(self, relation: str, changes: Changes, ends: Codes) -> None:
        """Apply commits of one relation, in order: the k-th ends before change `ends[k]`.

        Raises BatchError at the first refused commit, with the number of commits before it, which are applied.
        """
        layout = self.layout.bases[relation]
        done = 0
        while done < len(ends):
            start = int(ends[done - 1]) if done else 0
            many = 0 if relation in self._feeding else int(np.searchsorted(ends, start + CHUNK, side="right")) - done
            try:
                if many:
                    self._run_commits(layout, changes, start, ends[done : done + many])
                else:
                    many = 1
                    self.apply({relation: changes.part(start, int(ends[done]))})
            except BatchError as error:
                at = error.change + (0 if error.applied is not None else start)
                raise BatchError(relation, error.reason, at, done + (error.applied or 0)) from None
            done += many

    def _run_commits(self, layout: BaseLayout, changes: Changes, start: int, ends: Codes) -> None:
        done = 0
        while done < len(ends):
            done += self._run_some(layout, changes, start, ends[done:], done)
            start = int(ends[done - 1])

    def _run_some(self, layout: BaseLayout, changes: Changes, start: int, ends: Codes, before: int) -> int:
        """The first of some commits, all of them unless counted trees need room on the way; how many. Raises BatchError
        with the number that hold, those before counted."""
        a, entries, many = self.arena, self._work[0].entries, int(ends[-1]) - start
        a.reserve(layout.table, many)
        for table, leaves_above in self._paths[layout.relation.name].items():
            a.reserve(table, many * leaves_above)
        self.ordered.reserve(layout.relation.name, many)
        leaves, trees = self._of_relation[layout.relation.name]
        reason, at, applied, skipped = run_commits(
            a.store,
            layout.table,
            leaves,
            trees,
            changes.batch,
            start,
            ends,
            entries,
            self._scratch,
            changes.may_miss,
        )
        self.skipped += int(skipped)
        if reason == f.OVERFLOW:
            raise OverflowedError
        if reason == f.NO_ROOM:
            self.ordered.make_room(int(self._scratch.before[0]))
            for k in range(0, len(trees), 2):
                self._propagate(int(trees[k]), int(trees[k + 1]))
            self._release(layout, entries, int(at))
            return int(applied) + 1
        if reason != f.OK:
            raise BatchError(layout.relation.name, reason, int(at), before + int(applied))
        return len(ends)

    def _room(self, place: int, changes: Changes) -> DeltaBuffers:
        """Return the buffers in which to resolve the changes of the commit's relation number `place`."""
        room = 2 * len(changes) if changes.ops.max(initial=0) >= f.UPSERT else len(changes)
        if room > MOST_KEPT:
            return DeltaBuffers(room)
        while place >= len(self._work):
            self._work.append(DeltaBuffers(0))
        if room > self._work[place].room:
            self._work[place] = DeltaBuffers(min(2 * room, MOST_KEPT))
        return self._work[place]

    def _resolve(self, layout: BaseLayout, changes: Changes, work: DeltaBuffers) -> BaseDelta:
        a, t, many, entries, batch = self.arena, layout.table, len(changes), work.entries, changes.batch
        if many <= CHUNK:
            return self._resolve_few(layout, changes, entries)
        n = skipped = 0
        for start in range(0, many, CHUNK):
            stop = min(start + CHUNK, many)
            a.reserve(t, stop - start)
            reason, at, n, missed = base.collect(a.store, t, batch, start, stop, entries, n, self._scratch)
            if reason != f.OK:
                base.take_back(a.store, t, entries, n)
                raise BatchError(layout.relation.name, reason, int(at))
            skipped += int(missed)
        reason, at, missed = base.settle(a.store, t, entries, n, changes.may_miss)
        if reason != f.OK:
            raise BatchError(layout.relation.name, reason, int(at))
        self.skipped += skipped + int(missed)
        return BaseDelta(layout, changes, entries, n)

    def _resolve_few(self, layout: BaseLayout, changes: Changes, entries: DeltaEntries) -> BaseDelta:
        """`_resolve` in one call."""
        a, many = self.arena, len(changes)
        a.reserve(layout.table, many)
        reason, at, n, skipped = base.resolve(
            a.store, layout.table, changes.batch, 0, many, entries, self._scratch, changes.may_miss
        )
        if reason != f.OK:
            raise BatchError(layout.relation.name, reason, int(at))
        self.skipped += int(skipped)
        return BaseDelta(layout, changes, entries, int(n))

    def _revert(self, r: BaseDelta) -> None:
        """Revert a resolved batch that no tree has applied yet."""
        a, t = self.arena, r.base.table
        rows = r.entries.touched[: r.n].astype(np.int64)
        places = a.tables["rows"][t] + rows * a.tables["stride"][t] + a.tables["mult"][t]
        a.words[places] = r.entries.old[: r.n]
        base.take_back(a.store, t, r.entries, r.n)

    def _update_leaf(self, node: int, r: BaseDelta) -> None:
        a, batch = self.arena, r.changes.batch
        for start in range(0, r.n, CHUNK):
            stop = min(start + CHUNK, r.n)
            for table in self.layout.leaf_paths[node]:
                a.reserve(table, stop - start)
            self.ordered.reserve(r.base.relation.name, stop - start)
            done = update.update_leaf(a.store, node, r.base.table, r.entries, start, stop, batch, self._scratch)
            if done != f.OK:
                raise OverflowedError

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
        check_derived(self.layout, self.arena, self._reading, self._meaning)
        for groups in self._deriving.groups.values():
            groups._check()
        for together in self.combined.values():
            together._check()
