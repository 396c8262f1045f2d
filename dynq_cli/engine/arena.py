"""The arena: one block of memory that holds every column of every table.

A snapshot is a copy of it, and opening one is mapping it. A column has a place, counted in its own
unit (int64 or int32), and one entry per row id of its table. Growing a table moves its columns to the
end of the arena; what they leave behind is given out again, smallest fitting hole first.

Growth happens here, between kernels, never inside one: the caller reserves room for the rows that the
next kernel may add.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.table import rehash

Matrix = NDArray[np.int64]
ALIGN = 8  # in int64 units: columns start on cache lines
LEAST_ROWS = 8
GROWTH = 1.5


@dataclass(frozen=True)
class Column:
    """`field` of row `owner` of the matrix `T` or `N` holds the column's place."""

    table: int
    in_nodes: bool
    owner: int
    field: int
    lanes: int
    wide: bool

    def words(self, capacity: int) -> int:
        """Size in int64 units, at least one."""
        entries = max(1, capacity * self.lanes)
        return entries if self.wide else (entries + 1) // 2


class Arena:
    """Tables in `T`, nodes in `N`, their columns in one array seen as `a64` and `a32`."""

    def __init__(self, tables: Matrix, nodes: Matrix, columns: list[Column], words: int = 1024) -> None:
        self.T = tables
        self.N = nodes
        self.columns = columns
        self._of_table: list[list[Column]] = [[] for _ in tables]
        for c in columns:
            self._of_table[c.table].append(c)
        self.top = 0
        self.holes: list[tuple[int, int]] = []
        self._view(np.zeros(words, np.int64))

    def _view(self, memory: NDArray[np.int64]) -> None:
        self.a64 = memory
        self.a32 = memory.view(np.int32)

    @classmethod
    def opened(
        cls,
        tables: Matrix,
        nodes: Matrix,
        columns: list[Column],
        memory: NDArray[np.int64],
        top: int,
        holes: list[tuple[int, int]],
    ) -> Arena:
        """An arena over memory that was saved, such as a mapped file."""
        arena = cls(tables, nodes, columns, 0)
        arena.top, arena.holes = top, holes
        arena._view(memory)
        return arena

    def reserve(self, table: int, rows: int) -> None:
        """Room for that many rows more. O(table) when it grows, by half at least; amortised O(1) a row."""
        needed = int(self.T[table, f.T_LIVE]) + rows
        capacity = int(self.T[table, f.T_CAPACITY])
        if needed > capacity:
            self._grow(table, max(needed, int(capacity * GROWTH), LEAST_ROWS))

    def _grow(self, table: int, capacity: int) -> None:
        old = int(self.T[table, f.T_CAPACITY])
        used = int(self.T[table, f.T_USED])
        for c in self._of_table[table]:
            place = self._allocate(c.words(capacity))
            matrix = self.N if c.in_nodes else self.T
            before = int(matrix[c.owner, c.field])
            if before >= 0:
                n = c.words(used)
                origin = before if c.wide else before // 2
                self.a64[place : place + n] = self.a64[origin : origin + n]
                self._free(origin, c.words(old))
            matrix[c.owner, c.field] = place if c.wide else 2 * place
        self.T[table, f.T_CAPACITY] = capacity
        self._grow_slots(table, capacity)

    def _grow_slots(self, table: int, capacity: int) -> None:
        slots = 1 << int(capacity * 3 // 2).bit_length()
        before, mask = int(self.T[table, f.T_SLOTS]), int(self.T[table, f.T_MASK])
        if before >= 0 and mask + 1 >= slots:
            return
        place = self._allocate(slots)
        self.a64[place : place + slots] = 0
        if before >= 0:
            rehash(self.a64, before, mask + 1, place, slots - 1)
            self._free(before, mask + 1)
        self.T[table, f.T_SLOTS] = place
        self.T[table, f.T_MASK] = slots - 1

    def _allocate(self, words: int) -> int:
        words = _rounded(words)
        fitting = [h for h in self.holes if h[1] >= words]
        if fitting:
            place, size = min(fitting, key=lambda h: (h[1], h[0]))
            self.holes.remove((place, size))
            if size > words:
                self.holes.append((place + words, size - words))
            return place
        place = self.top
        if place + words > len(self.a64):
            grown = np.zeros(max(int(len(self.a64) * GROWTH), place + words), np.int64)
            grown[: self.top] = self.a64[: self.top]
            self._view(grown)
        self.top += words
        return place

    def _free(self, place: int, words: int) -> None:
        """Give a region back, joined with free neighbours."""
        start, end = place, place + _rounded(words)
        kept = []
        for at, size in self.holes:
            if at + size == start:
                start = at
            elif at == end:
                end = at + size
            else:
                kept.append((at, size))
        self.holes = kept
        if end == self.top:
            self.top = start
        else:
            self.holes.append((start, end - start))


def _rounded(words: int) -> int:
    return -(-words // ALIGN) * ALIGN
