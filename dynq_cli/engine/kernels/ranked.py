"""Positions in an ordered result: as `positions`, but each group is an order-statistic tree, and no list is read.

The levels stand in the order of the result. So of the rows that agree with those chosen for the levels before one, all
rows below a row of the current group come before those below the next. The row at a place, and the values before a row,
take one descent of the group's tree. A level that adds no variable has one row in each group: nothing is chosen there.
A range is a part of its group's tree: what the rows before it count is added to a place in it, and subtracted from a
place in the tree.

Nothing here passes 127 bits if the count of the result does not.
"""

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.int128 import is_less, multiply, replace
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, TARGET, image, row_at
from dynq_cli.engine.kernels.order_statistic_search import (
    AFTER_EQUAL,
    BEFORE_EQUAL,
    seek,
    select,
    sum_before,
    sum_before_row,
)
from dynq_cli.engine.kernels.positions import divide, value_of
from dynq_cli.engine.kernels.table import record

# How the keys of a level are meant: rows with all of them go on to the next level; or no row has the last one, and
# those before it in the order are the rows before, or the rows before and all that are equal.
EXACT, NOT_THERE, BEHIND_EQUAL = range(3)


@kernel
def _group(store: Store, node_id: Int, above: Int) -> Int:
    """Return where the record of a node's group is that belongs to a row of its parent."""
    node = store.nodes[node_id]
    at = record(store.tables[store.nodes[node.parent].table], above)
    if node.guard:
        return at
    return record(store.tables[node.group], np.int64(store.halves[2 * at + node.reads]))


@kernel
def _list(store: Store, node_id: Int, above: Int, out: Words) -> tuple[Int, Int, Int, Int]:
    """Return what belongs to a row of the parent in the node's tree: where its sum is, the root of the tree, and what
    the rows before a range count."""
    halves = store.halves
    node = store.nodes[node_id]
    group = _group(store, node_id, above)
    root = np.int64(halves[2 * group + node.root])
    if node.readers < 0:
        return group + node.total, root, np.int64(0), np.int64(0)
    at = record(store.tables[store.nodes[node.parent].table], above)
    first = np.int64(halves[2 * at + node.begin])
    sum_before_row(store, node.tree, root, first, out)
    return at + node.total, root, out[0], out[1]


@kernel
def _inside(lo: Int, hi: Int, skipped_lo: Int, skipped_hi: Int, total_lo: Int, total_hi: Int) -> tuple[Int, Int, Int]:
    """Convert a place in a tree to one in a range of it, at most its ends; and whether it is before the last row's
    end."""
    zero = np.int64(0)
    if is_less(lo, hi, skipped_lo, skipped_hi):
        return zero, zero, False
    lo, hi = replace(lo, hi, skipped_lo, skipped_hi, zero, zero)
    if is_less(lo, hi, total_lo, total_hi):
        return lo, hi, True
    return total_lo, total_hi, False


@kernel
def select_rows(
    store: Store, levels: Words, above: Words, positions: Words, many_lo: Int, many_hi: Int, rows: Words, out: Words
) -> None:
    """Find the rows of all levels at some positions, which count from 0 and have two lanes. O(log n) each.

    `rows` has the root's row in front of those of the levels; `above` says which of them is the parent's. The whole
    result has `many` rows; `out` is four words of scratch.
    """
    words = store.words
    for i in range(positions.shape[1]):
        lo, hi, mlo, mhi = positions[0, i], positions[1, i], many_lo, many_hi
        for s in range(len(levels)):
            node_id = levels[s]
            node = store.nodes[node_id]
            tree_id = node.tree
            if tree_id < 0:
                rows[s + 1, i] = store.halves[2 * _group(store, node_id, rows[above[s], i]) + node.head]
                continue
            total, root, slo, shi = _list(store, node_id, rows[above[s], i], out)
            elo, ehi = divide(mlo, mhi, words[total], words[total + 1])
            plo, phi = divide(lo, hi, elo, ehi)
            slo, shi = replace(plo, phi, np.int64(0), np.int64(0), slo, shi)
            code, entry, left_lo, left_hi = select(store, tree_id, root, 0, slo, shi)
            row = row_at(store, tree_id, code, entry)
            rows[s + 1, i] = row
            plo, phi = replace(plo, phi, left_lo, left_hi, np.int64(0), np.int64(0))
            plo, phi = multiply(plo, phi, elo, ehi)
            lo, hi = replace(lo, hi, plo, phi, np.int64(0), np.int64(0))
            vlo, vhi = value_of(store, node_id, row)
            mlo, mhi = multiply(vlo, vhi, elo, ehi)


@kernel
def _is_equal(store: Store, tree_id: Int, row: Int) -> Int:
    """Whether all keys of a row are those of the target."""
    tree = store.trees.forest[tree_id]
    at = record(store.tables[tree.table], row)
    for i in range(tree.keys):
        seen = image(store, tree_id, i, store.words[at + store.trees.orders[tree_id, i].position])
        if seen != store.trees.path[TARGET + i]:
            return False
    return True


@kernel
def _values_before(store: Store, tree_id: Int, root: Int, keys: Int, tie: Int, out: Words) -> tuple[Int, Int]:
    """Return what the rows of a group count that are before the target."""
    for lane in range(len(out)):
        out[lane] = 0
    sum_before(store, tree_id, keys, tie, root, out)
    return out[0], out[1]


@kernel
def place_of(
    store: Store,
    levels: Words,
    above: Words,
    given: Words,
    meant: Words,
    targets: Words,
    many_lo: Int,
    many_hi: Int,
    rows: Words,
    out: Words,
) -> tuple[Int, Int, Int, Int]:
    """Count the rows of the result before a target, and those equal to it. O(log n).

    Of each level so many keys are `given`, their images in `targets`. Rows that agree in them are equal once a level
    has fewer than it adds, or none. `meant` says whether any row can be equal there. The whole result has `many` rows;
    `rows` and `out` are scratch: one word per level and one more, and four words.
    """
    words = store.words
    zero = np.int64(0)
    lo, hi, mlo, mhi = zero, zero, many_lo, many_hi
    if mlo == 0 and mhi == 0:
        return lo, hi, zero, zero
    rows[0] = 0
    for s in range(len(levels)):
        node_id = levels[s]
        node = store.nodes[node_id]
        tree_id, keys = node.tree, given[s]
        if tree_id < 0:
            rows[s + 1] = store.halves[2 * _group(store, node_id, rows[above[s]]) + node.head]
            continue
        if keys == 0:
            break
        total, root, slo, shi = _list(store, node_id, rows[above[s]], out)
        elo, ehi = divide(mlo, mhi, words[total], words[total + 1])
        for i in range(keys):
            store.trees.path[TARGET + i] = targets[s, i]
        tie = AFTER_EQUAL if meant[s] == BEHIND_EQUAL else BEFORE_EQUAL
        blo, bhi = _values_before(store, tree_id, root, keys, tie, out)
        blo, bhi, is_inside = _inside(blo, bhi, slo, shi, words[total], words[total + 1])
        plo, phi = multiply(blo, bhi, elo, ehi)
        lo, hi = replace(lo, hi, zero, zero, plo, phi)
        if meant[s] != EXACT:
            return lo, hi, zero, zero
        if keys < store.trees.forest[tree_id].keys:
            alo, ahi = _values_before(store, tree_id, root, keys, AFTER_EQUAL, out)
            alo, ahi, _ = _inside(alo, ahi, slo, shi, words[total], words[total + 1])
            alo, ahi = replace(alo, ahi, blo, bhi, zero, zero)
            mlo, mhi = multiply(alo, ahi, elo, ehi)
            break
        code, entry = seek(store, tree_id, keys, BEFORE_EQUAL, root)
        if code == NONE or not is_inside:
            return lo, hi, zero, zero
        row = row_at(store, tree_id, code, entry)
        if not _is_equal(store, tree_id, row):
            return lo, hi, zero, zero
        rows[s + 1] = row
        vlo, vhi = value_of(store, node_id, row)
        mlo, mhi = multiply(vlo, vhi, elo, ehi)
    return lo, hi, mlo, mhi
