"""The route of a commit: from the changes of a relation through its base table and every tree that reads it.

    RESOLVE    the changes become a base delta, or are refused with nothing changed
    then, for each tree in the order of the program,
               its leaves take over the base delta
               its nodes are recomputed
    last       base rows that went leave the trees, and are freed

`advance` takes commits of one relation along: to the end, or to a stage at which something else has its turn, such as
the leaves of another relation in the same tree, or a derived relation. How far they are stands in a row of PROGRESS, so
it can stop for room anywhere and go on: tables do not grow inside kernels. Small commits run one after the other in one
call, so each costs what it touches.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.base import collect, forget, settle, take_back
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import OK, Batch, DeltaEntries, Int, Rows, Scratch, Store, Words, row_type
from dynq_cli.engine.kernels.release import release_leaf
from dynq_cli.engine.kernels.update import propagate, update_leaf

# Beside a status: what a large commit takes next needs room.
NEXT_CHUNK = -1
RESOLVE = 0

# Where a tree has its nodes, and where the route its leaves.
PASSED_TREE = row_type("first_node", "stop_node", "first_leaf", "stop_leaf")
PROGRESS = row_type(
    "room",  # changes, or entries of a base delta, that there is room for at a time
    "done",  # commits that are through
    "stage",  # of the commit on its way
    "taken",  # of its changes, or of the entries of a leaf, those before have been taken
    "leaf",  # the leaf whose turn it is, among those of the tree
    "entries",  # how many entries its base delta has
    "change",  # the change at fault
    "missed",  # deletes of the commit on its way that missed
    "skipped",  # such deletes of all commits that were resolved
)


class Route(NamedTuple):
    """The base table, leaves and trees that a commit of one relation passes through."""

    table: Int  # its base table
    leaves: Words  # the leaves on it, tree by tree
    trees: Rows  # PASSED_TREE: in the order of the program


@kernel
def advance(
    store: Store,
    route: Route,
    batch: Batch,
    ends: Words,
    delta: DeltaEntries,
    scratch: Scratch,
    may_miss: Int,
    progress: Rows,
    until: Int,
) -> Int:
    """Take commits that end at the changes `ends` on, until the last is before stage `until`.

    Each tree has two stages, after RESOLVE: its leaves, its nodes; then comes one to release rows, which ends a commit.
    A commit of more changes than there is room for returns after so many, in every stage.

    Returns OK; NEXT_CHUNK or NO_ROOM if room is needed to go on (`propagate`); or what is wrong: then the commit on its
    way has changed nothing, unless a count overflowed.
    """
    at, last = progress[0], 2 * len(route.trees) + 1
    while at.done < len(ends):
        start = ends[at.done - 1] if at.done > 0 else np.int64(0)
        is_large = ends[at.done] - start > at.room
        while at.stage < last:
            if at.stage == until:
                return OK
            stage = at.stage
            if stage == RESOLVE:
                status = _resolve(store, route.table, batch, start, ends[at.done], delta, scratch, may_miss, progress)
            elif stage % 2 == 1:
                status = _update_leaves(store, route, batch, delta, scratch, progress, is_large)
            else:
                tree = route.trees[stage // 2 - 1]
                status = propagate(store, tree.first_node, tree.stop_node, scratch)
            if status != OK:
                return status
            at.stage, at.taken, at.leaf = stage + 1, 0, 0
            if is_large:
                return OK if at.stage == until else NEXT_CHUNK
        if at.stage == until:
            return OK
        for node_id in route.leaves:
            release_leaf(store, node_id, route.table, delta, at.entries)
        forget(store, route.table, delta, at.entries)
        at.done, at.stage, at.entries = at.done + 1, RESOLVE, 0
        if is_large and at.done < len(ends):
            return NEXT_CHUNK
    return OK


@kernel(inline="always")
def _resolve(
    store: Store,
    table_id: Int,
    batch: Batch,
    start: Int,
    stop: Int,
    delta: DeltaEntries,
    scratch: Scratch,
    may_miss: Int,
    progress: Rows,
) -> Int:
    """Turn changes start … stop into a base delta, as many at a time as there is room for."""
    at = progress[0]
    begin = start + at.taken
    end = min(begin + at.room, stop)
    status, change, entries, missed = collect(store, table_id, batch, begin, end, delta, at.entries, scratch)
    at.entries, at.missed = entries, at.missed + missed
    if status == OK and end < stop:
        at.taken += at.room
        return NEXT_CHUNK
    if status == OK:
        status, change, missed = settle(store, table_id, delta, entries, may_miss)
        at.missed += missed
    else:
        take_back(store, table_id, delta, entries)
    if status == OK:
        at.skipped, at.missed = at.skipped + at.missed, 0
    at.change = change
    return status


@kernel(inline="always")
def _update_leaves(
    store: Store, route: Route, batch: Batch, delta: DeltaEntries, scratch: Scratch, progress: Rows, is_large: Int
) -> Int:
    """Apply the base delta to the leaves of this stage's tree, as much at a time as there is room for."""
    at = progress[0]
    tree = route.trees[at.stage // 2]
    while tree.first_leaf + at.leaf < tree.stop_leaf:
        end, is_left = at.entries, is_large and at.entries > at.taken + at.room
        if is_left:
            end = at.taken + at.room
        node_id = route.leaves[tree.first_leaf + at.leaf]
        status = update_leaf(store, node_id, route.table, delta, at.taken, end, batch, scratch)
        if status != OK:
            return status
        if is_left:
            at.taken = end
            return NEXT_CHUNK
        at.leaf, at.taken = at.leaf + 1, 0
    return OK
