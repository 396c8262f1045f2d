"""Rows by position in a result that is read from several trees, by enumerating it.

Like `positions.Selection`, but without skipping: O(rows up to the last position) for a batch of positions. A batch that
continues the previous one resumes the enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.engine import BLOCK, Engine
from dynq_cli.engine.in_order import Bound
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.positions import Found

_LARGEST = 2**63 - 1


class SequentialSelect:
    """Reads rows of one query by position. Discard it when the engine applies changes."""

    is_ordered = False

    def __init__(self, engine: Engine, query: str, variables: Sequence[str]) -> None:
        self._engine, self._query, self._variables = engine, query, list(variables)
        self._begin()

    def _begin(self) -> None:
        self._blocks: Iterator[tuple[Words, Words]] = self._engine.blocks(self._query, self._variables, BLOCK)
        # The current block, its cumulative multiplicities, and the number of positions before it.
        self._codes, self._ends = np.zeros((len(self._variables), 0), np.int64), np.zeros(0, object)
        self._before = 0

    def at(self, positions: Sequence[int]) -> Words:
        """Return the rows at these positions, in the order given: one row of codes per variable. All must exist.

        O(positions × log positions), and the rows enumerated.
        """
        found = np.zeros((len(self._variables), len(positions)), np.int64)
        order = sorted(range(len(positions)), key=positions.__getitem__)
        if order and positions[order[0]] <= self._before:
            self._begin()
        done = 0
        while done < len(order):
            last = self._before + (int(self._ends[-1]) if len(self._ends) else 0)
            here = done
            while here < len(order) and positions[order[here]] <= last:
                here += 1
            if here > done:
                some = order[done:here]
                places = np.array([positions[i] - self._before for i in some], self._ends.dtype)
                found[:, some] = self._codes[:, np.searchsorted(self._ends, places)]
                done = here
            else:
                self._codes, copies = next(self._blocks)
                self._before, self._ends = last, _ends(copies)
        return found

    def find(self, row: Mapping[str, int]) -> Found | None:
        """Find the row given by a code per head variable; None if it is not in the result. O(rows before it)."""
        many = self._engine.copies(self._query, row)
        if not many:
            return None
        names, before = list(row), 0
        wanted = np.array([[row[v]] for v in names], np.int64)
        for codes, copies in self._engine.blocks(self._query, names, BLOCK):
            here = np.flatnonzero((codes == wanted).all(axis=0))
            if len(here):
                return Found(before + int(_ends(copies)[here[0]]) - int(copies[here[0]]) + 1, many)
            before += int(_ends(copies)[-1])
        raise AssertionError(f"{row} is in {self._query} and is not enumerated")

    def place(self, bounds: Sequence[Bound]) -> Found:
        raise AssertionError(f"{self._query} has no order")


def _ends(copies: Words) -> Words:
    """Return cumulative multiplicities; as Python integers if 63 bits may not suffice."""
    fits = int(copies.max(initial=0)) * len(copies) <= _LARGEST
    ends: Words = np.cumsum(copies if fits else copies.astype(object))
    return ends
