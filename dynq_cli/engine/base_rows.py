"""The rows of a base table as Arrow: what the changes of a relation add up to.

    base_rows(live, relation) = every row once, its columns as the spec has them, and `_count`, its copies
    table_rows(live, relation) = the same, of a relation with a key without `_count`

Every column that the spec declares is stored, also one that no query uses. Rows come in the order of their ids.
O(block) memory; it reads what the engine holds and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dynq_cli.engine.codes import arrow_type, decode
from dynq_cli.engine.engine import BLOCK
from dynq_cli.engine.views import Views
from dynq_cli.spec.model import Relation


def base_schema(relation: Relation) -> pa.Schema:
    """The columns of `base_rows`."""
    fields = [pa.field(c.name, arrow_type(c.type), c.nullable) for c in relation.columns]
    return pa.schema([*fields, pa.field("_count", pa.int64(), False)])


def table_schema(relation: Relation) -> pa.Schema:
    """The columns of `table_rows`."""
    schema = base_schema(relation)
    return schema.remove(len(schema) - 1) if relation.key else schema


def table_rows(live: Views, relation: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Every row of a relation once, with `_count` where it has no key. UsageError if there is no such relation."""
    schema = table_schema(live.base(relation).relation)
    return (batch.select(schema.names) for batch in base_rows(live, relation, block))


def base_rows(live: Views, relation: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Every row of a relation once, with its copies (of a keyed one: 1); batches of at most `block` rows.

    Changes applied before all are read may or may not be seen.
    """
    base = live.base(relation)
    schema = base_schema(base.relation)
    places = [(c, base.order.index(c.name)) for c in base.relation.columns]
    start = 0
    while start < (used := int(live.engine.arena.tables["used"][base.table])):
        arena, stop = live.engine.arena, min(start + block, used)
        table = arena.tables[base.table]
        first, stride = int(table["rows"]), int(table["stride"])
        records = arena.words[first + start * stride : first + stop * stride].reshape(-1, stride)
        copies = records[:, table["mult"]]
        # A row that was freed has no copies, and a link where its first code was.
        here = np.flatnonzero(copies)
        if len(here):
            columns = [decode(records[here, at], c.type, live.dictionaries, nullable=c.nullable) for c, at in places]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(copies[here])], schema=schema)
        start = stop
