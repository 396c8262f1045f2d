"""The groups of an aggregate query over a sequence of commits, in one call.

    GroupSequence(groups).run(codes, copies, ends)    the delta of the result rows, commit by commit

O(rows), and O(log n) where an order is kept. Products, and orders of several kinds of texts, take and settle their rows
commit by commit.
"""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.changes import Codes
from dynq_cli.engine.float_terms import values_of
from dynq_cli.engine.group_layout import NONE
from dynq_cli.engine.grouped import CHUNK, AggregateOverflowedError, Grouped
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import group_sequence as k
from dynq_cli.engine.kernels.aggregate_rows import Given
from dynq_cli.engine.kernels.exact_sums import Taken
from dynq_cli.engine.kernels.fields import Rows
from dynq_cli.engine.order_statistic_tree import reserve
from dynq_cli.engine.sequence_of_deltas import Delta, Sink, singly


class GroupSequence:
    """Runs commits through some groups, which stay those of `Grouped`."""

    def __init__(self, groups: Grouped) -> None:
        self._groups: Sink = groups
        self._grouped = groups
        layout = groups.layout
        # Kernels see the labels of one type at a time.
        self._labelled = list(dict.fromkeys(v.labels for v in layout.values if v.labels is not None and v.tree != NONE))
        self._is_whole = not layout.products and len(self._labelled) < 2
        if not self._is_whole:
            return
        shape: Rows = np.zeros(1, k.SHAPE)
        row = shape[0]
        row.table, row.rows, row.width = layout.table, layout.rows, layout.width
        row.one_row, row.spills = layout.groups.one_row, layout.spills
        counts: Rows = np.zeros(len(layout.counts), k.COUNTED)
        columns: list[int] = []
        for one, counted in zip(counts, layout.counts, strict=True):
            one.place, one.first, one.stop = counted.place, len(columns), len(columns) + len(counted.columns)
            columns += counted.columns.tolist()
        values: Rows = np.zeros(len(layout.values), k.VALUES)
        for each, v in zip(values, layout.values, strict=True):
            each.table, each.place, each.tree, each.order = v.table, v.place, v.tree, v.order
            each.first, each.stop = len(columns), len(columns) + len(v.columns)
            columns += v.columns.tolist()
            required = v.columns if v.required is None else v.required
            each.first_required, each.stop_required = len(columns), len(columns) + len(required)
            columns += required.tolist()
            each.first_summed = len(columns)
            columns += [v.exact, v.doubles, len(v.columns), layout.spills, v.number]
        doubles = np.array([(d.place, d.number) for d in layout.doubles], np.int64).reshape(-1, 2)
        bits = np.array([(b.place, b.column, b.many) for b in layout.bits], np.int64).reshape(-1, 3)
        self._accumulators = k.Accumulators(
            shape,
            groups.measures,
            layout.roots,
            counts,
            values,
            np.array(columns or [0], np.int64),
            groups.sums,
            doubles,
            bits,
            groups.spills,
        )

    def run(self, codes: Codes, copies: Codes, ends: Codes) -> Delta:
        """Take rows: codes, one row per input column, and signed multiplicities; commit i has those up to `ends[i]`."""
        if not self._is_whole:
            return singly(self._groups, codes, copies, ends)
        g, layout, many = self._grouped, self._grouped.layout, len(copies)
        g.arena.reserve(layout.table, many)
        if layout.spilling:
            g.arena.reserve(layout.spills, many * len(layout.spilling))
        for v in layout.values:
            g.arena.reserve(v.table, many)
        self._reserve_trees(many)
        given = np.ascontiguousarray(codes)
        doubles = np.zeros((len(layout.doubles), many), np.int64)
        for row, d in zip(doubles, layout.doubles, strict=True):
            row[:] = values_of(d.terms, given)
        inflow = k.Inflow(Taken(given, np.ascontiguousarray(copies), *g.taken_scratch), ends, doubles)
        # A row touches a group, which has an old and a new result row; without a key there is one more to begin with.
        room = 2 * many + 4
        made = Given(np.empty((len(layout.groups.keys) + layout.width, room), np.int64), np.empty(room, np.int64))
        stops = np.zeros(len(ends), np.int64)
        status, which = k.run(g.store(self._labelled), self._accumulators, inflow, CHUNK, made, stops, g.reading)
        if status == f.OVERFLOW:
            raise AggregateOverflowedError(self._named(which))
        assert status == f.OK, "a group with less than no rows"
        n = int(stops[-1]) if len(stops) else 0
        return Delta(made.rows[:, :n], made.copies[:n], stops)

    def _reserve_trees(self, many: int) -> None:
        """Make room in the trees of values for so many rows; where copies are part of the order, one goes and comes."""
        arena, layout = self._grouped.arena, self._grouped.layout
        rows = sum(int(arena.tables["live"][v.table]) for v in layout.values) + many
        for pool in dict.fromkeys(v.pool for v in layout.values if v.tree != NONE):
            trees = sum(v.pool == pool and v.tree != NONE for v in layout.values)
            reserve(arena, pool, 2 * many * trees, rows)

    def _named(self, which: int) -> str:
        layout = self._grouped.layout
        if which < 0:
            return "a count" if which == k.A_COUNT else "a sum of distinct values"
        if which < len(layout.exact):
            return layout.exact[which].name
        return layout.groups.measures[which - len(layout.exact)].aggregate.name
