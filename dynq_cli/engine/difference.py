"""The difference of a result between two engines: `old` is a copy of `new` after one commit that reverts it.

    result(old) + differences(old, new) = result(new)

Rows in both engines have the same ids, and `old` has listed the frontier rows that the commit changed. A leaf on keyed
base rows may have one row under two ids, as it need not use all columns. Such twins count as one unchanged row, since a
keyed row exists once. O(commit + changed rows); see `kernels.dirty`.

A result may be read from several trees, its members. A row that changes in it changes in some member, or in a tree
whose rows the result lacks. So the differences of these contain all candidates, and the multiplicity of a candidate in
each engine is looked up in all of them. A row is reported once, with the last tree in which it changed.
O(the trees' differences · trees).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.dirty_set import DirtySet
from dynq_cli.engine.engine import BLOCK, Engine
from dynq_cli.engine.kernels import dirty_walk as w
from dynq_cli.engine.kernels.fields import Flags, Words
from dynq_cli.engine.multi_tree_result import MultiTreeResult
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_layout import TreeLayout
from dynq_cli.engine.twins import without_twins


class Changed(NamedTuple):
    """Inserted or deleted rows: codes, one row per variable, and multiplicities."""

    is_insert: bool
    codes: Words
    copies: Words


def watch(engine: Engine, query: str) -> None:
    """Start to note the rows that a commit changes in a query's trees."""
    engine.keep_journals(frozenset(engine.layout.trees_of(query)))


def _levels(tree: TreeLayout) -> Iterator[tuple[int, bool]]:
    return zip(tree.levels, tree.frontier, strict=True)


def differences(
    old: Engine, new: Engine, query: str, variables: Sequence[str], block: int = BLOCK
) -> Iterator[Changed]:
    """Yield the deleted and inserted rows of a result, tree by tree; with multiplicities if it is a bag.

    O(block) memory, and the marks.
    """
    read = _member_differences if query in new.combined else tree_differences
    return read(old, new, query, variables, block)


def tree_differences(
    old: Engine, new: Engine, name: str, variables: Sequence[str], block: int = BLOCK
) -> Iterator[Changed]:
    """Yield the deleted rows of a tree's result, then the inserted ones."""
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


def _member_differences(
    old: Engine, new: Engine, query: str, variables: Sequence[str], block: int
) -> Iterator[Changed]:
    """Yield the deleted and inserted rows of a result that is read from several trees."""
    before, after = old.combined[query], new.combined[query]
    wanted = [after.head.index(v) for v in variables]
    trees = after.step.read
    for number, member in enumerate(trees):
        for changed in tree_differences(old, new, member.tree, member.variables, block):
            codes, copies = changed.codes, changed.copies
            passing = after.passes(codes)
            if passing is not None:
                codes, copies = codes[:, passing], copies[passing]
            if len(trees) == 1:
                if len(copies):
                    yield Changed(changed.is_insert, codes[wanted], copies)
                continue
            codes = codes[:, ~_changes_later(before, after, number, codes)]
            net = after.total(codes) - before.total(codes)
            for is_insert in (False, True):
                kept = np.flatnonzero(net > 0 if is_insert else net < 0)
                if len(kept):
                    yield Changed(is_insert, codes[wanted][:, kept], np.abs(net[kept]))


def _changes_later(before: MultiTreeResult, after: MultiTreeResult, member: int, codes: Words) -> Flags:
    """Return which rows change in a later tree, too."""
    found: Flags = np.zeros(codes.shape[1], np.bool_)
    olds, news = ([*each.lookups, *each.lacking][member + 1 :] for each in (before, after))
    for was, now in zip(olds, news, strict=True):
        found |= was.copies(codes) != now.copies(codes)
    return found


def _signed(here: Words, there: Words | None, is_insert: bool, is_set: bool) -> list[tuple[bool, Words]]:
    """Return the inserted or deleted copies of combinations, given their multiplicities here and there."""
    if there is None:
        return [(is_insert, here)]
    if is_set or is_insert:
        # Combinations in both engines were handled from the old one.
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
    """Return the rows of a frontier node that differ between the engines."""
    noted, _ = old.journals.changed(node)
    before, after = _values(old, node, noted), _values(new, node, noted)
    was, now = before.any(axis=0), after.any(axis=0)
    changed: Words = noted[(before != after).any(axis=0)]
    return without_twins(new.layout, node, changed, (old.arena, noted[was & ~now]), (new.arena, noted[now & ~was]))
