"""Prefetch what the next rows of a leaf will touch.

An inserted row looks for its group, and, if its group is a new parent row, for everything that row is linked to; a
deleted or changed row knows its group. Each step is prefetched for all rows before the next step of the first row:
slots, then records, then the rows at the heads of their lists. Nothing is changed, and nothing depends on what was
found: rows that the same batch makes are not seen.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import DeltaEntries, Int, Scratch, Store, Words
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.table import likely, record, tag_of

# Instead of a place: nothing to look for, or a group that is not there yet.
_NOTHING, _NEW = -2, -1


@kernel(inline="always")
def ask_for_neighbours(store: Store, node_id: Int, row: Int, at: Int, was_live: Int, is_live: Int) -> None:
    """Prefetch the rows between which a row enters or leaves the list of its group, whose record is at `at`."""
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    table = store.tables[node.table]
    if is_live and not was_live:
        head = np.int64(halves[2 * at + node.head])
        if head >= 0:
            prefetch(words, record(table, head) + (node.prev >> 1))
    elif was_live and not is_live:
        mine = 2 * record(table, row)
        before, after = np.int64(halves[mine + node.prev]), np.int64(halves[mine + node.next])
        if before >= 0:
            prefetch(words, record(table, before) + (node.next >> 1))
        if after >= 0:
            prefetch(words, record(table, after) + (node.prev >> 1))


@kernel
def _ask_for_lookups(
    store: Store,
    node_id: Int,
    delta: DeltaEntries,
    begin: Int,
    many: Int,
    scratch: Scratch,
    where: Words,
    child_id: Int,
    project: Int,
) -> None:
    """Prefetch, for each new row above a leaf, its group of a child, by the codes that `project` takes of its key.

    `where` says which code of the leaf's row each code of that key is.
    """
    words, key, places, found = store.words, scratch.key, scratch.places, scratch.found
    leaf_table, child = store.tables[store.nodes[node_id].table], store.nodes[child_id]
    group_table = store.tables[child.group]
    for k in range(many):
        if places[k] != _NEW:
            continue
        at = record(leaf_table, np.int64(delta.touched[begin + k]))
        for j in range(child.key):
            key[j] = words[at + where[store.lists[project + j]]]
        found[k] = tag_of(key, child.key)
        prefetch(words, group_table.slots + (found[k] & group_table.mask))
    for k in range(many):
        if places[k] == _NEW:
            found[k] = likely(store, child.group, found[k])
            prefetch(words, max(found[k], np.int64(0)))


@kernel
def _ask_above(store: Store, leaf_id: Int, delta: DeltaEntries, begin: Int, many: Int, scratch: Scratch) -> None:
    """Prefetch what new parent rows of a guard will be linked to: the groups that they read, the first readers there,
    and their own group; then the same of the rows above that are new for them, level by level."""
    places, found = scratch.places, scratch.found
    leaf = store.nodes[leaf_id]
    room = len(scratch.key) // 3
    where, other = scratch.key[room : 2 * room], scratch.key[2 * room :]
    for j in range(leaf.key):
        where[j] = store.lists[leaf.project + j]
    node_id, is_any = leaf.parent, True
    while is_any:
        node = store.nodes[node_id]
        table = store.tables[node.table]
        for k in range(node.degree):
            child_id = store.lists[node.children + k]
            child = store.nodes[child_id]
            if child.guard:
                continue
            _ask_for_lookups(store, leaf_id, delta, begin, many, scratch, where, child_id, child.reader_project)
            for i in range(many):
                if places[i] == _NEW and found[i] >= 0 and child.reader_head >= 0:
                    reader = np.int64(store.halves[2 * found[i] + child.reader_head])
                    if reader >= 0:
                        prefetch(store.words, record(table, reader) + (child.reader_prev >> 1))
        if node.parent < 0 or node.key == 0:
            return
        _ask_for_lookups(store, leaf_id, delta, begin, many, scratch, where, node_id, node.project)
        if not node.guard:
            return
        is_any = False
        for i in range(many):
            if places[i] == _NEW:
                if found[i] >= 0:
                    places[i] = _NOTHING
                else:
                    is_any = True
        for j in range(node.key):
            other[j] = where[store.lists[node.project + j]]
        where, other = other, where
        node_id = node.parent


@kernel
def ask_for_groups(store: Store, node_id: Int, delta: DeltaEntries, begin: Int, end: Int, scratch: Scratch) -> None:
    """Prefetch the groups of entries begin … end, at most AHEAD, of a settled batch, for a leaf on the base table.

    Leaves the tag of the group's key in `scratch.tags` for each inserted row.
    """
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    places = scratch.places
    table, group, leaf_row, many = store.tables[node.table], node.group, node.leaf_row, end - begin
    group_table = store.tables[group]
    slots, mask, hashed = group_table.slots, group_table.mask, group_table.hashed
    for k in range(many):
        i = begin + k
        at = record(table, np.int64(delta.touched[i]))
        places[k] = _NOTHING
        if delta.old[i] == delta.new[i] or (delta.old[i] != 0 and leaf_row >= 0 and halves[2 * at + leaf_row] < 0):
            continue
        if delta.old[i] != 0:
            places[k] = record(group_table, np.int64(halves[2 * at + node.gid]))
            prefetch(words, places[k] + node.sums)
            continue
        for j in range(hashed):
            scratch.key[j] = words[at + store.lists[node.project + j]]
        scratch.tags[k] = tag_of(scratch.key, hashed)
        places[k] = _NEW
        prefetch(words, slots + (scratch.tags[k] & mask))
    is_any_new = False
    for k in range(many):
        if places[k] == _NEW:
            places[k] = likely(store, group, scratch.tags[k])
            if places[k] == _NEW:
                is_any_new = True
            else:
                prefetch(words, places[k])
                prefetch(words, places[k] + node.sums)
                prefetch(words, places[k] + (group_table.refs >> 1))
    if is_any_new and node.guard:
        _ask_above(store, node_id, delta, begin, many, scratch)
    if node.output:
        for k in range(many):
            if places[k] >= 0:
                i = begin + k
                row = np.int64(delta.touched[i])
                ask_for_neighbours(store, node_id, row, places[k], delta.old[i] != 0, delta.new[i] != 0)
