"""Tables: sets of rows of int64 codes with stable row ids, found through an open-addressing hash.

A slot is 0 or `tag << 32 | row + 1`; the tag is the upper 31 bits of the row's hash and its lowest
bits are the slot where probing starts, so that neither a mismatch nor a removal looks at keys. The
hash covers the first `hashed` codes; a find compares all of them. Freed ids are handed out again last
in, first out: ids are a function of the history alone.

Invariants: every live row is in exactly one slot, reachable from its start without an empty slot in
between; live + free = used ≤ capacity; at most two thirds of the slots are taken.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    ROW_OF_SLOT,
    T_ARITY,
    T_FREE,
    T_HASHED,
    T_LIVE,
    T_MARK,
    T_MASK,
    T_MULT,
    T_QHEAD,
    T_QTAIL,
    T_REFS,
    T_ROWS,
    T_SLOTS,
    T_STRIDE,
    T_USED,
    Halves,
    Int,
    Words,
)

_START = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_FOLD = np.uint64(32)
_TAG = np.uint64(33)


@bare(inline="always")
def record(T: Words, t: Int, row: Int) -> Int:
    """Where the record of a row starts, in words; half words count double."""
    return T[t, T_ROWS] + row * T[t, T_STRIDE]


@bare
def tag_of(key: Words, n: Int) -> Int:
    """31 well-mixed bits of the first n codes."""
    h = _START
    for i in range(n):
        h = (h ^ np.uint64(key[i])) * _MIX
        h ^= h >> _FOLD
    h *= _MIX
    return np.int64(h >> _TAG)


@bare(inline="always")
def _agree(a64: Words, at: Int, key: Words, n: Int) -> Int:
    for j in range(n):
        if a64[at + j] != key[j]:
            return False
    return True


@bare(forceinline=True)
def _probe(a64: Words, T: Words, t: Int, key: Words, n: Int, tag: Int, slot: Int) -> tuple[Int, Int]:
    """From a slot on, the first row with this tag that agrees on n codes, or -1, and the slot where it ended."""
    mask, slots = T[t, T_MASK], T[t, T_SLOTS]
    while True:
        taken = a64[slots + slot]
        if taken == 0:
            return np.int64(-1), slot
        if taken >> 32 == tag:
            row = (taken & ROW_OF_SLOT) - 1
            if _agree(a64, record(T, t, row), key, n):
                return row, slot
        slot = (slot + 1) & mask


@bare
def find_tagged(a64: Words, T: Words, t: Int, key: Words, tag: Int) -> tuple[Int, Int]:
    """The row with these codes, or -1, and the slot where probing ended. O(1) expected."""
    return _probe(a64, T, t, key, T[t, T_ARITY], tag, tag & T[t, T_MASK])


@bare
def find(a64: Words, T: Words, t: Int, key: Words) -> Int:
    """The row with these codes, or -1. O(1) expected."""
    return find_tagged(a64, T, t, key, tag_of(key, T[t, T_HASHED]))[0]


@bare(inline="always")
def likely(a64: Words, T: Words, t: Int, tag: Int) -> Int:
    """Where the record of the first row with this tag stands, most likely the one that is looked for; or -1."""
    mask, slots = T[t, T_MASK], T[t, T_SLOTS]
    slot = tag & mask
    while a64[slots + slot] != 0 and a64[slots + slot] >> 32 != tag:
        slot = (slot + 1) & mask
    taken = a64[slots + slot]
    return record(T, t, (taken & ROW_OF_SLOT) - 1) if taken != 0 else np.int64(-1)


@bare
def next_with_key(a64: Words, T: Words, t: Int, key: Words, place: Int) -> tuple[Int, Int]:
    """Rows that agree on the hashed codes, one call after the other: (row, place) or (-1, place).

    `place` is -1 at first; then what the last call returned.
    """
    hashed, mask = T[t, T_HASHED], T[t, T_MASK]
    tag = tag_of(key, hashed)
    return _probe(a64, T, t, key, hashed, tag, tag & mask if place < 0 else (place + 1) & mask)


@bare
def insert_at(a64: Words, a32: Halves, T: Words, t: Int, key: Words, tag: Int, slot: Int) -> Int:
    """A new row with these codes in the empty slot where `find_tagged` ended; the caller has made room."""
    row = T[t, T_FREE]
    if row >= 0:
        T[t, T_FREE] = a64[record(T, t, row)]
    else:
        row = T[t, T_USED]
        T[t, T_USED] = row + 1
    T[t, T_LIVE] += 1
    at = record(T, t, row)
    for j in range(T[t, T_ARITY]):
        a64[at + j] = key[j]
    a64[T[t, T_SLOTS] + slot] = tag << 32 | (row + 1)
    if T[t, T_MULT] >= 0:
        a64[at + T[t, T_MULT]] = 0
    if T[t, T_REFS] >= 0:
        a32[2 * at + T[t, T_REFS]] = 0
    a32[2 * at + T[t, T_MARK]] = 0
    return row


@bare
def find_or_insert(a64: Words, a32: Halves, T: Words, t: Int, key: Words) -> tuple[Int, Int]:
    """The row with these codes, and whether it is new; the caller has made room. O(1) expected."""
    return find_or_insert_tagged(a64, a32, T, t, key, tag_of(key, T[t, T_HASHED]))


@bare
def find_or_insert_tagged(a64: Words, a32: Halves, T: Words, t: Int, key: Words, tag: Int) -> tuple[Int, Int]:
    """`find_or_insert` where the tag is known."""
    row, slot = find_tagged(a64, T, t, key, tag)
    if row >= 0:
        return row, False
    return insert_at(a64, a32, T, t, key, tag, slot), True


@bare
def remove(a64: Words, T: Words, t: Int, row: Int) -> None:
    """Free a row id and close the gap in the slots. O(1) expected."""
    mask, slots = T[t, T_MASK], T[t, T_SLOTS]
    at = record(T, t, row)
    i = tag_of(a64[at : at + T[t, T_ARITY]], T[t, T_HASHED]) & mask
    while a64[slots + i] & ROW_OF_SLOT != row + 1:
        i = (i + 1) & mask
    hole = i
    while True:
        i = (i + 1) & mask
        slot = a64[slots + i]
        if slot == 0:
            break
        home = (slot >> 32) & mask
        if (i - home) & mask >= (i - hole) & mask:
            a64[slots + hole] = slot
            hole = i
    a64[slots + hole] = 0
    a64[at] = T[t, T_FREE]
    T[t, T_FREE] = row
    T[t, T_LIVE] -= 1


@bare
def rehash(a64: Words, old: Int, n: Int, new: Int, mask: Int) -> None:
    """Move n slots at `old` to the empty slots at `new`; no key is looked at."""
    for k in range(n):
        slot = a64[old + k]
        if slot != 0:
            i = (slot >> 32) & mask
            while a64[new + i] != 0:
                i = (i + 1) & mask
            a64[new + i] = slot


@bare(inline="always")
def enqueue(a32: Halves, T: Words, t: Int, row: Int) -> None:
    """Put a row into its table's queue of touched rows, once."""
    mark = T[t, T_MARK]
    at = 2 * record(T, t, row) + mark
    if a32[at] == 0:
        a32[at] = -1
        if T[t, T_QTAIL] >= 0:
            a32[2 * record(T, t, T[t, T_QTAIL]) + mark] = row + 1
        else:
            T[t, T_QHEAD] = row
        T[t, T_QTAIL] = row


@bare
def dequeue(a32: Halves, T: Words, t: Int) -> Int:
    """The next touched row, or -1."""
    row = T[t, T_QHEAD]
    if row < 0:
        return row
    at = 2 * record(T, t, row) + T[t, T_MARK]
    following = a32[at]
    a32[at] = 0
    if following > 0:
        T[t, T_QHEAD] = following - 1
    else:
        T[t, T_QHEAD] = -1
        T[t, T_QTAIL] = -1
    return row
