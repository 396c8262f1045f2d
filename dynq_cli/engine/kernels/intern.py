"""Values in flat bytes to dense ids: an open-addressing hash over the bytes themselves.

Invariants of a table with `count` values:

- value i is `data[offsets[i]:offsets[i + 1]]`, and `hashes[i]` is its hash;
- a slot is -1 or an id < count, every id is in one slot, and no slot between an id's home
  (hash modulo the number of slots, a power of two) and its slot is empty;
- values are pairwise different, at most half of the slots are taken.

Ids enter the slots in ascending order, so that of two ids on one probe path the smaller comes first:
the largest ids can leave without tombstones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.codes import NULL, UNKNOWN
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_ROUND = np.uint64(0x9FB21C651E98DF25)
_MIX_A = np.uint64(0xFF51AFD7ED558CCD)
_MIX_B = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(32)
_MIX_SHIFT = np.uint64(33)


class Flat(NamedTuple):
    """The arrays of a dictionary; each may be longer than what is used of it."""

    data: Bytes
    offsets: Int64s
    hashes: Hashes
    slots: Int32s


@kernel
def word(data: Bytes, start: int) -> np.uint64:
    """Eight bytes from `start`, the first one lowest."""
    # An unsigned index spares numba's test for negative ones; the eight loads then become one.
    at = np.uint64(start)
    found = np.uint64(0)
    for i in range(np.uint64(8)):
        found |= np.uint64(data[at + i]) << (np.uint64(8) * i)
    return found


@kernel
def tail(data: Bytes, start: int, end: int) -> np.uint64:
    """Fewer than eight bytes."""
    found = np.uint64(0)
    for i in range(np.uint64(start), np.uint64(end)):
        found = found << np.uint64(8) | np.uint64(data[i])
    return found


@kernel
def hash_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """A hash of the bytes and their number that never changes: it is kept on disk."""
    mixed = _SEED ^ (np.uint64(end - start) * _ROUND)
    at = start
    while at + 8 <= end:
        mixed = (mixed ^ word(data, at)) * _ROUND
        mixed ^= mixed >> _SHIFT
        at += 8
    mixed = (mixed ^ tail(data, at, end)) * _ROUND
    mixed ^= mixed >> _MIX_SHIFT
    mixed *= _MIX_A
    mixed ^= mixed >> _MIX_SHIFT
    mixed *= _MIX_B
    return mixed ^ (mixed >> _MIX_SHIFT)


@kernel
def same_bytes(left: Bytes, at: int, right: Bytes, start: int, length: int) -> bool:
    i = 0
    while i + 8 <= length:
        if word(left, at + i) != word(right, start + i):
            return False
        i += 8
    return bool(tail(left, at + i, at + length) == tail(right, start + i, start + length))


@kernel
def find_slot(
    known_data: Bytes,
    known_offsets: Int64s,
    hashes: Hashes,
    slots: Int32s,
    data: Bytes,
    start: int,
    end: int,
    hashed: np.uint64,
) -> int:
    """The slot of a value, or the empty slot where it belongs."""
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot] >= 0:
        known = slots[slot]
        if hashes[known] == hashed:
            at = known_offsets[known]
            length = known_offsets[known + 1] - at
            if length == end - start and same_bytes(known_data, at, data, start, length):
                break
        slot = (slot + np.uint64(1)) & mask
    return int(slot)


@kernel
def _ask(hashes: Hashes, slots: Int32s, offsets: Int64s, data: Bytes, first: int, stop: int, ids: Int64s) -> None:
    """Rows first … stop get their hashes for ids, and what the first look at each needs is asked for at once."""
    mask = np.uint64(len(slots) - 1)
    for row in range(first, stop):
        hashed = hash_bytes(data, offsets[row], offsets[row + 1])
        ids[row] = np.int64(hashed)
        prefetch(slots, int(hashed & mask))
    for row in range(first, stop):
        known = slots[np.uint64(ids[row]) & mask]
        if known >= 0:
            prefetch(hashes, int(known))


@kernel
def intern_rows(
    table: Flat, count: int, offsets: Int64s, data: Bytes, valid: Flags, first: int, ids: Int64s
) -> tuple[int, int]:
    """Give every row from `first` on its id, new values the next ones; `valid` is empty where no row is NULL.

    Stops before the first row that needs more room than the table has. Returns that row (else the
    number of rows) and the number of values then.
    """
    # Taking an array out of the tuple counts a reference: done per row it would cost more than the rest.
    known_data, known_offsets, hashes, slots = table
    for row in range(first, len(ids)):
        if (row - first) % AHEAD == 0:
            _ask(hashes, slots, offsets, data, row, min(row + AHEAD, len(ids)), ids)
        if len(valid) and not valid[row]:
            ids[row] = NULL
            continue
        start, end, hashed = offsets[row], offsets[row + 1], np.uint64(ids[row])
        slot = find_slot(known_data, known_offsets, hashes, slots, data, start, end, hashed)
        known = int(slots[slot])
        if known < 0:
            used = known_offsets[count]
            is_full = 2 * (count + 1) > len(slots) or count >= len(hashes)
            if is_full or used + end - start > len(known_data):
                return row, count
            for i in range(end - start):
                known_data[used + i] = data[start + i]
            known_offsets[count + 1] = used + end - start
            hashes[count] = hashed
            slots[slot] = count
            known = count
            count += 1
        ids[row] = known
    return len(ids), count


@kernel
def look_up_rows(table: Flat, offsets: Int64s, data: Bytes, valid: Flags, ids: Int64s) -> None:
    """Like `intern_rows`, but a value that is not there is UNKNOWN."""
    known_data, known_offsets, hashes, slots = table
    for row in range(len(ids)):
        if len(valid) and not valid[row]:
            ids[row] = NULL
            continue
        start, end = offsets[row], offsets[row + 1]
        hashed = hash_bytes(data, start, end)
        known = slots[find_slot(known_data, known_offsets, hashes, slots, data, start, end, hashed)]
        ids[row] = known if known >= 0 else UNKNOWN


@kernel
def fill_slots(slots: Int32s, hashes: Hashes, count: int) -> None:
    """Put the ids below `count` into slots that are all empty."""
    mask = len(slots) - 1
    for known in range(count):
        slot = np.int64(hashes[known] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = known


@kernel
def drop_largest(table: Flat, count: int, kept: int) -> None:
    """Empty the slots of the ids from `kept` to `count`."""
    _, _, hashes, slots = table
    mask = len(slots) - 1
    for known in range(count - 1, kept - 1, -1):
        slot = np.int64(hashes[known] & np.uint64(mask))
        while slots[slot] != known:
            slot = (slot + 1) & mask
        slots[slot] = -1


@kernel
def gather_offsets(table: Flat, ids: Int64s, offsets: Int64s) -> None:
    """Where each id's value begins and ends once they lie one after the other; NULL is empty."""
    known_offsets = table.offsets
    offsets[0] = 0
    for row in range(len(ids)):
        known = ids[row]
        length = known_offsets[known + 1] - known_offsets[known] if known >= 0 else 0
        offsets[row + 1] = offsets[row] + length


@kernel
def gather_bytes(table: Flat, ids: Int64s, offsets: Int64s, data: Bytes) -> None:
    """Copy each id's value to its place."""
    known_data, known_offsets, _, _ = table
    for row in range(len(ids)):
        if ids[row] >= 0:
            at = known_offsets[ids[row]]
            for i in range(offsets[row], offsets[row + 1]):
                data[i] = known_data[at]
                at += 1
