"""What came and went in the result of a tree, read within the commit that changes it.

    deltas(…) = result after - result before, as rows of codes with signed copies

The tree has been updated, its lists are still those of before, and every output row that changed knows what it was
(`kernels.changed`). Between the two states stands a third, in which each row of the frontier has the smaller of its
two multiplicities: from the first to the third things only go, from there to the second they only come. So the old
side gives what went, by the rows that have fewer copies now, and the new side what came. A row of the result may be
in both. Work is that of the rows that come out, and of the rows of the tree that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.kernels import changed
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.layout import TreeLayout
from dynq_cli.engine.reading import BLOCK, OverflowedError
from dynq_cli.engine.side import Side, codes_of, copies_of

Delta = tuple[Words, Words]


def deltas(
    arena: Arena, tree: TreeLayout, before: int, after: int, variables: Sequence[str], block: int = BLOCK
) -> Iterator[Delta]:
    """Codes, a row of them per variable, and how many copies of each came (> 0) or went.

    `before` and `after` are the numbers of rows of the result. All has to be read: then the tree is between commits.
    OverflowedError if a row has more than 2^63 - 1 copies.
    """
    if not tree.levels:
        yield from _nullary(tree, before, after)
        return
    if (arena.N[list(tree.levels), f.N_FIRST] < 0).all():
        return
    if before:
        yield from _one_side(arena, tree, f.BEFORE, variables, block)
    for node in tree.levels:
        changed.relink(arena.a64, arena.a32, arena.T, arena.N, node)
    if after:
        yield from _one_side(arena, tree, f.NOW, variables, block)
    for node in tree.levels:
        changed.forget(arena.a32, arena.T, arena.N, node)


def _nullary(tree: TreeLayout, before: int, after: int) -> Iterator[Delta]:
    if tree.plan.query.semantics == "set":
        before, after = min(before, 1), min(after, 1)
    if before != after:
        if abs(after - before) >= 2**63:
            raise OverflowedError
        yield np.zeros((0, 1), np.int64), np.array([after - before], np.int64)


def _one_side(arena: Arena, tree: TreeLayout, side: int, variables: Sequence[str], block: int) -> Iterator[Delta]:
    """What the old side has more than the state between, as what went; or the new side, as what came."""
    levels = list(tree.levels)
    arena.N[levels, f.N_SIDE] = side
    read = Side(arena, tree)
    read.mark_changed()
    for rows in read.combinations(block):
        here = copies_of(arena, tree, rows)
        arena.N[levels, f.N_SIDE] = f.LEAST
        more = here - copies_of(arena, tree, rows)
        arena.N[levels, f.N_SIDE] = side
        yield codes_of(arena, tree, rows, variables), -more if side == f.BEFORE else more
    arena.N[levels, f.N_SIDE] = f.NOW
