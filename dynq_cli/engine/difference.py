"""What came and went between two engines of one layout, of which one was made from the other by one commit.

    result(old) + differences(old, new) = result(new)

Both have the same row ids for the rows that are in both: `old` was a copy of `new`, took one commit, and noted the
rows of the frontier that it changed. A leaf on base rows with a key may have one row under two ids, since it need not
use all columns: such twins are one row here, and unchanged, since a row with a key is there once. Work is that of the
commit and of the rows that have changed; see `kernels.dirty`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.dirty_set import DirtySet
from dynq_cli.engine.engine import BLOCK, Engine
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_layout import TreeLayout


class Changed(NamedTuple):
    """Rows that came, or went: codes, a column per variable, and how many copies of each."""

    is_insert: bool
    codes: Words
    copies: Words


def watch(engine: Engine, query: str, room: int) -> None:
    """Have an engine note the rows that a commit changes in the frontiers of a query's trees, as far as so many fit."""
    for node in _watched(engine, query):
        engine.arena.watch(node, room)


def is_noted(engine: Engine, query: str) -> bool:
    """Whether all of them did fit."""
    return all(engine.arena.watched(node) is not None for node in _watched(engine, query))


def _levels(tree: TreeLayout) -> Iterator[tuple[int, bool]]:
    return zip(tree.levels, tree.frontier, strict=True)


def _watched(engine: Engine, query: str) -> list[int]:
    trees = engine.layout.result_of(query)
    return [node for tree in trees for node, is_frontier in _levels(tree) if is_frontier]


def differences(old: Engine, new: Engine, name: str, variables: Sequence[str], block: int = BLOCK) -> Iterator[Changed]:
    """What went in a tree, then what came. Of a set, rows; of a bag, also how many copies. O(block) memory beside the
    marks."""
    tree = new.layout.trees[name]
    is_set = tree.plan.query.semantics == "set"
    if not tree.levels:
        yield from _nullary(old.count(name)[0], new.count(name)[0], is_set)
        return
    dirty = [_changed(old, new, node) if is_frontier else None for node, is_frontier in _levels(tree)]
    for side, other, is_insert in ((old, new, False), (new, old, True)):
        if not side.count(name)[0]:
            continue
        read = DirtySet(side.arena, tree, side.ordered)
        read.mark(dirty)
        for found in read.combinations(block):
            for sign, many in _signed(*read.copies(other.arena, found), is_insert, is_set):
                kept = None if many.all() else np.flatnonzero(many)
                if kept is None:
                    yield Changed(sign, read.codes(tree, found, variables), many)
                elif len(kept):
                    yield Changed(sign, read.codes(tree, found, variables)[:, kept], many[kept])


def _signed(here: Words, there: Words | None, is_insert: bool, is_set: bool) -> list[tuple[bool, Words]]:
    """How many copies came, or went, of combinations that are on one side so often and on the other so often."""
    if there is None:
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
    w.values_of(a.store, node, rows, values)
    return values


def _changed(old: Engine, new: Engine, node: int) -> Words:
    """The rows of a node of the frontier that are not the same on both sides."""
    noted = old.arena.watched(node)
    assert noted is not None
    before, after = _values(old, node, noted), _values(new, node, noted)
    was, now = before.any(axis=0), after.any(axis=0)
    changed: Words = noted[(before != after).any(axis=0)]
    went, came = noted[was & ~now], noted[now & ~was]
    arena, layout = new.arena, new.layout
    table = int(arena.nodes["table"][node])
    used = [layout.position(node, v) for v in layout.variables[node]]
    if table not in layout.base_tables or len(used) == arena.tables["arity"][table] or not len(went) or not len(came):
        return changed
    mine, theirs = (_keys(e, table, r, used) for e, r in ((old, went), (new, came)))
    twins = [(went[i], came[theirs[key]]) for key, i in mine.items() if key in theirs]
    return changed[~np.isin(changed, np.array(twins, np.int64))]


def _keys(engine: Engine, table: int, rows: Words, positions: list[int]) -> dict[bytes, int]:
    """The codes of rows in some columns, with the place of each row."""
    a = engine.arena
    places = a.tables["rows"][table] + rows * a.tables["stride"][table]
    codes = a.words[places[:, None] + np.array(positions, np.int64)]
    return {code.tobytes(): i for i, code in enumerate(codes)}
