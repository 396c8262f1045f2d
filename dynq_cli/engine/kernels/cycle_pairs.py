"""Sums over triangles in O(N^max(ε, 1−ε)) per changed row: heavy values, and sums over the paths between them.

    δ Σ R(x, y) · S(y, z) · T(z, x) = δR(x, y) · W(y, x)      W(y, x) = Σ_z S(y, z) · T(z, x)

A value is *heavy* if its list has about θ = N^ε rows or more, where N is a power of two and at most four times the rows
of all edges. A *view* has W(y, x) for a y that is heavy in S and an x that is heavy in T: there are at most N^(1−ε)
heavy values on either side. For any other (y, x) the shorter of the lists S(y, ·) and T(·, x) has fewer than 3/2·θ
rows, and is gone through.

A changed row of S extends W to all heavy x that its z meets, by the list of z in T or by that of heavy values,
whichever is shorter. A value becomes heavy at 3/2·θ rows and light below θ/2: then its pairs come or go (*minor*
rebalancing). When the edges have N rows, or fewer than N/4, N doubles or halves, and all is partitioned and summed anew
(*major* rebalancing). No result depends on which values are heavy.

Sums have 128 bits, in two lanes. A kernel asks for room before it begins what needs it: NO_ROOM, and the same call goes
on.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.cycle_edges import Joins, arrive, leave
from dynq_cli.engine.kernels.fields import Int, Row, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.int128_signed import add, product
from dynq_cli.engine.kernels.table import find, find_or_insert, record, remove

# Sums over the paths between heavy values of two edges, `left` and `right`. Each edge has a near end, whose values are
# heavy, and a far end, where the paths meet.
VIEW = row_type(
    "table",
    "sums",  # wide: two lanes per sum
    "left",  # the edge
    "left_near",  # its index by the near end
    "left_far",  # its index by the far end
    "left_near_at",  # the position of the near end in its rows
    "left_far_at",
    "left_atom",
    "right",
    "right_near",
    "right_far",
    "right_near_at",
    "right_far_at",
    "right_atom",
)
# What a changed row meets: one of the routes of `cycle_edges`, for a triangle.
TERM = row_type(
    "seen",  # of a route with one changed atom: the view of the paths between the ends of its row; else -1
    "left",  # the position of its row that is the near end of the left edge
    "right",  # likewise, of the right edge
    "changed",  # lists: the atoms in which the row stands
)


class Pairs(NamedTuple):
    """What is kept beside the edges, and what is summed up."""

    views: Rows  # VIEW
    terms: Rows  # TERM, as the routes
    weights: Words  # by sum and atom: which number of its row the atom puts in, 0 for its copies
    atoms: Words  # by operand: its atom
    thresholds: Words  # by the exponent of N: θ
    partition: Words  # its table, and the places of the exponent of N, of minor and of major rebalancings


class Sums(NamedTuple):
    """A commit under way, and what it adds to each sum."""

    state: Words
    change: Words  # by number: what the changed row counts more than before
    given: Words  # by number: what the row counts that a view is extended by
    paths: Words  # two lanes per sum: scratch
    totals: Words  # two lanes per sum
    key: Words  # scratch: a key, and what a route binds


# Where a commit stands, in `Sums.state`: the changed row and its id, what comes next for it, and how far that is; rows
# that lists have given; the table that needs room, and for how many rows.
ENTRY, ROW, PHASE, STEP, PLACE, SCANNED, NEEDS, ROOM, STATE = range(9)
ARRIVES, EXTENDS, SETTLES, PARTITIONS, SUMS_UP = range(5)
DONE, TOO_MANY, NO_ROOM = 1, 2, 3
ATOMS = 3
# Where in `Sums.key` what a route binds begins.
_BOUND = 8


@kernel(inline="always")
def _number(store: Store, edge: Row, at: Int, k: Int) -> Int:
    """What a row of an edge counts: its copies, or number k of its weights."""
    if k > 0:
        return store.words[at + edge.weights + k - 1]
    many = store.words[at + store.tables[edge.table].mult]
    return min(many, np.int64(1)) if edge.clamp else many


@kernel(inline="always")
def _find_group(store: Store, joins: Joins, i: Int, value: Int, key: Words) -> Int:
    """Where the record of a value's group in index i starts, in half words; or -1."""
    table_id = joins.indexes[i].group
    key[0] = value
    g = find(store, table_id, key)
    return 2 * record(store.tables[table_id], g) if g >= 0 else np.int64(-1)


@kernel(inline="always")
def _partition_at(store: Store, pairs: Pairs) -> Int:
    return store.tables[pairs.partition[0]].rows


@kernel
def _has_room(store: Store, sums: Sums, table_id: Int, many: Int) -> Int:
    """Whether a table has room for so many more rows; else it is asked for."""
    table = store.tables[table_id]
    needed = table.live + many
    if needed <= table.capacity and 3 * needed <= 2 * (table.mask + 1):
        return True
    sums.state[NEEDS], sums.state[ROOM] = table_id, many
    return False


@kernel
def _add_pair(store: Store, view: Row, y: Int, x: Int, pairs: Pairs, sums: Sums) -> Int:
    """Add `paths` to the sums of a pair; the caller has made room. Whether they fit."""
    words, key, table = store.words, sums.key, view.table
    many = len(sums.totals)
    key[0], key[1] = y, x
    row, is_new = find_or_insert(store, table, key)
    at = record(store.tables[table], row) + view.sums
    if is_new:
        for k in range(many):
            words[at + k] = 0
    fits, rest = True, np.int64(0)
    for k in range(0, many, 2):
        words[at + k], words[at + k + 1], good = add(words[at + k], words[at + k + 1], sums.paths[k], sums.paths[k + 1])
        fits = fits and good
        rest |= words[at + k] | words[at + k + 1]
    if rest == 0:
        remove(store, table, row)
    return fits


@kernel
def _meets(
    store: Store, joins: Joins, pairs: Pairs, sums: Sums, view: Row, is_left: Int, near: Int, at: Int, is_new: Int
) -> Int:
    """Add a path to a view: the row that is `given`, by its near value, and one of the other side. Whether it fits.

    `is_new`: the other row is the changed one, and is read as it will be.
    """
    other = joins.edges[view.right if is_left else view.left]
    own_atom = view.left_atom if is_left else view.right_atom
    other_atom = view.right_atom if is_left else view.left_atom
    x = store.words[at + (view.right_near_at if is_left else view.left_near_at)]
    rest, fits = np.int64(0), True
    for k in range(len(sums.totals) // 2):
        a = sums.given[pairs.weights[k * ATOMS + own_atom]]
        number = pairs.weights[k * ATOMS + other_atom]
        b = _number(store, other, at, number)
        if is_new:
            b += sums.change[number]
        sums.paths[2 * k], sums.paths[2 * k + 1], good = product(a, a >> 63, b, b >> 63)
        fits = fits and good
        rest |= sums.paths[2 * k] | sums.paths[2 * k + 1]
    if rest == 0 or not fits:
        return fits
    return _add_pair(store, view, near if is_left else x, x if is_left else near, pairs, sums)


@kernel
def _extend(
    store: Store, joins: Joins, pairs: Pairs, sums: Sums, v: Int, is_left: Int, near: Int, far: Int, reads: Int
) -> Int:
    """Add the paths of the row that is `given` to a view: from its near value over its far one to all heavy ones.

    `reads` is the row of the other edge that is read as it will be, or -1. O(least of the list and the heavy values).
    """
    words, halves, view = store.words, store.halves, pairs.views[v]
    other = joins.edges[view.right if is_left else view.left]
    near_at = view.right_near_at if is_left else view.left_near_at
    far_at = view.right_far_at if is_left else view.left_far_at
    far_index = joins.indexes[view.right_far if is_left else view.left_far]
    near_index = joins.indexes[view.right_near if is_left else view.left_near]
    there = _find_group(store, joins, view.right_far if is_left else view.left_far, far, sums.key)
    if there < 0:
        return True
    table, groups, partition = store.tables[other.table], store.tables[near_index.group], _partition_at(store, pairs)
    fits = True
    if halves[there + far_index.size] <= halves[2 * partition + near_index.heavies]:
        row = np.int64(halves[there + far_index.head])
        while row >= 0 and fits:
            at = record(table, row)
            sums.state[SCANNED] += 1
            g = np.int64(halves[2 * at + near_index.gid])
            if halves[2 * record(groups, g) + near_index.heavy] != 0:
                fits = _meets(store, joins, pairs, sums, view, is_left, near, at, row == reads)
            row = np.int64(halves[2 * at + far_index.next])
        return fits
    g = np.int64(halves[2 * partition + near_index.heavy_head])
    while g >= 0 and fits:
        at = record(groups, g)
        sums.state[SCANNED] += 1
        sums.key[near_at], sums.key[far_at] = words[at], far
        row = find(store, other.table, sums.key)
        if row >= 0:
            fits = _meets(store, joins, pairs, sums, view, is_left, near, record(table, row), row == reads)
        g = np.int64(halves[2 * at + near_index.heavy_next])
    return fits


@kernel
def _walk_paths(store: Store, joins: Joins, pairs: Pairs, sums: Sums, v: Int, y: Int, x: Int) -> Int:
    """Set `paths` to the sums over all paths from y to x, from the view or along the shorter list. Whether they fit."""
    words, halves, view = store.words, store.halves, pairs.views[v]
    many = len(sums.totals)
    for k in range(many):
        sums.paths[k] = 0
    left_at = _find_group(store, joins, view.left_near, y, sums.key)
    right_at = _find_group(store, joins, view.right_near, x, sums.key)
    if left_at < 0 or right_at < 0:
        return True
    left, right = joins.indexes[view.left_near], joins.indexes[view.right_near]
    if halves[left_at + left.heavy] != 0 and halves[right_at + right.heavy] != 0:
        sums.key[0], sums.key[1] = y, x
        row = find(store, view.table, sums.key)
        if row >= 0:
            at = record(store.tables[view.table], row) + view.sums
            for k in range(many):
                sums.paths[k] = words[at + k]
        return True
    is_left = halves[left_at + left.size] <= halves[right_at + right.size]
    index = left if is_left else right
    own, other = joins.edges[view.left if is_left else view.right], joins.edges[view.right if is_left else view.left]
    own_atom = view.left_atom if is_left else view.right_atom
    other_atom = view.right_atom if is_left else view.left_atom
    far_at = view.left_far_at if is_left else view.right_far_at
    near_at = view.right_near_at if is_left else view.left_near_at
    other_far_at = view.right_far_at if is_left else view.left_far_at
    end = x if is_left else y
    table, fits = store.tables[own.table], True
    row = np.int64(halves[(left_at if is_left else right_at) + index.head])
    while row >= 0 and fits:
        at = record(table, row)
        sums.state[SCANNED] += 1
        sums.key[near_at], sums.key[other_far_at] = end, words[at + far_at]
        met = find(store, other.table, sums.key)
        if met >= 0:
            met_at = record(store.tables[other.table], met)
            for k in range(many // 2):
                a = _number(store, own, at, pairs.weights[k * ATOMS + own_atom])
                b = _number(store, other, met_at, pairs.weights[k * ATOMS + other_atom])
                lo, hi, good = product(a, a >> 63, b, b >> 63)
                sums.paths[2 * k], sums.paths[2 * k + 1], fit = add(sums.paths[2 * k], sums.paths[2 * k + 1], lo, hi)
                fits = fits and good and fit
        row = np.int64(halves[2 * at + index.next])
    return fits


@kernel
def _join(store: Store, joins: Joins, pairs: Pairs, sums: Sums, e: Int, r: Int) -> Int:
    """Add to the totals what the changed row meets on a route. Whether it fits."""
    words, route, term, lists = store.words, joins.routes[r], pairs.terms[r], joins.lists
    edge = joins.edges[e]
    at = record(store.tables[edge.table], sums.state[ROW])
    many = len(sums.totals)
    if term.seen >= 0:
        if not _walk_paths(store, joins, pairs, sums, term.seen, words[at + term.left], words[at + term.right]):
            return False
    else:
        for k in range(route.bound):
            sums.key[_BOUND + lists[route.binds + 2 * k]] = words[at + lists[route.binds + 2 * k + 1]]
        for k in range(route.checked):
            if sums.key[_BOUND + lists[route.checks + 2 * k]] != words[at + lists[route.checks + 2 * k + 1]]:
                return True
        for k in range(0, many, 2):
            sums.paths[k], sums.paths[k + 1] = 1, 0
        if route.levels > 0:
            o = joins.levels[route.first].first
            operand = joins.operands[o]
            other = joins.edges[operand.edge]
            for j in range(2):
                sums.key[j] = sums.key[_BOUND + lists[operand.slots + j]]
            met = find(store, other.table, sums.key)
            if met < 0:
                return True
            met_at = record(store.tables[other.table], met)
            for k in range(many // 2):
                a = _number(store, other, met_at, pairs.weights[k * ATOMS + pairs.atoms[o]])
                sums.paths[2 * k], sums.paths[2 * k + 1] = a, a >> 63
    fits = True
    for k in range(many // 2):
        lo, hi = sums.paths[2 * k], sums.paths[2 * k + 1]
        if lo | hi == 0:
            continue
        lo, hi, good = product(lo, hi, route.times, route.times >> 63)
        for j in range(route.power):
            a = sums.change[pairs.weights[k * ATOMS + lists[term.changed + j]]]
            lo, hi, fit = product(lo, hi, a, a >> 63)
            good = good and fit
        sums.totals[2 * k], sums.totals[2 * k + 1], fit = add(sums.totals[2 * k], sums.totals[2 * k + 1], lo, hi)
        fits = fits and good and fit
    return fits


@kernel
def _mark(store: Store, joins: Joins, pairs: Pairs, i: Int, g: Int, is_heavy: Int) -> None:
    """Note that a group is heavy, or that it is no longer."""
    halves, index, partition = store.halves, joins.indexes[i], 2 * _partition_at(store, pairs)
    at = 2 * record(store.tables[index.group], g)
    halves[at + index.heavy] = is_heavy
    head = partition + index.heavy_head
    if is_heavy:
        link(store, index.group, g, head, index.heavy_next, index.heavy_prev)
        halves[partition + index.heavies] += 1
    else:
        unlink(store, index.group, g, head, index.heavy_next, index.heavy_prev)
        halves[partition + index.heavies] -= 1


@kernel
def _extend_all(store: Store, joins: Joins, pairs: Pairs, sums: Sums, v: Int, is_left: Int, g: Int, sign: Int) -> Int:
    """Add the paths of all rows of a group to a view, or take them away. Whether they fit."""
    words, halves, view = store.words, store.halves, pairs.views[v]
    edge = joins.edges[view.left if is_left else view.right]
    index = joins.indexes[view.left_near if is_left else view.right_near]
    near_at = view.left_near_at if is_left else view.right_near_at
    far_at = view.left_far_at if is_left else view.right_far_at
    table, fits = store.tables[edge.table], True
    row = np.int64(halves[2 * record(store.tables[index.group], g) + index.head])
    while row >= 0 and fits:
        at = record(table, row)
        sums.state[SCANNED] += 1
        for k in range(edge.weighted + 1):
            sums.given[k] = sign * _number(store, edge, at, k)
        fits = _extend(store, joins, pairs, sums, v, is_left, words[at + near_at], words[at + far_at], -1)
        row = np.int64(halves[2 * at + index.next])
    return fits


@kernel
def _flip(store: Store, joins: Joins, pairs: Pairs, sums: Sums, i: Int, g: Int, is_heavy: Int) -> Int:
    """A value becomes heavy, or light: its pairs come, or go. DONE, NO_ROOM or TOO_MANY."""
    partition, sign = 2 * _partition_at(store, pairs), np.int64(1 if is_heavy else -1)
    for v in range(len(pairs.views)):
        view, many = pairs.views[v], np.int64(0)
        if view.left_near == i:
            many += store.halves[partition + joins.indexes[view.right_near].heavies] + 1
        if view.right_near == i:
            many += store.halves[partition + joins.indexes[view.left_near].heavies] + 1
        if many > 0 and not _has_room(store, sums, view.table, many):
            return NO_ROOM
    # First with the heavy values of before, then with those of after: a view may have the value on both sides.
    for v in range(len(pairs.views)):
        if pairs.views[v].left_near == i and not _extend_all(store, joins, pairs, sums, v, 1, g, sign):
            return TOO_MANY
    _mark(store, joins, pairs, i, g, is_heavy)
    for v in range(len(pairs.views)):
        if pairs.views[v].right_near == i and not _extend_all(store, joins, pairs, sums, v, 0, g, sign):
            return TOO_MANY
    store.words[_partition_at(store, pairs) + pairs.partition[2]] += 1
    return DONE


@kernel
def _partition_anew(store: Store, joins: Joins, pairs: Pairs, threshold: Int) -> None:
    """Tell heavy from light values by the threshold alone, and leave the views empty. O(values + slots)."""
    words, halves, partition = store.words, store.halves, 2 * _partition_at(store, pairs)
    for i in range(len(joins.indexes)):
        index = joins.indexes[i]
        groups = store.tables[index.group]
        halves[partition + index.heavy_head], halves[partition + index.heavies] = -1, 0
        for g in range(groups.used):
            at = 2 * record(groups, g)
            # A group that is gone had no rows left.
            halves[at + index.heavy] = 0
            if halves[at + index.size] > 0 and halves[at + index.size] >= threshold:
                _mark(store, joins, pairs, i, g, 1)
    for v in range(len(pairs.views)):
        table = store.tables[pairs.views[v].table]
        for k in range(table.mask + 1):
            words[table.slots + k] = 0
        # What is not used is zero in a snapshot, too.
        for k in range(table.used * table.stride):
            words[table.rows + k] = 0
        table.used, table.live, table.free = 0, 0, -1


@kernel
def _sum_up(store: Store, joins: Joins, pairs: Pairs, sums: Sums) -> Int:
    """Fill the views anew, heavy value by heavy value. DONE, NO_ROOM or TOO_MANY."""
    halves, state, partition = store.halves, sums.state, 2 * _partition_at(store, pairs)
    while state[STEP] < len(pairs.views):
        v = state[STEP]
        view = pairs.views[v]
        left, right = joins.indexes[view.left_near], joins.indexes[view.right_near]
        if state[PLACE] == -2:
            state[PLACE] = halves[partition + left.heavy_head]
        while state[PLACE] >= 0:
            if not _has_room(store, sums, view.table, np.int64(halves[partition + right.heavies])):
                return NO_ROOM
            if not _extend_all(store, joins, pairs, sums, v, 1, state[PLACE], np.int64(1)):
                return TOO_MANY
            at = 2 * record(store.tables[left.group], state[PLACE])
            state[PLACE] = halves[at + left.heavy_next]
        state[PLACE] = -2
        state[STEP] += 1
    return DONE


@kernel
def _extend_views(store: Store, joins: Joins, pairs: Pairs, sums: Sums, e: Int) -> Int:
    """Add the paths over the changed row to all views. DONE, NO_ROOM or TOO_MANY."""
    words, halves, state, edge = store.words, store.halves, sums.state, joins.edges[e]
    at, partition = record(store.tables[edge.table], state[ROW]), 2 * _partition_at(store, pairs)
    for k in range(edge.weighted + 1):
        sums.given[k] = sums.change[k]
    while state[STEP] < edge.views:
        v, is_left = joins.lists[edge.first_view + 2 * state[STEP]], joins.lists[edge.first_view + 2 * state[STEP] + 1]
        view = pairs.views[v]
        index = joins.indexes[view.left_near if is_left else view.right_near]
        g = np.int64(halves[2 * at + index.gid])
        if halves[2 * record(store.tables[index.group], g) + index.heavy] != 0:
            other = joins.indexes[view.right_near if is_left else view.left_near]
            if not _has_room(store, sums, view.table, np.int64(halves[partition + other.heavies])):
                return NO_ROOM
            near, far = view.left_near_at, view.left_far_at
            if not is_left:
                near, far = view.right_near_at, view.right_far_at
            # Left sides come first, and read the right one as it was; so right sides read the left one as it will be.
            reads = state[ROW] if not is_left and view.left == e else np.int64(-1)
            if not _extend(store, joins, pairs, sums, v, is_left, words[at + near], words[at + far], reads):
                return TOO_MANY
        state[STEP] += 1
    return DONE


@kernel
def _rebalance(store: Store, joins: Joins, pairs: Pairs, sums: Sums, e: Int, is_gone: Int) -> Int:
    """Make the values of the changed row heavy or light by the lengths of their lists. DONE, NO_ROOM or TOO_MANY."""
    halves, state, edge = store.halves, sums.state, joins.edges[e]
    at = 2 * record(store.tables[edge.table], state[ROW])
    threshold = pairs.thresholds[store.words[_partition_at(store, pairs) + pairs.partition[1]]]
    while state[STEP] < edge.indexes:
        i = edge.first_index + state[STEP]
        index = joins.indexes[i]
        g = np.int64(halves[at + index.gid])
        there = 2 * record(store.tables[index.group], g)
        size, is_heavy = np.int64(halves[there + index.size]) - is_gone, halves[there + index.heavy] != 0
        ended = np.int64(DONE)
        if not is_heavy and 2 * size >= 3 * threshold:
            ended = _flip(store, joins, pairs, sums, i, g, 1)
        elif is_heavy and 2 * size < threshold:
            ended = _flip(store, joins, pairs, sums, i, g, 0)
        if ended != DONE:
            return ended
        state[STEP] += 1
    return DONE


@kernel
def _resize(store: Store, joins: Joins, pairs: Pairs, sums: Sums) -> Int:
    """Double or halve N if the edges' rows ask for it, and partition anew. Whether they did."""
    words, partition = store.words, _partition_at(store, pairs)
    rows = np.int64(0)
    for e in range(len(joins.edges)):
        rows += store.tables[joins.edges[e].table].live
    before = words[partition + pairs.partition[1]]
    exponent = before
    while rows >= np.int64(1) << exponent:
        exponent += 1
    while exponent > 0 and 4 * rows < np.int64(1) << exponent:
        exponent -= 1
    if exponent == before:
        return False
    words[partition + pairs.partition[1]] = exponent
    words[partition + pairs.partition[3]] += 1
    _partition_anew(store, joins, pairs, pairs.thresholds[exponent])
    return True


@kernel
def sum_changes(
    store: Store, joins: Joins, pairs: Pairs, sums: Sums, e: Int, codes: Words, copies: Words, values: Words
) -> Int:
    """Apply changed rows of edge e, and add to the totals what they change.

    `codes` has a row per position, `copies` signed numbers, `values` a row per weight: what it counts per copy. The
    edge's tables have room. DONE; NO_ROOM: make it, and call again; TOO_MANY: a sum does not fit, and the store is
    unusable.
    """
    words, state, edge = store.words, sums.state, joins.edges[e]
    table = store.tables[edge.table]
    while state[ENTRY] < len(copies):
        k, ended = state[ENTRY], np.int64(DONE)
        if state[PHASE] == ARRIVES:
            sums.key[0], sums.key[1] = codes[0, k], codes[1, k]
            state[ROW] = arrive(store, joins, e, sums.key[:2], sums.key[2:])
            old = words[record(table, state[ROW]) + table.mult]
            new = old + copies[k]
            sums.change[0] = min(new, 1) - min(old, 1) if edge.clamp else copies[k]
            for w in range(edge.weighted):
                sums.change[w + 1], high, _ = product(
                    sums.change[0], sums.change[0] >> 63, values[w, k], values[w, k] >> 63
                )
                if high != sums.change[w + 1] >> 63:
                    return TOO_MANY
            if sums.change[0] != 0:
                for r in range(edge.first_route, edge.first_route + edge.routes):
                    if not _join(store, joins, pairs, sums, e, r):
                        return TOO_MANY
            state[PHASE], state[STEP] = EXTENDS if sums.change[0] != 0 else SETTLES, 0
        if state[PHASE] == EXTENDS:
            ended = _extend_views(store, joins, pairs, sums, e)
            if ended != DONE:
                return ended
            state[PHASE] = SETTLES
        at = record(table, state[ROW])
        if state[PHASE] == SETTLES:
            words[at + table.mult] += copies[k]
            for w in range(edge.weighted):
                lo, hi, _ = add(
                    words[at + edge.weights + w],
                    words[at + edge.weights + w] >> 63,
                    sums.change[w + 1],
                    sums.change[w + 1] >> 63,
                )
                if hi != lo >> 63:
                    return TOO_MANY
                words[at + edge.weights + w] = lo
            state[PHASE], state[STEP] = PARTITIONS, 0
        if state[PHASE] == PARTITIONS:
            ended = _rebalance(store, joins, pairs, sums, e, np.int64(words[at + table.mult] == 0))
            if ended != DONE:
                return ended
            if words[at + table.mult] == 0:
                leave(store, joins, e, state[ROW])
            state[PHASE], state[STEP], state[PLACE] = SUMS_UP, 0, -2
            if not _resize(store, joins, pairs, sums):
                state[STEP] = len(pairs.views)
        ended = _sum_up(store, joins, pairs, sums)
        if ended != DONE:
            return ended
        state[PHASE] = ARRIVES
        state[ENTRY] += 1
    return DONE
