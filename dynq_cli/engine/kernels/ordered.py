"""Ordered groups: keep the live rows of a group in the order of some of their columns.

An order-statistic tree has the order, and what each row counts. The list that enumeration reads is linked in that
order, so reading it needs no tree. An inserted row finds its place in the tree, and with it the row to be linked
behind.

Only this module writes what a row counts: a tree that splits a block reads the records of rows which may be about to
change themselves, and has to find there what it has counted for them.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.order_statistic_blocks import INNER, LARGEST_INNER, LARGEST_LEAF, NONE, POOLS
from dynq_cli.engine.kernels.order_statistic_tree import change_from, delete_from, insert_from
from dynq_cli.engine.kernels.table import record

# Inner blocks that a row may take: one per level, of which there are fewer, since blocks hold eight entries or more.
LEVELS = 12


@kernel
def has_room(store: Store, node_id: Int, rows: Int) -> Int:
    """Whether so many rows can enter or leave a node's groups without more blocks than there is room for."""
    node = store.nodes[node_id]
    if node.tree < 0:
        return True
    first = store.trees.forest[node.tree].pools
    for size in range(POOLS):
        needed = rows * LEVELS if size >= INNER else rows
        if store.tables[first + size].live + needed > store.tables[first + size].capacity:
            return False
    return True


@kernel
def fits(store: Store, operations: Int) -> Int:
    """Whether so many rows can enter or leave any groups: what `engine.order_statistic_trees` makes room for."""
    first, rows = store.trees.forest[0].pools, np.int64(operations)
    for i in range(len(store.trees.forest)):
        rows += store.tables[store.trees.forest[i].table].live
    bits = np.int64(0)
    while rows >> bits > 0:
        bits += 1
    leaves = np.int64(0)
    for size in range(POOLS):
        most = most_blocks(store, first, size, rows, leaves)
        if size == LARGEST_LEAF:
            leaves = most
        needed = store.tables[first + size].live + (operations * bits if size >= INNER else operations)
        if min(needed, most) > store.tables[first + size].capacity:
            return False
    return True


@kernel(error_model="numpy")  # no block is of size 0, and what can raise cannot be built
def most_blocks(store: Store, first: Int, size: Int, rows: Int, leaves: Int) -> Int:
    """Return how many blocks of a size there can be in trees of so many rows, of which so many are leaves of the
    largest."""
    if size == 0:
        return rows + 1
    if size < INNER:
        most = rows // (store.tables[first + size - 1].arity * 3 // 4 + 1) + 1
        return max(most, 12 * rows // store.tables[first + size].arity + 1) if size == LARGEST_LEAF else most
    if size == INNER:
        return leaves // 2 + 1
    if size < LARGEST_INNER:
        return leaves // (store.tables[first + INNER].arity * 3 // 4 + 1) + 1
    entries = store.tables[first + LARGEST_INNER].arity
    share = 1.0 / max(entries // 4, np.int64(2)) + 2.0 / (entries + 1)
    return (np.int64(leaves * share / (1.0 - share)) if share < 0.5 else leaves) + 1


@kernel
def link_behind(store: Store, node_id: Int, row: Int, before: Int, head_at: Int) -> None:
    """Insert a row into its list, behind another; at the front if that is -1."""
    halves = store.halves
    node = store.nodes[node_id]
    table_id, following, previous = node.table, node.next, node.prev
    table = store.tables[table_id]
    if before < 0:
        link(store, table_id, row, head_at, following, previous)
        return
    at, left = 2 * record(table, row), 2 * record(table, before)
    after = np.int64(halves[left + following])
    halves[at + following] = after
    halves[at + previous] = before
    halves[left + following] = row
    if after >= 0:
        halves[2 * record(table, after) + previous] = row


@kernel
def _write(store: Store, node_id: Int, row: Int, new: Words) -> None:
    words = store.words
    node = store.nodes[node_id]
    if node.note >= 0:
        for i in range(node.width if node.degree > 0 else 1):
            words[record(store.tables[node.table], row) + node.note + i] = new[i]
        return
    at = record(store.tables[node.table], row) + node.value
    if node.degree > 0:
        for i in range(node.width):
            words[at + i] = new[i]
    elif node.value >= 0:
        words[at] = new[0]


@kernel(inline="always")
def _differ(old: Words, new: Words, width: Int) -> Int:
    for i in range(width):
        if old[i] != new[i]:
            return True
    return False


@kernel
def move_in_order(
    store: Store, node_id: Int, row: Int, at: Int, was_live: Int, is_live: Int, old: Words, new: Words
) -> None:
    """Update tree and list of a row's group, at `at`, as its payload changes from old to new. O(log n)."""
    before, _ = move_in_tree(store, node_id, row, at, was_live, is_live, old, new, np.int64(NONE))
    move_in_list(store, node_id, row, at, was_live, is_live, before)


@kernel
def move_in_tree(
    store: Store, node_id: Int, row: Int, at: Int, was_live: Int, is_live: Int, old: Words, new: Words, depth: Int
) -> tuple[Int, Int]:
    """Update the tree, from the path to the change before this one (`order_statistic_tree.insert_from`).

    Return the row before an inserted one, and the length of the path.
    """
    node = store.nodes[node_id]
    tree_id, root_at, before = node.tree, 2 * at + node.root, np.int64(NONE)
    if was_live and not is_live:
        depth = delete_from(store, tree_id, root_at, row, depth)
    _write(store, node_id, row, new)
    if is_live and not was_live:
        before, depth = insert_from(store, tree_id, root_at, row, depth)
    elif is_live and _differ(old, new, store.trees.forest[tree_id].width):
        depth = change_from(store, tree_id, root_at, row, old, new, depth)
    return before, depth


@kernel
def move_in_list(store: Store, node_id: Int, row: Int, at: Int, was_live: Int, is_live: Int, before: Int) -> None:
    """Update the list of the group at `at`; an inserted row is linked behind another.

    In a tree that feeds relations the list stays as it is; inserted rows keep which row they will be linked behind.
    """
    node = store.nodes[node_id]
    table_id, head_at = node.table, 2 * at + node.head
    if node.old >= 0:
        if is_live and not was_live:
            # A row that is in no list has room for its place.
            store.halves[2 * record(store.tables[table_id], row) + node.prev] = before
    elif node.output:
        if was_live and not is_live:
            unlink(store, table_id, row, head_at, node.next, node.prev)
        elif is_live and not was_live:
            link_behind(store, node_id, row, before, head_at)
