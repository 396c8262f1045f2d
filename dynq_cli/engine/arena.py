"""The arena: one block of memory that holds the slots and records of every table.

A snapshot is a copy of the arena; opening one maps it. A growing table moves its records, and sometimes its slots, to
another place in the arena. Freed regions are reused, the smallest that fits first. Growth happens between kernels,
never inside one: the caller reserves room for the rows that the next kernel may add.
"""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.kernels.fields import NODE, Rows, Store, Trees, Words, no_trees
from dynq_cli.engine.kernels.table import rehash
from dynq_cli.engine.memory import LARGE, Memory

ALIGN = 8  # words: records start on cache lines
LEAST_ROWS = 8
LEAST_WORDS = 1 << 16
# Unused room takes address space, not memory. So a table grows by a large factor, and seldom moves, as long as that
# takes a small part of the address space.
GROWTH, PLENTY, SMALL_PART = 2, 16, 128


class Arena:
    """Tables, the nodes of view trees, and their data in one array, seen as `words` and as `halves`.

    `store` is what kernels take; it is another one after the arena has grown.
    """

    def __init__(
        self, tables: Rows, nodes: Rows | None = None, lists: Words | None = None, memory: Memory | None = None
    ) -> None:
        self.tables = tables
        self.nodes = np.zeros(0, NODE) if nodes is None else nodes
        self.top = 0
        self.holes: list[tuple[int, int]] = []
        self._lists = np.zeros(1, np.int64) if lists is None else lists
        self._trees = no_trees()
        self.memory = memory or Memory(LEAST_WORDS)
        # Looking at one field of one row takes numpy long; room is asked for in every commit.
        self._live, self._capacity, self._mask = tables["live"], tables["capacity"], tables["mask"]
        self._view()
        self.settle()

    def settle(self) -> None:
        """Take the places of all tables for those of a snapshot; `grown` counts from here. O(tables)."""
        self._settled_in, self._settled_sizes = self.words, self._table_sizes()

    def grown(self) -> int:
        """Words in tables that have moved since `settle`; in all, if the arena itself moved. O(tables)."""
        words = self.tables["used"] * self.tables["stride"] + self.tables["mask"] + 1
        if self.words is not self._settled_in:
            return int(words.sum())
        return int(words.sum(where=self._table_sizes() != self._settled_sizes))

    def _table_sizes(self) -> Words:
        sizes: Words = self.tables["capacity"] * self.tables["stride"] + self.tables["mask"] + 1
        return sizes

    def _view(self) -> None:
        self.words = self.memory.words
        self.halves = self.words.view(np.int32)
        self._gather()

    def _gather(self) -> None:
        self.store = Store(self.words, self.halves, self.tables, self.nodes, self._lists, self._trees)

    def keep_in_order(self, trees: Trees) -> None:
        """Have kernels see these counted trees."""
        self._trees = trees
        self._gather()

    @property
    def lists(self) -> Words:
        """The lists that nodes refer to, and the journals behind them."""
        return self._lists

    def use_lists(self, lists: Words) -> None:
        """Have kernels see these lists."""
        self._lists = lists
        self._gather()

    def reserve(self, table: int, rows: int) -> None:
        """Make room for that many more rows. Amortised O(1) per row; O(table) when it grows, at least to double size.

        A table with a mask of -1 has no slots: rows cannot be looked up in it.
        """
        needed = int(self._live[table]) + rows
        if needed > self._capacity[table]:
            self.grow_records(table, max(needed, self.larger(table), LEAST_ROWS))
        mask = int(self._mask[table])
        if mask >= 0 and 3 * needed > 2 * (mask + 1):
            self._grow_slots(table, 1 << (3 * needed // 2).bit_length())

    def grow_records(self, table: int, capacity: int) -> None:
        """Room for so many rows in all. O(table)."""
        row = self.tables[table]
        stride, old = int(row["stride"]), int(row["capacity"])
        place = self._allocate(capacity * stride)
        if old:
            before = int(row["rows"])
            self.memory.move(before, place, int(row["used"]) * stride)
            self._free(before, old * stride)
        row["rows"], row["capacity"] = place, capacity

    def larger(self, table: int) -> int:
        """How many rows a table that is full should have room for."""
        rows = int(self.tables["capacity"][table])
        is_small = PLENTY * SMALL_PART * rows * int(self.tables["stride"][table]) <= len(self.words)
        return rows * (PLENTY if is_small else GROWTH)

    def _grow_slots(self, table: int, slots: int) -> None:
        row = self.tables[table]
        had = int(row["mask"]) + 1
        place = self._allocate(slots)
        self.words[place : place + slots] = 0
        if had > 1:
            rehash(self.words, int(row["slots"]), had, place, slots - 1)
            self._free(int(row["slots"]), had)
        row["slots"], row["mask"] = place, slots - 1

    def take_over(self, table: int, other: Arena, theirs: int, *, records: bool = True) -> None:
        """Make a table one of another arena: the same ids and slots, and, unless told otherwise, the same records."""
        mine, given = self.tables[table], other.tables[theirs]
        used, slots = int(given["used"]), int(given["mask"]) + 1
        mine["used"] = 0
        if used > mine["capacity"]:
            self.grow_records(table, used + used // 4 + LEAST_ROWS)
        if slots:
            if mine["mask"] != given["mask"]:
                self._free(int(mine["slots"]), int(mine["mask"]) + 1)
                mine["slots"], mine["mask"] = self._allocate(slots), slots - 1
            self.words[mine["slots"] : mine["slots"] + slots] = other.words[given["slots"] : given["slots"] + slots]
        for name in ("used", "live", "free"):
            mine[name] = given[name]
        if records:
            words, first = used * int(mine["stride"]), int(given["rows"])
            self.words[mine["rows"] : mine["rows"] + words] = other.words[first : first + words]

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
        if place + words > len(self.words):
            self.memory.grow(place + words)
            self._view()
        self.top += words
        return place

    def _free(self, place: int, words: int) -> None:
        """Free a region; merge it with free neighbours."""
        start, end = place, place + _rounded(words)
        if end - start >= LARGE:
            self.memory.discard(start, end)
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
