"""The numbers by which kernels name the fields of tables and nodes.

All data lies in one arena, seen as `a64` (int64) and `a32` (int32). A table is a row of the matrix
`T`, a node of a view tree a row of `N`. A table keeps everything it knows of a row in one record of
`stride` words, so that touching a row touches one or two cache lines:

    codes of the key | wide fields (a64) | narrow fields (a32, two to a word)

A field is named by its place in the record: in words for wide ones, in half words for narrow ones, or -1
where the table has none. Fields of a node stand in the records of the node's table, or, for what is
kept per group of the node's rows, in those of its group table: the parent's table for a guard (a group
*is* a row of the parent), a table of its own otherwise. `lists` holds short sequences of numbers
(projections, children) one after the other.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
Halves = NDArray[np.int32]
Bytes = NDArray[np.int8]
Flags = NDArray[np.bool_]
# What indexing an array gives: an integer, which static types do not know.
Int = Any

# Tables: rows of `arity` codes, found by a hash of the first `hashed` of them.
(
    T_ARITY,
    T_HASHED,
    T_KEYED,  # whether the hashed codes are a key: at most one row, once
    T_CAPACITY,
    T_USED,  # row ids ever handed out
    T_LIVE,  # row ids in use
    T_FREE,  # first of the free row ids, or -1; the next one stands in the row's first word
    T_MASK,  # number of slots - 1, a power of two
    T_SLOTS,  # where the slots start: 0, or tag << 32 | row + 1
    T_ROWS,  # where the records start
    T_STRIDE,  # words of a record
    T_MULT,  # wide: multiplicity, of base tables and leaves
    T_REFS,  # narrow: how many rows point here, of inner nodes, groups and leaves
    T_MARK,  # narrow: 0, or a link of the queue of touched rows (base tables: place in the batch, see `base`)
    T_QHEAD,
    T_QTAIL,
    T_FIELDS,
) = range(17)

# Nodes.
(
    N_TABLE,
    N_PARENT,
    N_GUARD,
    N_GROUP,  # the group table
    N_OUTPUT,
    N_FRONTIER,
    N_CLAMP,  # multiplicities are 0 or 1
    N_WIDTH,  # lanes of the payload: two per column
    N_GID,  # narrow, per row: its group
    N_NEXT,  # narrow, per row: the live rows of a group, doubly linked
    N_PREV,
    N_VALUE,  # wide, per row of an inner node: `width` lanes; per row of an ordered leaf of a bag: what its tree counts
    N_SUM,  # wide, per group: `width` lanes
    N_HEAD,  # narrow, per group: first live row
    N_VGID,  # narrow, per row of the parent: the group of this non-guard child it reads
    N_VNEXT,  # narrow, per row of the parent: the parent's rows that read one group, doubly linked
    N_VPREV,
    N_VHEAD,  # narrow, per group: first of these
    N_PROJECT,  # lists: where in the node's key the group's key stands
    N_VPROJECT,  # lists: where in the parent's key it stands
    N_KEY,  # length of the group's key
    N_CHILDREN,  # lists
    N_DEGREE,
    N_LEAF_ROW,  # narrow, per base row: its row of the leaf, or -1; none if every base row is its own leaf row
    N_SOURCE,  # lists: per variable of a leaf the base column, or -(i + 1) for computed column i
    N_FILTER,  # which column of the batch's filters applies, or -1
    N_WATCH,  # where in the arena the rows whose payload changes are noted: how many, how many fit, row ids; or -1
    N_TREE,  # the counted tree that keeps the live rows of each group in order: a row of `Trees.C`, or -1
    N_ROOT,  # narrow, per group: the code of its tree
    N_OLD,  # wide, per output row of a tree that feeds relations: its multiplicity before, two lanes; of a leaf one
    N_CHANGED,  # narrow, per such row: 0, or the next row of its list of those that changed + 2, where 1 is none
    N_LISTED,  # how many rows changed: with the lists and those of ranges the only fields of a node that are data
    N_SIDE,  # which multiplicity `multiplicity.value_of` gives for a row that changed
    N_LISTS,  # the table whose records say where lists begin: the group table, or that of the parent for ranges
    N_OWN,  # whether these records are the parent's rows: of guards, and of ranges
    N_BEGIN,  # narrow, there: first live row
    N_END,  # narrow, there: last row of a range, at which its list is left; or -1
    N_TOTAL,  # wide, there: the sum over the list, `width` lanes
    N_READERS,  # the counted tree of the parent's rows that read a group, by their bounds: a row of `Trees.C`, or -1
    N_RROOT,  # narrow, per group: the code of that tree
    N_NOTE,  # wide, per row of a compared node: what its tree counts, as of the last commit; of a leaf one lane
    N_NOTED,  # narrow, per such row: 0, or the next row with a note + 2, where 1 is the last
    N_NOTES,  # first of the rows with a note, or -1: data, as N_LISTED is
    N_FRESH,  # first of the parent's rows that are about to read, or -1: data; the next one stands in N_END
    N_PENDING,  # how many rows are in these two lists: data
    N_TOLD,  # narrow, per reader of a tree that feeds relations: the next one whose range has changed, or -1
    N_TBEGIN,  # narrow, per such reader: where its range begins and ends after the commit
    N_TEND,
    N_TELL,  # first of these readers, or -1: data
    N_RING,  # RING lists of the rows that changed, taken in turn, the first row of each or -1: data
) = range(50)
RING = 16
N_FIELDS = N_RING + RING

# As it is now, as it was before the commit, or the smaller of both.
NOW, BEFORE, LEAST = range(-1, 2)


class Trees(NamedTuple):
    """What counted trees need beside the arena."""

    C: Words  # the trees: see `order_statistic_blocks`
    labels: Words  # of the ids of dictionaries, where keys are ids
    work: Words  # scratch
    notes: Words  # scratch for `pending_updates`: a column for each row that may have changed
    marks: Words  # scratch for `range_sums_bulk`: two words for each row that may read


# The lower half of a slot: row + 1; the upper half is the row's tag.
ROW_OF_SLOT = 0xFFFFFFFF

# What can be wrong with a batch; all but an overflow are found before anything has changed. NO_ROOM is none of these:
# counted trees need more blocks before a commit can go on.
OK, NEGATIVE, DUPLICATE_KEY, NO_SUCH_KEY, TOO_MANY, OVERFLOW, NO_ROOM = range(7)

# How a change is meant. Those that may miss are skipped where there is nothing to delete.
INSERT, DELETE, UPSERT, DELETE_KEY, MAY_DELETE, MAY_DELETE_KEY = range(6)
