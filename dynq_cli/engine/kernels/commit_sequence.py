"""A sequence of commits, each with changes of any relations, through all the trees that read these relations.

For each commit, in order:

    RESOLVE    the changes of every relation become its base delta, or the commit is refused with nothing changed
    then, for each tree in the order of the program,
               the leaves of all its relations take over their base deltas, and its nodes are recomputed
    last       base rows that went leave the trees, and are freed

The commits leave the same rows under the same ids as if each were applied by itself (`kernels.commit`, for the commits
of one relation). `run` stops at the first commit that is refused; those before it hold. How far it is stands in a row
of POSITION, so it can stop for room anywhere and go on.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.base import collect, forget, settle, take_back
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import OK, Batch, DeltaEntries, Int, Rows, Scratch, Store, Words, row_type
from dynq_cli.engine.kernels.release import release_leaf
from dynq_cli.engine.kernels.table import record
from dynq_cli.engine.kernels.update import propagate, update_leaf

# Stages of a commit: RESOLVE, then number + 1 of each tree.
RESOLVE = 0

# A relation: its base table and its leaves, which stand one after the other.
RELATION = row_type("table", "first_leaf", "stop_leaf")
# A tree: its nodes, and the relations that it reads.
TREE_STEP = row_type("first_node", "stop_node", "first_reader", "stop_reader")
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
    "entries",  # how many entries its base deltas have
    "relation",  # the relation and the change at fault
    "change",
    "missed",  # deletes of the commit on its way that missed
    "skipped",  # such deletes of all commits that were resolved
)


class Program(NamedTuple):
    """The relations and trees that commits pass through."""

    relations: Rows  # RELATION
    trees: Rows  # TREE_STEP: in the order of the program
    readers: Rows  # READER: tree by tree
    leaves: Words  # relation by relation, in the order of the trees


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
    store: Store, program: Program, commits: Commits, delta: DeltaEntries, spans: Rows, scratch: Scratch, position: Rows
) -> Int:
    """Apply commits until all are through.

    Returns OK; NO_ROOM if counted trees need more blocks to go on (`propagate`); or what is wrong: then the commit on
    its way has changed nothing, unless a count overflowed.
    """
    at = position[0]
    while at.done < len(commits.ends):
        first = commits.ends[at.done - 1] if at.done > 0 else np.int64(0)
        stop = commits.ends[at.done]
        if at.stage == RESOLVE:
            status = _resolve(store, program, commits, first, stop, delta, spans, scratch, position)
            if status != OK:
                return status
            at.stage = 1
        while at.stage <= len(program.trees):
            status = _update_tree(store, program, commits.batch, delta, spans, scratch, position)
            if status != OK:
                return status
            at.stage += 1
        for p in range(first, stop):
            _release(store, program, commits.parts[p].relation, delta, spans)
        at.done, at.stage, at.entries = at.done + 1, RESOLVE, 0
    return OK


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
    delta: DeltaEntries,
    spans: Rows,
    scratch: Scratch,
    position: Rows,
) -> Int:
    """Apply the base deltas of its relations to the tree of this stage."""
    at = position[0]
    tree = program.trees[at.stage - 1]
    last: Int = -1
    for r in range(tree.first_reader, tree.stop_reader):
        reader = program.readers[r]
        span = spans[reader.relation]
        if span.start < span.stop:
            last = r
            if not at.has_leaves:
                table_id = program.relations[reader.relation].table
                for k in range(reader.first_leaf, reader.stop_leaf):
                    status = update_leaf(
                        store, program.leaves[k], table_id, delta, span.start, span.stop, batch, scratch
                    )
                    if status != OK:
                        return status
    if last < 0:
        return OK
    at.has_leaves = 1
    status = propagate(store, tree.first_node, tree.stop_node, scratch)
    if status != OK:
        return status
    at.has_leaves = 0
    if program.readers[last].is_last:
        # Nothing reads the rows that went any more.
        _release(store, program, program.readers[last].relation, delta, spans)
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
