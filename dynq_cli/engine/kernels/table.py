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
from dynq_cli.engine.kernels.fields import (
    T_ARITY,
    T_FREE,
    T_HASHED,
    T_KEYS,
    T_LIVE,
    T_MARK,
    T_MASK,
    T_MULT,
    T_QHEAD,
    T_QTAIL,
    T_REFS,
    T_SLOTS,
    T_USED,
)

_START = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_FOLD = np.uint64(32)
_TAG = np.uint64(33)
_ROW = 0xFFFFFFFF


@kernel
def tag_of(key, n):  # type: ignore[no-untyped-def]
    """31 well-mixed bits of the first n codes."""
    h = _START
    for i in range(n):
        h = (h ^ np.uint64(key[i])) * _MIX
        h ^= h >> _FOLD
    h *= _MIX
    return np.int64(h >> _TAG)


@kernel
def find(a64, T, t, key):  # type: ignore[no-untyped-def]
    """The row with these codes, or -1. O(1) expected."""
    arity, mask, slots, keys = T[t, T_ARITY], T[t, T_MASK], T[t, T_SLOTS], T[t, T_KEYS]
    tag = tag_of(key, T[t, T_HASHED])
    i = tag & mask
    while True:
        slot = a64[slots + i]
        if slot == 0:
            return -1
        if slot >> 32 == tag:
            row = (slot & _ROW) - 1
            at = keys + row * arity
            same = True
            for j in range(arity):
                if a64[at + j] != key[j]:
                    same = False
                    break
            if same:
                return row
        i = (i + 1) & mask


@kernel
def next_with_key(a64, T, t, key, place):  # type: ignore[no-untyped-def]
    """Rows that agree on the hashed codes, one call after the other: (row, place) or (-1, place).

    `place` is -1 at first; then what the last call returned.
    """
    arity, hashed, mask = T[t, T_ARITY], T[t, T_HASHED], T[t, T_MASK]
    slots, keys = T[t, T_SLOTS], T[t, T_KEYS]
    tag = tag_of(key, hashed)
    i = tag & mask if place < 0 else (place + 1) & mask
    while True:
        slot = a64[slots + i]
        if slot == 0:
            return np.int64(-1), i
        if slot >> 32 == tag:
            row = (slot & _ROW) - 1
            at = keys + row * arity
            same = True
            for j in range(hashed):
                if a64[at + j] != key[j]:
                    same = False
                    break
            if same:
                return row, i
        i = (i + 1) & mask


@kernel
def insert(a64, a32, T, t, key):  # type: ignore[no-untyped-def]
    """A new row with these codes, which no row has; the caller has made room. O(1) expected."""
    arity, mask, slots, keys = T[t, T_ARITY], T[t, T_MASK], T[t, T_SLOTS], T[t, T_KEYS]
    row = T[t, T_FREE]
    if row >= 0:
        T[t, T_FREE] = a64[keys + row * arity]
    else:
        row = T[t, T_USED]
        T[t, T_USED] = row + 1
    T[t, T_LIVE] += 1
    for j in range(arity):
        a64[keys + row * arity + j] = key[j]
    tag = tag_of(key, T[t, T_HASHED])
    i = tag & mask
    while a64[slots + i] != 0:
        i = (i + 1) & mask
    a64[slots + i] = tag << 32 | (row + 1)
    if T[t, T_MULT] >= 0:
        a64[T[t, T_MULT] + row] = 0
    if T[t, T_REFS] >= 0:
        a32[T[t, T_REFS] + row] = 0
    a32[T[t, T_MARK] + row] = 0
    return row


@kernel
def remove(a64, T, t, row):  # type: ignore[no-untyped-def]
    """Free a row id and close the gap in the slots. O(1) expected."""
    arity, mask, slots, keys = T[t, T_ARITY], T[t, T_MASK], T[t, T_SLOTS], T[t, T_KEYS]
    at = keys + row * arity
    tag = tag_of(a64[at : at + arity], T[t, T_HASHED])
    i = tag & mask
    while a64[slots + i] & _ROW != row + 1:
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


@kernel
def rehash(a64, old, n, new, mask):  # type: ignore[no-untyped-def]
    """Move n slots at `old` to the empty slots at `new`; no key is looked at."""
    for k in range(n):
        slot = a64[old + k]
        if slot != 0:
            i = (slot >> 32) & mask
            while a64[new + i] != 0:
                i = (i + 1) & mask
            a64[new + i] = slot


@kernel
def enqueue(a32, T, t, row):  # type: ignore[no-untyped-def]
    """Put a row into its table's queue of touched rows, once."""
    mark = T[t, T_MARK]
    if a32[mark + row] != 0:
        return
    a32[mark + row] = -1
    if T[t, T_QTAIL] >= 0:
        a32[mark + T[t, T_QTAIL]] = row + 1
    else:
        T[t, T_QHEAD] = row
    T[t, T_QTAIL] = row


@kernel
def dequeue(a32, T, t):  # type: ignore[no-untyped-def]
    """The next touched row, or -1."""
    row = T[t, T_QHEAD]
    if row < 0:
        return row
    mark = T[t, T_MARK]
    following = a32[mark + row]
    a32[mark + row] = 0
    if following > 0:
        T[t, T_QHEAD] = following - 1
    else:
        T[t, T_QHEAD] = -1
        T[t, T_QTAIL] = -1
    return row
