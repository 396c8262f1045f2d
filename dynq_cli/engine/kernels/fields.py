"""The nouns of kernels: what they are given, and the rows of tables and nodes.

All data lies in one arena, seen as `words` (int64) and `halves` (int32). A table is a row of `tables`, a node of a view
tree a row of `nodes`, an order-statistic tree a row of `trees.forest`. Kernels are given the numbers of these rows:
`table_id`, `node_id` and `child_id`, `tree_id`. A table keeps everything it knows of a row in one record of `stride`
words, so that touching a row touches one or two cache lines:

    codes of the key | wide fields (words) | narrow fields (half words)

A field of a record is named by its place there: in words for wide ones, in half words for narrow ones, or -1 where the
table has none. Fields of a node stand in the records of the node's table, or, for what is kept per group of the node's
rows, in those of its group table: the parent's table for a guard (a group *is* a row of the parent), a table of its own
otherwise. `lists` holds short sequences of numbers (projections, children) one after the other.

The rows of tables, nodes and order-statistic trees have named fields: `store.tables[table_id].mask`. They are int64 and
nothing else, so that a snapshot has them as a matrix, and their type is numpy's `record`, which gives fields as
attributes, compiled or not. No field may have the name of an attribute that records have anyway, such as `sum`.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
Halves = NDArray[np.int32]
Bytes = NDArray[np.int8]
Flags = NDArray[np.bool_]
# What indexing an array gives: an integer, which static types do not know.
Int = Any
# Arrays of rows with named fields, and one of their rows: static types do not know the fields.
Rows = Any
Row = Any


def row_type(*names: str | tuple[str, str, tuple[int, ...]]) -> np.dtype[Any]:
    """The type of rows with such fields of int64.

    Aligned, for numba reads the fields of others byte by byte.
    """
    fields = [(name, "i8") if isinstance(name, str) else name for name in names]
    return np.dtype((np.record, np.dtype(fields, align=True)))


def rows_of(kind: np.dtype[Any], matrix: Words) -> Rows:
    """The rows of a matrix by their fields: the same memory."""
    return np.ascontiguousarray(matrix).view(kind).reshape(-1)


def blank(kind: np.dtype[Any]) -> dict[str, int]:
    """A row in the making, all of whose fields are -1."""
    return dict.fromkeys(kind.names or (), -1)


def made(kind: np.dtype[Any], rows: Sequence[Mapping[str, int]]) -> Rows:
    """Rows from their fields."""
    matrix = np.full((len(rows), kind.itemsize // 8), -1, np.int64)
    found = rows_of(kind, matrix)
    for i, row in enumerate(rows):
        for name, value in row.items():
            found[name][i] = value
    return found


def matrix_of(rows: Rows) -> Words:
    """Rows as a matrix of words: the same memory."""
    matrix: Words = rows.view(np.int64).reshape(len(rows), rows.dtype.itemsize // 8)
    return matrix


# Rows of `arity` codes, found by a hash of the first `hashed` of them.
TABLE = row_type(
    "arity",
    "hashed",
    "keyed",  # whether the hashed codes are a key: at most one row, once
    "capacity",
    "used",  # row ids ever handed out
    "live",  # row ids in use
    "free",  # first of the free row ids, or -1; the next one stands in the row's first word
    "mask",  # number of slots - 1, a power of two; -1 if the table has no slots
    "slots",  # where the slots start: 0, or tag << 32 | row + 1
    "rows",  # where the records start
    "stride",  # words of a record
    "mult",  # wide: multiplicity, of base tables and leaves
    "refs",  # narrow: how many rows point here, of inner nodes, groups and leaves
    "mark",  # narrow: 0, or a link of the queue of touched rows (base tables: place in the batch, see `base`)
    "queue_head",  # first and last of the touched rows, or -1
    "queue_tail",
)

# How many lists the changed rows of a node are in.
RING = 16

NODE = row_type(
    "table",
    "parent",
    "guard",
    "group",  # the group table
    "output",
    "frontier",
    "clamp",  # multiplicities are 0 or 1
    "width",  # lanes of the payload: two per column
    "gid",  # narrow, per row: its group
    "next",  # narrow, per row: the live rows of a group, doubly linked
    "prev",
    "value",  # wide, per row of an inner node: `width` lanes; per row of an ordered leaf of a bag: what its tree counts
    "sums",  # wide, per group: `width` lanes
    "head",  # narrow, per group: first live row
    "reads",  # narrow, per row of the parent: the group of this non-guard child it reads
    "reader_next",  # narrow, per row of the parent: the parent's rows that read one group, doubly linked
    "reader_prev",
    "reader_head",  # narrow, per group: first of these
    "project",  # lists: where in the node's key the group's key stands
    "reader_project",  # lists: where in the parent's key it stands
    "key",  # length of the group's key
    "children",  # lists
    "degree",
    "leaf_row",  # narrow, per base row: its row of the leaf, or -1; none if every base row is its own leaf row
    "source",  # lists: per variable of a leaf the base column, or -(i + 1) for computed column i
    "filter",  # which column of the batch's filters applies, or -1
    "watch",  # where in the arena the rows whose payload changes are noted: how many, how many fit, row ids; or -1
    "tree",  # the counted tree that keeps the live rows of each group in order: a row of `Trees.forest`, or -1
    "root",  # narrow, per group: the code of its tree
    "old",  # wide, per output row of a tree that feeds relations: its multiplicity before, two lanes; of a leaf one
    "changed",  # narrow, per such row: link in the list of changed rows: 0 = not listed, 1 = last, else next row + 2
    "listed",  # how many rows changed: with the lists and those of ranges the only fields of a node that are data
    "side",  # which multiplicity `multiplicity.value_of` gives for a row that changed
    "list_table",  # the table whose records say where lists begin: the group table, or that of the parent for ranges
    "own",  # whether these records are the parent's rows: of guards, and of ranges
    "begin",  # narrow, there: first live row
    "end",  # narrow, there: last row of a range, at which its list is left; or -1
    "total",  # wide, there: the sum over the list, `width` lanes
    "readers",  # the counted tree of the parent's rows that read a group, by their bounds: a row of the forest, or -1
    "readers_root",  # narrow, per group: the code of that tree
    "waits",  # of a compared child: 1 if its readers keep neither range sums nor ends (`waiting_sums`), else -1
    "waiting",  # of the node of such readers: that child; else -1
    "note",  # wide, per row of a compared node: what its tree counts, as of the last commit; of a leaf one lane
    "noted",  # narrow, per such row: link in the list of pending updates: 0 = not listed, 1 = last, else next row + 2
    "first_note",  # first of the rows with a pending update, or -1: data, as `listed` is
    "fresh",  # first of the parent's rows that are about to read, or -1: data; the next one stands in `end`
    "pending",  # how many rows are in these two lists: data
    "told",  # narrow, per reader of a tree that feeds relations: the next one whose range has changed, or -1
    "new_begin",  # narrow, per such reader: where its range begins and ends after the commit
    "new_end",
    "first_told",  # first of these readers, or -1: data
    ("ring", "i8", (RING,)),  # lists of the rows that changed, one after the other: the first row of each or -1: data
)

# A counted tree, or rather a forest of groups that are ordered alike: see `order_statistic_blocks`.
TREE = row_type(
    "table",  # the table of the rows
    "payload",  # how the payload of a row is read
    "place",  # wide: where it stands in the row's record
    "width",  # its lanes: two per column
    "pools",  # the first of `POOLS` tables, by size; their arity is how many entries a block has room for
    "keys",  # how many order keys there are
    "bounds",  # how many bounds the ranges of its rows have, if these are readers
)
# An order key: where it stands in the record, where its labels start or -1 for keys that need none, and how its image
# is computed.
ORDER = row_type("position", "labels", "flip", "shift")
# A bound of a range: where the reader's variable stands, whether it is an upper bound, whether strict, the offset.
BOUND = row_type("position", "upper", "strict", "offset")


class Trees(NamedTuple):
    """The counted trees of an arena, and what changing them needs beside it."""

    forest: Rows  # TREE: a row per tree
    orders: Rows  # ORDER: per tree its order keys
    bounds: Rows  # BOUND: per tree the bounds of its readers' ranges
    labels: Words  # of the ids of dictionaries, where keys are ids
    path: Words  # scratch: a path from a root down, and a target; see `order_statistic_search`
    notes: Words  # scratch for `pending_updates`: a column for each row that may have changed
    marks: Words  # scratch for `range_sums_bulk`: two words for each row that may read


def no_trees() -> Trees:
    """The counted trees of an arena that has none."""
    none = np.zeros(1, np.int64)
    rows = (np.zeros(0, TREE), np.zeros((0, 1), ORDER), np.zeros((0, 1), BOUND))
    return Trees(*rows, none, none, none.reshape(1, 1), none.reshape(1, 1))


class Store(NamedTuple):
    """All data of an engine, and where in it everything is."""

    words: Words  # the arena as int64
    halves: Halves  # the arena as int32
    tables: Rows  # TABLE
    nodes: Rows  # NODE
    lists: Words
    trees: Trees


class Batch(NamedTuple):
    """Changes of one relation: a row of each array for every change."""

    codes: Words  # the row that comes or goes, the key first
    ops: Bytes  # a `Change`
    counts: Words  # how many copies
    computed: Words  # values that leaves bind to expressions; looked at for rows that come
    passes: Flags  # whether the filters of leaves hold; likewise


class DeltaEntries(NamedTuple):
    """The base delta of a batch: an entry for each row of the base table that it touches, in the order of their first
    change. Arrays may be longer than there are entries."""

    touched: Halves  # the row
    net: Words  # copies that come (> 0) or go
    first: Halves  # the change that inserted the row, or -1: for what is computed from its values
    last: Halves  # the last change, to be named in an error
    old: Words  # the multiplicity before the batch
    new: Words  # and after it


class Scratch(NamedTuple):
    """What updating trees needs to work in; nothing stays there from call to call."""

    key: Words  # keys of two rows, and in kernels that look ahead where their codes come from
    before: Words  # payloads of AHEAD rows, four lanes each
    after: Words
    rows: Words  # AHEAD rows whose payload is computed
    groups: Words  # their groups
    readers: Words  # the next reader of each of AHEAD groups; or where readers of ranges are left
    tags: Words  # of AHEAD rows that are asked for before their turn: tags of keys
    places: Words  # where the records of their groups are
    found: Words  # what else was found of them


# The lower half of a slot: row + 1; the upper half is the row's tag.
ROW_OF_SLOT = 0xFFFFFFFF


class Side(IntEnum):
    """A multiplicity during a commit: new, old, or their minimum."""

    NOW = -1
    BEFORE = 0
    LEAST = 1


class Status(IntEnum):
    """What can be wrong with a batch.

    All but an overflow are found before anything has changed. NO_ROOM is nothing wrong: counted trees need more blocks
    before a commit can go on.
    """

    OK = 0
    NEGATIVE = 1
    DUPLICATE_KEY = 2
    NO_SUCH_KEY = 3
    TOO_MANY = 4
    OVERFLOW = 5
    NO_ROOM = 6


class Change(IntEnum):
    """How a change is meant. Those that may miss are skipped where there is nothing to delete."""

    INSERT = 0
    DELETE = 1
    UPSERT = 2
    DELETE_KEY = 3
    MAY_DELETE = 4
    MAY_DELETE_KEY = 5


# Kernels return and compare plain integers: members would be types of their own.
NOW, BEFORE, LEAST = (int(side) for side in Side)
OK, NEGATIVE, DUPLICATE_KEY, NO_SUCH_KEY, TOO_MANY, OVERFLOW, NO_ROOM = (int(status) for status in Status)
INSERT, DELETE, UPSERT, DELETE_KEY, MAY_DELETE, MAY_DELETE_KEY = (int(change) for change in Change)
