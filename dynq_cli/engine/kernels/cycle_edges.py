"""The rows of a cycle's atoms, each in a list per value of each of its ends.

An *edge* is the table of all atoms that have the same rows; a row is its codes with a multiplicity. An *index* has a
group for each value of some of its positions: the rows with these codes, doubly linked, and how many they are. A group
without rows is freed. O(1) per row and index.
"""

from typing import NamedTuple

import numpy as np

from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.groups import link, unlink
from dynq_cli.engine.kernels.table import find_or_insert, record, remove

EDGE = row_type(
    "table",
    "first_index",
    "indexes",
    "first_route",
    "routes",
    "clamp",  # whether copies do not count
    "weights",  # wide, per row: what it counts in sums beside its copies; or -1
    "weighted",  # how many words that are
    "first_view",  # lists: pairs of a view and whether the edge is its left side
    "views",  # how many of these pairs
)
INDEX = row_type(
    "group",  # the table of groups
    "key",  # lists: the positions that rows of a group agree on
    "length",  # how many they are
    "gid",  # narrow, per row: its group
    "next",  # narrow, per row: the rows of a group, doubly linked
    "prev",
    "head",  # narrow, per group: its first row
    "size",  # narrow, per group: how many rows it has
    "heavy",  # narrow, per group: whether it is heavy; or -1 where groups are not told apart
    "heavy_next",  # narrow, per group: the heavy groups, doubly linked
    "heavy_prev",
    "heavy_head",  # narrow, in the record of the partition: the first heavy group
    "heavies",  # narrow, there: how many they are
)
# What a changed row meets in the other atoms; see `plan/delta_join`.
ROUTE = row_type(
    "power",  # in how many atoms the row stands
    "times",
    "binds",  # lists: pairs of a slot and the position of the row that binds it
    "bound",  # how many of these pairs
    "checks",  # lists: pairs of a slot and a position that has to agree with it
    "checked",
    "first",  # its levels
    "levels",
)
LEVEL = row_type(
    "first",  # its operands
    "operands",
    "scans",  # whether rows of a list are gone through
    "over",  # the level that may have scanned the only operand already, or -1
    "over_operand",  # as which of its operands
)
# One atom at one level.
OPERAND = row_type(
    "edge",
    "slots",  # lists: the slot of each position
    "index",  # the index whose lists are scanned, or -1
    "probe",  # the index in which a group is looked up in place of a row, or -1
    "new",  # whether the changed row is read as it will be
)


class Joins(NamedTuple):
    """What is joined, and by which routes."""

    edges: Rows  # EDGE
    indexes: Rows  # INDEX
    routes: Rows  # ROUTE
    levels: Rows  # LEVEL
    operands: Rows  # OPERAND
    lists: Words
    head: Words  # the slots of the rows that come out


@kernel
def key_of(words: Words, at: Int, joins: Joins, i: Int, key: Words) -> None:
    """The key of the group in index i of a row whose record is at `at`."""
    index = joins.indexes[i]
    for j in range(index.length):
        key[j] = words[at + joins.lists[index.key + j]]


@kernel
def arrive(store: Store, joins: Joins, e: Int, codes: Words, key: Words) -> Int:
    """The row of an edge with these codes, made and put into its lists if need be; the caller has made room."""
    words, halves = store.words, store.halves
    edge = joins.edges[e]
    row, is_new = find_or_insert(store, edge.table, codes)
    if is_new:
        at = record(store.tables[edge.table], row)
        for k in range(edge.weighted):
            words[at + edge.weights + k] = 0
        for i in range(edge.first_index, edge.first_index + edge.indexes):
            index = joins.indexes[i]
            key_of(words, at, joins, i, key)
            g, is_first = find_or_insert(store, index.group, key)
            there = 2 * record(store.tables[index.group], g)
            if is_first:
                halves[there + index.head] = -1
                halves[there + index.size] = 0
                if index.heavy >= 0:
                    halves[there + index.heavy] = 0
            link(store, edge.table, row, there + index.head, index.next, index.prev)
            halves[there + index.size] += 1
            halves[2 * at + index.gid] = g
    return row


@kernel
def leave(store: Store, joins: Joins, e: Int, row: Int) -> None:
    """A row of an edge has no copy left."""
    halves = store.halves
    edge = joins.edges[e]
    at = 2 * record(store.tables[edge.table], row)
    for i in range(edge.first_index, edge.first_index + edge.indexes):
        index = joins.indexes[i]
        g = np.int64(halves[at + index.gid])
        there = 2 * record(store.tables[index.group], g)
        unlink(store, edge.table, row, there + index.head, index.next, index.prev)
        halves[there + index.size] -= 1
        if halves[there + index.size] == 0:
            remove(store, index.group, g)
    remove(store, edge.table, row)
