"""The tables of a relation's partitions. The layout depends only on the plan.

    partitions   keyed by the partition key; a record has the number of rows, and the root of the tree with their order
    rows         keyed by (partition, row): copies, and what the partition shows of them
    shown        the same for rows with the columns of window functions; without functions, and where these look at near
                 rows only, it is the table of rows
    pools        blocks of the order-statistic trees over the rows of each partition

`kernels.partitions` describes the records.
"""

from __future__ import annotations

from dynq_cli.engine.codes import needs_labels
from dynq_cli.engine.group_layout import NONE, table_of
from dynq_cli.engine.kernels.order_statistic_blocks import COUNT
from dynq_cli.engine.kernels.partitions import COUNTED, PARTITION_WORDS, ROW_WORDS
from dynq_cli.engine.order_statistic_tree import OrderKey, Sizes, TreeDescription, pools
from dynq_cli.plan.program import Partitions
from dynq_cli.records import record
from dynq_cli.spec.types import Type

_PAYLOAD = 2


@record(frozen=True)
class PartitionLayout:
    """`place` is the word of a partition's record that counts its rows; `labels` the types of ids among the order."""

    partitions: Partitions
    table: int
    place: int
    rows: int
    shown: int
    tree: TreeDescription
    labels: tuple[Type | None, ...]
    outputs: int


def outputs_of(partitions: Partitions) -> int:
    """Return the number of columns of the relation."""
    return len(partitions.inputs) + sum(2 if is_pair(f.type) else 1 for f in partitions.functions)


def is_pair(kind: Type) -> bool:
    return kind.name == "decimal" and kind.precision > _NARROW_DIGITS


_NARROW_DIGITS = 18


def partition_layout(
    partitions: Partitions, first_table: int, sizes: Sizes | None = None
) -> tuple[PartitionLayout, list[dict[str, int]]]:
    """The layout of partitions whose tables begin at a number, and those tables."""
    names = [c.name for c in partitions.inputs]
    types = {c.name: c.type for c in partitions.inputs}
    place = max(1, len(partitions.keys))
    outputs = outputs_of(partitions)
    tables = [table_of(len(partitions.keys), place + PARTITION_WORDS), _rows(len(names))]
    keeps_values = bool(partitions.functions) and partitions.reach is None
    if keeps_values:
        tables.append(_rows(outputs))
    first_pool = first_table + len(tables)
    order = tuple(
        OrderKey(1 + names.index(o.column), o.descending, o.nulls_first, 0 if needs_labels(types[o.column]) else NONE)
        for o in partitions.order
    )
    rows = first_table + 1
    tree = TreeDescription(rows, COUNT, 1 + len(names) + COUNTED, _PAYLOAD, first_pool, order)
    labels = tuple(types[o.column] if needs_labels(types[o.column]) else None for o in partitions.order)
    shown = first_table + 2 if keeps_values else rows
    layout = PartitionLayout(partitions, first_table, place, rows, shown, tree, labels, outputs)
    return layout, [*tables, *pools(sizes or Sizes(), _PAYLOAD)]


def _rows(columns: int) -> dict[str, int]:
    row = table_of(1 + columns, 1 + columns + ROW_WORDS)
    row["mult"] = 1 + columns
    return row
