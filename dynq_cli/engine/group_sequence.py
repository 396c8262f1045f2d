"""The groups of an aggregate query over a sequence of commits, in one call where all aggregates are sums.

    GroupSequence(groups).run(codes, copies, ends)    the delta of the result rows, commit by commit

O(rows). Other aggregates (MIN, MAX, DISTINCT, products, orders) take and settle their rows commit by commit.
"""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.changes import Codes
from dynq_cli.engine.float_terms import values_of
from dynq_cli.engine.grouped import CHUNK, AggregateOverflowedError, Grouped
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels import group_sequence as k
from dynq_cli.engine.kernels.aggregate_rows import Given
from dynq_cli.engine.kernels.exact_sums import Taken
from dynq_cli.engine.kernels.fields import Rows
from dynq_cli.engine.sequence_of_deltas import Delta, Sink, singly


class GroupSequence:
    """Runs commits through some groups, which stay those of `Grouped`."""

    def __init__(self, groups: Grouped) -> None:
        self._groups: Sink = groups
        self._grouped = groups
        layout = groups.layout
        self._is_summed = not (layout.values or layout.products)
        if not self._is_summed:
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
        doubles = np.array([(d.place, d.number) for d in layout.doubles], np.int64).reshape(-1, 2)
        bits = np.array([(b.place, b.column, b.many) for b in layout.bits], np.int64).reshape(-1, 3)
        self._accumulators = k.Accumulators(
            shape,
            groups.measures,
            layout.roots,
            counts,
            np.array(columns or [0], np.int64),
            groups.sums,
            doubles,
            bits,
            groups.spills,
        )

    def run(self, codes: Codes, copies: Codes, ends: Codes) -> Delta:
        """Take rows: codes, one row per input column, and signed multiplicities; commit i has those up to `ends[i]`."""
        if not self._is_summed:
            return singly(self._groups, codes, copies, ends)
        g, layout, many = self._grouped, self._grouped.layout, len(copies)
        g.arena.reserve(layout.table, many)
        if layout.doubles:
            g.arena.reserve(layout.spills, many * len(layout.doubles))
        given = np.ascontiguousarray(codes)
        doubles = np.zeros((len(layout.doubles), many), np.int64)
        for row, d in zip(doubles, layout.doubles, strict=True):
            row[:] = values_of(d.terms, given)
        inflow = k.Inflow(Taken(given, np.ascontiguousarray(copies), *g.taken_scratch), ends, doubles)
        # A row touches a group, which has an old and a new result row; without a key there is one more to begin with.
        room = 2 * many + 4
        made = Given(np.empty((len(layout.groups.keys) + layout.width, room), np.int64), np.empty(room, np.int64))
        stops = np.zeros(len(ends), np.int64)
        status, which = k.run(g.arena.store, self._accumulators, inflow, CHUNK, made, stops, g.reading)
        if status == f.OVERFLOW:
            raise AggregateOverflowedError(self._named(which))
        assert status == f.OK, "a group with less than no rows"
        n = int(stops[-1]) if len(stops) else 0
        return Delta(made.rows[:, :n], made.copies[:n], stops)

    def _named(self, which: int) -> str:
        layout = self._grouped.layout
        if which < 0:
            return "a count"
        if which < len(layout.exact):
            return layout.exact[which].name
        return layout.groups.measures[which - len(layout.exact)].aggregate.name
