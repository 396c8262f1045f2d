"""Read results from the view trees of an arena: counts, blocks of rows, one row.

    count(query)    O(1)
    blocks(query)   constant delay, O(block) memory
    copies(query)   the multiplicity of one row, O(1)

Read-only: between two commits, the result is the one after the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import enumerate
from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.kernels.enumeration_pipeline import STAGE, OutputSet, Stages
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.kernels.range_scan_cache import STATE, Trail
from dynq_cli.engine.kernels.table import find, next_with_key
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.memory import scratch
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.tree_layout import TreeLayout

BLOCK = 65536
# Combinations of the outer levels that enumeration has ready at a time.
AT_A_TIME = 1024
# Rows of ranges that it remembers: 8 MB for each column, if there are so many.
TRAIL = 1 << 20


class OverflowedError(Exception):
    """A count is too large: beyond 127 bits in a tree, which is then unusable, or beyond 63 bits for a row."""


def record_of(arena: Arena, table: int, row: int) -> int:
    """Where the record of a row starts in the arena, in words."""
    return int(arena.tables["rows"][table]) + row * int(arena.tables["stride"][table])


def level_above(arena: Arena, tree: TreeLayout, node: int) -> int:
    """The level of an output node's parent; -1 if that is the root."""
    parent = int(arena.nodes["parent"][node])
    return tree.levels.index(parent) if parent in tree.levels else -1


def _stages(levels: int, columns: int, size: int, is_any: bool) -> Stages:
    """Stages of that size before the first row of a result."""
    rows, origin, heads, tails = (np.zeros((levels + 1, size), np.int64) for _ in range(4))
    codes = np.zeros((levels + 1, columns, size), np.int64)
    copies = np.ones((levels + 1, size), np.int64)
    state = np.zeros(levels + 1, STAGE)
    state["next"] = -1
    state["filled"][0] = int(is_any)
    walkers, places = np.zeros(min(AHEAD, size), np.int64), np.zeros(min(AHEAD, size), np.int64)
    return Stages(rows, origin, codes, copies, heads, tails, state, walkers, places)


class ResultReader:
    """Reads the results of a layout's queries from an arena."""

    def __init__(self, layout: Layout, arena: Arena, ordered: CountedTrees) -> None:
        self.layout = layout
        self.arena = arena
        self.ordered = ordered

    def count(self, query: str) -> tuple[int, int]:
        """Return the number of rows, counting copies, and of distinct rows."""
        tree = self.layout.trees[query]
        a = self.arena
        at = record_of(self.arena, int(a.nodes["table"][tree.root]), 0) + int(a.nodes["value"][tree.root])
        lanes = [int(x) for x in a.words[at : at + int(a.nodes["width"][tree.root])]]
        values = [(hi << 64) + (lo & (2**64 - 1)) for lo, hi in zip(lanes[::2], lanes[1::2], strict=True)]
        return values[0], values[-1]

    def blocks(self, query: str, variables: Sequence[str], block: int = BLOCK) -> Iterator[tuple[Words, Words]]:
        """Yield distinct result rows as codes, one row per variable, and their multiplicities.

        Raises OverflowedError if a row has more than 2^63 - 1 copies.
        """
        tree, a = self.layout.trees[query], self.arena
        if not tree.levels:
            yield from self._nullary(query)
            return
        columns = [tree.places[v] for v in variables]
        above = [level_above(a, tree, n) for n in tree.levels]
        counted = tree.plan.query.semantics == "bag"
        output = OutputSet(
            np.array(tree.levels, np.int64),
            np.array(above, np.int64),
            np.array(tree.frontier, np.bool_),
            np.array([c.level for c in columns], np.int64),
            np.array([c.position for c in columns], np.int64),
        )
        stages = _stages(len(tree.levels), len(columns), min(AT_A_TIME, block), self.count(query)[0] > 0)
        margin = block + enumerate.STEP
        each = np.zeros(min(AT_A_TIME, block), enumerate.RUN)
        runs = enumerate.Runs(each, np.zeros(margin, np.int64), np.zeros(margin, np.int64))
        trail = self._trail(tree, len(columns))
        more = True
        while more:
            out = np.empty((len(columns), margin), np.int64)
            copies = np.empty(margin if counted else 0, np.int64)
            filled, more = enumerate.fill(a.store, output, counted, stages, runs, trail, out, copies)
            if filled < 0:
                raise OverflowedError
            if filled:
                yield out[:, :filled], copies[:filled] if counted else np.ones(filled, np.int64)

    def _trail(self, tree: TreeLayout, columns: int) -> Trail:
        """An empty trail, with room only if the innermost level is a range."""
        inner = self.arena.nodes[tree.levels[-1]]
        is_range = inner["readers"] >= 0
        room = TRAIL if is_range else 1
        where = np.zeros(int(self.arena.tables["capacity"][inner["table"]]) + 1 if is_range else 1, np.int32)
        # What is not touched costs addresses only.
        kept = scratch(2 + columns, room)
        return Trail(kept[0], where, kept[2:], kept[1], np.zeros(STATE, np.int64))

    def _nullary(self, query: str) -> Iterator[tuple[Words, Words]]:
        rows, _ = self.count(query)
        if rows:
            yield np.zeros((0, 1), np.int64), np.array([min(rows, 2**63 - 1)], np.int64)

    def copies(self, query: str, row: Mapping[str, int]) -> int:
        """Return the multiplicity of the row given by a code per head variable."""
        tree = self.layout.trees[query]
        if not tree.levels:
            return self.count(query)[0]
        many = 1
        rows: dict[int, int] = {}
        for n, is_frontier in zip(tree.levels, tree.frontier, strict=True):
            found = rows[n] = self.row_of(tree, n, row)
            if found < 0 or not self._is_in_range(n, found, rows):
                return 0
            if is_frontier:
                many *= self._value(n, found)
            elif not self._value(n, found):
                return 0
        return many

    def _is_in_range(self, node: int, row: int, rows: Mapping[int, int]) -> bool:
        """Whether the comparisons of a row with the row of its parent hold."""
        a, n = self.arena, self.arena.nodes[node]
        if n["readers"] < 0:
            return True
        above = record_of(a, int(a.nodes["table"][n["parent"]]), rows[int(n["parent"])])
        at = record_of(a, int(n["table"]), row)
        return bool(is_in_range(a.store, int(n["readers"]), above, int(n["tree"]), at))

    def _value(self, node: int, row: int) -> int:
        a = self.arena
        table = int(a.nodes["table"][node])
        if a.nodes["degree"][node] == 0:
            many = int(a.words[record_of(self.arena, table, row) + int(a.tables["mult"][table])])
            return min(many, 1) if a.nodes["clamp"][node] else many
        at = record_of(self.arena, table, row) + int(a.nodes["value"][node])
        return (int(a.words[at + 1]) << 64) + (int(a.words[at]) & (2**64 - 1))

    def row_of(self, tree: TreeLayout, node: int, row: Mapping[str, int]) -> int:
        """Return the row of an output node with these codes, or -1."""
        a, layout = self.arena, self.layout
        table = int(a.nodes["table"][node])
        variables = layout.variables[node]
        key = np.zeros(max(1, int(a.tables["arity"][table])), np.int64)
        positions = [layout.position(node, v) for v in variables]
        for v, p in zip(variables, positions, strict=True):
            key[p] = row[v]
        if len(positions) == a.tables["arity"][table]:
            found = int(find(a.store, table, key))
        else:
            found = self._row_by_key(table, key, positions)
        filtered = int(a.nodes["leaf_row"][node])
        on_base = table in layout.base_tables
        if (
            found >= 0
            and filtered >= 0
            and on_base
            and a.halves[2 * record_of(self.arena, table, found) + filtered] < 0
        ):
            return -1
        return found

    def _row_by_key(self, table: int, key: Words, positions: Sequence[int]) -> int:
        """Return the base row with these values in the given columns, which contain the relation's key; or -1."""
        a, place = self.arena, -1
        while True:
            found, place = next_with_key(a.store, table, key, place)
            if found < 0:
                return -1
            at = record_of(self.arena, table, int(found))
            if all(a.words[at + p] == key[p] for p in positions):
                return int(found)
