"""The partitions of a relation: take a delta of rows, return the delta of what each partition shows.

    partitions.take(codes, copies)    add rows with signed multiplicities, as often as needed in a commit
    partitions.finish()               what came and went: rows of the relation, with signed multiplicities

All data is in tables of the arena (`partition_layout`), so snapshots include it. A row costs O(log n). A touched
partition that shows a prefix costs O(limit + log n). Window functions that look at `reach` rows on either side of a row
are computed for the rows near each changed one, of before and of after: O(reach + log n). For other functions, a
touched partition is computed again, O(its rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.check import record, rows_of
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.consolidate import consolidated
from dynq_cli.engine.kernels import aggregates, neighbours
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import partitions as p
from dynq_cli.engine.kernels.exact_sums import Taken
from dynq_cli.engine.kernels.fields import Store
from dynq_cli.engine.kernels.neighbours import Near
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.order_labels import OrderLabels
from dynq_cli.engine.order_statistic_tree import CountedTree, Sizes, reserve, trees_of
from dynq_cli.engine.partition_layout import PartitionLayout, partition_layout
from dynq_cli.plan.program import Partitions

CHUNK = 8192
BLOCK = 65_536
_ALL = 2**62
LabelsOf = Callable[[], OrderLabels]
# What functions make of rows in order: partitions, places, and codes by column give the codes of more columns.
Functions = Callable[[Partitions, Codes, Codes, Codes], Codes]


class TooManyCopiesError(Exception):
    """A partition has more than 2^63 - 1 rows."""


class Partitioned:
    """Maintains the partitions of one relation."""

    def __init__(self, arena: Arena, layout: PartitionLayout, labels: LabelsOf, functions: Functions) -> None:
        self.arena = arena
        self.layout = layout
        self._labels = labels
        self._functions = functions
        self._trees = trees_of([layout.tree])
        self._roots = np.array([2 * (layout.place + p.ROOT)], np.int64)
        self._width = len(layout.partitions.inputs)
        self._key, self._tags = np.zeros(layout.outputs + 2, np.int64), np.zeros(AHEAD, np.int64)
        self._groups, self._lanes = np.zeros(CHUNK, np.int64), np.zeros(4, np.int64)
        names = [c.name for c in layout.partitions.inputs]
        self._places = [names.index(key) for key in layout.partitions.keys]

    def _store(self) -> Store:
        """The arena, with the tree of these partitions and its labels."""
        trees = self._trees
        if any(self.layout.labels):
            labels = self._labels()
            for i, kind in enumerate(self.layout.labels):
                if kind is not None:
                    trees.orders["labels"][0, i] = labels.starts[kind.name]
            trees = self._trees = trees._replace(labels=labels.array)
        return self.arena.store._replace(trees=trees)

    def take(self, codes: Codes, copies: Codes) -> None:
        """Add rows: codes, one row per input column, and signed multiplicities. O(1) per row."""
        codes, copies = np.ascontiguousarray(codes), np.ascontiguousarray(copies)
        keys = np.ascontiguousarray(codes[self._places]) if self._places else codes[:1]
        a, layout = self.arena, self.layout
        for start in range(0, len(copies), CHUNK):
            stop = min(start + CHUNK, len(copies))
            a.reserve(layout.table, stop - start)
            a.reserve(layout.rows, stop - start)
            by_key = Taken(keys, copies, self._groups, self._key, self._tags)
            found = aggregates.find_groups(a.store, layout.table, layout.place, self._roots, by_key, start, stop)
            if found != f.OK:
                raise TooManyCopiesError
            whole = Taken(codes, copies, self._groups, self._key, self._tags)
            p.add_rows(a.store, layout.rows, whole, self._width, start, stop)

    def finish(self) -> tuple[Codes, Codes]:
        """Return the delta of the commit. Reset."""
        if self.layout.partitions.reach is not None:
            return self._near(self.layout.partitions.reach)
        self._settle()
        blocks = list(self._computed() if self.layout.partitions.functions else self._prefixes())
        if not blocks:
            return np.empty((0, self.layout.outputs), np.int64), np.empty(0, np.int64)
        return np.concatenate([rows.T for rows, _ in blocks]), np.concatenate([copies for _, copies in blocks])

    def _settle(self) -> None:
        a, layout = self.arena, self.layout
        if a.tables["queue_head"][layout.rows] < 0:
            return
        n = CHUNK
        store = self._store()
        while n == CHUNK:
            reserve(a, layout.tree.first_pool, CHUNK, int(a.tables["live"][layout.rows]))
            store = a.store._replace(trees=store.trees)
            done, n = p.settle_rows(store, 0, layout.table, layout.rows, layout.place, self._lanes, CHUNK)
            assert done == f.OK, "a partition with less than none of a row"

    def _given(self, room: int) -> p.Given:
        return p.Given(np.empty((self.layout.outputs, room), np.int64), np.empty(room, np.int64))

    def _prefixes(self) -> Iterable[tuple[Codes, Codes]]:
        a, layout = self.arena, self.layout
        limit = layout.partitions.limit
        while a.tables["queue_head"][layout.table] >= 0:
            live = int(a.tables["live"][layout.rows])
            most = live if limit is None else min(2 * limit, live)
            given = self._given(max(BLOCK, most))
            n = p.settle_prefixes(
                a.store._replace(trees=self._trees),
                0,
                layout.table,
                layout.rows,
                layout.place,
                layout.partitions.offset,
                _ALL if limit is None else limit,
                most,
                given,
            )
            yield given.rows[:, :n], given.copies[:n]

    def _computed(self) -> Iterable[tuple[Codes, Codes]]:
        """Compute the touched partitions again."""
        a, layout = self.arena, self.layout
        if a.tables["queue_head"][layout.table] < 0:
            return
        room = np.empty(int(a.tables["live"][layout.table]), np.int64)
        touched = room[: p.touched(a.store, layout.table, room)].copy()
        partitions, codes = self._listed(touched)
        if len(partitions):
            begins = np.flatnonzero(np.diff(partitions, prepend=-1))
            places = np.arange(len(partitions)) - np.repeat(begins, np.diff(begins, append=len(partitions))) + 1
            more = self._functions(layout.partitions, partitions, places, codes)
            made = np.ascontiguousarray(np.concatenate([codes, more]).T)
            a.reserve(layout.shown, len(made))
            p.offer(a.store, layout.table, layout.shown, layout.place, partitions, made, self._key)
        given = self._given(int(a.tables["live"][layout.shown]))
        n = p.show_offered(a.store, layout.table, layout.shown, layout.place, touched, given)
        yield given.rows[:, :n], given.copies[:n]

    def _near(self, reach: int) -> tuple[Codes, Codes]:
        """Compute the rows near the changed ones, of before and of after; return what differs."""
        a, layout = self.arena, self.layout
        near = Near(0, layout.table, layout.rows, layout.place, reach)
        touched = self._drained(layout.rows)
        partitions = self._drained(layout.table)
        for start in range(0, len(touched), CHUNK):
            reserve(a, layout.tree.first_pool, CHUNK, int(a.tables["live"][layout.rows]))
            done = neighbours.enter(self._store(), near, touched[start : start + CHUNK])
            assert done == f.OK, "a partition with less than none of a row"
        store = self._store()
        room = neighbours.mark(store, near, touched)
        segments = neighbours.Segments(np.empty(room, np.int64), np.empty(room, np.int64))
        assert neighbours.list_segments(store, near, touched, segments) == room, "a row with a mark is not listed"
        delta = self._values_near(segments)
        neighbours.unmark(store, layout.rows, segments.rows)
        for start in range(0, len(touched), CHUNK):
            reserve(a, layout.tree.first_pool, CHUNK, int(a.tables["live"][layout.rows]))
            neighbours.leave(self._store(), near, touched[start : start + CHUNK], self._lanes)
        neighbours.free_partitions(self._store(), near, partitions)
        return delta

    def _drained(self, table: int) -> Codes:
        """The touched rows of a table; its queue is empty then."""
        found, n = [], BLOCK
        while n == BLOCK:
            block = np.empty(BLOCK, np.int64)
            n = neighbours.drain(self.arena.store, table, block)
            found.append(block[:n])
        return np.concatenate(found)

    def _values_near(self, segments: neighbours.Segments) -> tuple[Codes, Codes]:
        """The delta of the affected rows among listed ones."""
        a, layout = self.arena, self.layout
        t = a.tables[layout.rows]
        starts = int(t["rows"]) + segments.rows * int(t["stride"])
        copies, signs, numbers = [], [], []
        for side, sign in ((p.SHOWN, -1), (p.COPIES, 1)):
            many = a.words[starts + int(t["mult"]) + side]
            copies.append(many)
            signs.append(np.full(int(many.sum()), sign))
            numbers.append(np.repeat(2 * segments.numbers + (sign > 0), many))
        many = np.concatenate(copies)
        places = np.repeat(np.concatenate([starts, starts]), many)
        if not len(places):
            return np.empty((0, layout.outputs), np.int64), np.empty(0, np.int64)
        codes = a.words[places + np.arange(1, 1 + self._width)[:, None]]
        more = self._functions(layout.partitions, np.concatenate(numbers), np.arange(len(places)), codes)
        is_affected = a.words[places + int(t["mult"]) + p.OFFERED] == -neighbours.AFFECTED
        made = np.concatenate([codes, more]).T[is_affected]
        return consolidated(np.ascontiguousarray(made), np.concatenate(signs)[is_affected])

    def _listed(self, touched: Codes) -> tuple[Codes, Codes]:
        """The rows of partitions in order, each copy by itself: its partition, and its codes by column."""
        a, layout = self.arena, self.layout
        listing = p.Listing(np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.array([0, -_ALL, 0], np.int64))
        partitions: list[Codes] = []
        rows: list[Codes] = []
        n = BLOCK
        while n == BLOCK:
            store = a.store._replace(trees=self._trees)
            n = p.list_rows(store, 0, layout.table, layout.place, touched, listing)
            partitions.append(listing.partitions[:n].copy())
            rows.append(listing.rows[:n].copy())
        t = a.tables[layout.rows]
        starts = int(t["rows"]) + np.concatenate(rows) * int(t["stride"])
        copies = a.words[starts + int(t["mult"])]
        starts = np.repeat(starts, copies)
        codes = a.words[starts + np.arange(1, 1 + self._width)[:, None]]
        return np.repeat(np.concatenate(partitions), copies), codes

    def _check(self) -> None:
        """Assert every invariant between commits, except those of tables. O(data)."""
        a, layout = self.arena, self.layout
        partitions = rows_of(a, layout.table)
        members: dict[int, set[int]] = {partition: set() for partition in partitions}
        copies = dict.fromkeys(partitions, 0)
        mult = int(a.tables["mult"][layout.rows])
        for row in rows_of(a, layout.rows):
            at = record(a, layout.rows, row)
            partition = int(a.words[at])
            assert a.words[at + mult] > 0, "a row is there if it has copies"
            assert a.words[at + mult + p.COUNTED] == a.words[at + mult], "the tree counts the copies"
            members[partition].add(row)
            copies[partition] += int(a.words[at + mult])
        store = self._store()
        tree = CountedTree(a, layout.tree)
        tree.trees = store.trees
        roots = {g: 2 * (record(a, layout.table, g) + layout.place + p.ROOT) for g in partitions}
        tree._check(roots.values())
        shown_mult = int(a.tables["mult"][layout.shown])
        linked: set[int] = set()
        for partition in partitions:
            at = record(a, layout.table, partition) + layout.place
            assert a.words[at] == copies[partition] > 0, "a partition counts its rows"
            in_order = tree.all_rows(roots[partition])
            assert set(in_order) == members[partition], "the tree has the rows of its partition"
            assert a.words[at + p.FIRST_OFFERED] == 0, "nothing is offered between commits"
            shown: dict[int, int] = {}
            link = int(a.words[at + p.FIRST_SHOWN])
            while link:
                here = record(a, layout.shown, link - 1) + shown_mult
                assert a.words[here + p.SHOWN] > 0 and a.words[here + p.OFFERED] == 0
                shown[link - 1] = int(a.words[here + p.SHOWN])
                link = int(a.words[here + p.NEXT_SHOWN])
            linked |= set(shown)
            if layout.partitions.functions:
                is_near = layout.partitions.reach is not None
                assert is_near or sum(shown.values()) == copies[partition], "every copy is shown"
                assert not (is_near and shown), "the values of functions of near rows are not stored"
                continue
            wanted: dict[int, int] = {}
            before = 0
            end = _ALL if layout.partitions.limit is None else layout.partitions.offset + layout.partitions.limit
            for row in in_order:
                many = int(a.words[record(a, layout.rows, row) + mult])
                inside = min(before + many, end) - max(before, layout.partitions.offset)
                if inside > 0:
                    wanted[row] = inside
                before += many
            assert shown == wanted, "a prefix is shown"
        if layout.partitions.reach is not None:
            for row in rows_of(a, layout.rows):
                here = record(a, layout.rows, row) + mult
                assert a.words[here + p.SHOWN] == a.words[here], "between commits, the copies are those of before"
                assert a.words[here + p.OFFERED] == 0, "no row has a mark between commits"
        elif layout.partitions.functions:
            assert linked == rows_of(a, layout.shown), "every row that is kept is shown"


def by_itself(
    partitions: Partitions, labels: LabelsOf, functions: Functions, sizes: Sizes | None = None
) -> Partitioned:
    """Return partitions in their own arena."""
    layout, tables = partition_layout(partitions, 0, sizes)
    arena = Arena(f.made(f.TABLE, tables))
    for table in (layout.table, layout.rows, layout.shown):
        arena.reserve(table, 1)
    return Partitioned(arena, layout, labels, functions)
