"""Ordered groups: the live rows of a group in the order of some of their columns.

A counted tree has the order, and what each row counts; the list that enumeration walks is linked in that order, so
that walking it needs no tree. A row that comes finds its place in the tree, and with it the row to be linked behind.

What a row counts is written here and nowhere else: a tree that splits a block reads the records of rows which may
be about to change themselves, and has to find there what it has counted for them.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    N_DEGREE,
    N_HEAD,
    N_NEXT,
    N_NOTE,
    N_OLD,
    N_OUTPUT,
    N_PREV,
    N_ROOT,
    N_TABLE,
    N_TREE,
    N_VALUE,
    N_WIDTH,
    T_ARITY,
    T_CAPACITY,
    T_LIVE,
    Halves,
    Int,
    Trees,
    Words,
)
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.order_statistic_blocks import (
    C_POOLS,
    C_TABLE,
    C_WIDTH,
    INNER,
    LARGEST_INNER,
    LARGEST_LEAF,
    NONE,
    POOLS,
)
from dynq_cli.engine.kernels.order_statistic_tree import change_from, delete_from, insert_from
from dynq_cli.engine.kernels.table import record

# Inner blocks that a row may take: one per level, of which there are fewer, since blocks hold eight entries or more.
LEVELS = 12


@bare
def has_room(T: Words, N: Words, trees: Trees, v: Int, rows: Int) -> Int:
    """Whether so many rows can come into or leave the groups of v without more blocks than there is room for."""
    if N[v, N_TREE] < 0:
        return True
    first = trees.C[N[v, N_TREE], C_POOLS]
    for size in range(POOLS):
        needed = rows * LEVELS if size >= INNER else rows
        if T[first + size, T_LIVE] + needed > T[first + size, T_CAPACITY]:
            return False
    return True


@bare
def fits(T: Words, trees: Trees, operations: Int) -> Int:
    """Whether so many rows can come into or leave any groups: what `engine.counted_tree.reserve` makes room for."""
    C = trees.C
    first, rows = C[0, C_POOLS], np.int64(operations)
    for i in range(len(C)):
        rows += T[C[i, C_TABLE], T_LIVE]
    bits = np.int64(0)
    while rows >> bits > 0:
        bits += 1
    leaves = np.int64(0)
    for size in range(POOLS):
        most = most_blocks(T, first, size, rows, leaves)
        if size == LARGEST_LEAF:
            leaves = most
        needed = T[first + size, T_LIVE] + (operations * bits if size >= INNER else operations)
        if min(needed, most) > T[first + size, T_CAPACITY]:
            return False
    return True


@bare(error_model="numpy")  # no block is of size 0, and what can raise cannot be built
def most_blocks(T: Words, first: Int, size: Int, rows: Int, leaves: Int) -> Int:
    """How many blocks of a size there can be in trees of so many rows, of which so many are leaves of the largest."""
    if size == 0:
        return rows + 1
    if size < INNER:
        most = rows // (T[first + size - 1, T_ARITY] * 3 // 4 + 1) + 1
        return max(most, 12 * rows // T[first + size, T_ARITY] + 1) if size == LARGEST_LEAF else most
    if size == INNER:
        return leaves // 2 + 1
    if size < LARGEST_INNER:
        return leaves // (T[first + INNER, T_ARITY] * 3 // 4 + 1) + 1
    entries = T[first + LARGEST_INNER, T_ARITY]
    share = 1.0 / max(entries // 4, np.int64(2)) + 2.0 / (entries + 1)
    return (np.int64(leaves * share / (1.0 - share)) if share < 0.5 else leaves) + 1


@bare
def link_behind(a32: Halves, T: Words, N: Words, v: Int, row: Int, before: Int, head_at: Int) -> None:
    """Put a row of v into its list, behind another; in front, if that is none."""
    t, following, previous = N[v, N_TABLE], N[v, N_NEXT], N[v, N_PREV]
    if before < 0:
        link(a32, T, t, row, head_at, following, previous)
        return
    at, left = 2 * record(T, t, row), 2 * record(T, t, before)
    after = np.int64(a32[left + following])
    a32[at + following] = after
    a32[at + previous] = before
    a32[left + following] = row
    if after >= 0:
        a32[2 * record(T, t, after) + previous] = row


@bare
def _write(a64: Words, T: Words, N: Words, v: Int, row: Int, new: Words) -> None:
    if N[v, N_NOTE] >= 0:
        for i in range(N[v, N_WIDTH] if N[v, N_DEGREE] > 0 else 1):
            a64[record(T, N[v, N_TABLE], row) + N[v, N_NOTE] + i] = new[i]
        return
    at = record(T, N[v, N_TABLE], row) + N[v, N_VALUE]
    if N[v, N_DEGREE] > 0:
        for i in range(N[v, N_WIDTH]):
            a64[at + i] = new[i]
    elif N[v, N_VALUE] >= 0:
        a64[at] = new[0]


@bare(inline="always")
def _differ(old: Words, new: Words, width: Int) -> Int:
    for i in range(width):
        if old[i] != new[i]:
            return True
    return False


@bare
def move_in_order(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    v: Int,
    row: Int,
    at: Int,
    was_live: Int,
    is_live: Int,
    old: Words,
    new: Words,
) -> None:
    """The payload of a row went from old to new: tree and list of its group, at `at`, follow. O(log n)."""
    before, _ = move_in_tree(a64, a32, T, N, trees, v, row, at, was_live, is_live, old, new, np.int64(NONE))
    move_in_list(a32, T, N, v, row, at, was_live, is_live, before)


@bare
def move_in_tree(
    a64: Words,
    a32: Halves,
    T: Words,
    N: Words,
    trees: Trees,
    v: Int,
    row: Int,
    at: Int,
    was_live: Int,
    is_live: Int,
    old: Words,
    new: Words,
    depth: Int,
) -> tuple[Int, Int]:
    """The tree follows, from the path to the change before this one (`order_statistic_tree.insert_from`): the row that
    one which comes has before it, and the length of the path."""
    C, labels, work = trees.C, trees.labels, trees.work
    c, root_at, before = N[v, N_TREE], 2 * at + N[v, N_ROOT], np.int64(NONE)
    if was_live and not is_live:
        depth = delete_from(a64, a32, T, C, c, labels, work, root_at, row, depth)
    _write(a64, T, N, v, row, new)
    if is_live and not was_live:
        before, depth = insert_from(a64, a32, T, C, c, labels, work, root_at, row, depth)
    elif is_live and _differ(old, new, C[c, C_WIDTH]):
        depth = change_from(a64, a32, T, C, c, labels, work, root_at, row, old, new, depth)
    return before, depth


@bare
def move_in_list(
    a32: Halves, T: Words, N: Words, v: Int, row: Int, at: Int, was_live: Int, is_live: Int, before: Int
) -> None:
    """The list of the group at `at` follows; a row that comes is linked behind another.

    In a tree that feeds relations the list stays as it is; rows that come keep which row they will be linked behind.
    """
    t, head_at = N[v, N_TABLE], 2 * at + N[v, N_HEAD]
    if N[v, N_OLD] >= 0:
        if is_live and not was_live:
            # A row that is in no list has room for its place.
            a32[2 * record(T, t, row) + N[v, N_PREV]] = before
    elif N[v, N_OUTPUT]:
        if was_live and not is_live:
            unlink(a32, T, t, row, head_at, N[v, N_NEXT], N[v, N_PREV])
        elif is_live and not was_live:
            link_behind(a32, T, N, v, row, before, head_at)
