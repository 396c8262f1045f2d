"""The groups of an aggregate query: rows of codes in, changes of the groups' rows out.

    groups.take(codes, copies)      rows that came (copies > 0) or went, as often as a commit has them
    groups.changes()                what became of the groups that were touched: old rows with -1, new ones with 1

Everything lies in tables of the arena (`group_layout`), so a snapshot has it. A row costs O(1), and O(log n) for a
value that MIN or MAX have not seen in its group; a touched group costs what its row is long. Sums are exact: those of
integers and decimals in 128 bits, those of doubles in as many as it takes, rounded when a row is read. So a group's
row is a function of the rows taken in, whatever came and went on the way there.

What does not fit is an error that leaves the arena unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.float_terms import values_of
from dynq_cli.engine.group_layout import NONE, GroupLayout, Values, group_layout
from dynq_cli.engine.kernels import aggregate_rows, aggregates, exact_sums
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.kernels.order_statistic_blocks import TARGET
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.superaccumulator import D_SPILL, D_WORDS, FULL, WINDOW
from dynq_cli.engine.kernels.table import find_or_insert
from dynq_cli.engine.order_statistic_tree import CountedTree, Sizes, reserve
from dynq_cli.plan.program import Groups
from dynq_cli.spec.types import Type

CHUNK = 8192
BLOCK = 65_536
_NO_LABELS = np.zeros(1, np.int64)
LabelsOf = Callable[[Type], Words]


class AggregateOverflowedError(Exception):
    """A sum that 38 digits do not hold, or a count that 63 bits do not."""

    def __init__(self, aggregate: str) -> None:
        super().__init__(f"{aggregate} would have more digits than its type holds")
        self.aggregate = aggregate


def _no_labels(kind: Type) -> Words:
    raise AssertionError(f"labels of {kind} were not given")


class Grouped:
    """`labels` gives the labels of a type whose codes are ids, up to date; it is asked where MIN or MAX need them."""

    def __init__(self, arena: Arena, layout: GroupLayout, labels: LabelsOf = _no_labels) -> None:
        self.arena = arena
        self.layout = layout
        self._labels = labels
        self._matrix, self._forest, self._roots = layout.matrix, layout.forest, layout.roots
        self._spills = np.array([layout.spills, *(d.place for d in layout.doubles)], np.int64)
        self._sums, self._numbers = layout.sums
        self._largest = np.zeros(max(1, len(layout.groups.inputs)), np.int64)
        self._values, self._products = np.zeros((2, CHUNK), np.int64)
        self._key = np.zeros(len(layout.groups.inputs) + 3, np.int64)
        self._tags = np.zeros(AHEAD, np.int64)
        self._groups = np.zeros(CHUNK, np.int64)
        self._row = np.zeros(max(1, layout.width), np.int64)
        self._work = np.zeros(max(FULL + 1, TARGET + 2), np.int64)
        self._bits = np.zeros(1, np.int64)
        self._doubles = self._bits.view(np.float64)

    def start(self) -> None:
        """In an empty arena: the row that there is before anything is taken in, for `changes` to give."""
        if not self.layout.groups.one_row:
            return
        a, t = self.arena, self.layout.table
        a.reserve(t, 1)
        group, _ = find_or_insert(a.a64, a.a32, a.T, t, self._key)
        aggregates.start_group(a.a64, a.a32, a.T, t, record(a, t, int(group)), self.layout.rows, self._roots)
        aggregates.touch(a.a32, a.T, t, group)

    def take(self, codes: Codes, copies: Codes) -> None:
        """Rows, a column of codes for each input, and how often each came; negative where it went. O(1) a row."""
        codes, copies = np.ascontiguousarray(codes), np.ascontiguousarray(copies)
        for start in range(0, len(copies), CHUNK):
            self._take(codes, copies, start, min(start + CHUNK, len(copies)))

    def _take(self, codes: Codes, copies: Codes, start: int, stop: int) -> None:
        a, layout, t, groups = self.arena, self.layout, self.layout.table, self._groups
        a.reserve(t, stop - start)
        done = aggregates.find_groups(
            a.a64, a.a32, a.T, t, layout.rows, self._roots, codes, copies, start, stop, groups, self._key, self._tags
        )
        if done != f.OK:
            raise AggregateOverflowedError("a count")
        for counts in layout.counts:
            aggregates.add_counts(a.a64, a.T, t, counts.place, counts.columns, codes, copies, start, stop, groups)
        if layout.exact:
            done, which = exact_sums.add_exact(
                a.a64,
                a.T,
                t,
                self._sums,
                self._numbers,
                codes,
                copies,
                start,
                stop,
                groups,
                self._largest,
                self._values,
                self._products,
            )
            if done != f.OK:
                raise AggregateOverflowedError(layout.exact[which].name)
        for d in layout.doubles:
            a.reserve(layout.spills, stop - start)
            values = values_of(d.terms, codes[:, start:stop])
            aggregates.add_doubles(
                a.a64, a.a32, a.T, t, d.place, layout.spills, d.number, values, copies, start, stop, groups, self._key
            )
        for v in layout.values:
            a.reserve(v.table, stop - start)
            aggregates.add_values(
                a.a64, a.a32, a.T, v.table, v.columns, codes, copies, start, stop, groups, self._key, self._tags
            )

    def changes(self) -> Iterator[tuple[Codes, Codes]]:
        """Blocks of rows of the result, keys first, with -1 for the row a group had and 1 for the one it has.

        Groups whose row is the same give none. All blocks have to be taken: the next commit begins after the last.
        """
        for v in self.layout.values:
            self._settle_values(v)
        a, layout = self.arena, self.layout
        while a.T[layout.table, f.T_QHEAD] >= 0:
            room = min(BLOCK, 2 * int(a.T[layout.table, f.T_LIVE]))
            rows = np.empty((len(layout.groups.keys) + layout.width, room), np.int64)
            copies = np.empty(room, np.int64)
            done, n, which = aggregate_rows.settle_groups(
                a.a64,
                a.a32,
                a.T,
                self._forest,
                self._matrix,
                layout.table,
                layout.rows,
                layout.width,
                layout.groups.one_row,
                self._spills,
                rows,
                copies,
                self._row,
                self._work,
                self._bits,
                self._doubles,
            )
            if done == f.OVERFLOW:
                raise AggregateOverflowedError(layout.groups.measures[which].aggregate.name)
            assert done == f.OK, "a group with less than no rows"
            yield rows[:, :n], copies[:n]

    def finish(self) -> tuple[Codes, Codes]:
        """All `changes` at once: rows, and -1 or 1 for each."""
        blocks = list(self.changes())
        if not blocks:
            return np.empty((0, len(self.layout.groups.keys) + self.layout.width), np.int64), np.empty(0, np.int64)
        return np.concatenate([rows.T for rows, _ in blocks]), np.concatenate([copies for _, copies in blocks])

    def _settle_values(self, v: Values) -> None:
        a, n = self.arena, CHUNK
        labels = _NO_LABELS if v.labels is None or v.tree == NONE else self._labels(v.labels)
        while n == CHUNK:
            if v.tree != NONE:
                rows = sum(int(a.T[other.table, f.T_LIVE]) for other in self.layout.values)
                reserve(a, self.layout.first_pool, CHUNK, rows)
            done, n = aggregate_rows.settle_values(
                a.a64,
                a.a32,
                a.T,
                self._forest,
                v.tree,
                labels,
                self._work,
                self.layout.table,
                v.table,
                v.place,
                CHUNK,
            )
            assert done == f.OK, "a group with less than none of a value"

    def rows(self) -> Codes:
        """The rows of the result as they were given, a column each. O(groups), for tests."""
        a, t, layout = self.arena, self.layout.table, self.layout
        keys, kept = len(layout.groups.keys), layout.rows + 2
        found = []
        for group in sorted(rows_of(a, t)):
            at = record(a, t, group)
            if a.a64[at + layout.rows + 1]:
                found.append([*a.a64[at : at + keys], *a.a64[at + kept : at + kept + layout.width]])
        return np.array(found, np.int64).reshape(-1, keys + layout.width).T

    def _check(self) -> None:
        """Assert every invariant between commits, those of tables aside. O(data)."""
        a, t, layout = self.arena, self.layout.table, self.layout
        groups = rows_of(a, t)
        spilled = set()
        for group in groups:
            at = record(a, t, group)
            rows = int(a.a64[at + layout.rows])
            assert rows > 0 or (layout.groups.one_row and rows == 0), "a group without rows"
            for place in chain((c.place for c in layout.counts), (e.place for e in layout.exact)):
                assert 0 <= a.a64[at + place] <= rows, "more values than rows"
            for e in layout.exact:
                assert a.a64[at + e.place] or not a.a64[at + e.place + 1 : at + e.place + 3].any(), "a sum of nothing"
            for d in layout.doubles:
                place = at + d.place
                assert 0 <= a.a64[place] <= rows, "more values than rows"
                words = a.a64[place + D_WORDS : place + D_WORDS + WINDOW]
                assert rows or not words.any(), "a sum of nothing"
                if a.a64[place + D_SPILL]:
                    spilled.add((group, d.number, int(a.a64[place + D_SPILL]) - 1))
        if layout.doubles:
            keys = {(*self._codes(layout.spills, s, 2), s) for s in rows_of(a, layout.spills)}
            assert keys == spilled, "every spill belongs to a group"
        for v in layout.values:
            self._check_values(v, groups)

    def _codes(self, table: int, row: int, many: int) -> tuple[int, ...]:
        at = record(self.arena, table, row)
        return tuple(int(code) for code in self.arena.a64[at : at + many])

    def _check_values(self, v: Values, groups: set[int]) -> None:
        a, t = self.arena, self.layout.table
        members: dict[int, set[int]] = {group: set() for group in groups}
        for row in rows_of(a, v.table):
            at = record(a, v.table, row) + int(a.T[v.table, f.T_MULT])
            assert a.a64[at] > 0 and a.a64[at + 1] == 1, "a value is there if it has copies"
            members[self._codes(v.table, row, 1)[0]].add(row)
        for group, rows in members.items():
            assert a.a64[record(a, t, group) + v.place] == len(rows), "distinct values are counted"
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
    """Groups in an arena of their own, started."""
    layout, tables = group_layout(groups, 0, sizes)
    arena = Arena(np.array(tables, np.int64), np.zeros((0, f.N_FIELDS), np.int64))
    for table in range(len(tables)):
        arena.reserve(table, 1)
    made = Grouped(arena, layout, labels)
    made.start()
    return made
