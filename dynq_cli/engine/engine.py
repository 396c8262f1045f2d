"""The engine: base tables and view trees of a spec, updated batch by batch.

    apply(batch)    O(changes) for simple trees; what other trees add is in their plan's guarantees
    count(query)    O(1)
    blocks(query)   constant delay, O(block) memory
    copies(query)   the multiplicity of one row, O(1)

A batch that is refused leaves everything as it was. Codes in, codes out: what a code means is not the
engine's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import check_engine
from dynq_cli.engine.kernels import base, enumerate, update
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.commit import run_commits
from dynq_cli.engine.kernels.groups import start_row
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.table import find, find_or_insert, next_with_key
from dynq_cli.engine.layout import BaseLayout, Layout, TreeLayout

Codes = NDArray[np.int64]
CHUNK = 8192
BLOCK = 65536
_NO_VALUES = np.zeros((1, 1), np.int64)
_NO_FILTERS = np.ones((1, 1), np.bool_)


@dataclass(frozen=True)
class Changes:
    """Changes of one relation: a row of codes, an operation and a number of copies each.

    Codes are in the base table's column order. `computed` and `passes` have a column per computed
    value and per filter of the relation's leaves; they matter for changes that bring a row.
    """

    codes: Codes
    ops: NDArray[np.int8]
    counts: Codes
    computed: Codes = field(default_factory=lambda: _NO_VALUES)
    passes: NDArray[np.bool_] = field(default_factory=lambda: _NO_FILTERS)

    def __len__(self) -> int:
        return len(self.ops)

    def part(self, start: int, stop: int) -> Changes:
        """Changes start … stop."""
        computed = self.computed if self.computed is _NO_VALUES else self.computed[start:stop]
        passes = self.passes if self.passes is _NO_FILTERS else self.passes[start:stop]
        return Changes(self.codes[start:stop], self.ops[start:stop], self.counts[start:stop], computed, passes)


class BatchError(Exception):
    """A batch that cannot be: `reason` of fields.py, the change at fault, and, of a sequence of
    commits, how many hold."""

    def __init__(self, relation: str, reason: int, change: int, applied: int | None = None) -> None:
        super().__init__(f"{relation}: change {change}: reason {reason}")
        self.relation = relation
        self.reason = reason
        self.change = change
        self.applied = applied


class OverflowedError(Exception):
    """A count passed 127 bits; the engine is no longer usable and has to be opened again."""


@dataclass
class _Resolved:
    """A batch of one relation after `settle`."""

    base: BaseLayout
    changes: Changes
    touched: NDArray[np.int32]
    first: NDArray[np.int32]
    old: Codes
    new: Codes
    n: int


class _Work:
    """Arrays that a call of `run_commits` works in."""

    def __init__(self) -> None:
        # A change by key touches the row that goes and the row that comes.
        self.touched, self.first, self.last = (np.empty(2 * CHUNK, np.int32) for _ in range(3))
        self.delta, self.old, self.new = (np.empty(2 * CHUNK, np.int64) for _ in range(3))


class Engine:
    def __init__(self, layout: Layout, arena: Arena | None = None) -> None:
        self.layout = layout
        self.lists = layout.lists
        wide = 2 * layout.widest + 2
        self._key = np.zeros(wide, np.int64)
        self._before, self._after = np.zeros(4, np.int64), np.zeros(4, np.int64)
        self._ahead = np.zeros(AHEAD, np.int64)
        self._work = _Work()
        self._of_relation = {name: self._reached(b) for name, b in layout.bases.items()}
        if arena is not None:
            self.arena = arena
            return
        self.arena = Arena(layout.tables.copy(), layout.nodes)
        for table in range(len(layout.tables)):
            self.arena.reserve(table, 1)
        for tree in layout.trees.values():
            self._start_root(tree)

    def _reached(self, base_: BaseLayout) -> tuple[Codes, Codes]:
        """The leaves on a relation, and first and last node of the trees they are in."""
        trees = [self.layout.trees[name] for name in dict.fromkeys(leaf.query for leaf in base_.leaves)]
        ranges = [n for tree in trees for n in (tree.first, tree.stop)]
        return np.array([leaf.node for leaf in base_.leaves], np.int64), np.array(ranges, np.int64)

    def _start_root(self, tree: TreeLayout) -> None:
        a = self.arena
        table = int(a.N[tree.root, f.N_TABLE])
        row, _ = find_or_insert(a.a64, a.a32, a.T, table, self._key)
        start_row(a.a64, a.a32, a.T, a.N, self.lists, tree.root, row, self._key)
        a.a32[2 * self._record(table, row) + a.T[table, f.T_REFS]] = 1

    def _record(self, table: int, row: int) -> int:
        return int(self.arena.T[table, f.T_ROWS]) + row * int(self.arena.T[table, f.T_STRIDE])

    def apply(self, batch: Mapping[str, Changes]) -> None:
        """One commit: all changes or none. Raises BatchError with nothing changed."""
        if len(batch) == 1:
            ((relation, changes),) = batch.items()
            if 0 < len(changes) <= CHUNK:
                self._run_commits(self.layout.bases[relation], changes, 0, np.array([len(changes)], np.int64))
                return
        resolved: list[_Resolved] = []
        for relation, changes in batch.items():
            try:
                resolved.append(self._resolve(self.layout.bases[relation], changes))
            except BatchError:
                for earlier in resolved:
                    self._revert(earlier)
                raise
        for r in resolved:
            for leaf in r.base.leaves:
                self._update_leaf(leaf.node, r)
        a = self.arena
        for tree in self.layout.trees.values():
            done = update.propagate(
                a.a64, a.a32, a.T, a.N, self.lists, tree.first, tree.stop, self._before, self._after
            )
            if done != f.OK:
                raise OverflowedError
        for r in resolved:
            for leaf in r.base.leaves:
                update.release_leaf(
                    a.a64, a.a32, a.T, a.N, self.lists, leaf.node, r.base.table, r.touched, r.old, r.new, r.n
                )
            base.forget(a.a64, a.T, r.base.table, r.touched, r.new, r.n)

    def apply_commits(self, relation: str, changes: Changes, ends: Codes) -> None:
        """Commits of one relation, in order: the k-th ends before change `ends[k]`.

        Raises BatchError at the first that is refused, with the number of those before it, which hold.
        """
        layout = self.layout.bases[relation]
        done = 0
        while done < len(ends):
            start = int(ends[done - 1]) if done else 0
            many = int(np.searchsorted(ends, start + CHUNK, side="right")) - done
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
        a, w, many = self.arena, self._work, int(ends[-1]) - start
        a.reserve(layout.table, many)
        for leaf in layout.leaves:
            for table in self.layout.leaf_paths[leaf.node]:
                a.reserve(table, many)
        leaves, trees = self._of_relation[layout.relation.name]
        reason, at, applied = run_commits(
            a.a64,
            a.a32,
            a.T,
            a.N,
            self.lists,
            layout.table,
            leaves,
            trees,
            changes.codes,
            changes.ops,
            changes.counts,
            changes.computed,
            changes.passes,
            start,
            ends,
            w.touched,
            w.first,
            w.last,
            w.delta,
            w.old,
            w.new,
            self._key,
            self._before,
            self._after,
            self._ahead,
        )
        if reason == f.OVERFLOW:
            raise OverflowedError
        if reason != f.OK:
            raise BatchError(layout.relation.name, reason, int(at), int(applied))

    def _resolve(self, layout: BaseLayout, changes: Changes) -> _Resolved:
        a, t, many = self.arena, layout.table, len(changes)
        # A change by key touches the row that goes and the row that comes.
        room = 2 * many if (changes.ops >= f.UPSERT).any() else many
        touched, first, last = (np.empty(room, np.int32) for _ in range(3))
        delta, old, new = (np.empty(room, np.int64) for _ in range(3))
        n = 0
        for start in range(0, many, CHUNK):
            stop = min(start + CHUNK, many)
            a.reserve(t, stop - start)
            reason, at, n = base.collect(
                a.a64,
                a.a32,
                a.T,
                t,
                changes.codes,
                changes.ops,
                changes.counts,
                start,
                stop,
                touched,
                delta,
                first,
                last,
                n,
                self._ahead,
            )
            if reason != f.OK:
                base.take_back(a.a64, a.a32, a.T, t, touched, n)
                raise BatchError(layout.relation.name, reason, at)
        reason, at = base.settle(a.a64, a.a32, a.T, t, touched, delta, last, n, old, new)
        if reason != f.OK:
            raise BatchError(layout.relation.name, reason, at)
        return _Resolved(layout, changes, touched, first, old, new, n)

    def _revert(self, r: _Resolved) -> None:
        """Take back a settled batch that no tree has seen."""
        a, t = self.arena, r.base.table
        rows = r.touched[: r.n].astype(np.int64)
        a.a64[a.T[t, f.T_ROWS] + rows * a.T[t, f.T_STRIDE] + a.T[t, f.T_MULT]] = r.old[: r.n]
        base.take_back(a.a64, a.a32, a.T, t, r.touched, r.n)

    def _update_leaf(self, node: int, r: _Resolved) -> None:
        a = self.arena
        for start in range(0, r.n, CHUNK):
            stop = min(start + CHUNK, r.n)
            for table in self.layout.leaf_paths[node]:
                a.reserve(table, stop - start)
            done = update.update_leaf(
                a.a64,
                a.a32,
                a.T,
                a.N,
                self.lists,
                node,
                r.base.table,
                r.touched,
                r.first,
                r.old,
                r.new,
                start,
                stop,
                r.changes.computed,
                r.changes.passes,
                self._key,
                self._before,
                self._after,
                self._ahead,
            )
            if done != f.OK:
                raise OverflowedError

    def count(self, query: str) -> tuple[int, int]:
        """Rows with multiplicity, and distinct rows."""
        tree = self.layout.trees[query]
        a = self.arena
        at = self._record(int(a.N[tree.root, f.N_TABLE]), 0) + int(a.N[tree.root, f.N_VALUE])
        lanes = [int(x) for x in a.a64[at : at + int(a.N[tree.root, f.N_WIDTH])]]
        values = [(hi << 64) + (lo & (2**64 - 1)) for lo, hi in zip(lanes[::2], lanes[1::2], strict=True)]
        return values[0], values[-1]

    def blocks(self, query: str, variables: Sequence[str], block: int = BLOCK) -> Iterator[tuple[Codes, Codes]]:
        """Distinct result rows as codes, a column per variable, and their multiplicities.

        Raises OverflowedError if a row has more than 2^63 - 1 copies.
        """
        tree, a = self.layout.trees[query], self.arena
        if not tree.levels:
            yield from self._nullary(query)
            return
        levels = np.array(tree.levels, np.int64)
        above = np.array([self._level_above(tree, n) for n in tree.levels], np.int64)
        frontier = np.array(tree.frontier, np.bool_)
        column_level = np.array([tree.places[v].level for v in variables], np.int64)
        column_position = np.array([tree.places[v].position for v in variables], np.int64)
        counted = tree.plan.query.semantics == "bag"
        current, rows = np.zeros(len(levels), np.int64), np.empty(block, np.int64)
        more = enumerate.start(a.a32, a.T, a.N, levels, above, current)
        while more:
            out = np.empty((len(variables), block), np.int64)
            copies = np.empty(block if counted else 0, np.int64)
            filled, more = enumerate.fill(
                a.a64,
                a.a32,
                a.T,
                a.N,
                levels,
                above,
                frontier,
                current,
                column_level,
                column_position,
                out,
                rows,
                copies,
                counted,
            )
            if filled < 0:
                raise OverflowedError
            yield out[:, :filled], copies[:filled] if counted else np.ones(filled, np.int64)

    def _nullary(self, query: str) -> Iterator[tuple[Codes, Codes]]:
        rows, _ = self.count(query)
        if rows:
            yield np.zeros((0, 1), np.int64), np.array([min(rows, 2**63 - 1)], np.int64)

    def _level_above(self, tree: TreeLayout, node: int) -> int:
        parent = int(self.arena.N[node, f.N_PARENT])
        return tree.levels.index(parent) if parent in tree.levels else -1

    def copies(self, query: str, row: Mapping[str, int]) -> int:
        """How often the result has the row given by a code per head variable."""
        tree = self.layout.trees[query]
        if not tree.levels:
            return self.count(query)[0]
        many = 1
        for n, is_frontier in zip(tree.levels, tree.frontier, strict=True):
            found = self._row_of(tree, n, row)
            if found < 0:
                return 0
            if is_frontier:
                many *= self._value(n, found)
            elif not self._value(n, found):
                return 0
        return many

    def _value(self, node: int, row: int) -> int:
        a = self.arena
        table = int(a.N[node, f.N_TABLE])
        if a.N[node, f.N_DEGREE] == 0:
            many = int(a.a64[self._record(table, row) + int(a.T[table, f.T_MULT])])
            return min(many, 1) if a.N[node, f.N_CLAMP] else many
        at = self._record(table, row) + int(a.N[node, f.N_VALUE])
        return (int(a.a64[at + 1]) << 64) + (int(a.a64[at]) & (2**64 - 1))

    def _row_of(self, tree: TreeLayout, node: int, row: Mapping[str, int]) -> int:
        """The row of an output node with these codes, or -1."""
        a, layout = self.arena, self.layout
        table = int(a.N[node, f.N_TABLE])
        variables = layout.variables[node]
        key = np.zeros(max(1, int(a.T[table, f.T_ARITY])), np.int64)
        positions = [layout.position(node, v) for v in variables]
        for v, p in zip(variables, positions, strict=True):
            key[p] = row[v]
        if len(positions) == a.T[table, f.T_ARITY]:
            found = int(find(a.a64, a.T, table, key))
        else:
            found = self._row_by_key(table, key, positions)
        filtered = int(a.N[node, f.N_LEAF_ROW])
        on_base = table in layout.base_tables
        if found >= 0 and filtered >= 0 and on_base and a.a32[2 * self._record(table, found) + filtered] < 0:
            return -1
        return found

    def _row_by_key(self, table: int, key: Codes, positions: Sequence[int]) -> int:
        """The base row that agrees in the given columns, which contain the relation's key."""
        a, place = self.arena, -1
        while True:
            found, place = next_with_key(a.a64, a.T, table, key, place)
            if found < 0:
                return -1
            at = self._record(table, int(found))
            if all(a.a64[at + p] == key[p] for p in positions):
                return int(found)

    def _check(self) -> None:
        """Assert every invariant. O(data)."""
        check_engine(self.layout, self.arena)
