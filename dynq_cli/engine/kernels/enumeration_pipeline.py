"""Enumerate a result in stages: the nested loops over the output set, some hundred combinations at a time.

A level is a node of the output set. Its rows are the live rows of the group that belongs to the parent's current row,
linked through `next`. Stage 0 is the root's one row. An entry of stage s extends an entry of stage s - 1, its *origin*,
by a row of level s - 1. Entries stand in the order of the nested loops, whatever the size of a stage: a full stage is
consumed, and then filled again from where its lists were left.

No list on the way is empty while the parent's row is live, so every entry leads to a result row: constant delay. Lists
are linked through records all over the arena. So before the lists of some entries are read one after the other, all of
them are followed side by side, which prefetches as many records at once as there are lists.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.bounds import range_of
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Flags, Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.order_statistic_blocks import NONE, row_at
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.range_ends import advance, advance_back
from dynq_cli.engine.kernels.table import record

# Where a stage is.
STAGE = row_type(
    "filled",  # entries there are
    "origin",  # the origin whose list is being followed
    "next",  # the next row of that list, or -1 at its beginning
    "warm",  # origins whose heads are known
    "place",  # of the innermost level, where in the trail that row is
)
# How many records a stage asks for at most before it follows a list: what an inner cache holds.
WARMED = 2048
LARGEST = 9.2e18


class OutputSet(NamedTuple):
    """The levels below the root, and the requested columns."""

    levels: Words  # the node of each level, parents first
    above: Words  # the level of its parent, or -1
    frontier: Flags  # whether its multiplicities count
    column_level: Words  # per column: its level
    column_position: Words  # and where it stands in the record


class Stages(NamedTuple):
    """Combinations of rows, by stage s and entry e; stage 0 is the root."""

    rows: Words  # [s, e]: the row of level s - 1
    origin: Words  # [s, e]: the entry of stage s - 1 it extends
    codes: Words  # [s, c, e]: output column c, for columns of levels up to s - 1
    copies: Words  # [s, e]: the product of the multiplicities so far
    heads: Words  # [s, e]: the first row of level s - 1 under entry e of stage s - 1, for those that are warm
    tails: Words  # [s, e]: the last one, if it is not the last of its list; else -1
    state: Rows  # STAGE
    walkers: Words  # scratch: a row of each list that is followed
    places: Words  # scratch: likewise


@kernel
def _follow_together(store: Store, node_id: Int, walkers: Words, ends: Words, many: Int) -> None:
    """Prefetch the rows of the lists that start at `walkers`, up to their `ends`, while several lists are left."""
    node = store.nodes[node_id]
    table, following = store.tables[node.table], node.next
    start, stride = table.rows, table.stride
    budget = WARMED
    while many > 1 and budget > 0:
        budget -= many
        left = 0
        for k in range(many):
            if walkers[k] == ends[k]:
                continue
            row = np.int64(store.halves[2 * (start + walkers[k] * stride) + following])
            if row >= 0:
                prefetch(store.words, start + row * stride)
                walkers[left], ends[left] = row, ends[k]
                left += 1
        many = left


@kernel
def warm(store: Store, output: OutputSet, s: Int, stages: Stages) -> None:
    """Find the heads of the next few lists of stage s and prefetch their rows. O(entries) amortised."""
    if store.nodes[output.levels[s - 1]].waits >= 0:
        _warm_waiting(store, output, s, stages)
        return
    words, halves = store.words, store.halves
    walkers, places = stages.walkers, stages.places
    node_id, of = output.levels[s - 1], output.above[s - 1] + 1
    node = store.nodes[node_id]
    table, own = store.tables[node.table], node.own
    is_range = node.end >= 0
    parent, group = store.tables[store.nodes[node.parent].table], store.tables[node.group]
    begin = stages.state[s].warm
    end = min(begin + len(walkers), stages.state[s - 1].filled)
    before = np.int64(-1)
    for e in range(begin, end):
        p = np.int64(e)
        for k in range(s - 1, of, -1):
            p = stages.origin[k, p]
        row = stages.rows[of, p]
        # A list that many entries share, as those of siblings do, is asked for once.
        if row == before:
            places[e - begin] = -1
            continue
        before = row
        place = 2 * record(parent, row) + (node.begin if own else node.reads)
        places[e - begin] = place
        prefetch(words, place >> 1)
    if not own:
        for k in range(end - begin):
            if places[k] >= 0:
                places[k] = 2 * record(group, np.int64(halves[places[k]])) + node.begin
                prefetch(words, places[k] >> 1)
    many = 0
    for k in range(end - begin):
        if places[k] < 0:
            stages.heads[s, begin + k] = stages.heads[s, begin + k - 1]
            stages.tails[s, begin + k] = stages.tails[s, begin + k - 1]
            continue
        head = np.int64(halves[places[k]])
        tail = np.int64(halves[places[k] - node.begin + node.end]) if is_range else np.int64(-1)
        prefetch(words, record(table, head))
        stages.heads[s, begin + k], stages.tails[s, begin + k] = head, tail
        # Places up to here have been read.
        walkers[many], places[many] = head, tail
        many += 1
    _follow_together(store, node_id, walkers, places, many)
    stages.state[s].warm = end


@kernel
def _warm_waiting(store: Store, output: OutputSet, s: Int, stages: Stages) -> None:
    """As `warm`, for ranges whose ends are in no record: each is found from the one before, O(1) amortised.

    Readers come in their order, so that ranges neither begin nor end before the last.
    """
    halves, walkers, places = store.halves, stages.walkers, stages.places
    node_id, of = output.levels[s - 1], output.above[s - 1] + 1
    node = store.nodes[node_id]
    table, tree, readers = store.tables[node.table], node.tree, node.readers
    parent, group = store.tables[store.nodes[node.parent].table], store.tables[node.group]
    begin, many = stages.state[s].warm, 0
    end = min(begin + len(walkers), stages.state[s - 1].filled)
    before, root, last_lo, last_hi = np.int64(-1), np.int64(NONE), np.int64(0), np.int64(0)
    head, head_entry, tail, tail_entry = np.int64(NONE), np.int64(0), np.int64(NONE), np.int64(0)
    for e in range(begin, end):
        p = np.int64(e)
        for k in range(s - 1, of, -1):
            p = stages.origin[k, p]
        row = stages.rows[of, p]
        if row == before:
            stages.heads[s, e], stages.tails[s, e] = stages.heads[s, e - 1], stages.tails[s, e - 1]
            continue
        before = row
        at = record(parent, row)
        lo, hi = range_of(store, readers, at)
        here = np.int64(halves[2 * record(group, np.int64(halves[2 * at + node.reads])) + node.root])
        if here != root or lo < last_lo or hi < last_hi:
            root, head, tail = here, np.int64(NONE), np.int64(NONE)
        head, head_entry = advance(store, tree, root, head, head_entry, lo)
        tail, tail_entry = advance_back(store, tree, root, tail, tail_entry, hi)
        last_lo, last_hi = lo, hi
        first, last = row_at(store, tree, head, head_entry), row_at(store, tree, tail, tail_entry)
        prefetch(store.words, record(table, first))
        stages.heads[s, e], stages.tails[s, e] = first, last
        walkers[many], places[many] = first, last
        many += 1
    _follow_together(store, node_id, walkers, places, many)
    stages.state[s].warm = end


@kernel
def multiplicity(store: Store, node_id: Int, row: Int) -> Int:
    """Return the copies that a frontier row contributes, or -1 if they do not fit 63 bits."""
    words = store.words
    node = store.nodes[node_id]
    if node.clamp:
        return np.int64(1)
    table = store.tables[node.table]
    if node.degree == 0:
        return words[record(table, row) + table.mult]
    at = record(table, row) + node.value
    return words[at] if words[at + 1] == 0 and words[at] >= 0 else np.int64(-1)


@kernel
def _expand(store: Store, output: OutputSet, s: Int, stages: Stages) -> None:
    """Fill stage s with the rows that follow the entries it had."""
    node = store.nodes[output.levels[s - 1]]
    table, following = store.tables[node.table], node.next
    start, stride = table.rows, table.stride
    size = stages.rows.shape[1]
    stage, before = stages.state[s], stages.state[s - 1]
    n, p, row = 0, stage.origin, stage.next
    while n < size and p < before.filled:
        if p == stage.warm:
            warm(store, output, s, stages)
        if row < 0:
            row = stages.heads[s, p]
        while row >= 0 and n < size:
            stages.rows[s, n] = row
            stages.origin[s, n] = p
            n += 1
            is_last = row == stages.tails[s, p]
            row = np.int64(-1) if is_last else np.int64(store.halves[2 * (start + row * stride) + following])
        if row < 0:
            p += 1
    stage.filled, stage.origin, stage.next = n, p, row


@kernel
def _carry(store: Store, node_id: Int, s: Int, stages: Stages, n: Int, output: OutputSet) -> None:
    """Compute the output columns of a full stage: its own level's from its rows, earlier ones from the origins."""
    table = store.tables[store.nodes[node_id].table]
    for c in range(len(output.column_level)):
        if output.column_level[c] == s - 1:
            at, stride = table.rows + output.column_position[c], table.stride
            for e in range(n):
                stages.codes[s, c, e] = store.words[at + stages.rows[s, e] * stride]
        elif output.column_level[c] < s - 1:
            for e in range(n):
                stages.codes[s, c, e] = stages.codes[s - 1, c, stages.origin[s, e]]


@kernel
def _multiply(store: Store, node_id: Int, s: Int, stages: Stages, n: Int, counts: Int) -> Int:
    """Compute the copies of a full stage; False if some do not fit 63 bits."""
    for e in range(n):
        many = stages.copies[s - 1, stages.origin[s, e]]
        if counts:
            more = multiplicity(store, node_id, stages.rows[s, e])
            if more < 0 or float(many) * float(more) > LARGEST:
                return False
            many *= more
        stages.copies[s, e] = many
    return True


@kernel
def is_left(stages: Stages) -> Int:
    """Whether any stage has a list that was not followed to its end."""
    for s in range(1, len(stages.state)):
        if stages.state[s].origin < stages.state[s - 1].filled:
            return True
    return False


@kernel
def refill(store: Store, output: OutputSet, counted: Int, stages: Stages) -> Int:
    """Fill the stage before the innermost level again, whose lists have run out.

    Some stage has a list left. Returns False if a multiplicity does not fit 63 bits.
    """
    last = len(output.levels)
    s = last - 1
    while stages.state[s].origin == stages.state[s - 1].filled:
        s -= 1
    while s < last:
        node_id = output.levels[s - 1]
        _expand(store, output, s, stages)
        n = stages.state[s].filled
        _carry(store, node_id, s, stages, n, output)
        if counted and not _multiply(store, node_id, s, stages, n, output.frontier[s - 1]):
            return False
        s += 1
        stage = stages.state[s]
        stage.origin, stage.next, stage.warm = 0, -1, 0
    return True
