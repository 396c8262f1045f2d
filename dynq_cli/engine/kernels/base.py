"""Base tables: a batch of changes is resolved here before anything else is touched.

`collect` adds up what a batch does to each row; `settle` checks the sums and either makes them the
new multiplicities or takes the batch back without a trace. Checks hold at the end of the batch: an
insert and a delete of one row cancel, whatever their order.

`touched` lists the rows in the order of their first change; per entry `delta` is the net change,
`first` the change that inserted it (for what is computed from its values), `last` the change to name
in an error. Rows of the batch are marked with their place in the list + 1, negative if they may have the key of a row
that was there when they came. Deletes that may miss are skipped as far as there is nothing to delete at the end of
the batch; a batch has either such deletes or strict ones.
"""

import numpy as np

from dynq_cli.engine.kernels.direct import bare
from dynq_cli.engine.kernels.fields import (
    DELETE_KEY,
    DUPLICATE_KEY,
    INSERT,
    MAY_DELETE_KEY,
    NEGATIVE,
    NO_SUCH_KEY,
    OK,
    T_ARITY,
    T_HASHED,
    T_KEYED,
    T_MARK,
    T_MASK,
    T_MULT,
    T_SLOTS,
    TOO_MANY,
    UPSERT,
    Bytes,
    Halves,
    Int,
    Words,
)
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import find, find_tagged, insert_at, likely, next_with_key, record, remove, tag_of

_LARGEST = np.int64(2**63 - 1)


@bare
def _place(
    a32: Halves,
    T: Words,
    t: Int,
    row: Int,
    change: Int,
    touched: Halves,
    delta: Words,
    first: Halves,
    last: Halves,
    n: Int,
) -> tuple[Int, Int]:
    """Where a row stands in `touched`, and how long the list is now."""
    at = 2 * record(T, t, row) + T[t, T_MARK]
    place = abs(a32[at]) - 1
    if place < 0:
        place = n
        n += 1
        a32[at] = place + 1
        touched[place] = row
        delta[place] = 0
        first[place] = -1
    last[place] = change
    return place, n


@bare
def _clear_key(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    key: Words,
    change: Int,
    touched: Halves,
    delta: Words,
    first: Halves,
    last: Halves,
    n: Int,
) -> tuple[Int, Int]:
    """Take away whatever row has this key now; says whether there was one."""
    found = False
    place = np.int64(-1)
    while True:
        row, place = next_with_key(a64, T, t, key, place)
        if row < 0:
            return found, n
        entry, n = _place(a32, T, t, row, change, touched, delta, first, last, n)
        many = a64[record(T, t, row) + T[t, T_MULT]] + delta[entry]
        if many > 0:
            delta[entry] -= many
            found = True


@bare(inline="always")
def _meets(a64: Words, T: Words, t: Int, tag: Int, slot: Int) -> Int:
    """Whether there is a row with this tag, on the way to the empty slot where probing ended."""
    mask, slots = T[t, T_MASK], T[t, T_SLOTS]
    i = tag & mask
    while i != slot:
        if a64[slots + i] >> 32 == tag:
            return True
        i = (i + 1) & mask
    return False


@bare
def collect(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    codes: Words,
    ops: Bytes,
    counts: Words,
    start: Int,
    stop: Int,
    touched: Halves,
    delta: Words,
    first: Halves,
    last: Halves,
    n: Int,
    tags: Words,
) -> tuple[Int, Int, Int, Int]:
    """Changes start … stop of a batch; the table has room for as many new rows, `tags` for AHEAD of them.

    Returns (OK, -1, length of `touched`, deletes skipped) or (what is wrong, the change at fault, …).
    """
    skipped = np.int64(0)
    hashed, mask, slots = T[t, T_HASHED], T[t, T_MASK], T[t, T_SLOTS]
    for begin in range(start, stop, AHEAD):
        end = min(begin + AHEAD, stop)
        for c in range(begin, end):
            tags[c - begin] = tag_of(codes[c], hashed)
            prefetch(a64, slots + (tags[c - begin] & mask))
        for c in range(begin, end):
            prefetch(a64, max(likely(a64, T, t, tags[c - begin]), np.int64(0)))
        for c in range(begin, end):
            key, op, tag = codes[c], ops[c], tags[c - begin]
            if op == UPSERT or op == DELETE_KEY or op == MAY_DELETE_KEY:
                found, n = _clear_key(a64, a32, T, t, key, c, touched, delta, first, last, n)
                if op != UPSERT:
                    if not found:
                        if op == DELETE_KEY:
                            return NO_SUCH_KEY, np.int64(c), n, skipped
                        skipped += 1
                    continue
            row, slot = find_tagged(a64, T, t, key, tag)
            met = row < 0 and _meets(a64, T, t, tag, slot)
            if row < 0:
                row = insert_at(a64, a32, T, t, key, tag, slot)
            place, n = _place(a32, T, t, row, c, touched, delta, first, last, n)
            if met:
                a32[2 * record(T, t, row) + T[t, T_MARK]] = -(place + 1)
            if op == INSERT or op == UPSERT:
                if delta[place] > _LARGEST - counts[c]:
                    return TOO_MANY, np.int64(c), n, skipped
                delta[place] += counts[c]
                first[place] = c
            else:
                # Past what a number holds the sum would come out as copies that came.
                if delta[place] < counts[c] - _LARGEST:
                    return NEGATIVE, np.int64(c), n, skipped
                delta[place] -= counts[c]
    return OK, np.int64(-1), n, skipped


@bare
def _twin(a64: Words, a32: Halves, T: Words, t: Int, row: Int, delta: Words, last: Halves) -> Int:
    """Another row with the key of `row` that is there at the end of the batch: its last change, -1 if it has none,
    or -2 if there is no such row."""
    at = record(T, t, row)
    key = a64[at : at + T[t, T_ARITY]]
    place = np.int64(-1)
    while True:
        other, place = next_with_key(a64, T, t, key, place)
        if other < 0:
            return np.int64(-2)
        if other != row:
            there = record(T, t, other)
            many = a64[there + T[t, T_MULT]]
            entry = abs(a32[2 * there + T[t, T_MARK]]) - 1
            if entry >= 0:
                many += delta[entry]
            if many > 0:
                return np.int64(last[entry]) if entry >= 0 else np.int64(-1)


@bare
def settle(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    touched: Halves,
    delta: Words,
    last: Halves,
    n: Int,
    old: Words,
    new: Words,
    may_miss: Int,
) -> tuple[Int, Int, Int]:
    """Check the batch; then `old` and `new` are the multiplicities, and the new ones hold.

    Of two rows with one key the later one is marked. If anything is wrong, all rows are asked: the first is named.
    Returns (OK, -1, deletes skipped), or (what is wrong, the change at fault, …) with nothing changed.
    """
    skipped, asks_all, i = np.int64(0), False, 0
    while i < n:
        if i + AHEAD < n:
            prefetch(a64, record(T, t, np.int64(touched[i + AHEAD])) + T[t, T_MULT])
        row = np.int64(touched[i])
        at_row = record(T, t, row)
        old[i] = a64[at_row + T[t, T_MULT]]
        new[i] = old[i] + delta[i]
        wrong = OK
        if new[i] < 0 and delta[i] < 0 and may_miss:
            skipped -= new[i]
            delta[i] -= new[i]
            new[i] = 0
        if new[i] < 0:
            wrong = NEGATIVE if delta[i] < 0 else TOO_MANY
        at = np.int64(last[i])
        if wrong == OK and T[t, T_KEYED] and new[i] > 0:
            is_asked = asks_all or a32[2 * at_row + T[t, T_MARK]] < 0
            twin = _twin(a64, a32, T, t, row, delta, last) if is_asked else np.int64(-2)
            if new[i] > 1 or twin > -2:
                wrong = DUPLICATE_KEY
                at = max(at, twin)
        if wrong == OK:
            i += 1
        elif asks_all:
            take_back(a64, a32, T, t, touched, n)
            return wrong, at, skipped
        else:
            asks_all, i = True, 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch(a64, record(T, t, np.int64(touched[i + AHEAD])) + T[t, T_MULT])
        at = record(T, t, np.int64(touched[i]))
        a64[at + T[t, T_MULT]] = new[i]
        a32[2 * at + T[t, T_MARK]] = 0
    return OK, np.int64(-1), skipped


@bare
def take_back(a64: Words, a32: Halves, T: Words, t: Int, touched: Halves, n: Int) -> None:
    """Undo `collect`: rows made by it go, newest first, so that the free ids are as they were."""
    for k in range(n):
        row = np.int64(touched[n - 1 - k])
        at = record(T, t, row)
        a32[2 * at + T[t, T_MARK]] = 0
        if a64[at + T[t, T_MULT]] == 0:
            remove(a64, T, t, row)


@bare
def forget(a64: Words, T: Words, t: Int, touched: Halves, new: Words, n: Int) -> None:
    """Free the rows that the batch left without a copy."""
    mask, slots, arity, hashed = T[t, T_MASK], T[t, T_SLOTS], T[t, T_ARITY], T[t, T_HASHED]
    for begin in range(0, n, AHEAD):
        end = min(begin + AHEAD, n)
        for i in range(begin, end):
            if new[i] == 0:
                at = record(T, t, np.int64(touched[i]))
                prefetch(a64, slots + (tag_of(a64[at : at + arity], hashed) & mask))
        for i in range(begin, end):
            if new[i] == 0:
                remove(a64, T, t, np.int64(touched[i]))


@bare
def resolve(
    a64: Words,
    a32: Halves,
    T: Words,
    t: Int,
    codes: Words,
    ops: Bytes,
    counts: Words,
    start: Int,
    stop: Int,
    touched: Halves,
    delta: Words,
    first: Halves,
    last: Halves,
    old: Words,
    new: Words,
    tags: Words,
    may_miss: Int,
) -> tuple[Int, Int, Int, Int]:
    """`collect` and `settle` of changes start … stop as a batch of its own: what is refused has changed nothing."""
    reason, at, n, skipped = collect(
        a64, a32, T, t, codes, ops, counts, start, stop, touched, delta, first, last, np.int64(0), tags
    )
    if reason != OK:
        take_back(a64, a32, T, t, touched, n)
        return reason, at, n, skipped
    reason, at, missed = settle(a64, a32, T, t, touched, delta, last, n, old, new, may_miss)
    return reason, at, n, skipped + missed


@bare
def look_up(a64: Words, T: Words, t: Int, codes: Words, rows: Words) -> None:
    """Per row of codes the row that the table has now: with its key, if it has one, else with all codes; or -1."""
    for i in range(len(codes)):
        if not T[t, T_KEYED]:
            rows[i] = find(a64, T, t, codes[i])
            continue
        row, place = next_with_key(a64, T, t, codes[i], np.int64(-1))
        while row >= 0 and a64[record(T, t, row) + T[t, T_MULT]] == 0:
            row, place = next_with_key(a64, T, t, codes[i], place)
        rows[i] = row
