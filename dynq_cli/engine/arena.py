"""The arena: one block of memory that holds the slots and records of every table.

A snapshot is a copy of it, and opening one is mapping it. Growing a table moves its records, and now and
then its slots, to another place in the arena; what they leave behind is given out again, smallest fitting
hole first. Growth happens here, between kernels, never inside one: the caller reserves room for the
rows that the next kernel may add.
"""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.kernels.table import rehash
from dynq_cli.engine.memory import LARGE, Memory

ALIGN = 8  # words: records start on cache lines
LEAST_ROWS = 8
LEAST_WORDS = 1 << 16
# Room that no row has used costs addresses, not memory: tables grow to many times their size where that takes only a
# small part of the addresses, and seldom have to move.
GROWTH, PLENTY, SMALL_PART = 2, 16, 128


class Arena:
    """Tables in `T`, nodes in `N`, their data in one array seen as `a64` and `a32`."""

    def __init__(self, tables: Words, nodes: Words, memory: Memory | None = None) -> None:
        self.T = tables
        self.N = nodes
        self.top = 0
        self.holes: list[tuple[int, int]] = []
        self._memory = memory or Memory(LEAST_WORDS)
        self._view()
        self.settle()

    def settle(self) -> None:
        """Take the places of all tables for those of a snapshot; `grown` counts from here. O(tables)."""
        self._settled_in, self._settled_sizes = self.a64, self._table_sizes()

    def grown(self) -> int:
        """Words in tables that have moved since `settle`; in all, if the arena itself moved. O(tables)."""
        words = self.T[:, f.T_USED] * self.T[:, f.T_STRIDE] + self.T[:, f.T_MASK] + 1
        if self.a64 is not self._settled_in:
            return int(words.sum())
        return int(words.sum(where=self._table_sizes() != self._settled_sizes))

    def _table_sizes(self) -> Words:
        sizes: Words = self.T[:, f.T_CAPACITY] * self.T[:, f.T_STRIDE] + self.T[:, f.T_MASK] + 1
        return sizes

    def _view(self) -> None:
        self.a64 = self._memory.words
        self.a32 = self.a64.view(np.int32)

    def reserve(self, table: int, rows: int) -> None:
        """Room for that many rows more. O(table) when it grows, at least to twice its size; amortised O(1) a row.

        A table with a mask of -1 has records only, and gets no slots: nothing is found in it.
        """
        needed = int(self.T[table, f.T_LIVE]) + rows
        if needed > self.T[table, f.T_CAPACITY]:
            self.grow_records(table, max(needed, self.larger(table), LEAST_ROWS))
        if self.T[table, f.T_MASK] >= 0 and 3 * needed > 2 * int(self.T[table, f.T_MASK] + 1):
            self._grow_slots(table, 1 << (3 * needed // 2).bit_length())

    def watch(self, node: int, room: int) -> None:
        """Have the rows of a node whose payload changes noted, as far as they fit."""
        self.N = self.N.copy()
        place = self._allocate(room + 2)
        self.a64[place], self.a64[place + 1] = 0, room
        self.N[node, f.N_WATCH] = place

    def watched(self, node: int) -> Words | None:
        """The rows of a node whose payload has changed, each once; None if they were more than fit."""
        place = int(self.N[node, f.N_WATCH])
        many = int(self.a64[place])
        if many > self.a64[place + 1]:
            return None
        return np.unique(self.a64[place + 2 : place + 2 + many])

    def grow_records(self, table: int, capacity: int) -> None:
        """Room for so many rows in all. O(table)."""
        row = self.T[table]
        stride, old = int(row[f.T_STRIDE]), int(row[f.T_CAPACITY])
        place = self._allocate(capacity * stride)
        if old:
            before = int(row[f.T_ROWS])
            self._memory.move(before, place, int(row[f.T_USED]) * stride)
            self._free(before, old * stride)
        row[f.T_ROWS], row[f.T_CAPACITY] = place, capacity

    def larger(self, table: int) -> int:
        """How many rows a table that is full should have room for."""
        rows = int(self.T[table, f.T_CAPACITY])
        is_small = PLENTY * SMALL_PART * rows * int(self.T[table, f.T_STRIDE]) <= len(self.a64)
        return rows * (PLENTY if is_small else GROWTH)

    def _grow_slots(self, table: int, slots: int) -> None:
        row = self.T[table]
        had = int(row[f.T_MASK]) + 1
        place = self._allocate(slots)
        self.a64[place : place + slots] = 0
        if had > 1:
            rehash(self.a64, int(row[f.T_SLOTS]), had, place, slots - 1)
            self._free(int(row[f.T_SLOTS]), had)
        row[f.T_SLOTS], row[f.T_MASK] = place, slots - 1

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
            self._memory.grow(place + words)
            self._view()
        self.top += words
        return place

    def _free(self, place: int, words: int) -> None:
        """Give a region back, joined with free neighbours."""
        start, end = place, place + _rounded(words)
        if end - start >= LARGE:
            self._memory.discard(start, end)
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
