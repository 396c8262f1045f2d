"""What came and went between two engines of one layout, of which one was made from the other by one commit.

    result(old) + differences(old, new) = result(new)

Both have the same row ids for the rows that are in both: `old` was a copy of `new`, took one commit, and noted the
rows of the frontier that it changed. A leaf on base rows with a key may have one row under two ids, since it need not
use all columns: such twins are one row here. Work is that of the commit and of the rows that have changed; see
`kernels.dirty`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.engine import BLOCK, Engine
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import TreeLayout
from dynq_cli.engine.reading import OverflowedError
from dynq_cli.engine.side import Side, codes_of, copies_of


class Changed(NamedTuple):
    """Rows that came, or went: codes, a column per variable, and how many copies of each."""

    is_insert: bool
    codes: Words
    copies: Words


def watch(engine: Engine, query: str, room: int) -> None:
    """Have an engine note the rows that a commit changes in a query's frontier, as far as so many fit."""
    tree = engine.layout.trees[query]
    for node in _frontier(tree):
        engine.arena.watch(node, room)


def is_noted(engine: Engine, query: str) -> bool:
    """Whether all of them did fit."""
    return all(engine.arena.watched(node) is not None for node in _frontier(engine.layout.trees[query]))


def _frontier(tree: TreeLayout) -> list[int]:
    return [node for node, is_frontier in zip(tree.levels, tree.frontier, strict=True) if is_frontier]


def differences(old: Engine, new: Engine, query: str, variables: list[str], block: int = BLOCK) -> Iterator[Changed]:
    """What went, then what came. Of a set, rows; of a bag, also how many copies. O(block) memory beside the marks."""
    tree = new.layout.trees[query]
    is_set = tree.plan.query.semantics == "set"
    if not tree.levels:
        yield from _nullary(old.count(query)[0], new.count(query)[0], is_set)
        return
    sides = _Changes(old, new, tree)
    for side, is_insert in ((old, False), (new, True)):
        if not side.count(query)[0]:
            continue
        read = Side(side.arena, tree)
        read.mark(sides.dirty)
        for rows in read.combinations(block):
            here, there = copies_of(side.arena, tree, rows), copies_of(*sides.opposite(is_insert, rows))
            for sign, many in _signed(here, there, is_insert, is_set):
                if many.all():
                    yield Changed(sign, codes_of(side.arena, tree, rows, variables), many)
                    continue
                kept = np.flatnonzero(many)
                if len(kept):
                    yield Changed(sign, codes_of(side.arena, tree, rows[:, kept], variables), many[kept])


def _signed(here: Words, there: Words, is_insert: bool, is_set: bool) -> list[tuple[bool, Words]]:
    """How many copies came, or went, of combinations that are on one side so often and on the other so often."""
    if not there.any():
        return [(is_insert, here)]
    if is_set or is_insert:
        # What is on both sides was seen from the old one.
        return [(is_insert, np.where(there == 0, here, 0))]
    return [(is_insert, np.maximum(here - there, 0)), (not is_insert, np.maximum(there - here, 0))]


def _nullary(before: int, after: int, is_set: bool) -> Iterator[Changed]:
    if is_set:
        before, after = min(before, 1), min(after, 1)
    if before != after:
        if abs(after - before) >= 2**63:
            raise OverflowedError
        yield Changed(after > before, np.zeros((0, 1), np.int64), np.array([abs(after - before)], np.int64))


def _values(engine: Engine, node: int, rows: Words) -> Words:
    a = engine.arena
    values = np.empty((2, len(rows)), np.int64)
    w.values_of(a.a64, a.a32, a.T, a.N, node, rows, values)
    return values


class _Changes:
    """The rows of the frontier that are not the same on both sides, and those that are under two ids."""

    def __init__(self, old: Engine, new: Engine, tree: TreeLayout) -> None:
        self._old, self._new, self._tree = old, new, tree
        self.dirty: list[Words | None] = []
        # Per level the ids of twins on the old side, ascending, and those on the new side.
        self._twins: dict[int, tuple[Words, Words]] = {}
        frontier = _frontier(tree)
        for level, node in enumerate(tree.levels):
            self.dirty.append(self._changed(level, node) if node in frontier else None)

    def _changed(self, level: int, node: int) -> Words:
        noted = self._old.arena.watched(node)
        assert noted is not None
        before, after = _values(self._old, node, noted), _values(self._new, node, noted)
        was, now = before.any(axis=0), after.any(axis=0)
        changed: Words = noted[(before != after).any(axis=0)]
        went, came = noted[was & ~now], noted[now & ~was]
        arena, layout = self._new.arena, self._new.layout
        table = int(arena.N[node, f.N_TABLE])
        used = [layout.position(node, v) for v in layout.variables[node]]
        if table not in layout.base_tables or len(used) == arena.T[table, f.T_ARITY] or not len(went) or not len(came):
            return changed
        mine, theirs = (_keys(e, table, r, used) for e, r in ((self._old, went), (self._new, came)))
        both = [(int(went[i]), int(came[theirs[key]])) for key, i in mine.items() if key in theirs]
        twins = np.array(sorted(both), np.int64).reshape(-1, 2)
        self._twins[level] = twins[:, 0], twins[:, 1]
        return changed[~np.isin(changed, twins)]

    def opposite(self, on_new_side: bool, rows: Words) -> tuple[Arena, TreeLayout, Words]:
        """The other side, and the ids that combinations of rows have there."""
        other = (self._old if on_new_side else self._new).arena
        if not self._twins:
            return other, self._tree, rows
        there = rows.copy()
        for level, (before, after) in self._twins.items():
            here, mapped = (after, before) if on_new_side else (before, after)
            order = np.argsort(here)
            at = np.minimum(np.searchsorted(here, rows[level], sorter=order), max(len(here) - 1, 0))
            if len(here):
                found = here[order][at] == rows[level]
                there[level][found] = mapped[order][at][found]
        return other, self._tree, there


def _keys(engine: Engine, table: int, rows: Words, positions: list[int]) -> dict[bytes, int]:
    """The codes of rows in some columns, with the place of each row."""
    a = engine.arena
    places = a.T[table, f.T_ROWS] + rows * a.T[table, f.T_STRIDE]
    codes = a.a64[places[:, None] + np.array(positions, np.int64)]
    return {code.tobytes(): i for i, code in enumerate(codes)}
