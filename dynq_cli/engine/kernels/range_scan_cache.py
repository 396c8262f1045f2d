"""Cache the rows of the last ranges that an enumeration read, with their multiplicities: the *trail*.

Ranges of one group are parts of one list, and overlap. The rows along the list are kept as far as there is room. A
range whose first row is on the trail is copied from there, instead of gathered from records all over the arena.

Rows are read when they are needed, not before: the trail ends where the last block ended, or behind it. Places on it
hold until it begins anew, which it does when no place is needed any more.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.enumeration_pipeline import OutputSet
from dynq_cli.engine.kernels.fields import Halves, Int, Store, Words
from dynq_cli.engine.kernels.table import record

BEGIN, KNOWN, MOST, STATE = range(4)
# Rows that are compared one by one before `where` is asked: short ranges do not touch it.
NEAR = 8
# Places of a row that is still to be looked for, and of one that the trail has no room for.
UNKNOWN, BEYOND = -1, -2


class Trail(NamedTuple):
    """The rows of the last lists, in their order."""

    rows: Words  # [place]: rows of lists, one list behind the other, each from some row on
    where: Halves  # [row]: the place of a row of the last list, but for its first NEAR, if `rows` has the row there
    codes: Words  # [c, place]: output column c, if it is of the innermost level
    many: Words  # [place]: the multiplicity
    state: Words  # BEGIN: where the last list begins, KNOWN: known places, MOST: the largest multiplicity or more


@kernel
def most_of(store: Store, node_id: Int, rows: Words, many: Words, start: Int, stop: Int) -> Int:
    """Gather the multiplicities of rows of the innermost level; return the largest, or -1 if one does not fit 63
    bits."""
    words = store.words
    node = store.nodes[node_id]
    if node.clamp:
        for j in range(start, stop):
            many[j] = 1
        return np.int64(1)
    table, is_leaf = store.tables[node.table], node.degree == 0
    at, stride = table.rows + (table.mult if is_leaf else node.value), table.stride
    most = np.int64(1)
    for j in range(start, stop):
        place = at + rows[j] * stride
        if words[place] < 0 or (not is_leaf and words[place + 1] != 0):
            return np.int64(-1)
        many[j] = words[place]
        most = max(most, many[j])
    return most


@kernel
def _place_of(trail: Trail, row: Int) -> Int:
    """Return the place of a row of the last list, or UNKNOWN."""
    begin, known = trail.state[BEGIN], trail.state[KNOWN]
    for near in range(begin, min(known, begin + NEAR)):
        if trail.rows[near] == row:
            return np.int64(near)
    if known > begin + NEAR:
        place = np.int64(trail.where[row])
        if begin + NEAR <= place < known and trail.rows[place] == row:
            return place
    return np.int64(UNKNOWN)


@kernel
def _extend(store: Store, output: OutputSet, counted: Int, trail: Trail, row: Int, until: Int, tail: Int) -> Int:
    """Append a row and the rows behind it to the trail, up to a place or the tail; False if a multiplicity does not
    fit."""
    level = len(output.levels) - 1
    node_id = output.levels[level]
    node = store.nodes[node_id]
    table, first = store.tables[node.table], trail.state[KNOWN]
    start, stride, following = table.rows, table.stride, node.next
    known = first
    while known < until and row >= 0:
        trail.rows[known] = row
        if known >= trail.state[BEGIN] + NEAR:
            trail.where[row] = known
        known += 1
        row = np.int64(-1) if row == tail else np.int64(store.halves[2 * (start + row * stride) + following])
    for c in range(len(output.column_level)):
        if output.column_level[c] == level:
            at, kept = start + output.column_position[c], trail.codes[c]
            for place in range(first, known):
                kept[place] = store.words[at + trail.rows[place] * stride]
    trail.state[KNOWN] = known
    if counted:
        most = most_of(store, node_id, trail.rows, trail.many, first, known)
        if most < 0:
            return False
        trail.state[MOST] = max(trail.state[MOST], most)
    return True


@kernel(inline="always")
def _behind(store: Store, output: OutputSet, row: Int) -> Int:
    """Return the row behind another in a list of the innermost level, or -1."""
    node = store.nodes[output.levels[len(output.levels) - 1]]
    return np.int64(store.halves[2 * record(store.tables[node.table], row) + node.next])


@kernel
def take_run(
    store: Store,
    output: OutputSet,
    counted: Int,
    trail: Trail,
    row: Int,
    place: Int,
    tail: Int,
    room: Int,
    may_begin: Int,
) -> tuple[Int, Int, Int, Int]:
    """Take a range from a row on, at most `room` rows of it.

    Returns its place on the trail, its length, the row that follows or -1 at the end, and the place of that row. The
    length is -1 if a multiplicity does not fit 63 bits. `may_begin` says that no place is needed any more; otherwise
    there is room for one row at least.
    """
    if place == UNKNOWN:
        place = _place_of(trail, row)
    if place == UNKNOWN:
        if may_begin:
            trail.state[KNOWN], trail.state[MOST] = 0, 1
        place = trail.state[BEGIN] = trail.state[KNOWN]
    stop = min(place + room, np.int64(len(trail.rows)))
    last = _place_of(trail, tail)
    known = trail.state[KNOWN]
    if last < place and known < stop:
        if known > place:
            row = _behind(store, output, trail.rows[known - 1])
        if not _extend(store, output, counted, trail, row, stop, tail):
            return place, np.int64(-1), np.int64(-1), place
        known = trail.state[KNOWN]
        if trail.rows[known - 1] == tail:
            last = known - 1
    if place <= last < stop:
        return place, last - place + 1, np.int64(-1), np.int64(UNKNOWN)
    if stop < known:
        return place, stop - place, trail.rows[stop], stop
    row = _behind(store, output, trail.rows[stop - 1])
    return place, stop - place, row, stop if stop < len(trail.rows) else np.int64(BEYOND)
