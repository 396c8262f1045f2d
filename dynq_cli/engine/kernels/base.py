"""Base tables: a batch of changes is resolved here before anything else is touched.

`collect` adds up what a batch does to each row; `settle` checks the sums and either makes them the
new multiplicities or takes the batch back without a trace. Checks hold at the end of the batch: an
insert and a delete of one row cancel, whatever their order.

`touched` lists the rows in the order of their first change; per entry `delta` is the net change,
`first` the change that inserted it (for what is computed from its values), `last` the change to name
in an error.
"""

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import (
    DELETE,
    DELETE_KEY,
    DUPLICATE_KEY,
    INSERT,
    NEGATIVE,
    NO_SUCH_KEY,
    OK,
    T_ARITY,
    T_HASHED,
    T_KEYS,
    T_MARK,
    T_MULT,
    UPSERT,
)
from dynq_cli.engine.kernels.table import find, insert, next_with_key, remove


@kernel
def _place(a32, T, t, row, change, touched, delta, first, last, n):  # type: ignore[no-untyped-def]
    """Where a row stands in `touched`, and how long the list is now."""
    at = T[t, T_MARK] + row
    place = a32[at] - 1
    if place < 0:
        place = n
        n += 1
        a32[at] = place + 1
        touched[place] = row
        delta[place] = 0
        first[place] = -1
    last[place] = change
    return place, n


@kernel
def _clear_key(a64, a32, T, t, key, change, touched, delta, first, last, n):  # type: ignore[no-untyped-def]
    """Take away whatever row has this key now; says whether there was one."""
    found = False
    place = -1
    while True:
        row, place = next_with_key(a64, T, t, key, place)
        if row < 0:
            return found, n
        entry, n = _place(a32, T, t, row, change, touched, delta, first, last, n)
        many = a64[T[t, T_MULT] + row] + delta[entry]
        if many > 0:
            delta[entry] -= many
            found = True


@kernel
def collect(a64, a32, T, t, codes, ops, counts, start, stop, touched, delta, first, last, n):  # type: ignore[no-untyped-def]
    """Changes start … stop of a batch; the table has room for as many new rows.

    Returns (OK or NO_SUCH_KEY, length of `touched` or the change at fault).
    """
    arity = T[t, T_ARITY]
    for c in range(start, stop):
        key = codes[c]
        op = ops[c]
        if op == UPSERT or op == DELETE_KEY:
            found, n = _clear_key(a64, a32, T, t, key, c, touched, delta, first, last, n)
            if op == DELETE_KEY:
                if not found:
                    return NO_SUCH_KEY, c, n
                continue
        row = find(a64, T, t, key[:arity])
        if row < 0:
            row = insert(a64, a32, T, t, key)
        place, n = _place(a32, T, t, row, c, touched, delta, first, last, n)
        if op == DELETE:
            delta[place] -= counts[c]
        else:
            delta[place] += counts[c]
            first[place] = c
    return OK, -1, n


@kernel
def _is_duplicate(a64, a32, T, t, row, delta):  # type: ignore[no-untyped-def]
    """Whether another row with the key of `row` is there at the end of the batch."""
    arity, mult, mark = T[t, T_ARITY], T[t, T_MULT], T[t, T_MARK]
    at = T[t, T_KEYS] + row * arity
    key = a64[at : at + arity]
    place = -1
    while True:
        other, place = next_with_key(a64, T, t, key, place)
        if other < 0:
            return False
        if other != row:
            many = a64[mult + other]
            if a32[mark + other] > 0:
                many += delta[a32[mark + other] - 1]
            if many > 0:
                return True


@kernel
def settle(a64, a32, T, t, touched, delta, last, n, old, new):  # type: ignore[no-untyped-def]
    """Check the batch; then `old` and `new` are the multiplicities, and the new ones hold.

    Returns (OK, -1), or (what is wrong, the change at fault) with nothing changed.
    """
    keyed = T[t, T_HASHED] < T[t, T_ARITY]
    mult, mark = T[t, T_MULT], T[t, T_MARK]
    for i in range(n):
        row = touched[i]
        old[i] = a64[mult + row]
        new[i] = old[i] + delta[i]
        wrong = OK
        if new[i] < 0:
            wrong = NEGATIVE
        elif keyed and new[i] > 0 and (new[i] > 1 or _is_duplicate(a64, a32, T, t, row, delta)):
            wrong = DUPLICATE_KEY
        if wrong != OK:
            take_back(a64, a32, T, t, touched, n)
            return wrong, last[i]
    for i in range(n):
        a64[mult + touched[i]] = new[i]
        a32[mark + touched[i]] = 0
    return OK, -1


@kernel
def take_back(a64, a32, T, t, touched, n):  # type: ignore[no-untyped-def]
    """Undo `collect`: rows made by it go, newest first, so that the free ids are as they were."""
    mult, mark = T[t, T_MULT], T[t, T_MARK]
    for k in range(n):
        row = touched[n - 1 - k]
        a32[mark + row] = 0
        if a64[mult + row] == 0:
            remove(a64, T, t, row)


@kernel
def forget(a64, T, t, touched, new, n):  # type: ignore[no-untyped-def]
    """Free the rows that the batch left without a copy."""
    for i in range(n):
        if new[i] == 0:
            remove(a64, T, t, touched[i])
