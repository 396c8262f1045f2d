"""Apply a batch of changes to a base table: compute the base delta, or refuse the batch with nothing changed.

`collect` adds up the changes of each row. `settle` checks the sums; it either makes them the new multiplicities or
undoes the batch. Checks hold at the end of the batch: an insert and a delete of one row cancel, in either order.

The base delta has an entry for each row, in the order of their first change (`fields.DeltaEntries`). Rows of the batch
are marked with their entry + 1, negative if they may have the key of a row that was there when they came. Deletes that
may miss are skipped as far as there is nothing to delete at the end of the batch; a batch has either such deletes or
strict ones.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import (
    DELETE_KEY,
    DUPLICATE_KEY,
    INSERT,
    MAY_DELETE_KEY,
    NEGATIVE,
    NO_SUCH_KEY,
    OK,
    TOO_MANY,
    UPSERT,
    Batch,
    DeltaEntries,
    Int,
    Scratch,
    Store,
    Words,
)
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import find, find_tagged, insert_at, likely, next_with_key, record, remove, tag_of

_LARGEST = np.int64(2**63 - 1)


@kernel
def _place(store: Store, table_id: Int, row: Int, change: Int, delta: DeltaEntries, n: Int) -> tuple[Int, Int]:
    """Return the entry of a row in the base delta, and how many entries there are now."""
    halves = store.halves
    table = store.tables[table_id]
    at = 2 * record(table, row) + table.mark
    place = abs(halves[at]) - 1
    if place < 0:
        place = n
        n += 1
        halves[at] = place + 1
        delta.touched[place] = row
        delta.net[place] = 0
        delta.first[place] = -1
    delta.last[place] = change
    return place, n


@kernel
def _clear_key(store: Store, table_id: Int, key: Words, change: Int, delta: DeltaEntries, n: Int) -> tuple[Int, Int]:
    """Delete the row that has this key now, if any; return whether there was one."""
    net = delta.net
    table = store.tables[table_id]
    found = False
    place = np.int64(-1)
    while True:
        row, place = next_with_key(store, table_id, key, place)
        if row < 0:
            return found, n
        entry, n = _place(store, table_id, row, change, delta, n)
        many = store.words[record(table, row) + table.mult] + net[entry]
        if many > 0:
            net[entry] -= many
            found = True


@kernel
def _clear_row(
    store: Store, table_id: Int, key: Words, tag: Int, change: Int, delta: DeltaEntries, n: Int
) -> tuple[bool, Int]:
    """Take away a copy of a row, if there is one; whether there was: its new image may be equal."""
    row, _ = find_tagged(store, table_id, key, tag)
    if row < 0:
        return False, n
    entry, n = _place(store, table_id, row, change, delta, n)
    many = store.words[record(store.tables[table_id], row) + store.tables[table_id].mult] + delta.net[entry]
    if many > 0:
        delta.net[entry] -= 1
    return many > 0, n


@kernel(inline="always")
def _meets(store: Store, table_id: Int, tag: Int, slot: Int) -> Int:
    """Whether there is a row with this tag on the way to the empty slot where probing ended."""
    table = store.tables[table_id]
    mask, slots = table.mask, table.slots
    i = tag & mask
    while i != slot:
        if store.words[slots + i] >> 32 == tag:
            return True
        i = (i + 1) & mask
    return False


@kernel
def collect(
    store: Store, table_id: Int, batch: Batch, start: Int, stop: Int, delta: DeltaEntries, n: Int, scratch: Scratch
) -> tuple[Int, Int, Int, Int]:
    """Add up changes start … stop of a batch; the table has room for as many new rows.

    Returns (OK, -1, entries, deletes skipped) or (what is wrong, the change at fault, …).
    """
    net = delta.net
    words = store.words
    table = store.tables[table_id]
    skipped = np.int64(0)
    hashed, mask, slots = table.hashed, table.mask, table.slots
    for begin in range(start, stop, AHEAD):
        end = min(begin + AHEAD, stop)
        for c in range(begin, end):
            scratch.tags[c - begin] = tag_of(batch.codes[c], hashed)
            prefetch(words, slots + (scratch.tags[c - begin] & mask))
        for c in range(begin, end):
            prefetch(words, max(likely(store, table_id, scratch.tags[c - begin]), np.int64(0)))
        for c in range(begin, end):
            key, op, tag = batch.codes[c], batch.ops[c], scratch.tags[c - begin]
            if op == UPSERT or op == DELETE_KEY or op == MAY_DELETE_KEY:
                # A row of nothing but its key and NULLs is meant by itself: its new image may stand before it.
                found = False
                if op != UPSERT:
                    found, n = _clear_row(store, table_id, key, tag, c, delta, n)
                if not found:
                    found, n = _clear_key(store, table_id, key, c, delta, n)
                if op != UPSERT:
                    if not found:
                        if op == DELETE_KEY:
                            return NO_SUCH_KEY, np.int64(c), n, skipped
                        skipped += 1
                    continue
            row, slot = find_tagged(store, table_id, key, tag)
            met = row < 0 and _meets(store, table_id, tag, slot)
            if row < 0:
                row = insert_at(store, table_id, key, tag, slot)
            place, n = _place(store, table_id, row, c, delta, n)
            if met:
                store.halves[2 * record(table, row) + table.mark] = -(place + 1)
            if op == INSERT or op == UPSERT:
                if net[place] > _LARGEST - batch.counts[c]:
                    return TOO_MANY, np.int64(c), n, skipped
                net[place] += batch.counts[c]
                delta.first[place] = c
            else:
                # Past what a number holds the sum would come out as copies that came.
                if net[place] < batch.counts[c] - _LARGEST:
                    return NEGATIVE, np.int64(c), n, skipped
                net[place] -= batch.counts[c]
    return OK, np.int64(-1), n, skipped


@kernel
def _twin(store: Store, table_id: Int, row: Int, delta: DeltaEntries) -> Int:
    """Find another row with the key of `row` that exists at the end of the batch: return its last change, -1 if it has
    none, or -2 if there is no such row."""
    words = store.words
    table = store.tables[table_id]
    at = record(table, row)
    key = words[at : at + table.arity]
    place = np.int64(-1)
    while True:
        other, place = next_with_key(store, table_id, key, place)
        if other < 0:
            return np.int64(-2)
        if other != row:
            there = record(table, other)
            many = words[there + table.mult]
            entry = abs(store.halves[2 * there + table.mark]) - 1
            if entry >= 0:
                many += delta.net[entry]
            if many > 0:
                return np.int64(delta.last[entry]) if entry >= 0 else np.int64(-1)


@kernel
def settle(store: Store, table_id: Int, delta: DeltaEntries, n: Int, may_miss: Int) -> tuple[Int, Int, Int]:
    """Check the batch, and set the old and new multiplicities of its entries.

    Of two rows with one key the later one is at fault. If anything is wrong, all rows are checked, to name the first.
    Returns (OK, -1, deletes skipped), or (what is wrong, the change at fault, …) with nothing changed.
    """
    net = delta.net
    words, halves = store.words, store.halves
    table = store.tables[table_id]
    skipped, asks_all, i = np.int64(0), False, 0
    while i < n:
        if i + AHEAD < n:
            prefetch(words, record(table, np.int64(delta.touched[i + AHEAD])) + table.mult)
        row = np.int64(delta.touched[i])
        at_row = record(table, row)
        delta.old[i] = words[at_row + table.mult]
        delta.new[i] = delta.old[i] + net[i]
        wrong = OK
        if delta.new[i] < 0 and net[i] < 0 and may_miss:
            skipped -= delta.new[i]
            net[i] -= delta.new[i]
            delta.new[i] = 0
        if delta.new[i] < 0:
            wrong = NEGATIVE if net[i] < 0 else TOO_MANY
        at = np.int64(delta.last[i])
        if wrong == OK and table.keyed and delta.new[i] > 0:
            is_asked = asks_all or halves[2 * at_row + table.mark] < 0
            twin = _twin(store, table_id, row, delta) if is_asked else np.int64(-2)
            if delta.new[i] > 1 or twin > -2:
                wrong = DUPLICATE_KEY
                at = max(at, twin)
        if wrong == OK:
            i += 1
        elif asks_all:
            take_back(store, table_id, delta, n)
            return wrong, at, skipped
        else:
            asks_all, i = True, 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(words, record(table, np.int64(delta.touched[i + AHEAD])) + table.mult)
        at = record(table, np.int64(delta.touched[i]))
        words[at + table.mult] = delta.new[i]
        halves[2 * at + table.mark] = 0
    return OK, np.int64(-1), skipped


@kernel
def take_back(store: Store, table_id: Int, delta: DeltaEntries, n: Int) -> None:
    """Undo `collect`: free the rows that it made, newest first, so that the free ids are as they were."""
    table = store.tables[table_id]
    for k in range(n):
        row = np.int64(delta.touched[n - 1 - k])
        at = record(table, row)
        store.halves[2 * at + table.mark] = 0
        if store.words[at + table.mult] == 0:
            remove(store, table_id, row)


@kernel
def forget(store: Store, table_id: Int, delta: DeltaEntries, n: Int) -> None:
    """Free the rows that the batch left without a copy."""
    words = store.words
    table = store.tables[table_id]
    mask, slots, arity, hashed = table.mask, table.slots, table.arity, table.hashed
    for begin in range(0, n, AHEAD):
        end = min(begin + AHEAD, n)
        for i in range(begin, end):
            if delta.new[i] == 0:
                at = record(table, np.int64(delta.touched[i]))
                prefetch(words, slots + (tag_of(words[at : at + arity], hashed) & mask))
        for i in range(begin, end):
            if delta.new[i] == 0:
                remove(store, table_id, np.int64(delta.touched[i]))


@kernel
def resolve(
    store: Store,
    table_id: Int,
    batch: Batch,
    start: Int,
    stop: Int,
    delta: DeltaEntries,
    scratch: Scratch,
    may_miss: Int,
) -> tuple[Int, Int, Int, Int]:
    """Do `collect` and `settle` for changes start … stop as a batch of its own; a refused batch changes nothing."""
    reason, at, n, skipped = collect(store, table_id, batch, start, stop, delta, np.int64(0), scratch)
    if reason != OK:
        take_back(store, table_id, delta, n)
        return reason, at, n, skipped
    reason, at, missed = settle(store, table_id, delta, n, may_miss)
    return reason, at, n, skipped + missed


@kernel
def look_up(store: Store, table_id: Int, codes: Words, rows: Words) -> None:
    """Return per row of codes the row that the table has now: with its key, if it has one, else with all codes; or
    -1."""
    table = store.tables[table_id]
    for i in range(len(codes)):
        if not table.keyed:
            rows[i] = find(store, table_id, codes[i])
            continue
        row, place = next_with_key(store, table_id, codes[i], np.int64(-1))
        while row >= 0 and store.words[record(table, row) + table.mult] == 0:
            row, place = next_with_key(store, table_id, codes[i], place)
        rows[i] = row
