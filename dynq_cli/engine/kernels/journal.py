"""The journal of a node: what a commit changes in its rows and lists, so that they can be put back, and forward again.

A node whose field `watch` is not -1 has an entry for each change of a row's payload, each row that enters or leaves a
list, and each range of a reader that moves. Payloads and lists are updated as in any other node, and order-statistic
trees follow. `put_back` then restores payloads and lists in reverse order, exactly; `put_forward` makes the changes
again, so the order of lists does not depend on whether someone reads the delta. O(changes) both.

A journal lies in `Store.lists`: the number of entries, how many fit, then three words per entry: `row << 2 | kind`, and
two values. Of a payload these are its first two lanes; of a list the rows before and behind; of a range its ends.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.groups import unlink
from dynq_cli.engine.kernels.table import record

PAYLOAD, CAME, WENT, MOVED = range(4)
_KINDS = 3  # the bits of a kind
HEADER, ENTRY = 2, 3


@kernel(inline="always")
def _note(store: Store, node_id: Int, kind: Int, row: Int, a: Int, b: Int) -> None:
    lists = store.lists
    place = store.nodes[node_id].watch
    many = lists[place]
    lists[place] = many + 1
    if many < lists[place + 1]:
        at = place + HEADER + ENTRY * many
        lists[at], lists[at + 1], lists[at + 2] = row << 2 | kind, a, b


@kernel
def note_payload(store: Store, node_id: Int, row: Int, old: Words) -> None:
    """Note that the payload of a row changes from `old`."""
    _note(store, node_id, np.int64(PAYLOAD), row, old[0], old[1])


@kernel
def note_list(store: Store, node_id: Int, row: Int, is_live: Int) -> None:
    """Note that a row has just entered the list of its group, or left it."""
    halves = store.halves
    node = store.nodes[node_id]
    at = 2 * record(store.tables[node.table], row)
    before, behind = np.int64(halves[at + node.prev]), np.int64(halves[at + node.next])
    _note(store, node_id, np.int64(CAME) if is_live else np.int64(WENT), row, before, behind)


@kernel
def note_range(store: Store, child_id: Int, row: Int, at: Int) -> None:
    """Note that the range of a reader, whose record is at `at`, is about to move."""
    halves = store.halves
    child = store.nodes[child_id]
    begin, end = np.int64(halves[2 * at + child.begin]), np.int64(halves[2 * at + child.end])
    _note(store, child_id, np.int64(MOVED), row, begin, end)


@kernel
def _swap_payload(store: Store, node_id: Int, row: Int, entry: Int) -> None:
    words, lists = store.words, store.lists
    node = store.nodes[node_id]
    table = store.tables[node.table]
    at = record(table, row) + (node.value if node.degree > 0 else table.mult)
    for i in range(2 if node.degree > 0 else 1):
        words[at + i], lists[entry + 1 + i] = lists[entry + 1 + i], words[at + i]


@kernel
def _swap_range(store: Store, child_id: Int, row: Int, entry: Int) -> None:
    halves, lists = store.halves, store.lists
    child = store.nodes[child_id]
    at = 2 * record(store.tables[child.list_table], row)
    begin, end = np.int64(halves[at + child.begin]), np.int64(halves[at + child.end])
    halves[at + child.begin], halves[at + child.end] = lists[entry + 1], lists[entry + 2]
    lists[entry + 1], lists[entry + 2] = begin, end


@kernel
def _move(store: Store, node_id: Int, row: Int, enters: Int, before: Int, behind: Int) -> None:
    """Put a row into its list between two others, or take it out."""
    halves = store.halves
    node = store.nodes[node_id]
    table_id = node.table
    table = store.tables[table_id]
    at = 2 * record(table, row)
    head = 2 * record(store.tables[node.group], np.int64(halves[at + node.gid])) + node.head
    if not enters:
        unlink(store, table_id, row, head, node.next, node.prev)
        return
    halves[at + node.prev], halves[at + node.next] = before, behind
    if behind >= 0:
        halves[2 * record(table, behind) + node.prev] = row
    if before >= 0:
        halves[2 * record(table, before) + node.next] = row
    else:
        halves[head] = row


@kernel
def _turn(store: Store, node_id: Int, k: Int, is_forward: Int) -> None:
    """Make change number k of a node, or undo it."""
    lists = store.lists
    entry = store.nodes[node_id].watch + HEADER + ENTRY * k
    kind, row = lists[entry] & _KINDS, lists[entry] >> 2
    if kind == PAYLOAD:
        _swap_payload(store, node_id, row, entry)
    elif kind == MOVED:
        _swap_range(store, node_id, row, entry)
    else:
        _move(store, node_id, row, (kind == CAME) == is_forward, lists[entry + 1], lists[entry + 2])


@kernel
def put_back(store: Store, nodes: Words) -> None:
    """Restore payloads and lists of nodes to what they were before the commit."""
    for i in range(len(nodes)):
        many = store.lists[store.nodes[nodes[i]].watch]
        for back in range(many):
            _turn(store, nodes[i], many - 1 - back, np.bool_(False))


@kernel
def put_forward(store: Store, nodes: Words) -> None:
    """Make the changes of the commit again, after `put_back`."""
    for back in range(len(nodes)):
        node_id = nodes[len(nodes) - 1 - back]
        for k in range(store.lists[store.nodes[node_id].watch]):
            _turn(store, node_id, np.int64(k), np.bool_(True))


@kernel
def changed_rows(store: Store, node_id: Int, rows: Words, was: Words) -> Int:
    """Copy the rows whose payload changed, and what it was; return how many. A row may come several times, the oldest
    payload first."""
    lists = store.lists
    place, found = store.nodes[node_id].watch, 0
    for k in range(lists[place]):
        entry = place + HEADER + ENTRY * k
        if lists[entry] & _KINDS == PAYLOAD:
            rows[found], was[0, found], was[1, found] = lists[entry] >> 2, lists[entry + 1], lists[entry + 2]
            found += 1
    return np.int64(found)
