"""Look up the multiplicities of many rows in the result of a tree.

A row of the result is one row of each level of the output set, found by its codes. It is in the result if each of these
is live and in the range that its parent's row reads; its copies are the product of those of the frontier rows.
O(levels) per row, whatever the size of the result. Slots and records of the next rows are prefetched.

`fields` says where the codes of a level stand: for each of its variables the column of the given rows, and the place in
the key of the level's table.
"""

import numpy as np

from dynq_cli.engine.kernels.bounds import is_in_range
from dynq_cli.engine.kernels.cache import kernel
from dynq_cli.engine.kernels.fields import Int, Rows, Store, Words, row_type
from dynq_cli.engine.kernels.int128 import multiply
from dynq_cli.engine.kernels.prefetch import AHEAD, prefetch
from dynq_cli.engine.kernels.table import find, likely, next_with_key, record, tag_of

LEVEL = row_type(
    "node",
    "above",  # the place of its parent's row among the rows found
    "filter",  # the half word of base rows that says whether its filter holds, or -1
    "first",  # where its fields begin and end
    "stop",
    "frontier",  # whether its multiplicities count
)
FIELD = row_type("column", "place")


@kernel
def _row(store: Store, table_id: Int, key: Words, fields: Rows, first: Int, stop: Int) -> Int:
    """Return the row of a table with these codes, or -1; base rows are found by their key if not all columns are
    given."""
    table = store.tables[table_id]
    if stop - first == table.arity:
        return find(store, table_id, key)
    place = np.int64(-1)
    while True:
        row, place = next_with_key(store, table_id, key, place)
        if row < 0:
            return row
        at, agrees = record(table, row), True
        for k in range(first, stop):
            if store.words[at + fields[k].place] != key[fields[k].place]:
                agrees = False
        if agrees:
            return row


@kernel
def _value(store: Store, node_id: Int, row: Int) -> tuple[Int, Int]:
    """Return the multiplicity of a row of an output node, 0 if it is not live."""
    words = store.words
    node = store.nodes[node_id]
    table = store.tables[node.table]
    if node.degree == 0:
        many = words[record(table, row) + table.mult]
        return min(many, np.int64(1)) if node.clamp else many, np.int64(0)
    at = record(table, row) + node.value
    return words[at], words[at + 1]


@kernel
def _ask(store: Store, levels: Rows, fields: Rows, codes: Words, key: Words, begin: Int, stop: Int) -> None:
    """Prefetch the slots, then the records, at which the next rows will be looked up in every level."""
    words = store.words
    for is_record in range(2):
        for s in range(len(levels)):
            level = levels[s]
            table_id = store.nodes[level.node].table
            table = store.tables[table_id]
            for i in range(begin, stop):
                for k in range(level.first, level.stop):
                    key[fields[k].place] = codes[fields[k].column, i]
                tag = tag_of(key, table.hashed)
                if is_record:
                    prefetch(words, max(likely(store, table_id, tag), np.int64(0)))
                else:
                    prefetch(words, table.slots + (tag & table.mask))


@kernel
def copies_of(
    store: Store,
    levels: Rows,
    fields: Rows,
    counted: Int,
    codes: Words,
    key: Words,
    rows: Words,
    copies: Words,
) -> Int:
    """Return the copies of the rows whose codes stand in the columns of `codes`, 1 at most unless they are counted.

    False if a row has more than 2^63 - 1 of them. `rows` has room for a row of each level behind the root's.
    """
    rows[0] = 0
    many = codes.shape[1]
    for i in range(many):
        if i % AHEAD == 0:
            _ask(store, levels, fields, codes, key, i, min(i + AHEAD, many))
        lo, hi = np.int64(1), np.int64(0)
        for s in range(len(levels)):
            level = levels[s]
            node = store.nodes[level.node]
            for k in range(level.first, level.stop):
                key[fields[k].place] = codes[fields[k].column, i]
            row = _row(store, node.table, key, fields, level.first, level.stop)
            if row < 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            rows[s + 1] = row
            at = record(store.tables[node.table], row)
            if level.filter >= 0 and store.halves[2 * at + level.filter] < 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            if node.readers >= 0:
                above = record(store.tables[store.nodes[node.parent].table], rows[level.above])
                if not is_in_range(store, node.readers, above, node.tree, at):
                    lo, hi = np.int64(0), np.int64(0)
                    break
            vlo, vhi = _value(store, level.node, row)
            if vlo == 0 and vhi == 0:
                lo, hi = np.int64(0), np.int64(0)
                break
            if level.frontier and counted:
                lo, hi = multiply(lo, hi, vlo, vhi)
        if hi != 0 or lo < 0:
            return False
        copies[i] = lo
    return True
