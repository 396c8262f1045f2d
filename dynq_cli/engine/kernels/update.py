"""Update view trees: leaves apply the base delta, then nodes recompute their touched rows bottom-up.

The value of a row of an inner node is the product, over the children, of the sums of its groups, but for one whose sums
wait: what the group counts then follows from both sides at once (`waiting_sums`). A changed value
changes the sum of its group and touches the group: the row of the parent that the group is, or every row of the parent
that reads it. Rows are recomputed, not shifted, so simultaneous changes of several atoms and self-joins need no special
case. A value that stays the same touches nothing.

Payload lanes come in pairs (lo, hi). Column 0 is the multiplicity and alone decides whether a row is live. Column 1,
where there is one, counts distinct results: 1 at a live frontier row, products of sums above it. The lists that
enumeration reads have live rows only; those of a tree that feeds relations stay in the old state until its delta has
been read (see `delta_log`).
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.delta_log import remember
from dynq_cli.engine.kernels.fields import NO_ROOM, OK, OVERFLOW, Batch, DeltaEntries, Int, Scratch, Store, Words
from dynq_cli.engine.kernels.group_prefetch import ask_for_groups, ask_for_neighbours
from dynq_cli.engine.kernels.groups import join_group, link, unlink
from dynq_cli.engine.kernels.int128 import multiply, replace
from dynq_cli.engine.kernels.journal import note_list, note_payload
from dynq_cli.engine.kernels.ordered import fits, has_room, move_in_order
from dynq_cli.engine.kernels.pending_updates import note, take_notes
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch, prefetch_all
from dynq_cli.engine.kernels.range_sums import STOP, tell_some
from dynq_cli.engine.kernels.range_sums_bulk import are_many, mark_readers, tell_marked
from dynq_cli.engine.kernels.ranges import begin_reading
from dynq_cli.engine.kernels.table import dequeue, enqueue, find_or_insert, record
from dynq_cli.engine.kernels.waiting_sums import settle

# Words that the payloads of AHEAD rows take.
PAYLOADS = 4 * AHEAD
# Prefetch distance, in rows.
_GUESS = 8


@kernel(inline="always")
def _is_live(payloads: Words, at: Int) -> Int:
    return payloads[at] != 0 or payloads[at + 1] != 0


@kernel(inline="always")
def _add(store: Store, node_id: Int, at: Int, old: Words, new: Words, start: Int, stop: Int) -> Int:
    """Update the sum of the group at `at`, as payloads start … stop of its rows change from old to new."""
    words = store.words
    node = store.nodes[node_id]
    fits = True
    for i in range(0, node.width, 2):
        place = at + node.sums + i
        lo, hi = words[place], words[place + 1]
        for k in range(4 * start + i, 4 * stop + i, 4):
            lo, hi = replace(lo, hi, old[k], old[k + 1], new[k], new[k + 1])
        words[place], words[place + 1] = lo, hi
        fits = fits and hi >= 0
    return fits


@kernel
def _follow(store: Store, node_id: Int, row: Int, at: Int, old: Words, new: Words) -> None:
    """Update the list or tree of live rows of the group at `at`, as the payload of a row changes from old to new."""
    node = store.nodes[node_id]
    if node.note >= 0:
        note(store, node_id, row)
    elif node.old >= 0:
        remember(store, node_id, row, old)
    elif node.output:
        was, now = _is_live(old, 0), _is_live(new, 0)
        if node.tree >= 0:
            move_in_order(store, node_id, row, at, was, now, old, new)
        elif now and not was:
            link(store, node.table, row, 2 * at + node.head, node.next, node.prev)
        elif was and not now:
            unlink(store, node.table, row, 2 * at + node.head, node.next, node.prev)
    if node.watch >= 0:
        note_payload(store, node_id, row, old)
        if node.note < 0 and _is_live(old, 0) != _is_live(new, 0):
            note_list(store, node_id, row, _is_live(new, 0))


@kernel
def _move(store: Store, node_id: Int, row: Int, old: Words, new: Words) -> Int:
    """Update sum, live rows and queue of a row's group, as its payload changes from old to new."""
    node = store.nodes[node_id]
    group = node.group
    g = np.int64(store.halves[2 * record(store.tables[node.table], row) + node.gid])
    at = record(store.tables[group], g)
    fits = node.waiting >= 0 or _add(store, node_id, at, old, new, 0, 1)
    _follow(store, node_id, row, at, old, new)
    if node.note < 0:
        enqueue(store, group, g)
    return fits


@kernel
def _move_rows(store: Store, node_id: Int, many: Int, scratch: Scratch) -> Int:
    """As `_move`, for rows of which neighbours may be in one group: those of a root all are."""
    before, after, groups = scratch.before, scratch.after, scratch.groups
    node = store.nodes[node_id]
    group, start, fits = node.group, np.int64(0), True
    while start < many:
        at, stop = record(store.tables[group], groups[start]), start + 1
        while stop < many and groups[stop] == groups[start]:
            stop += 1
        if node.waiting < 0:
            fits = _add(store, node_id, at, before, after, start, stop) and fits
        for k in range(start, stop):
            _follow(store, node_id, scratch.rows[k], at, before[4 * k :], after[4 * k :])
        if node.note < 0:
            enqueue(store, group, groups[start])
        start = stop
    return fits


@kernel(inline="always")
def _payload_of_leaf(store: Store, node_id: Int, many: Int, payload: Words) -> None:
    live = np.int64(many > 0)
    payload[0] = live if store.nodes[node_id].clamp else many
    payload[1] = 0
    payload[2] = live
    payload[3] = 0


@kernel
def _leaf_row(store: Store, node_id: Int, at: Int, batch: Batch, change: Int, scratch: Scratch) -> Int:
    """Return the leaf's row for a base row whose record is at `at`, with one more reference."""
    node = store.nodes[node_id]
    table_id = node.table
    table = store.tables[table_id]
    wanted = scratch.key[table.arity :]
    for j in range(table.arity):
        source = store.lists[node.source + j]
        wanted[j] = store.words[at + source] if source >= 0 else batch.computed[change, -source - 1]
    row, is_new = find_or_insert(store, table_id, wanted)
    if is_new:
        join_group(store, node_id, row, scratch.key, np.int64(-1))
    store.halves[2 * record(table, row) + table.refs] += 1
    return row


@kernel
def update_leaf(
    store: Store,
    node_id: Int,
    table_id: Int,
    delta: DeltaEntries,
    start: Int,
    stop: Int,
    batch: Batch,
    scratch: Scratch,
) -> Int:
    """Apply entries start … stop of a settled batch of a base table to a leaf.

    Computed values and filters of the batch are read for inserted rows, never for deleted ones.
    """
    before, after = scratch.before, scratch.after
    words, halves = store.words, store.halves
    node = store.nodes[node_id]
    shared, leaf_row = node.table == table_id, node.leaf_row
    for i in range(start, stop):
        place = (i - start) % AHEAD
        if shared and place == 0:
            end = min(i + AHEAD, stop)
            ask_for_groups(store, node_id, delta, i, end, scratch)
        if delta.old[i] == delta.new[i]:
            continue
        base = np.int64(delta.touched[i])
        at = record(store.tables[table_id], base)
        row = base
        if delta.old[i] == 0:
            if node.filter >= 0 and not batch.passes[delta.first[i], node.filter]:
                halves[2 * at + leaf_row] = -1
                continue
            if shared:
                join_group(store, node_id, base, scratch.key, scratch.tags[place])
            else:
                row = _leaf_row(store, node_id, at, batch, delta.first[i], scratch)
            if leaf_row >= 0:
                halves[2 * at + leaf_row] = row
        elif leaf_row >= 0:
            row = np.int64(halves[2 * at + leaf_row])
            if row < 0:
                continue
        was, now = delta.old[i], delta.new[i]
        if not shared:
            many_at = record(store.tables[node.table], row) + store.tables[node.table].mult
            was = words[many_at]
            now = was + delta.new[i] - delta.old[i]
            if now < 0:
                return OVERFLOW
            words[many_at] = now
        _payload_of_leaf(store, node_id, was, before)
        _payload_of_leaf(store, node_id, now, after)
        if (before[0] != after[0] or before[2] != after[2]) and not _move(store, node_id, row, before, after):
            return OVERFLOW
    return OK


@kernel
def _multiply_sums(store: Store, node_id: Int, scratch: Scratch, many: Int, values: Words) -> Int:
    """Compute the products of the children's sums for some rows of a node, child by child; False if one does not
    fit."""
    words = store.words
    node = store.nodes[node_id]
    table = store.tables[node.table]
    for p in range(0, node.width, 2):
        for k in range(many):
            values[4 * k + p], values[4 * k + p + 1] = 1, 0
        if p == 2 and node.frontier:
            for k in range(many):
                values[4 * k + 2] = np.int64(values[4 * k] != 0 or values[4 * k + 1] != 0)
            continue
        for i in range(node.degree):
            child = store.nodes[store.lists[node.children + i]]
            if child.waits >= 0:
                continue
            group_table, own, gid, total = store.tables[child.group], child.own, child.reads, child.total + p
            for k in range(many):
                at = record(table, scratch.rows[k])
                place = total + (at if own else record(group_table, np.int64(store.halves[2 * at + gid])))
                lo, hi = multiply(values[4 * k + p], values[4 * k + p + 1], words[place], words[place + 1])
                if hi < 0:
                    return False
                values[4 * k + p], values[4 * k + p + 1] = lo, hi
        if node.clamp:
            for k in range(many):
                values[4 * k + p] = np.int64(values[4 * k + p] != 0 or values[4 * k + p + 1] != 0)
                values[4 * k + p + 1] = 0
    return True


@kernel
def _ask_for_sums(store: Store, node_id: Int, scratch: Scratch, many: Int) -> None:
    """Prefetch the groups that rows of a node read and are not part of."""
    node = store.nodes[node_id]
    for i in range(node.degree):
        child = store.nodes[store.lists[node.children + i]]
        if not child.own:
            for k in range(many):
                g = np.int64(store.halves[2 * record(store.tables[node.table], scratch.rows[k]) + child.reads])
                prefetch(store.words, record(store.tables[child.group], g) + child.sums)


@kernel
def _recompute_rows(store: Store, node_id: Int, scratch: Scratch, many: Int) -> Int:
    """Recompute some rows of a node, and update the groups of those that change.

    OVERFLOW if a count does not fit; NO_ROOM if the node's tree may need more blocks: then the rows are queued.
    """
    before, after, rows, groups = scratch.before, scratch.after, scratch.rows, scratch.groups
    words = store.words
    node = store.nodes[node_id]
    table_id, group_table, value, width = node.table, store.tables[node.group], node.value, node.width
    table = store.tables[table_id]
    if node.note < 0 and not has_room(store, node_id, many):
        for k in range(many):
            enqueue(store, table_id, rows[k])
        return NO_ROOM
    for k in range(many):
        prefetch_all(words, record(table, rows[k]), table.stride)
    _ask_for_sums(store, node_id, scratch, many)
    if not _multiply_sums(store, node_id, scratch, many, after):
        return OVERFLOW
    # Ordered rows are written one by one, when their group follows.
    moved, has_parent, is_written = 0, node.parent >= 0, node.tree < 0 or node.note >= 0
    head = node.head >> 1 if node.output else np.int64(0)
    for k in range(many):
        at = record(table, rows[k])
        changed = False
        for i in range(width):
            was, now = words[at + value + i], after[4 * k + i]
            changed = changed or was != now
            before[4 * moved + i], after[4 * moved + i] = was, now
            if is_written:
                words[at + value + i] = now
        if changed and has_parent:
            groups[moved] = store.halves[2 * at + node.gid]
            place = record(group_table, groups[moved])
            prefetch(words, place + node.sums)
            prefetch(words, place + head)
            rows[moved] = rows[k]
            moved += 1
    if node.output:
        for k in range(moved):
            was, now = _is_live(before, 4 * k), _is_live(after, 4 * k)
            ask_for_neighbours(store, node_id, rows[k], record(group_table, groups[k]), was, now)
    if not _move_rows(store, node_id, moved, scratch):
        return OVERFLOW
    return OK


@kernel
def _take_readers(store: Store, child_id: Int, table_id: Int, scratch: Scratch, many: Int) -> tuple[Int, Int]:
    """Take up to AHEAD rows of the parent's table that read touched groups of a child.

    The readers of several groups are followed side by side: `scratch.readers` are the next of each. Returns the number
    of rows, and of groups whose readers are left.
    """
    words, halves = store.words, store.halves
    table = store.tables[table_id]
    child = store.nodes[child_id]
    group, taken = child.group, 0
    while many < AHEAD:
        g = np.int64(dequeue(store, group))
        if g < 0:
            break
        row = np.int64(halves[2 * record(store.tables[group], g) + child.reader_head])
        if row >= 0:
            prefetch(words, record(table, row))
            prefetch(words, record(table, row) + (child.reader_next >> 1))
            scratch.readers[many] = row
            many += 1
    while taken < AHEAD and many > 0:
        left = 0
        for k in range(many):
            row = scratch.readers[k]
            if taken < AHEAD:
                scratch.rows[taken] = row
                taken += 1
                row = np.int64(halves[2 * record(table, row) + child.reader_next])
                if row >= 0:
                    prefetch(words, record(table, row))
                    prefetch(words, record(table, row) + (child.reader_next >> 1))
            if row >= 0:
                scratch.readers[left] = row
                left += 1
        many = left
    return taken, many


@kernel
def _tell_readers(store: Store, node_id: Int, child_id: Int, scratch: Scratch) -> Int:
    """Update rows of a node whose ranges of a child have changed; False if a count does not fit."""
    rows = scratch.rows
    state = scratch.readers
    state[STOP] = 0
    many_notes = take_notes(store, child_id)
    told, row = np.int64(0), np.int64(-1)
    while True:
        if row >= 0:
            many, row = tell_marked(store, child_id, row, rows)
        else:
            many = tell_some(store, child_id, many_notes, state, rows)
            told += many
            if are_many(store, child_id, told):
                mark_readers(store, child_id, many_notes, state)
                row = np.int64(0)
        if many == 0:
            break
        if _recompute_rows(store, node_id, scratch, many) == OVERFLOW:
            return False
    begin_reading(store, child_id)
    store.nodes[child_id].pending = 0
    return True


@kernel
def propagate(store: Store, first: Int, stop: Int, scratch: Scratch) -> Int:
    """Recompute the touched rows of the nodes first … stop, which stand children before parents.

    NO_ROOM if counted trees need more blocks: what is left to be done is queued, and another call goes on;
    scratch.before[0] says for how many rows.
    """
    before = scratch.before
    for node_id in range(first, stop):
        node = store.nodes[node_id]
        if node.degree == 0:
            continue
        table_id, short = node.table, False
        table = store.tables[table_id]
        for k in range(node.degree):
            child_id = store.lists[node.children + k]
            child = store.nodes[child_id]
            if child.readers >= 0 and child.waits < 0 and child.pending > 0:
                if not fits(store, child.pending):
                    before[0] = child.pending
                    return NO_ROOM
                if not _tell_readers(store, node_id, child_id, scratch):
                    return OVERFLOW
        for k in range(node.degree):
            child_id = store.lists[node.children + k]
            left = 0
            while not store.nodes[child_id].own:
                many, left = _take_readers(store, child_id, table_id, scratch, left)
                if many == 0:
                    break
                done = _recompute_rows(store, node_id, scratch, many)
                if done == OVERFLOW:
                    return OVERFLOW
                short = short or done == NO_ROOM
        if short:
            before[0] = AHEAD
            return NO_ROOM
        while table.queue_head >= 0:
            many = 0
            while many < AHEAD and table.queue_head >= 0:
                scratch.rows[many] = dequeue(store, table_id)
                # New rows were queued in the order of their ids.
                following = record(table, max(table.queue_head, np.int64(0)) + _GUESS)
                prefetch(store.words, following + (table.mark >> 1))
                many += 1
            done = _recompute_rows(store, node_id, scratch, many)
            if done != OK:
                before[0] = AHEAD
                return done
        if node.waiting >= 0:
            pending = node.pending + store.nodes[node.waiting].pending
            if pending > 0 and not fits(store, pending):
                before[0] = pending
                return NO_ROOM
            if pending > 0 and not settle(store, node_id):
                return OVERFLOW
    return OK
