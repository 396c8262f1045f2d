"""Rows by position in a union that is read in an order from several trees, and what else reads rows by position.

The rows up to one are counted by inclusion and exclusion, each tree's in O(log n). The row at a position is the first
one, among those of any member, up to which there are so many: a binary search in each member, O(log² n). What
follows it is merged. (`Thesis, Algorithm 16` finds rows in the order of enumeration; this order is the result's own.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynq_cli.engine.engine import Engine
from dynq_cli.engine.in_order import Bound
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.multi_tree_result import STEP, MultiTreeResult
from dynq_cli.engine.positions import Found, Selection
from dynq_cli.engine.sequential_select import SequentialSelect

# About as many rows are walked in the time of one search.
WALKED = 4096
# The rows of each member that are read behind a row that was searched for.
WINDOW = 64


def selection_of(engine: Engine, query: str, variables: Sequence[str]) -> Selection | SequentialSelect | MergedSelect:
    """What reads the rows of a query by position. Discard it when the engine applies changes."""
    if query not in engine.combined:
        return Selection(engine, query, variables)
    is_ordered = bool(engine.combined[query].step.form.order)
    return (MergedSelect if is_ordered else SequentialSelect)(engine, query, variables)


class MergedSelect:
    """Reads rows of one ordered union by position, batch after batch."""

    is_ordered = True

    def __init__(self, engine: Engine, query: str, variables: Sequence[str]) -> None:
        self._engine, self._query, self._variables = engine, query, list(variables)
        self._result: MultiTreeResult = engine.combined[query]
        head, step = self._result.head, self._result.step
        self._wanted = [head.index(v) for v in variables]
        self._places = [head.index(o.variable) for o in step.form.order]
        self._terms = [(t.rows, Selection(engine, t.tree, ())) for t in step.terms if t.rows]
        self._members = [(Selection(engine, m.tree, m.variables), engine.count(m.tree)[0]) for m in step.members]
        # Rows of the result one after the other, with the position that each ends at.
        self._codes, self._ends = np.zeros((len(head), 0), np.int64), np.zeros(0, object)
        self._before = 0

    def at(self, positions: Sequence[int]) -> Words:
        """Return the rows at these positions, in the order given: one row of codes per variable. All must exist."""
        order = sorted(range(len(positions)), key=positions.__getitem__)
        if order and self._searches([positions[i] for i in order]) * WALKED > positions[order[-1]]:
            return SequentialSelect(self._engine, self._query, self._variables).at(positions)
        found = np.zeros((len(self._wanted), len(positions)), np.int64)
        for i in order:
            position = positions[i]
            if not self._before < position <= self._last:
                run = min(max(positions[order[-1]] - position, 0) + 1, STEP)
                self._read(position, max(WINDOW, run) if run < STEP else STEP)
            # Python integers: ends may exceed 63 bits.
            place = int(np.searchsorted(self._ends, position))
            found[:, i] = self._codes[self._wanted, place]
        return found

    @property
    def _last(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else self._before

    def _searches(self, positions: Sequence[int]) -> int:
        """How many of the positions, which ascend, are far from the one before."""
        starts = [self._last if len(self._ends) else -WALKED, *positions[:-1]]
        return sum(here - before > WALKED or here < before for before, here in zip(starts, positions, strict=True))

    def find(self, row: Mapping[str, int]) -> Found | None:
        """Find the row given by a code per head variable; None if it is not in the result. O(log n)."""
        if not self._engine.copies(self._query, row):
            return None
        return self.place([Bound(row[o.variable]) for o in self._result.step.form.order])

    def place(self, bounds: Sequence[Bound]) -> Found:
        """Return the positions of rows with these values of the first order variables, or where they would be.

        O(log n).
        """
        several = [(rows, selection.place(bounds)) for rows, selection in self._terms]
        first = sum(rows * (found.first - 1) for rows, found in several)
        return Found(first + 1, sum(rows * found.copies for rows, found in several))

    def _bounds(self, codes: Words) -> list[Bound]:
        return [Bound(int(codes[place])) for place in self._places]

    def _read(self, position: int, many: int) -> None:
        """Have the row at a position, and rows that follow it."""
        if position == self._last + 1 and len(self._ends):
            behind = self._bounds(self._codes[:, -1])
            starts = [selection.place(behind).last + 1 for selection, _ in self._members]
        else:
            row = self._searched(position)
            starts = [selection.place(row).first for selection, _ in self._members]
        read = [
            selection.at(range(start, min(start + many, count + 1)))
            for (selection, count), start in zip(self._members, starts, strict=True)
        ]
        is_last = [start + many > count for (_, count), start in zip(self._members, starts, strict=True)]
        self._codes = self._result.merge(read, is_last)
        copies = self._result.total(self._codes).astype(object)
        self._before = self.place(self._bounds(self._codes[:, 0])).first - 1
        self._ends = np.cumsum(copies) + self._before

    def _searched(self, position: int) -> list[Bound]:
        """The row at a position, by its values in the order."""
        found: tuple[int, list[Bound]] | None = None
        for selection, count in self._members:
            low, high, best = 1, count + 1, None
            while low < high:
                middle = (low + high) // 2
                bounds = self._bounds(selection.at([middle])[:, 0])
                upto = self.place(bounds).last
                if upto >= position:
                    high, best = middle, (upto, bounds)
                else:
                    low = middle + 1
            if best is not None and (found is None or best[0] < found[0]):
                found = best
        assert found is not None, f"{self._query} has no row {position}"
        return found[1]
