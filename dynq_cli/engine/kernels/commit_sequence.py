"""A sequence of commits, each with changes of any relations, through all the trees that read these relations.

For each commit, in order:

    RESOLVE    the changes of every relation become its base delta, or the commit is refused with nothing changed
    then, for each tree in the order of the program,
               the leaves of all its relations take over their base deltas, and its nodes are recomputed;
               if the tree feeds derived relations, the delta of its result is written down (`Flows`)
    last       base rows that went leave the trees, and are freed

A tree that is not stored, for its rows are those of one relation, has a stage too: its delta is read off the base delta
(`base_delta_scan`). The commits leave the same rows under the same ids as if each were applied by itself
(`kernels.commit`, for the commits of one relation). `run` stops at the first commit that is refused; those before it
hold. How far it is stands in a row of POSITION, so it can stop for room anywhere and go on.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels import delta_join
from dynq_cli.engine.kernels.base import collect, forget, settle, take_back
from dynq_cli.engine.kernels.base_delta_scan import Scan, keep_computed, passed
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.delta_join import Stages
from dynq_cli.engine.kernels.delta_log import Block
from dynq_cli.engine.kernels.dirty import Marks
from dynq_cli.engine.kernels.fields import OK, Batch, DeltaEntries, Int, Rows, Scratch, Store, Words, row_type
from dynq_cli.engine.kernels.prefetch import prefetch
from dynq_cli.engine.kernels.release import release_leaf
from dynq_cli.engine.kernels.table import likely, record, tag_of
from dynq_cli.engine.kernels.update import propagate, update_leaf

# Beside a status: what is written down next needs room; a row of a delta has more copies than 63 bits hold.
FULL, TOO_MANY_COPIES = -2, -3

# Parts of commits that are prefetched before their turn: first the slot of a row, then its record.
_FAR, _NEAR = 8, 4

# Stages of a commit: RESOLVE, then number + 1 of each step.
RESOLVE = 0

# A relation: its base table, its leaves, which stand one after the other, and the computed values that its rows keep.
RELATION = row_type("table", "first_leaf", "stop_leaf", "first_stored", "stop_stored")
# A step: a tree, or a relation whose base delta is read off.
STEP = row_type(
    "flow",  # the number of its delta, or -1 if nobody asks for it
    "first_node",  # of a tree: its nodes, and the relations that it reads
    "stop_node",
    "first_reader",
    "stop_reader",
    "first_level",  # of a tree whose delta is read: its levels and routes
    "stop_level",
    "first_route",
    "stop_route",
    "root",
    "clamp",  # whether its result is a set
    "first_column",  # where the values of the delta's rows are read
    "stop_column",
    "relation",  # of what is read off a base delta, or -1; its filter, and the words of a row
    "filter",
    "first_source",
    "stop_source",
)
# A relation in a tree: its leaves there, and whether nothing after the tree reads the relation.
READER = row_type("relation", "first_leaf", "stop_leaf", "is_last")
# The changes of one relation in one commit: they end where those of the next part begin.
PART = row_type("relation", "stop")
# The entries that a relation has in the base deltas of the commit on its way; none from its release on.
SPAN = row_type("start", "stop", "may_miss")
POSITION = row_type(
    "done",  # commits that are through
    "stage",  # of the commit on its way
    "has_leaves",  # whether the leaves of the tree of this stage have taken their base deltas
    "reads",  # whether the delta of this stage is being read
    "before",  # how many rows the tree of this stage had, or 1 for more than 63 bits hold
    "taken",  # entries of a base delta that were read off
    "entries",  # how many entries its base deltas have
    "rows",  # how many rows of deltas were written down
    "relation",  # the relation and the change at fault
    "change",
    "missed",  # deletes of the commit on its way that missed
    "skipped",  # such deletes of all commits that were resolved
)
# What precedes the values of a row that was written down: the number of its delta, its commit, its signed copies.
FLOW, COMMIT, COPIES, VALUES = range(4)


class Program(NamedTuple):
    """The relations and steps that commits pass through."""

    relations: Rows  # RELATION
    steps: Rows  # STEP: in the order of the program
    readers: Rows  # READER: tree by tree
    leaves: Words  # relation by relation, in the order of the trees
    stored: Words  # relation by relation: computed columns, and the words of a base row that keep them
    filters: Words  # what is read off a base delta: the column of its filter, and the half word that keeps it
    sources: Words  # and the words that make up a row


class Flows(NamedTuple):
    """The deltas of steps, to be written down, and what reading them needs."""

    rows: Words  # a row per row of a delta: FLOW, COMMIT, COPIES, and its values
    marks: Marks  # the levels of all trees whose deltas are read, tree by tree
    routes: Rows  # delta_join.STEP
    stages: Stages
    out: Block  # columns of all deltas, and room for some rows
    state: Words  # how far `delta_join.fill` is


class Commits(NamedTuple):
    """Commits whose changes stand one after the other in one batch."""

    ends: Words  # the k-th commit ends before this part
    parts: Rows  # PART
    batch: Batch  # rows may be longer than those of their relation


@kernel(inline="always")
def _from(delta: DeltaEntries, start: Int) -> DeltaEntries:
    """The entries from one on."""
    return DeltaEntries(
        delta.touched[start:],
        delta.net[start:],
        delta.first[start:],
        delta.last[start:],
        delta.old[start:],
        delta.new[start:],
    )


@kernel
def run(
    store: Store,
    program: Program,
    commits: Commits,
    flows: Flows,
    delta: DeltaEntries,
    spans: Rows,
    scratch: Scratch,
    position: Rows,
) -> Int:
    """Apply commits until all are through.

    Returns OK; NO_ROOM if counted trees need more blocks to go on (`propagate`), FULL if rows of deltas need room; or
    what is wrong: then the commit on its way has changed nothing, unless a count overflowed or copies are too many.
    """
    at = position[0]
    while at.done < len(commits.ends):
        first = commits.ends[at.done - 1] if at.done > 0 else np.int64(0)
        stop = commits.ends[at.done]
        if at.stage == RESOLVE:
            _ask_ahead(store, program, commits, stop)
            status = _resolve(store, program, commits, first, stop, delta, spans, scratch, position)
            if status != OK:
                return status
            at.stage = 1
        while at.stage <= len(program.steps):
            if program.steps[at.stage - 1].relation >= 0:
                status = _read_off(store, program, commits.batch, flows, delta, spans, position)
            else:
                status = _update_tree(store, program, commits.batch, flows, delta, spans, scratch, position)
            if status != OK:
                return status
            at.stage += 1
        for p in range(first, stop):
            _release(store, program, commits.parts[p].relation, delta, spans)
        at.done, at.stage, at.entries = at.done + 1, RESOLVE, 0
    return OK


@kernel
def _ask_ahead(store: Store, program: Program, commits: Commits, p: Int) -> None:
    """Prefetch what the first changes of coming parts look for in their base tables."""
    words, parts = store.words, commits.parts
    if p + _FAR < len(parts):
        table = store.tables[program.relations[parts[p + _FAR].relation].table]
        tag = tag_of(commits.batch.codes[parts[p + _FAR - 1].stop], table.hashed)
        prefetch(words, table.slots + (tag & table.mask))
    if p > 0 and p + _NEAR < len(parts):
        table_id = program.relations[parts[p + _NEAR].relation].table
        tag = tag_of(commits.batch.codes[parts[p + _NEAR - 1].stop], store.tables[table_id].hashed)
        prefetch(words, max(likely(store, table_id, tag), np.int64(0)))


@kernel(inline="always")
def _resolve(
    store: Store,
    program: Program,
    commits: Commits,
    first: Int,
    stop: Int,
    delta: DeltaEntries,
    spans: Rows,
    scratch: Scratch,
    position: Rows,
) -> Int:
    """Turn the changes of parts first … stop into base deltas; if one is refused, take back those before it."""
    at = position[0]
    begin = commits.parts[first - 1].stop if first > 0 else np.int64(0)
    for p in range(first, stop):
        part = commits.parts[p]
        span, table_id = spans[part.relation], program.relations[part.relation].table
        mine = _from(delta, at.entries)
        status, change, n, missed = collect(
            store, table_id, commits.batch, begin, part.stop, mine, np.int64(0), scratch
        )
        if status == OK:
            status, change, more = settle(store, table_id, mine, n, span.may_miss)
            missed += more
        else:
            take_back(store, table_id, mine, n)
        if status != OK:
            at.relation, at.change, at.missed, at.entries = part.relation, change, 0, 0
            for earlier in range(first, p):
                _revert(store, program, commits.parts[earlier].relation, delta, spans)
            return status
        span.start, span.stop = at.entries, at.entries + n
        at.entries, at.missed, begin = at.entries + n, at.missed + missed, part.stop
    at.skipped, at.missed = at.skipped + at.missed, 0
    for p in range(first, stop):
        one = program.relations[commits.parts[p].relation]
        if one.first_stored < one.stop_stored:
            # Trees and deltas read these also of rows that go, of which only codes may be known by then.
            span = spans[commits.parts[p].relation]
            stored = program.stored[one.first_stored : one.stop_stored]
            keep_computed(
                store, one.table, _from(delta, span.start), span.stop - span.start, commits.batch.computed, stored
            )
    return OK


@kernel
def _revert(store: Store, program: Program, relation: Int, delta: DeltaEntries, spans: Rows) -> None:
    """Revert a resolved base delta that no tree has applied yet."""
    span, table_id = spans[relation], program.relations[relation].table
    table = store.tables[table_id]
    for i in range(span.start, span.stop):
        store.words[record(table, np.int64(delta.touched[i])) + table.mult] = delta.old[i]
    take_back(store, table_id, _from(delta, span.start), span.stop - span.start)
    span.start, span.stop = 0, 0


@kernel(inline="always")
def _update_tree(
    store: Store,
    program: Program,
    batch: Batch,
    flows: Flows,
    delta: DeltaEntries,
    spans: Rows,
    scratch: Scratch,
    position: Rows,
) -> Int:
    """Apply the base deltas of its relations to the tree of this stage, and write down the delta of its result."""
    at = position[0]
    tree = program.steps[at.stage - 1]
    last: Int = -1
    for r in range(tree.first_reader, tree.stop_reader):
        span = spans[program.readers[r].relation]
        if span.start < span.stop:
            last = r
    if last < 0:
        return OK
    if not at.reads:
        if not at.has_leaves:
            if tree.flow >= 0:
                at.before = _rows_of(store, tree.root)
            for r in range(tree.first_reader, last + 1):
                reader = program.readers[r]
                span, table_id = spans[reader.relation], program.relations[reader.relation].table
                for k in range(reader.first_leaf, reader.stop_leaf):
                    status = update_leaf(
                        store, program.leaves[k], table_id, delta, span.start, span.stop, batch, scratch
                    )
                    if status != OK:
                        return status
            at.has_leaves = 1
        status = propagate(store, tree.first_node, tree.stop_node, scratch)
        if status != OK:
            return status
        at.reads = 1
        for k in range(len(flows.state)):
            flows.state[k] = 0
    if tree.flow >= 0:
        status = _read_tree(store, program, flows, position)
        if status != OK:
            return status
    at.has_leaves, at.reads = 0, 0
    if program.readers[last].is_last:
        # Nothing reads the rows that went any more.
        _release(store, program, program.readers[last].relation, delta, spans)
    return OK


@kernel(inline="always")
def _rows_of(store: Store, root: Int) -> Int:
    """Count the rows of a tree's result; -1 if 63 bits do not hold the number."""
    node = store.nodes[root]
    at = record(store.tables[node.table], np.int64(0)) + node.value
    return np.int64(-1) if store.words[at + 1] != 0 or store.words[at] < 0 else store.words[at]


@kernel
def _read_tree(store: Store, program: Program, flows: Flows, position: Rows) -> Int:
    """Write down the delta of the tree of this stage; FULL if there may be no room for all rows."""
    at, out, marks = position[0], flows.out, flows.marks
    tree = program.steps[at.stage - 1]
    after = _rows_of(store, tree.root)
    if tree.first_level == tree.stop_level:
        return _read_number(flows, tree.flow, tree.clamp, after, position)
    levels = marks.levels[tree.first_level : tree.stop_level]
    listed = np.int64(0)
    for k in range(len(levels)):
        listed += store.nodes[levels[k].node].listed
    if listed == 0 and flows.state[delta_join.PHASE] == 0:
        return OK
    mine = Marks(
        levels,
        marks.root[tree.flow : tree.flow + 1],
        marks.below,
        marks.flags,
        marks.links,
        marks.heads,
        marks.groups,
        marks.changed,
        marks.work,
    )
    routes = flows.routes[tree.first_route : tree.stop_route]
    block = Block(out.columns[tree.first_column : tree.stop_column], out.codes, out.copies)
    while flows.state[delta_join.PHASE] != delta_join.DONE:
        if at.rows + len(out.copies) > len(flows.rows):
            return FULL
        filled = delta_join.fill(store, mine, routes, flows.stages, block, at.before != 0, after != 0, flows.state)
        if filled < 0:
            return TOO_MANY_COPIES
        _write(flows, tree.flow, len(block.columns), filled, position)
    return OK


@kernel
def _read_number(flows: Flows, flow: Int, clamp: Int, after: Int, position: Rows) -> Int:
    """Write down the delta of a result without columns: how many copies of its one row came or went."""
    at = position[0]
    before = at.before
    if before < 0 or after < 0:
        return TOO_MANY_COPIES
    if clamp:
        before, after = min(before, np.int64(1)), min(after, np.int64(1))
    if before == after:
        return OK
    if at.rows == len(flows.rows):
        return FULL
    flows.out.copies[0] = after - before
    _write(flows, flow, np.int64(0), np.int64(1), position)
    return OK


@kernel
def _write(flows: Flows, flow: Int, columns: Int, filled: Int, position: Rows) -> None:
    """Write down the rows of a block."""
    at, rows, out = position[0], flows.rows, flows.out
    for i in range(filled):
        row = rows[at.rows + i]
        row[FLOW], row[COMMIT], row[COPIES] = flow, at.done, out.copies[i]
        for c in range(columns):
            row[VALUES + c] = out.codes[c, i]
    at.rows += filled


@kernel
def _read_off(
    store: Store, program: Program, batch: Batch, flows: Flows, delta: DeltaEntries, spans: Rows, position: Rows
) -> Int:
    """Write down the delta of this stage, which is read off a base delta; FULL if there may be no room."""
    at, out = position[0], flows.out
    step = program.steps[at.stage - 1]
    span, table_id = spans[step.relation], program.relations[step.relation].table
    scan = Scan(
        program.filters[2 * step.filter : 2 * step.filter + 2], program.sources[step.first_source : step.stop_source]
    )
    while span.start + at.taken < span.stop:
        if at.rows + len(out.copies) > len(flows.rows):
            return FULL
        start = span.start + at.taken
        stop = min(start + len(out.copies), span.stop)
        filled = passed(store, table_id, delta, start, stop, batch.passes, scan, out.codes, out.copies)
        _write(flows, step.flow, len(scan.sources), filled, position)
        at.taken += stop - start
    at.taken = 0
    return OK


@kernel
def _release(store: Store, program: Program, relation: Int, delta: DeltaEntries, spans: Rows) -> None:
    """Free the base rows of a relation that went, and what nothing else refers to, unless that is done."""
    one, span = program.relations[relation], spans[relation]
    if span.start == span.stop:
        return
    mine, n = _from(delta, span.start), span.stop - span.start
    for k in range(one.first_leaf, one.stop_leaf):
        release_leaf(store, program.leaves[k], one.table, mine, n)
    forget(store, one.table, mine, n)
    span.start, span.stop = 0, 0
