"""The journals of some trees: within a commit their old state is put back, to be read, and then the new one again.

    journals.begin("q", changes)      before the commit updates the tree
    journals.changed(node)            rows of a node with another payload than before the commit, and what it was
    with journals.put_back("q"): …    payloads and lists of the tree are the old ones

See `kernels.journal`. A tree without journals costs one comparison per changed row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import journal as j
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.memory import scratch


class Journals:
    """Room for the journals lies behind the lists of the layout; what is not used of it takes addresses alone."""

    def __init__(self, layout: Layout, arena: Arena) -> None:
        self._layout = layout
        self._arena = arena
        self.trees: frozenset[str] = frozenset()
        self._top = len(layout.lists)

    def keep(self, trees: frozenset[str]) -> None:
        """Keep journals of these trees from the next commit on, and of no others. Between commits."""
        for tree in self.trees - trees:
            self._arena.nodes["watch"][self._nodes(tree)] = -1
        if not trees:
            self._top = len(self._layout.lists)
            self._arena.use_lists(self._layout.lists)
        self.trees = trees

    def _nodes(self, tree: str) -> list[int]:
        return list(self._layout.trees[tree].levels)

    def begin(self, tree: str, changes: int) -> None:
        """Empty the journals of a tree, with room for a commit of so many base rows. Amortised O(nodes)."""
        arena = self._arena
        for node in self._nodes(tree):
            place, room = int(arena.nodes["watch"][node]), self._most(tree, node, changes)
            if place < 0 or arena.lists[place + 1] < room:
                room = 1 << room.bit_length()
                place = self._placed(room)
                arena.nodes["watch"][node] = place
                arena.lists[place + 1] = room
            arena.lists[place] = 0

    def _most(self, tree: str, node: int, changes: int) -> int:
        """The entries that a commit can make: each row changes, and moves, at most once per pass over the node."""
        tables, nodes = self._arena.tables, self._arena.nodes
        new = changes * self._layout.leaves_of(tree)
        passes = int(nodes["degree"][node]) + 2
        most = 2 * passes * (int(tables["used"][nodes["table"][node]]) + new) if nodes["degree"][node] else 2 * new
        if nodes["readers"][node] >= 0:
            most += 2 * (int(tables["used"][nodes["list_table"][node]]) + new) + 2 * new
        return most + 1

    def _placed(self, room: int) -> int:
        """Return a place for a journal; those that are there stay."""
        lists, place = self._arena.lists, self._top
        self._top += j.HEADER + j.ENTRY * room
        if self._top > len(lists):
            made = scratch(5 * self._top // 4, 1)[:, 0]
            for start, many in self._used():
                made[start : start + many] = lists[start : start + many]
            self._arena.use_lists(made)
        return place

    def _used(self) -> Iterator[tuple[int, int]]:
        """Where lists and journals are, as far as they are filled."""
        yield 0, len(self._layout.lists)
        lists, places = self._arena.lists, self._arena.nodes["watch"]
        for place in places[places >= 0].tolist():
            yield place, j.HEADER + j.ENTRY * int(min(lists[place], lists[place + 1]))

    def changed(self, node: int) -> tuple[Words, Words]:
        """Return the rows of a node whose payload a commit has changed, each once, and its two lanes before. Rows that
        are what they were may be among them. O(changes log changes)."""
        place = int(self._arena.nodes["watch"][node])
        if place < 0:
            return np.empty(0, np.int64), np.empty((2, 0), np.int64)
        many = int(self._arena.lists[place])
        assert many <= self._arena.lists[place + 1], "a journal has room for all that a commit changes"
        rows, was = np.empty(many, np.int64), np.empty((2, many), np.int64)
        filled = j.changed_rows(self._arena.store, node, rows, was)
        found, first = np.unique(rows[:filled], return_index=True)
        return found, was[:, first]

    @contextmanager
    def put_back(self, tree: str) -> Iterator[None]:
        """Have the tree in its old state for as long as the block lasts. O(changes)."""
        nodes = np.array(self._nodes(tree), np.int64)
        j.put_back(self._arena.store, nodes)
        try:
            yield
        finally:
            j.put_forward(self._arena.store, nodes)
