"""What came and went in the result of a tree, read within the commit that changes it.

    Delta.blocks(…) = result after - result before, as rows of codes with signed copies

The tree has been updated, its lists are still those of before, and every output row that changed knows what it was
(`kernels.delta_log`). Between the two states stands a third, in which each row of the frontier has the smaller of its
two multiplicities: from the first to the third things only go, from there to the second they only come. So the old
side gives what went, by the rows that have fewer copies now, and the new side what came. A row of the result may be
in both, and on either in several parts. Work is that of the rows that come out, and of the rows of the tree that
changed.

Trees without ranges are read outward from the rows that changed (`kernels.delta_join`). Where ranges share rows, these
are marked first, with all that lies above them, and what is marked is walked (`kernels.delta_join_ranges`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.dirty_set import DirtySet
from dynq_cli.engine.kernels import delta_join
from dynq_cli.engine.kernels import delta_join_ranges as w
from dynq_cli.engine.kernels import dirty as d
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.tree_layout import TreeLayout

BLOCK = 16384
# Entries of a stage: as many rows are gone out from, or lists followed, at a time.
WIDE = 128


class Delta:
    """The changes of one tree, commit after commit, in some of its variables."""

    def __init__(
        self,
        arena: Arena,
        ordered: CountedTrees,
        tree: TreeLayout,
        variables: Sequence[str],
        block: int = BLOCK,
        wide: int = WIDE,
    ) -> None:
        self._arena = arena
        self._tree = tree
        self._levels = np.array(tree.levels, np.int64)
        if not tree.levels:
            return
        self._side = DirtySet(arena, tree, ordered)
        places = [tree.places[v] for v in variables]
        self._columns = np.array([(p.level, p.position) for p in places], np.int64).reshape(-1, 2)
        self._rows = np.empty((len(tree.levels) + 2, block), np.int64)
        self._codes, self._copies = np.empty((len(places), block), np.int64), np.empty(block, np.int64)
        has_ranges = bool((arena.N[self._levels, f.N_READERS] >= 0).any())
        self._routes = None if has_ranges else _routes(arena, self._side)
        self._counts = np.zeros((len(tree.levels), delta_join.COUNTS), np.int64)
        self._stages = np.empty((delta_join.STAGES, len(tree.levels), wide), np.int64)

    def blocks(self, before: int, after: int) -> Iterator[tuple[Words, Words]]:
        """Codes, a row of them per variable, and how many copies of each came (> 0) or went.

        `before` and `after` are the numbers of rows of the result. All has to be read: then the tree is between
        commits. OverflowedError if a row has more than 2^63 - 1 copies.
        """
        if not len(self._levels):
            yield from self._nullary(before, after)
            return
        a, s = self._arena, self._side
        if not a.N[self._levels, f.N_LISTED].any() and a.N[self._levels, f.N_TELL].max() < 0:
            return
        s.fit()
        if self._routes is not None:
            yield from self._outward(self._routes, before > 0, after > 0)
            return
        state = np.zeros(w.STATE, np.int64)
        while state[w.PHASE] != w.DONE:
            s.list_room(int(state[w.LISTED]))
            filled = self._fill(before > 0, after > 0, state)
            if filled < 0:
                raise OverflowedError
            if filled:
                yield self._codes[:, :filled].copy(), self._copies[:filled].copy()

    def _nullary(self, before: int, after: int) -> Iterator[tuple[Words, Words]]:
        if self._tree.plan.query.semantics == "set":
            before, after = min(before, 1), min(after, 1)
        if before != after:
            if abs(after - before) >= 2**63:
                raise OverflowedError
            yield np.zeros((0, 1), np.int64), np.array([after - before], np.int64)

    def _outward(self, routes: Words, had_rows: bool, has_rows: bool) -> Iterator[tuple[Words, Words]]:
        a, s = self._arena, self._side
        state = np.zeros(delta_join.STATE, np.int64)
        while state[delta_join.PHASE] != delta_join.DONE:
            filled = delta_join.fill(
                a.a64,
                a.a32,
                a.T,
                a.N,
                s.L,
                s.root,
                routes,
                s.changed,
                self._stages,
                self._counts,
                self._columns,
                self._codes,
                self._copies,
                had_rows,
                has_rows,
                state,
                s.work,
            )
            if filled < 0:
                raise OverflowedError
            if filled:
                yield self._codes[:, :filled].copy(), self._copies[:filled].copy()

    def _fill(self, had_rows: bool, has_rows: bool, state: Words) -> int:
        a, s = self._arena, self._side
        filled: int = w.fill(
            a.a64,
            a.a32,
            a.T,
            a.N,
            s.trees,
            s.L,
            s.below,
            s.order,
            s.slots,
            s.root,
            s.roots,
            s.marks,
            s.changed,
            s.links,
            s.heads,
            s.groups,
            s.lists,
            s.ends,
            s.current,
            s.modes,
            s.choices,
            s.cursor,
            self._rows,
            self._columns,
            self._codes,
            self._copies,
            had_rows,
            has_rows,
            state,
            s.work,
        )
        return filled


def _routes(arena: Arena, side: DirtySet) -> Words:
    """For each level, in which order the others are set from there; see `delta_join`."""
    nodes, above, frontier = side.L[:, d.L_NODE], side.L[:, d.L_ABOVE], side.L[:, d.L_FRONTIER]
    below = [{level} for level in range(len(nodes))]
    for level in range(len(nodes) - 1, -1, -1):
        if above[level] >= 0:
            below[above[level]] |= below[level]
    steps: list[tuple[int, ...]] = []
    for level in range(len(nodes)):
        here, stages = level, {-1: -1, level: 0}
        while above[here] >= 0:
            kind = delta_join.OWN if arena.N[nodes[here], f.N_GUARD] else delta_join.READERS
            steps.append((kind, int(above[here]), here, stages[here], delta_join.ON_SIDE))
            here = int(above[here])
            stages[here] = len(stages) - 1
        for other in range(len(nodes)):
            if other not in stages:
                # What is dead in either state has no combination below it in the smaller one.
                is_before = all(each < level for each in below[other] if frontier[each])
                asked = delta_join.ON_SIDE if frontier[other] else delta_join.NOTHING
                up = int(above[other])
                steps.append((delta_join.DOWN, other, up, stages[up], delta_join.ON_BOTH if is_before else asked))
                stages[other] = len(stages) - 1
    return np.array(steps, np.int64).reshape(-1, delta_join.ROUTE)
