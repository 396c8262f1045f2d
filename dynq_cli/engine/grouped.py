"""The groups of an aggregate query: take a delta of rows, return the delta of the result rows.

    groups.take(codes, copies)      add rows with signed multiplicities, as often as needed in a commit
    groups.changes()                the delta of the touched groups: old result rows with -1, new ones with 1

All data is in tables of the arena (`group_layout`), so snapshots include it. A row costs O(1), and O(log n) if its
value is new to the MIN or MAX of its group. A touched group costs O(columns). Sums are exact: of integers and decimals
in 128 bits, of doubles in as many bits as needed, rounded when a row is read. So a result row depends only on the
current rows of its group, not on earlier changes.

After an error because a number does not fit, the arena is unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.float_terms import values_of
from dynq_cli.engine.group_layout import NONE, GroupLayout, Values, group_layout
from dynq_cli.engine.kernels import aggregate_rows, aggregates, exact_sums, products
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Store, Words
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.superaccumulator import D_SPILL, D_WORDS, FULL, WINDOW
from dynq_cli.engine.kernels.table import find_or_insert
from dynq_cli.engine.order_statistic_tree import CountedTree, Sizes, reserve, trees_of
from dynq_cli.plan.program import Groups
from dynq_cli.spec.types import Type

CHUNK = 8192
BLOCK = 65_536
_NO_LABELS = np.zeros(1, np.int64)
LabelsOf = Callable[[Type], Words]


class AggregateOverflowedError(Exception):
    """A sum exceeds 38 digits, or a count 63 bits."""

    def __init__(self, aggregate: str) -> None:
        super().__init__(f"{aggregate} would have more digits than its type holds")
        self.aggregate = aggregate


def _no_labels(kind: Type) -> Words:
    raise AssertionError(f"labels of {kind} were not given")


class Grouped:
    """Maintains the groups of one query. `labels` returns the current labels of a type's ids, for MIN and MAX."""

    def __init__(self, arena: Arena, layout: GroupLayout, labels: LabelsOf = _no_labels) -> None:
        self.arena = arena
        self.layout = layout
        self._labels = labels
        self.measures, self._roots = layout.measured, layout.roots
        self._trees = trees_of(layout.trees)
        self.spills = np.array([layout.spills, *(place for place, _ in layout.spilling)], np.int64)
        values, products = np.zeros((2, CHUNK), np.int64)
        largest = np.zeros(max(1, len(layout.groups.inputs)), np.int64)
        self.sums = exact_sums.Sums(*layout.sums, largest, values, products)
        most = max([len(layout.groups.inputs), *(len(v.columns) for v in layout.values)])
        self._key, self._tags = np.zeros(most + 3, np.int64), np.zeros(AHEAD, np.int64)
        self._groups = np.zeros(CHUNK, np.int64)
        bits = np.zeros(1, np.int64)
        row, words = np.zeros(max(1, layout.width), np.int64), np.zeros(FULL + 1, np.int64)
        self.reading = aggregate_rows.Reading(row, words, bits, bits.view(np.float64))

    @property
    def taken_scratch(self) -> tuple[Words, Words, Words]:
        """What taking rows needs to work in: the groups of CHUNK rows, a key, and tags."""
        return self._groups, self._key, self._tags

    def _store(self, labels: Words = _NO_LABELS) -> Store:
        """The arena, with the trees of these groups."""
        return self.arena.store._replace(trees=self._trees._replace(labels=labels))

    def store(self, labelled: Sequence[Type]) -> Store:
        """Return the arena with the trees of these groups, and the labels of a type's ids if there is one."""
        return self._store(self._labels(labelled[0]) if labelled else _NO_LABELS)

    def start(self) -> None:
        """Initialise an empty arena. Without a group key, `changes` then returns the result row over no rows."""
        if not self.layout.groups.one_row:
            return
        a, t = self.arena, self.layout.table
        a.reserve(t, 1)
        group, _ = find_or_insert(a.store, t, self._key)
        aggregates.start_group(a.store, t, record(a, t, int(group)), self.layout.rows, self._roots)
        aggregates.touch(a.store, t, group)

    def take(self, codes: Codes, copies: Codes) -> None:
        """Add rows: codes, one row per input column, and signed multiplicities. O(1) per row."""
        codes, copies = np.ascontiguousarray(codes), np.ascontiguousarray(copies)
        for start in range(0, len(copies), CHUNK):
            self._take(codes, copies, start, min(start + CHUNK, len(copies)))

    def _take(self, codes: Codes, copies: Codes, start: int, stop: int) -> None:
        a, layout, t = self.arena, self.layout, self.layout.table
        taken = exact_sums.Taken(codes, copies, self._groups, self._key, self._tags)
        a.reserve(t, stop - start)
        if aggregates.find_groups(a.store, t, layout.rows, self._roots, taken, start, stop) != f.OK:
            raise AggregateOverflowedError("a count")
        for counts in layout.counts:
            aggregates.add_counts(a.store, t, counts.place, counts.columns, taken, start, stop)
        if layout.exact:
            done, which = exact_sums.add_exact(a.store, t, self.sums, taken, start, stop)
            if done != f.OK:
                raise AggregateOverflowedError(layout.exact[which].name)
        for d in layout.doubles:
            a.reserve(layout.spills, stop - start)
            values = values_of(d.terms, codes[:, start:stop])
            aggregates.add_doubles(a.store, t, d.place, layout.spills, d.number, values, taken, start, stop)
        for b in layout.bits:
            aggregates.add_bits(a.store, t, np.array([b.place, b.column, b.many]), taken, start, stop)
        for p in layout.products:
            if products.add_products(a.store, t, p.given, taken, start, stop) != f.OK:
                raise AggregateOverflowedError(p.name)
        for v in layout.values:
            a.reserve(v.table, stop - start)
            required = v.columns if v.required is None else v.required
            aggregates.add_values(a.store, v.table, v.columns, required, taken, start, stop)

    def changes(self) -> Iterator[tuple[Codes, Codes]]:
        """Yield blocks of result rows, keys first, with -1 for the old row of a group and 1 for the new one.

        Groups with an unchanged result row are left out. Read all blocks: only then can the next commit begin.
        """
        for v in self.layout.values:
            self._settle_values(v)
        a, layout = self.arena, self.layout
        while a.tables["queue_head"][layout.table] >= 0:
            room = min(BLOCK, 2 * int(a.tables["live"][layout.table]))
            rows = np.empty((len(layout.groups.keys) + layout.width, room), np.int64)
            copies = np.empty(room, np.int64)
            done, n, which = aggregate_rows.settle_groups(
                self._store(),
                self.measures,
                layout.table,
                layout.rows,
                layout.width,
                layout.groups.one_row,
                self.spills,
                aggregate_rows.Given(rows, copies),
                0,
                self.reading,
            )
            if done == f.OVERFLOW:
                raise AggregateOverflowedError(layout.groups.measures[which].aggregate.name)
            assert done == f.OK, "a group with less than no rows"
            yield rows[:, :n], copies[:n]

    def finish(self) -> tuple[Codes, Codes]:
        """Return all `changes` at once: rows, and -1 or 1 for each."""
        blocks = list(self.changes())
        if not blocks:
            return np.empty((0, len(self.layout.groups.keys) + self.layout.width), np.int64), np.empty(0, np.int64)
        return np.concatenate([rows.T for rows, _ in blocks]), np.concatenate([copies for _, copies in blocks])

    def _settle_values(self, v: Values) -> None:
        a, n = self.arena, CHUNK
        labels = _NO_LABELS if v.labels is None or v.tree == NONE else self._labels(v.labels)
        summed = aggregate_rows.Summed(
            np.array([v.exact, v.doubles]),
            np.array([len(v.columns)]),
            np.array([self.layout.spills, v.number]),
            self._key,
        )
        # Where copies are part of the order, a value that changes goes and comes.
        operations = 2 * CHUNK if v.order == aggregate_rows.BY_COPIES else CHUNK
        while n == CHUNK:
            if v.doubles != NONE:
                a.reserve(self.layout.spills, CHUNK)
            if v.tree != NONE:
                rows = sum(int(a.tables["live"][other.table]) for other in self.layout.values)
                reserve(a, v.pool, operations, rows)
            done, n = aggregate_rows.settle_values(
                self._store(labels), v.tree, self.layout.table, v.table, v.place, v.order, summed, CHUNK
            )
            if done == f.OVERFLOW:
                raise AggregateOverflowedError("a sum of distinct values")
            assert done == f.OK, "a group with less than none of a value"

    def rows(self) -> Codes:
        """Return the current result rows, one column each. O(groups), for tests."""
        a, t, layout = self.arena, self.layout.table, self.layout
        keys, kept = len(layout.groups.keys), layout.rows + 2
        found = []
        for group in sorted(rows_of(a, t)):
            at = record(a, t, group)
            if a.words[at + layout.rows + 1]:
                found.append([*a.words[at : at + keys], *a.words[at + kept : at + kept + layout.width]])
        return np.array(found, np.int64).reshape(-1, keys + layout.width).T

    def _check(self) -> None:
        """Assert every invariant between commits, except those of tables. O(data)."""
        a, t, layout = self.arena, self.layout.table, self.layout
        groups = rows_of(a, t)
        spilled = set()
        for group in groups:
            at = record(a, t, group)
            rows = int(a.words[at + layout.rows])
            assert rows > 0 or (layout.groups.one_row and rows == 0), "a group without rows"
            exact = [*(e.place for e in layout.exact), *(v.exact for v in layout.values if v.exact != NONE)]
            for place in chain((c.place for c in layout.counts), (b.place for b in layout.bits), exact):
                assert 0 <= a.words[at + place] <= rows, "more values than rows"
            for b in layout.bits:
                having = a.words[at + b.place + 1 : at + b.place + 1 + b.many]
                assert (having >= 0).all() and (having <= a.words[at + b.place]).all(), "more bits than values"
            for p in layout.products:
                state = a.words[at + p.place : at + p.place + products.PRODUCT_WORDS]
                many, counted = int(state[products.MANY]), state[products.ZEROS : products.INFINITIES + 1]
                assert 0 <= many <= rows, "more factors than rows"
                assert (counted >= 0).all() and (counted <= many).all(), "more zeros than factors"
                assert many or not state.any(), "a product of nothing"
            for place in exact:
                assert a.words[at + place] or not a.words[at + place + 1 : at + place + 3].any(), "a sum of nothing"
            for each, number in layout.spilling:
                place = at + each
                assert 0 <= a.words[place] <= rows, "more values than rows"
                words = a.words[place + D_WORDS : place + D_WORDS + WINDOW]
                assert rows or not words.any(), "a sum of nothing"
                if a.words[place + D_SPILL]:
                    spilled.add((group, number, int(a.words[place + D_SPILL]) - 1))
        if layout.spilling:
            keys = {(*self._codes(layout.spills, s, 2), s) for s in rows_of(a, layout.spills)}
            assert keys == spilled, "every spill belongs to a group"
        for v in layout.values:
            self._check_values(v, groups)

    def _codes(self, table: int, row: int, many: int) -> tuple[int, ...]:
        at = record(self.arena, table, row)
        return tuple(int(code) for code in self.arena.words[at : at + many])

    def _check_values(self, v: Values, groups: set[int]) -> None:
        a, t = self.arena, self.layout.table
        members: dict[int, set[int]] = {group: set() for group in groups}
        for row in rows_of(a, v.table):
            at = record(a, v.table, row) + int(a.tables["mult"][v.table])
            known = 1 if v.order == aggregate_rows.BY_VALUE else a.words[at]
            assert a.words[at] > 0 and a.words[at + 1] == known, "a value is there if it has copies"
            members[self._codes(v.table, row, 1)[0]].add(row)
        for group, rows in members.items():
            assert a.words[record(a, t, group) + v.place] == len(rows), "distinct values are counted"
        if v.tree == NONE:
            return
        labels = _NO_LABELS if v.labels is None else self._labels(v.labels)
        tree = CountedTree(a, self.layout.trees[v.tree], labels)
        roots = {group: 2 * (record(a, t, group) + v.place) + 2 for group in groups}
        if len(self.layout.trees) == 1:
            tree._check(roots.values())
        for group, rows in members.items():
            assert set(tree.all_rows(roots[group])) == rows, "the tree has the values of its group"


def by_itself(groups: Groups, labels: LabelsOf = _no_labels, sizes: Sizes | None = None) -> Grouped:
    """Return groups in their own arena, after `start`."""
    layout, tables = group_layout(groups, 0, sizes)
    arena = Arena(f.made(f.TABLE, tables))
    for table in range(len(tables)):
        arena.reserve(table, 1)
    made = Grouped(arena, layout, labels)
    made.start()
    return made
