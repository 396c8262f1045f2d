"""Groups: the rows of a node that share their parent row.

The rows of a node that agree on the variables shared with the parent are a group. For a guard the group is a row of the
parent. Otherwise it is a row of the node's own group table, and the parent rows that read it are linked to it, or, if
they read a range of its rows, stand in an order-statistic tree (`ranges`). A row of an inner node exists while rows of
its guards belong to it; a group exists while rows belong to it or read it. Live or not, a row keeps its place.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.order_statistic_blocks import NONE
from dynq_cli.engine.kernels.order_statistic_tree import delete
from dynq_cli.engine.kernels.table import find_or_insert_tagged, record, remove, tag_of


@kernel(inline="always")
def link(store: Store, table_id: Int, row: Int, head_at: Int, following: Int, previous: Int) -> None:
    """Insert a row at the front of the list whose head is at `head_at`."""
    halves = store.halves
    table = store.tables[table_id]
    at = 2 * record(table, row)
    head = np.int64(halves[head_at])
    halves[at + following] = head
    halves[at + previous] = -1
    if head >= 0:
        halves[2 * record(table, head) + previous] = row
    halves[head_at] = row


@kernel(inline="always")
def unlink(store: Store, table_id: Int, row: Int, head_at: Int, following: Int, previous: Int) -> None:
    """Remove a row from the list whose head is at `head_at`."""
    halves = store.halves
    table = store.tables[table_id]
    at = 2 * record(table, row)
    after, before = np.int64(halves[at + following]), np.int64(halves[at + previous])
    if after >= 0:
        halves[2 * record(table, after) + previous] = before
    if before >= 0:
        halves[2 * record(table, before) + following] = after
    else:
        halves[head_at] = after


@kernel(inline="always")
def _start_group(store: Store, node_id: Int, at: Int) -> None:
    """Make a group, whose record is at `at`, empty."""
    halves = store.halves
    node = store.nodes[node_id]
    for i in range(node.width):
        store.words[at + node.sums + i] = 0
    if node.output:
        halves[2 * at + node.head] = -1
    if node.tree >= 0:
        halves[2 * at + node.root] = -1
    if node.waiting >= 0 and node.output:
        halves[2 * at + node.begin] = halves[2 * at + node.end] = -1


@kernel
def _own_group(store: Store, node_id: Int, key: Words, tag: Int) -> Int:
    """Return the row of the node's own group table for a key, made if needed, with one more reference."""
    halves = store.halves
    node = store.nodes[node_id]
    table_id = node.group
    table = store.tables[table_id]
    g, is_new = find_or_insert_tagged(store, table_id, key, tag)
    at = record(table, g)
    if is_new:
        _start_group(store, node_id, at)
        if node.readers_root >= 0:
            halves[2 * at + node.readers_root] = NONE
        elif node.reader_head >= 0:
            halves[2 * at + node.reader_head] = -1
    halves[2 * at + table.refs] += 1
    return g


@kernel
def start_row(store: Store, node_id: Int, row: Int, key: Words) -> None:
    """Make a row of an inner node: dead, with empty groups, reading the groups of its other children.

    Ranges are looked up when all rows of the commit are in.
    """
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    table_id = node.table
    at = record(store.tables[table_id], row)
    for i in range(node.width):
        words[at + node.value + i] = 0
    for k in range(node.degree):
        child_id = store.lists[node.children + k]
        child = store.nodes[child_id]
        if child.guard:
            _start_group(store, child_id, at)
            continue
        for j in range(child.key):
            key[j] = words[at + store.lists[child.reader_project + j]]
        g = _own_group(store, child_id, key, tag_of(key, child.key))
        halves[2 * at + child.reads] = g
        group_at = 2 * record(store.tables[child.group], g)
        if child.waits >= 0:
            continue
        if child.readers >= 0:
            for i in range(child.width):
                words[at + child.total + i] = 0
            halves[2 * at + child.begin], halves[2 * at + child.end] = -1, child.fresh
            child.fresh = row
            child.pending += 1
        else:
            link(store, table_id, row, group_at + child.reader_head, child.reader_next, child.reader_prev)


@kernel
def join_group(store: Store, node_id: Int, row: Int, key: Words, tag: Int) -> None:
    """Give a new row its group, making the rows above that it needs; `tag` is that of the group's key, or -1."""
    words, halves = store.words, store.halves
    while True:
        node = store.nodes[node_id]
        at = record(store.tables[node.table], row)
        if node.old >= 0:
            halves[2 * at + node.changed] = 0
        if node.note >= 0:
            halves[2 * at + node.noted] = 0
            for i in range(node.width if node.degree > 0 else 1):
                words[at + node.note + i] = 0
        for j in range(node.key):
            key[j] = words[at + store.lists[node.project + j]]
        if tag < 0:
            tag = tag_of(key, node.key)
        if not node.guard:
            halves[2 * at + node.gid] = _own_group(store, node_id, key, tag)
            return
        table_id, parent = node.group, node.parent
        table = store.tables[table_id]
        g, is_new = find_or_insert_tagged(store, table_id, key, tag)
        if is_new:
            start_row(store, parent, g, key)
        halves[2 * record(table, g) + table.refs] += 1
        halves[2 * at + node.gid] = g
        if not is_new:
            return
        node_id, row, tag = parent, g, np.int64(-1)


@kernel
def leave_group(store: Store, node_id: Int, g: Int) -> None:
    """Remove a row from group g; free what nothing refers to any more."""
    halves = store.halves
    while True:
        member = store.nodes[node_id]
        table_id = member.group
        table = store.tables[table_id]
        at = record(table, g)
        halves[2 * at + table.refs] -= 1
        if halves[2 * at + table.refs] > 0:
            return
        if not member.guard:
            remove(store, table_id, g)
            return
        parent_id = member.parent
        node = store.nodes[parent_id]
        for k in range(node.degree):
            child_id = store.lists[node.children + k]
            if not store.nodes[child_id].guard:
                _stop_reading(store, child_id, g)
        up = np.int64(halves[2 * at + node.gid])
        remove(store, table_id, g)
        node_id, g = parent_id, up


@kernel
def _stop_reading(store: Store, child_id: Int, row: Int) -> None:
    """Remove a parent row from the readers of its group."""
    halves = store.halves
    child = store.nodes[child_id]
    above, table_id = store.nodes[child.parent].table, child.group
    table = store.tables[table_id]
    g = np.int64(halves[2 * record(store.tables[above], row) + child.reads])
    at = 2 * record(table, g)
    if child.readers_root >= 0:
        delete(store, child.readers, at + child.readers_root, row)
    elif child.reader_head >= 0:
        unlink(store, above, row, at + child.reader_head, child.reader_next, child.reader_prev)
    halves[at + table.refs] -= 1
    if halves[at + table.refs] == 0:
        remove(store, table_id, g)
