"""The numbers by which kernels name the fields of tables and nodes.

All data lies in one arena, seen as `a64` (int64) and `a32` (int32). A table is a row of the matrix
`T`, a node of a view tree a row of `N`; their fields are sizes, links and the places of their columns
in the arena: of a64 for wide columns, of a32 for narrow ones. `lists` holds short sequences of numbers
(projections, children) one after the other.

A column of a table has one entry per row id. Columns of a node are columns of the node's table, or,
for what is kept per group of the node's rows, of its group table: the parent's table for a guard (a
group *is* a row of the parent), a table of its own otherwise.
"""

# Tables: rows of `arity` codes, found by a hash of the first `hashed` of them.
(
    T_ARITY,
    T_HASHED,
    T_CAPACITY,
    T_USED,  # row ids ever handed out
    T_LIVE,  # row ids in use
    T_FREE,  # first of the free row ids, or -1; the next one stands in the row's first code
    T_MASK,  # number of slots - 1, a power of two
    T_SLOTS,  # a64: 0, or tag << 32 | row + 1
    T_KEYS,  # a64: arity codes per row
    T_MULT,  # a64: multiplicity, of base tables and leaves
    T_REFS,  # a32: how many rows point here, of inner nodes, groups and leaves
    T_MARK,  # a32: 0, or a link of the queue of touched rows (base tables: place in the batch + 1)
    T_QHEAD,
    T_QTAIL,
    T_FIELDS,
) = range(15)

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
    N_GID,  # a32, per row: its group
    N_NEXT,  # a32, per row: the live rows of a group, doubly linked
    N_PREV,
    N_VALUE,  # a64, per row of an inner node: `width` lanes
    N_SUM,  # a64, per group: `width` lanes
    N_HEAD,  # a32, per group: first live row
    N_VGID,  # a32, per row of the parent: the group of this non-guard child it reads
    N_VNEXT,  # a32, per row of the parent: the parent's rows that read one group, doubly linked
    N_VPREV,
    N_VHEAD,  # a32, per group: first of these
    N_PROJECT,  # lists: where in the node's key the group's key stands
    N_VPROJECT,  # lists: where in the parent's key it stands
    N_KEY,  # length of the group's key
    N_CHILDREN,  # lists
    N_DEGREE,
    N_LEAF_ROW,  # a32, per base row: its row of a leaf with a table of its own, or -1 if the leaf is the base
    N_SOURCE,  # lists: per variable of a leaf the base column, or -(i + 1) for computed column i
    N_FILTER,  # which column of the batch's filters applies, or -1
    N_FIELDS,
) = range(27)

# What can be wrong with a batch.
OK, NEGATIVE, DUPLICATE_KEY, NO_SUCH_KEY, OVERFLOW = range(5)

# How a change is meant.
INSERT, DELETE, UPSERT, DELETE_KEY = range(4)
