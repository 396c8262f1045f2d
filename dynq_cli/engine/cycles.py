"""The deltas of cyclic joins: of a cycle nothing is kept but the rows of its atoms, in lists by their ends.

    CycleDelta.blocks(resolved) = result after - result before, as rows of codes with signed multiplicities

Base deltas are applied edge after edge and row after row; the delta of each row is joined with the others as they are
then, so the sum over all rows is the delta of the commit. A result row may occur several times, with both signs.
O(min degree + |Δ|) per changed row of a triangle; see `plan/delta_join` for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.cycle_layout import CycleLayout
from dynq_cli.engine.kernels import cycle_join as j
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.plan.delta_join import bound_in

BLOCK = 16384


class CycleDelta:
    """Reads the delta of one cycle in each commit, in some of its head variables.

    `scanned` counts the rows that lists have given since the engine is there: what a change costs.
    """

    def __init__(self, arena: Arena, layout: CycleLayout, variables: Sequence[str], block: int = BLOCK) -> None:
        self._arena = arena
        self._layout = layout
        query = layout.step.query
        slots = [v.name for v in query.variables]
        shown = [slots.index(v) for v in variables] if bound_in(query) & set(variables) else []
        self._joins = layout.joins._replace(head=np.array(shown, np.int64))
        self._scans = [BaseDeltaScan(arena, edge.rows, edge.variables) for edge in layout.edges]
        levels = max((len(route.levels) for route in layout.step.routes), default=0) + 1
        widest = max(len(edge.variables) for edge in layout.edges)
        # A variable that no atom binds is always 1.
        state, values, key = np.zeros(j.STATE, np.int64), np.ones(len(slots) + 1, np.int64), 2 * widest + 2
        cursors, chosen, products = np.zeros((3, levels), np.int64)
        self._walk = j.Walk(state, values, cursors, chosen, products, np.zeros(key, np.int64))
        self._out = j.Out(np.empty((len(variables), block), np.int64), np.empty(block, np.int64))

    @property
    def scanned(self) -> int:
        return int(self._walk.state[j.SCANNED])

    def blocks(self, resolved: Mapping[str, BaseDelta]) -> Iterator[tuple[Words, Words]]:
        """Yield codes, one row per variable, and signed multiplicities. Read all blocks.

        OverflowedError if a row has more copies than 63 bits hold.
        """
        filled, state = 0, self._walk.state
        state[j.SUM] = 0
        for e, edge in enumerate(self._layout.edges):
            if edge.rows.relation not in resolved:
                continue
            for codes, copies in self._scans[e].blocks(resolved[edge.rows.relation]):
                for table in (edge.table, *(group for group, _ in edge.groups)):
                    self._arena.reserve(table, len(copies))
                state[j.ENTRY], state[j.ROW] = 0, -1
                ended = j.GOES_ON
                while ended == j.GOES_ON:
                    ended, filled = j.join(
                        self._arena.store, self._joins, self._walk, e, codes, copies, self._out, filled
                    )
                    if ended == j.TOO_MANY:
                        raise OverflowedError
                    if ended == j.GOES_ON:
                        yield self._block(filled)
                        filled = 0
        if filled:
            yield self._block(filled)
        if state[j.SUM]:
            yield np.ones((len(self._out.codes), 1), np.int64), np.array([state[j.SUM]], np.int64)

    def _block(self, filled: int) -> tuple[Words, Words]:
        return self._out.codes[:, :filled].copy(), self._out.copies[:filled].copy()
