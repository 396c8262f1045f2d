"""The delta of a cyclic join, changed row by changed row.

    Δ(A ⋈ B ⋈ C) for one row of A: a walk over the levels of each route, depth first; each level goes through the
    shortest of its lists, and looks the other atoms up

A row is in its lists while its delta is joined; its multiplicity is still the old one. So the others see what was, or,
where a route asks for it, what will be. A walk stops where the block of results is full, and goes on from there.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.cycle_edges import Joins, arrive, leave
from dynq_cli.engine.kernels.fields import Int, Store, Words
from dynq_cli.engine.kernels.table import find, record

# Where a join stands, in `Walk.state`: the changed row, its route, the level (-1 before a route), the row's id and
# what its multiplicity changes by, its edge, how many rows lists have given, and the sum if rows are only counted.
ENTRY, ROUTE_AT, DEPTH, ROW, CHANGE, CHANGED_EDGE, SCANNED, SUM, STATE = range(9)
GOES_ON, DONE, TOO_MANY = 0, 1, 2
# Beyond this a product of copies may not fit.
_LARGEST = 9.2e18


class Walk(NamedTuple):
    """A join under way."""

    state: Words
    slots: Words  # the values bound
    cursors: Words  # per level: the next row of its list, or -1
    chosen: Words  # per level: the operand that is scanned
    products: Words  # per level: what it multiplies
    key: Words  # scratch


class Out(NamedTuple):
    """Rows of the delta, to be filled."""

    codes: Words  # a row per variable
    copies: Words


@kernel(inline="always")
def _copies(store: Store, joins: Joins, walk: Walk, o: Int, row: Int) -> Int:
    """How often a row counts for an operand."""
    operand, state = joins.operands[o], walk.state
    edge = joins.edges[operand.edge]
    table = store.tables[edge.table]
    many = store.words[record(table, row) + table.mult]
    if edge.clamp:
        many = min(many, np.int64(1))
    if operand.new and row == state[ROW] and operand.edge == state[CHANGED_EDGE]:
        many += state[CHANGE]
    return many


@kernel(inline="always")
def _group(store: Store, joins: Joins, walk: Walk, o: Int, i: Int) -> Int:
    """The group of index i with what is bound, for an operand; or -1."""
    index, slots = joins.indexes[i], joins.operands[o].slots
    for j in range(index.length):
        walk.key[j] = walk.slots[joins.lists[slots + joins.lists[index.key + j]]]
    return find(store, index.group, walk.key)


@kernel
def _looked_up(store: Store, joins: Joins, walk: Walk, o: Int) -> Int:
    """How often an operand has what is bound; 1 if other levels count its rows, and there is one."""
    operand = joins.operands[o]
    if operand.probe >= 0:
        return np.int64(_group(store, joins, walk, o, operand.probe) >= 0)
    table_id = joins.edges[operand.edge].table
    for j in range(store.tables[table_id].arity):
        walk.key[j] = walk.slots[joins.lists[operand.slots + j]]
    row = find(store, table_id, walk.key)
    return np.int64(0) if row < 0 else _copies(store, joins, walk, o, row)


@kernel
def _enter(store: Store, joins: Joins, walk: Walk, first: Int, depth: Int) -> None:
    """Choose the shortest list of a level."""
    level = joins.levels[first + depth]
    best = np.int64(-1)
    walk.cursors[depth] = -1
    for o in range(level.first, level.first + level.operands):
        i = joins.operands[o].index
        if i >= 0:
            index = joins.indexes[i]
            g = _group(store, joins, walk, o, i)
            if g < 0:
                walk.cursors[depth] = -1
                return
            at = 2 * record(store.tables[index.group], g)
            size = np.int64(store.halves[at + index.size])
            if best < 0 or size < best:
                best = size
                walk.chosen[depth] = o
                walk.cursors[depth] = store.halves[at + index.head]


@kernel
def _times(a: Int, b: Int) -> tuple[Int, Int]:
    """a × b, and whether it fits."""
    return a * b, abs(np.float64(a) * np.float64(b)) < _LARGEST


@kernel
def _emit(joins: Joins, walk: Walk, out: Out, filled: Int, many: Int) -> Int:
    """One more row of the delta; or more in the sum, -1 if that does not fit."""
    if len(joins.head) == 0:
        before = walk.state[SUM]
        if abs(np.float64(before) + np.float64(many)) > _LARGEST:
            return np.int64(-1)
        walk.state[SUM] = before + many
        return filled
    for c in range(len(joins.head)):
        out.codes[c, filled] = walk.slots[joins.head[c]]
    out.copies[filled] = many
    return filled + 1


@kernel
def _start(store: Store, joins: Joins, walk: Walk, e: Int, r: Int) -> tuple[Int, Int]:
    """Bind what the changed row binds, and look up what needs no list: the product and whether it fits."""
    words, route, table = store.words, joins.routes[r], store.tables[joins.edges[e].table]
    at, lists = record(table, walk.state[ROW]), joins.lists
    for k in range(route.bound):
        walk.slots[lists[route.binds + 2 * k]] = words[at + lists[route.binds + 2 * k + 1]]
    for k in range(route.checked):
        if walk.slots[lists[route.checks + 2 * k]] != words[at + lists[route.checks + 2 * k + 1]]:
            return np.int64(0), True
    product, fits = np.int64(route.times), True
    for _ in range(route.power):
        product, fits = _times(product, walk.state[CHANGE])
        if not fits:
            return product, False
    if route.levels > 0 and not joins.levels[route.first].scans:
        level = joins.levels[route.first]
        for o in range(level.first, level.first + level.operands):
            product, fits = _times(product, _looked_up(store, joins, walk, o))
            if product == 0 or not fits:
                return product, fits
    return product, True


@kernel
def _walk(store: Store, joins: Joins, walk: Walk, r: Int, out: Out, filled: Int) -> tuple[Int, Int]:
    """Go on with a route, below its lookups: (how it ended, rows filled)."""
    words, halves, state, route = store.words, store.halves, walk.state, joins.routes[r]
    least = np.int64(route.levels > 0 and not joins.levels[route.first].scans)
    depth, last = state[DEPTH], route.levels - 1
    while depth >= least:
        level = joins.levels[route.first + depth]
        if depth == last and len(joins.head) > 0 and filled == len(out.copies):
            state[DEPTH] = depth
            return GOES_ON, filled
        row = walk.cursors[depth]
        if row == -1:
            depth -= 1
            continue
        product, fits = walk.products[depth], True
        if row < -1:
            # The row was bound with those of another level.
            walk.cursors[depth] = -1
        else:
            o = walk.chosen[depth]
            operand = joins.operands[o]
            table = store.tables[joins.edges[operand.edge].table]
            at = record(table, row)
            walk.cursors[depth] = halves[2 * at + joins.indexes[operand.index].next]
            state[SCANNED] += 1
            for j in range(table.arity):
                walk.slots[joins.lists[operand.slots + j]] = words[at + j]
            product, fits = _times(product, _copies(store, joins, walk, o, row))
            for other in range(level.first, level.first + level.operands):
                if other != o and product != 0 and fits:
                    product, fits = _times(product, _looked_up(store, joins, walk, other))
        if not fits:
            return TOO_MANY, filled
        if product == 0:
            continue
        if depth == last:
            filled = _emit(joins, walk, out, filled, product)
            if filled < 0:
                return TOO_MANY, filled
            continue
        depth += 1
        walk.products[depth] = product
        _enter_or_pass(store, joins, walk, route.first, depth)
    return DONE, filled


@kernel
def _enter_or_pass(store: Store, joins: Joins, walk: Walk, first: Int, depth: Int) -> None:
    """Enter a level, unless its only operand was scanned before."""
    level = joins.levels[first + depth]
    if level.over >= 0 and walk.chosen[level.over] == level.over_operand:
        walk.cursors[depth] = -2
    else:
        _enter(store, joins, walk, first, depth)


@kernel
def _begin(store: Store, joins: Joins, walk: Walk, e: Int, r: Int, out: Out, filled: Int) -> tuple[Int, Int]:
    """Begin a route: (how it ended, rows filled); DONE with a depth of -1 if there is nothing to walk."""
    state, route = walk.state, joins.routes[r]
    product, fits = _start(store, joins, walk, e, r)
    if not fits:
        return TOO_MANY, filled
    if product == 0:
        return DONE, filled
    least = np.int64(route.levels > 0 and not joins.levels[route.first].scans)
    if route.levels == least:
        filled = _emit(joins, walk, out, filled, product)
        return (TOO_MANY if filled < 0 else DONE), filled
    walk.products[least] = product
    state[DEPTH] = least
    _enter_or_pass(store, joins, walk, route.first, least)
    return GOES_ON, filled


@kernel
def join(
    store: Store, joins: Joins, walk: Walk, e: Int, codes: Words, copies: Words, out: Out, start: Int
) -> tuple[Int, Int]:
    """Apply changed rows of edge e, and fill `out` from `start` on with the delta: (how it ended, rows filled).

    `codes` has a row per position, `copies` signed numbers. Tables have room for all of them. GOES_ON: read `out`, and
    call again. TOO_MANY: a row has too many copies, and the store is unusable.
    """
    words, state, edge = store.words, walk.state, joins.edges[e]
    table = store.tables[edge.table]
    stop, filled = edge.first_route + edge.routes, start
    state[CHANGED_EDGE] = e
    while state[ENTRY] < len(copies):
        k = state[ENTRY]
        if state[ROW] < 0:
            for j in range(table.arity):
                walk.key[j] = codes[j, k]
            state[ROW] = arrive(store, joins, e, walk.key[: table.arity], walk.key[table.arity :])
            old = words[record(table, state[ROW]) + table.mult]
            new = old + copies[k]
            state[CHANGE] = min(new, 1) - min(old, 1) if edge.clamp else copies[k]
            state[ROUTE_AT], state[DEPTH] = edge.first_route, -1
        while state[ROUTE_AT] < stop and state[CHANGE] != 0:
            r, ended = state[ROUTE_AT], GOES_ON
            if state[DEPTH] < 0:
                if len(joins.head) > 0 and filled == len(out.copies):
                    return GOES_ON, filled
                ended, filled = _begin(store, joins, walk, e, r, out, filled)
            if ended == GOES_ON:
                ended, filled = _walk(store, joins, walk, r, out, filled)
            if ended != DONE:
                return ended, filled
            state[ROUTE_AT] += 1
            state[DEPTH] = -1
        at = record(table, state[ROW]) + table.mult
        words[at] += copies[k]
        if words[at] == 0:
            leave(store, joins, e, state[ROW])
        state[ROW] = -1
        state[ENTRY] += 1
    return DONE, filled
