"""The relations and steps of a layout as `kernels.commit_sequence` takes them, and which relations it can take.

A sequence of commits runs step by step: first the written relations and the trees that read them, for all commits; then
each derived relation, with its trees, for all commits. So a tree must not read relations of both kinds, or two derived
ones: then the commits of the relations that lead there are applied one by one. So are those that lead to a cycle, or to
a tree with ranges that feeds a relation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.derived_relations import DerivedRelations
from dynq_cli.engine.kernels import commit_sequence as k
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.delta_join import STATE, STEP, Stages
from dynq_cli.engine.kernels.delta_log import Block
from dynq_cli.engine.kernels.dirty import LEVEL, Marks
from dynq_cli.engine.kernels.fields import Rows, Words
from dynq_cli.engine.kernels.prefetch import AHEAD
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.sequence_of_deltas import Delta
from dynq_cli.plan.program import Tree

# Rows of a delta that are read at a time, and combinations of a stage (`delta_join`).
BLOCK, WIDE = 512, 64


class SequenceProgram:
    """`program` is what kernels take; `names` and `steps` are its relations and steps by number.

    `taken` are the written relations whose commits can run in a sequence.

    `feeding` are the relations whose base delta is read when their trees are through. `width` is the number of columns
    of the widest delta; 0 without one.
    """

    def __init__(self, layout: Layout, arena: Arena, deriving: DerivedRelations, feeding: Collection[str]) -> None:
        self._layout = layout
        self._arena = arena
        self._deriving = deriving
        self._feeding = feeding
        self.names = list(layout.bases)
        self._read = _read_by(layout)
        self._flows = [name for name in self._read if self._has_flow(name)]
        self.taken = self._taken()
        self.width = max([len(deriving.variables(name)) for name in self._flows], default=0) + bool(self._flows)
        self._levels: list[Rows] = []
        self._roots: list[Rows] = []
        self._routes: list[Rows] = []
        self._columns: list[Words] = []
        self._sources: list[int] = []
        self.program = self._build()
        self._marks, self._all_routes, self._out, self._stages = self._scratch()
        self._room = np.full(len(self._marks.levels), -1, np.int64)
        self._state = np.zeros(STATE, np.int64)

    def _has_flow(self, step: str) -> bool:
        """Whether the delta of a step is written down: it feeds relations, and its rows come from stored ones."""
        if step in self._layout.passages:
            return self._layout.passages[step].relation not in self._deriving.relays
        return step in self._deriving.feeding and not self._deriving.delta_of(step).has_ranges

    def _taken(self) -> frozenset[str]:
        """Return the written relations whose commits run in sequences."""
        derived = self._layout.derived
        lost = set(self._layout.cycles)
        for tree, relations in self._read.items():
            is_mixed = len(relations) > 1 and not derived.keys().isdisjoint(relations)
            has_ranges = tree in self._deriving.feeding and self._deriving.delta_of(tree).has_ranges
            if is_mixed or has_ranges:
                lost.add(tree)
        bad: set[str] = set()
        # Steps come after those that they depend on.
        for step in reversed(self._layout.steps):
            if step.name in derived:
                if step.name in bad:
                    lost |= {feed.tree for feed in derived[step.name].feeds}
            elif step.name in lost:
                bad |= set(self._read[step.name])
        return frozenset(self._layout.bases) - bad - derived.keys()

    def _build(self) -> k.Program:
        layout = self._layout
        relations: Rows = np.zeros(len(self.names), k.RELATION)
        leaves: list[int] = []
        stored: list[tuple[int, int]] = []
        spans: dict[tuple[str, str], tuple[int, int]] = {}
        for row, name in zip(relations, self.names, strict=True):
            base = layout.bases[name]
            row.table, row.first_leaf, row.first_stored = base.table, len(leaves), len(stored)
            for tree in dict.fromkeys(leaf.query for leaf in base.leaves):
                own = [leaf.node for leaf in base.leaves if leaf.query == tree]
                spans[name, tree] = len(leaves), len(leaves) + len(own)
                leaves += own
            stored += base.stored.items()
            row.stop_leaf, row.stop_stored = len(leaves), len(stored)
        last: dict[str, str] = dict(spans.keys())
        self.steps = [s.name for s in layout.steps if s.name in layout.trees or s.name in self._flows]
        steps, readers = f.made(k.STEP, [{} for _ in self.steps]), list[tuple[int, int, int, int]]()
        filters: list[int] = []
        for row, name in zip(steps, self.steps, strict=True):
            row.flow = self._flows.index(name) if name in self._flows else -1
            if name in layout.passages:
                self._scan(row, name, filters)
                continue
            row.relation, row.root, row.first_reader = -1, layout.trees[name].root, len(readers)
            row.first_node, row.stop_node = layout.trees[name].first, layout.trees[name].stop
            for number, relation in enumerate(self.names):
                if (relation, name) in spans:
                    is_last = relation not in self._feeding and last[relation] == name
                    readers.append((number, *spans[relation, name], is_last))
            row.stop_reader = len(readers)
            if row.flow >= 0:
                self._tree(row, name)
        return k.Program(
            relations,
            steps,
            f.rows_of(k.READER, np.array(readers, np.int64).reshape(-1, len(k.READER.names or ()))),
            np.array(leaves or [0], np.int64),
            np.array(stored, np.int64).reshape(-1, 2),
            np.array(filters or [0], np.int64),
            np.array(self._sources or [0], np.int64),
        )

    def _scan(self, row: f.Row, name: str, filters: list[int]) -> None:
        passage = self._layout.passages[name]
        sources = [passage.places[v] for v in self._deriving.variables(name)]
        row.relation, row.filter = self.names.index(passage.relation), len(filters) // 2
        filters += [passage.filter, passage.flag]
        row.first_source, row.stop_source = len(self._sources), len(self._sources) + len(sources)
        self._sources += sources

    def _tree(self, row: f.Row, name: str) -> None:
        delta = self._deriving.delta_of(name)
        levels, root, routes = delta.routes()
        for field, several in (("level", self._levels), ("route", self._routes), ("column", self._columns)):
            row[f"first_{field}"] = sum(map(len, several))
        self._levels.append(levels)
        self._routes.append(routes)
        self._columns.append(delta.columns)
        self._roots.append(root)
        for field, several in (("level", self._levels), ("route", self._routes), ("column", self._columns)):
            row[f"stop_{field}"] = sum(map(len, several))
        row.clamp = self._layout.trees[name].plan.query.semantics == "set"

    def _scratch(self) -> tuple[Marks, Rows, Block, Stages]:
        """Return what reading deltas needs to work in."""
        none, halves = np.zeros(0, np.int8), np.zeros((0, 1), np.int32)
        levels = np.concatenate([*self._levels, np.zeros(0, LEVEL)])
        routes = np.concatenate([*self._routes, np.zeros(0, STEP)])
        roots = np.zeros(len(self._flows) + 1, LEVEL)
        of_trees = [name for name in self.steps if name in self._flows and name in self._layout.trees]
        for name, root in zip(of_trees, self._roots, strict=True):
            roots[self._flows.index(name)] = root[0]
        deepest = max([len(each) for each in self._levels], default=0) + 1
        marks = Marks(
            levels,
            roots,
            np.zeros(1, np.int64),
            none,
            halves,
            halves,
            none,
            np.zeros(0, np.int32),
            np.empty(max(2, deepest) * AHEAD, np.int64),
        )
        columns = np.concatenate([*self._columns, np.zeros((0, 2), np.int64)])
        out = Block(columns, np.empty((max(1, self.width), BLOCK), np.int64), np.empty(BLOCK, np.int64))
        counts, entries = np.zeros((2, deepest), np.int64), np.empty((5, deepest, WIDE), np.int64)
        return marks, routes, out, Stages(*entries, *counts)

    def flows(self, rows: Words) -> k.Flows:
        """Return where deltas are written down, with room for all rows that change. O(levels)."""
        if len(self._room):
            levels = self._marks.levels
            room = self._arena.tables["capacity"][self._arena.nodes["table"][levels["node"]]]
            if (room > self._room).any():
                self._room = room
                ends = np.cumsum(room)
                levels["rows"] = ends - room
                self._marks = self._marks._replace(changed=np.empty(int(ends[-1]), np.int32))
        return k.Flows(rows, self._marks, self._all_routes, self._stages, self._out, self._state)

    def deltas(self, rows: Words, commits: int) -> dict[str, Delta]:
        """Return the deltas that were written down, by step."""
        found = {}
        for number, name in enumerate(self._flows):
            mine = np.flatnonzero(rows[:, k.FLOW] == number)
            if len(mine):
                taken, wide = rows[mine], len(self._deriving.variables(name))
                codes = np.ascontiguousarray(taken[:, k.VALUES : k.VALUES + wide].T)
                ends = np.searchsorted(taken[:, k.COMMIT], np.arange(commits), side="right")
                found[name] = Delta(codes, np.ascontiguousarray(taken[:, k.COPIES]), ends)
        return found


def _read_by(layout: Layout) -> dict[str, Sequence[str]]:
    """Return the relations that each tree, scan and cycle reads."""
    found: dict[str, Sequence[str]] = {}
    for step in layout.steps:
        if step.name in layout.passages:
            found[step.name] = [layout.passages[step.name].relation]
        elif step.name in layout.cycles:
            found[step.name] = list(dict.fromkeys(atom.source for atom in layout.query_of(step.name).atoms))
        elif isinstance(step, Tree):
            leaves = ((name, leaf.query) for name, base in layout.bases.items() for leaf in base.leaves)
            found[step.name] = list(dict.fromkeys(name for name, tree in leaves if tree == step.name))
    return found
