"""Find the row at a position, and the position of a row, skipping whole subtrees by their counts.

Enumeration is nested loops over the levels of the output set. Let `many` be the number of result rows, copies counted,
that agree with the rows chosen for the levels before one. A row t of the current group then stands for

    value(t) × each,    each = many ÷ sum(group)

consecutive rows of these. So a position lies in the part of the row at which the values of the group's rows, added up
in their order, pass the *place* position ÷ each. The position of a row is the sum, over the levels, of each × the
values before the row chosen there. Copies stay together, because the factor of the chosen frontier rows is part of
`each`.

Groups are linked lists: finding a place reads the rows before it. Positions in one group are looked for together, in
the order of their places, so its list is read once. Only `choose` and `_before` know about lists.

Nothing here passes 127 bits if the count of the result does not.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.int128 import multiply, replace
from dynq_cli.engine.kernels.range_ends import range_ends
from dynq_cli.engine.kernels.ranges import SCRATCH, look_up
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.tree_cursor import FINGER, lift

# A position, counted from 0; numbers have two lanes: where it is among the `many`, the rows of the result that agree
# with what is chosen so far; of the level in turn what a unit stands for, the place, and the record of the group.
POSITION = row_type("at_lo", "at_hi", "many_lo", "many_hi", "each_lo", "each_hi", "place_lo", "place_hi", "group")
# Where a search in a level may go on: the record of a group, one of its rows, and the values before it in two lanes.
CURSOR = row_type("group", "row", "before_lo", "before_hi")

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TOP = np.uint64(63)
_BITS = 127


@kernel(inline="always")
def _is_less(alo: Int, ahi: Int, blo: Int, bhi: Int) -> Int:
    return ahi < bhi or (ahi == bhi and np.uint64(alo) < np.uint64(blo))


# Division by zero, which does not happen, must not raise: kernels that can raise cannot be built.
@kernel(error_model="numpy")
def divide(alo: Int, ahi: Int, blo: Int, bhi: Int) -> tuple[Int, Int]:
    """Return a ÷ b rounded down, for 0 ≤ a < 2^127 and 0 < b < 2^127."""
    if ahi == 0 and bhi == 0:
        return np.int64(np.uint64(alo) // np.uint64(blo)), np.int64(0)
    # Digit by digit, as on paper: r is what is left of the leading bits of a.
    ulo, uhi, dlo, dhi = np.uint64(alo), np.uint64(ahi), np.uint64(blo), np.uint64(bhi)
    qlo, qhi, rlo, rhi = _ZERO, _ZERO, _ZERO, _ZERO
    for i in range(_BITS, -1, -1):
        bit = uhi >> np.uint64(i - 64) if i >= 64 else ulo >> np.uint64(i)
        rhi = (rhi << _ONE) | (rlo >> _TOP)
        rlo = (rlo << _ONE) | (bit & _ONE)
        qhi = (qhi << _ONE) | (qlo >> _TOP)
        qlo = qlo << _ONE
        if rhi > dhi or (rhi == dhi and rlo >= dlo):
            rhi = rhi - dhi - np.uint64(rlo < dlo)
            rlo = rlo - dlo
            qlo = qlo | _ONE
    return np.int64(qlo), np.int64(qhi)


@kernel
def value_of(store: Store, node_id: Int, row: Int) -> tuple[Int, Int]:
    """Return the multiplicity of a live row of an output node: its part of the sum of its group."""
    words = store.words
    node = store.nodes[node_id]
    table = store.tables[node.table]
    if node.degree == 0:
        return np.int64(1) if node.clamp else words[record(table, row) + table.mult], np.int64(0)
    at = record(table, row)
    lo, hi = words[at + node.value], words[at + node.value + 1]
    if node.waiting >= 0:
        return multiply(lo, hi, *_sum_over_range(store, node.waiting, at))
    return lo, hi


@kernel
def _sum_over_range(store: Store, child_id: Int, at: Int) -> tuple[Int, Int]:
    """Return the number of rows in the range of the waiting reader whose record is at `at`.

    O(log of the rows between it and the one asked for before).
    """
    path = store.trees.path
    work = path[len(path) - SCRATCH :]
    total = work[2 * FINGER : 2 * FINGER + store.nodes[child_id].width]
    group = record(
        store.tables[store.nodes[child_id].group], np.int64(store.halves[2 * at + store.nodes[child_id].reads])
    )
    first, _ = look_up(store, child_id, at, group, work[: 2 * FINGER], total)
    if first < 0:
        return np.int64(0), np.int64(0)
    return total[0], total[1]


@kernel
def _sum_at(store: Store, node_id: Int, at: Int) -> tuple[Int, Int]:
    """Return the number of rows in the list whose begin is in the record at `at`."""
    node = store.nodes[node_id]
    if node.waits >= 0:
        return _sum_over_range(store, node_id, at)
    return store.words[at + node.total], store.words[at + node.total + 1]


@kernel
def forget_places(store: Store) -> None:
    """Forget the ends of the last range: trees may have changed."""
    path = store.trees.path
    work = path[len(path) - SCRATCH :]
    lift(work[:FINGER])
    lift(work[FINGER : 2 * FINGER])


@kernel
def _list_at(store: Store, node_id: Int, above: Int) -> Int:
    """Return the record that has the begin of a node's list below a row of its parent."""
    node = store.nodes[node_id]
    at = record(store.tables[store.nodes[node.parent].table], above)
    if node.own:
        return at
    return record(store.tables[node.group], np.int64(store.halves[2 * at + node.reads]))


@kernel(inline="always")
def _first_of(store: Store, node_id: Int, at: Int) -> Int:
    """Return the first row of the list whose begin is in the record at `at`."""
    node = store.nodes[node_id]
    return range_ends(store, node_id, at)[0] if node.waits >= 0 else np.int64(store.halves[2 * at + node.begin])


@kernel
def aim(store: Store, node_id: Int, above: Words, positions: Rows) -> None:
    """Compute groups and places of positions in the level of a node; `above` are the rows chosen for its parent. O(1)
    each."""
    forget_places(store)
    for i in range(len(above)):
        p, at = positions[i], _list_at(store, node_id, above[i])
        sum_lo, sum_hi = _sum_at(store, node_id, at)
        lo, hi = divide(p.many_lo, p.many_hi, sum_lo, sum_hi)
        p.group, p.each_lo, p.each_hi = at, lo, hi
        p.place_lo, p.place_hi = divide(p.at_lo, p.at_hi, lo, hi)


@kernel
def choose(store: Store, node_id: Int, order: Words, positions: Rows, cursors: Rows, s: Int, rows: Words) -> None:
    """Find the rows of a node at the places that `aim` computed, and the positions within the parts of these rows.

    `order` has positions of one group together, places ascending. O(rows up to the last place) per group. Cursor s is
    left at the position with the largest index; a later search behind it in the same group begins there.
    """
    halves, cursor = store.halves, cursors[s]
    node = store.nodes[node_id]
    table, following = store.tables[node.table], node.next
    group, row = np.int64(-1), np.int64(-1)
    forget_places(store)
    lo, hi, vlo, vhi = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for k in range(len(order)):
        i = order[k]
        p = positions[i]
        plo, phi = p.place_lo, p.place_hi
        if p.group != group:
            group = p.group
            if group == cursor.group and not _is_less(plo, phi, cursor.before_lo, cursor.before_hi):
                row, lo, hi = cursor.row, cursor.before_lo, cursor.before_hi
            else:
                row, lo, hi = _first_of(store, node_id, group), np.int64(0), np.int64(0)
            vlo, vhi = value_of(store, node_id, row)
        while True:
            elo, ehi = replace(lo, hi, np.int64(0), np.int64(0), vlo, vhi)
            if _is_less(plo, phi, elo, ehi):
                break
            lo, hi = elo, ehi
            row = np.int64(halves[2 * record(table, row) + following])
            vlo, vhi = value_of(store, node_id, row)
        rows[i] = row
        slo, shi = multiply(lo, hi, p.each_lo, p.each_hi)
        p.at_lo, p.at_hi = replace(p.at_lo, p.at_hi, slo, shi, np.int64(0), np.int64(0))
        p.many_lo, p.many_hi = multiply(vlo, vhi, p.each_lo, p.each_hi)
        if i == len(order) - 1:
            cursor.group, cursor.row, cursor.before_lo, cursor.before_hi = group, row, lo, hi


@kernel
def descend(
    store: Store, levels: Words, above: Words, order: Words, positions: Rows, cursors: Rows, rows: Words
) -> None:
    """Find the rows of all levels for positions that need no other order on the way: a single one.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's.
    """
    for s in range(len(levels)):
        aim(store, levels[s], rows[above[s]], positions)
        choose(store, levels[s], order, positions, cursors, s, rows[s + 1])


@kernel
def _before(store: Store, node_id: Int, first: Int, row: Int) -> tuple[Int, Int]:
    """Return the values of the rows before one in the list that begins with `first`. O(rows before it)."""
    node = store.nodes[node_id]
    table, previous = store.tables[node.table], node.prev
    lo, hi = np.int64(0), np.int64(0)
    while row != first:
        row = np.int64(store.halves[2 * record(table, row) + previous])
        vlo, vhi = value_of(store, node_id, row)
        lo, hi = replace(lo, hi, np.int64(0), np.int64(0), vlo, vhi)
    return lo, hi


@kernel
def position_of(
    store: Store, levels: Words, above: Words, rows: Words, many_lo: Int, many_hi: Int
) -> tuple[Int, Int, Int, Int]:
    """Return the position, from 0, of the combination of these live rows, and its copies; `many` is the whole result.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's.
    O(rows before these in their lists).
    """
    lo, hi = np.int64(0), np.int64(0)
    forget_places(store)
    for s in range(len(levels)):
        node_id, row = levels[s], rows[s + 1]
        at = _list_at(store, node_id, rows[above[s]])
        sum_lo, sum_hi = _sum_at(store, node_id, at)
        each_lo, each_hi = divide(many_lo, many_hi, sum_lo, sum_hi)
        before_lo, before_hi = _before(store, node_id, _first_of(store, node_id, at), row)
        skipped_lo, skipped_hi = multiply(before_lo, before_hi, each_lo, each_hi)
        lo, hi = replace(lo, hi, np.int64(0), np.int64(0), skipped_lo, skipped_hi)
        vlo, vhi = value_of(store, node_id, row)
        many_lo, many_hi = multiply(vlo, vhi, each_lo, each_hi)
    return lo, hi, many_lo, many_hi
