"""The sizes that an engine would have, from how many rows each of its tables would have.

    forecast(layout, programs, rows)    sizes as `status` says them, and the bytes of a snapshot

Records, slots and free room follow from the layout: only numbers of rows, and of values, are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dynq_cli.engine.arena_snapshot import packed, words_of
from dynq_cli.engine.engine import CHUNK
from dynq_cli.engine.kernels.order_statistic_blocks import INNER, LARGEST_LEAF, POOLS
from dynq_cli.engine.layout import BLOCKS, Layout
from dynq_cli.engine.size_facts import TableSizes
from dynq_cli.engine.table_sizes import bytes_used, sizes_in
from dynq_cli.plan.program import Program
from dynq_cli.records import record

_WORD = 8
_PAGE = 4096
# Arrays of a snapshot beside the memory, each on a page of its own.
_ARRAYS = 20
# The share of a leaf, or of an inner block, that has entries where rows come in no order.
FILLED = 0.7
# Bytes per value of a dictionary beside the value itself: where it begins, and its hash.
_PER_VALUE = 16


@record(frozen=True)
class ValueCount:
    """The values of a dictionary, and the bytes of all of them; `is_ordered` if ids are compared by labels."""

    values: int
    length: int
    is_ordered: bool = False


@record(frozen=True)
class Group:
    """So many groups that have about as many rows each."""

    rows: float
    groups: float


@record(frozen=True)
class Rows:
    """The rows of a relation or of a view: `used` are the records of which some may be free."""

    live: int
    used: int


_NONE = Rows(0, 0)


@record(frozen=True)
class Forecast:
    """Bytes: `snapshot` of the file; `arena` and `dictionaries` of memory in use; `moving` while the snapshot is
    written or a table grows."""

    tables: TableSizes
    snapshot: int
    arena: int
    dictionaries: int
    moving: int


def forecast(
    layout: Layout,
    programs: Mapping[str, Program],
    rows: Mapping[int, Rows],
    groups: Mapping[int, Iterable[Group]],
    values: Mapping[str, ValueCount],
    changes: Mapping[str, int],
) -> Forecast:
    """The sizes for the `rows` of tables and the `values` of dictionaries.

    `groups` are those of counted trees, by the first of their pools; `changes` is how many rows of each relation come.
    """
    tables = layout.tables.copy()
    for table, many in rows.items():
        tables["live"][table], tables["used"][table] = many.live, many.used
    for first, several in groups.items():
        for size, blocks in enumerate(blocks_of(several)):
            tables["live"][first + size] = tables["used"][first + size] = blocks
    has_slots = [t for t in range(len(tables)) if tables["mask"][t] >= 0]
    coming = _coming(layout, changes, rows)
    for table in has_slots:
        needed = int(tables["used"][table])
        if table in coming:
            # Room for the last rows is made before it is known how many of them are new.
            last = min(coming[table], CHUNK)
            needed = round(needed * (1 - last / coming[table])) + last
        tables["mask"][table] = _slots(needed) - 1
    later = packed(tables)
    slots = max((int(later["mask"][t]) + 1 for t in has_slots), default=0)
    length = sum(_length(v) for v in values.values())
    kept = sum(_kept_length(v) for v in values.values())
    return Forecast(
        tables=sizes_in(layout, programs, tables, {}, length),
        snapshot=words_of(later) * _WORD + kept + _PAGE * _ARRAYS,
        arena=int(bytes_used(tables).sum()),
        dictionaries=kept,
        moving=slots * _WORD * 3 // 2,
    )


def empty_snapshot(layout: Layout) -> int:
    """The bytes of the snapshot of a state without rows."""
    return words_of(packed(layout.tables)) * _WORD + _PAGE * _ARRAYS


def _coming(layout: Layout, changes: Mapping[str, int], rows: Mapping[int, Rows]) -> dict[int, int]:
    """By table, the most changes of a relation that can put rows into it.

    Of a relation between trees, a row may go for each that comes.
    """
    found: dict[int, int] = {}
    for name, base in layout.bases.items():
        many = changes.get(name, 0) if name not in layout.derived else 2 * rows.get(base.table, _NONE).live
        for table in (base.table, *(t for leaf in base.leaves for t in layout.leaf_paths[leaf.node])):
            if many:
                found[table] = max(found.get(table, 1), many)
    return found


def blocks_of(groups: Iterable[Group]) -> list[int]:
    """The blocks of counted trees with so many rows in their groups, by size; those that groups have outgrown too.

    >>> blocks_of([Group(1, 1000), Group(3, 10)])
    [10, 0, 0, 0, 0, 0, 0]
    """
    sizes = (*BLOCKS.leaves, *BLOCKS.inner)
    made = np.zeros(POOLS)
    for group in groups:
        if group.rows <= 1:
            continue
        for size in range(LARGEST_LEAF + 1):
            # A group has had a block of each smaller size, which others take over if they grow later.
            if group.rows > (1 if size == 0 else sizes[size - 1]):
                made[size] += group.groups
        if group.rows > sizes[LARGEST_LEAF]:
            leaves = group.rows / (FILLED * sizes[LARGEST_LEAF])
            made[LARGEST_LEAF] += group.groups * (leaves - 1)
            while leaves > 1:
                inner = next((i for i, most in enumerate(BLOCKS.inner) if leaves <= most), len(BLOCKS.inner) - 1)
                blocks = max(1.0, leaves / (FILLED * BLOCKS.inner[-1])) if leaves > BLOCKS.inner[-1] else 1.0
                made[INNER + inner] += group.groups * blocks
                leaves = blocks
    return [int(blocks) for blocks in np.ceil(made)]


def _slots(rows: int) -> int:
    """The slots of a table that has grown to so many rows: at most two thirds are taken."""
    return 1 << max(0, (3 * rows // 2 - 1)).bit_length()


def _value_slots(values: int) -> int:
    return 1 << max(4, (2 * values - 1).bit_length())


def _length(counted: ValueCount) -> int:
    """Bytes in use, as `Dictionary.length` says them after a snapshot, which makes room for a quarter more."""
    return counted.length + _PER_VALUE * counted.values + 4 * _value_slots(counted.values * 5 // 4 + 16)


def _kept_length(counted: ValueCount) -> int:
    """Bytes of a dictionary in a snapshot: with a quarter of free room, and labels where it is ordered."""
    room = counted.values * 5 // 4 + 16
    labels = room * (8 + 2 * 4) if counted.is_ordered else 0
    return counted.length * 5 // 4 + _PER_VALUE * room + 4 * _value_slots(room) + labels
