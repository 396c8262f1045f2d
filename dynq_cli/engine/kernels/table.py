"""Tables: sets of rows of int64 codes with stable row ids, found through an open-addressing hash.

A slot is 0 or `tag << 32 | row + 1`; the tag is the upper 31 bits of the row's hash and its lowest
bits are the slot where probing starts, so that neither a mismatch nor a removal looks at keys. The
hash covers the first `hashed` codes; a find compares all of them. Freed ids are handed out again last
in, first out: ids are a function of the history alone.

Invariants: every live row is in exactly one slot, reachable from its start without an empty slot in
between; live + free = used ≤ capacity; at most two thirds of the slots are taken.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import ROW_OF_SLOT, Int, Row, Store, Words

_START = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_FOLD = np.uint64(32)
_TAG = np.uint64(33)


@kernel(inline="always")
def record(table: Row, row: Int) -> Int:
    """Return where the record of a row starts, in words; half words count double."""
    return table.rows + row * table.stride


@kernel
def tag_of(key: Words, n: Int) -> Int:
    """Return 31 well-mixed bits of the first n codes."""
    h = _START
    for i in range(n):
        h = (h ^ np.uint64(key[i])) * _MIX
        h ^= h >> _FOLD
    h *= _MIX
    return np.int64(h >> _TAG)


@kernel(inline="always")
def _agree(words: Words, at: Int, key: Words, n: Int) -> Int:
    for j in range(n):
        if words[at + j] != key[j]:
            return False
    return True


@kernel(forceinline=True)
def _probe(store: Store, table_id: Int, key: Words, n: Int, tag: Int, slot: Int) -> tuple[Int, Int]:
    """Return, from a slot on, the first row with this tag that agrees on n codes, or -1, and the slot where probing
    ended."""
    words = store.words
    table = store.tables[table_id]
    mask, slots = table.mask, table.slots
    while True:
        taken = words[slots + slot]
        if taken == 0:
            return np.int64(-1), slot
        if taken >> 32 == tag:
            row = (taken & ROW_OF_SLOT) - 1
            if _agree(words, record(table, row), key, n):
                return row, slot
        slot = (slot + 1) & mask


@kernel
def find_tagged(store: Store, table_id: Int, key: Words, tag: Int) -> tuple[Int, Int]:
    """Return the row with these codes, or -1, and the slot where probing ended. O(1) expected."""
    table = store.tables[table_id]
    return _probe(store, table_id, key, table.arity, tag, tag & table.mask)


@kernel
def find(store: Store, table_id: Int, key: Words) -> Int:
    """Return the row with these codes, or -1. O(1) expected."""
    return find_tagged(store, table_id, key, tag_of(key, store.tables[table_id].hashed))[0]


@kernel(inline="always")
def likely(store: Store, table_id: Int, tag: Int) -> Int:
    """Return where the record of the first row with this tag is, most likely the wanted one; or -1."""
    words = store.words
    table = store.tables[table_id]
    mask, slots = table.mask, table.slots
    slot = tag & mask
    while words[slots + slot] != 0 and words[slots + slot] >> 32 != tag:
        slot = (slot + 1) & mask
    taken = words[slots + slot]
    return record(table, (taken & ROW_OF_SLOT) - 1) if taken != 0 else np.int64(-1)


@kernel
def next_with_key(store: Store, table_id: Int, key: Words, place: Int) -> tuple[Int, Int]:
    """Return the rows that agree on the hashed codes, one per call: (row, place) or (-1, place).

    `place` is -1 at first; then what the last call returned.
    """
    table = store.tables[table_id]
    hashed, mask = table.hashed, table.mask
    tag = tag_of(key, hashed)
    return _probe(store, table_id, key, hashed, tag, tag & mask if place < 0 else (place + 1) & mask)


@kernel
def insert_at(store: Store, table_id: Int, key: Words, tag: Int, slot: Int) -> Int:
    """Insert a row with these codes into the empty slot where `find_tagged` ended; the caller has made room."""
    words, halves = store.words, store.halves
    table = store.tables[table_id]
    row = table.free
    if row >= 0:
        table.free = words[record(table, row)]
    else:
        row = table.used
        table.used = row + 1
    table.live += 1
    at = record(table, row)
    for j in range(table.arity):
        words[at + j] = key[j]
    words[table.slots + slot] = tag << 32 | (row + 1)
    if table.mult >= 0:
        words[at + table.mult] = 0
    if table.refs >= 0:
        halves[2 * at + table.refs] = 0
    halves[2 * at + table.mark] = 0
    return row


@kernel
def find_or_insert(store: Store, table_id: Int, key: Words) -> tuple[Int, Int]:
    """Return the row with these codes, and whether it is new; the caller has made room. O(1) expected."""
    return find_or_insert_tagged(store, table_id, key, tag_of(key, store.tables[table_id].hashed))


@kernel
def find_or_insert_tagged(store: Store, table_id: Int, key: Words, tag: Int) -> tuple[Int, Int]:
    """`find_or_insert` where the tag is known."""
    row, slot = find_tagged(store, table_id, key, tag)
    if row >= 0:
        return row, False
    return insert_at(store, table_id, key, tag, slot), True


@kernel
def remove(store: Store, table_id: Int, row: Int) -> None:
    """Free a row id and close the gap in the slots. O(1) expected."""
    words = store.words
    table = store.tables[table_id]
    mask, slots = table.mask, table.slots
    at = record(table, row)
    i = tag_of(words[at : at + table.arity], table.hashed) & mask
    while words[slots + i] & ROW_OF_SLOT != row + 1:
        i = (i + 1) & mask
    hole = i
    while True:
        i = (i + 1) & mask
        slot = words[slots + i]
        if slot == 0:
            break
        home = (slot >> 32) & mask
        if (i - home) & mask >= (i - hole) & mask:
            words[slots + hole] = slot
            hole = i
    words[slots + hole] = 0
    words[at] = table.free
    table.free = row
    table.live -= 1


@kernel
def rehash(words: Words, old: Int, n: Int, new: Int, mask: Int) -> None:
    """Move n slots at `old` to the empty slots at `new`; no key is read."""
    for k in range(n):
        slot = words[old + k]
        if slot != 0:
            i = (slot >> 32) & mask
            while words[new + i] != 0:
                i = (i + 1) & mask
            words[new + i] = slot


@kernel(inline="always")
def enqueue(store: Store, table_id: Int, row: Int) -> None:
    """Put a row into its table's queue of touched rows, once."""
    halves = store.halves
    table = store.tables[table_id]
    mark = table.mark
    at = 2 * record(table, row) + mark
    if halves[at] == 0:
        halves[at] = -1
        if table.queue_tail >= 0:
            halves[2 * record(table, table.queue_tail) + mark] = row + 1
        else:
            table.queue_head = row
        table.queue_tail = row


@kernel
def dequeue(store: Store, table_id: Int) -> Int:
    """Take the next touched row from the queue; -1 if there is none."""
    halves = store.halves
    table = store.tables[table_id]
    row = table.queue_head
    if row < 0:
        return row
    at = 2 * record(table, row) + table.mark
    following = halves[at]
    halves[at] = 0
    if following > 0:
        table.queue_head = following - 1
    else:
        table.queue_head = -1
        table.queue_tail = -1
    return row
