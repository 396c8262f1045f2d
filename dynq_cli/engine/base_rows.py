"""Read the rows of a base table as Arrow.

    base_rows(views, relation) = every row once, in the columns of the spec, with its multiplicity as `_count`
    table_rows(views, relation) = the same, without `_count` if the relation has a key

Every declared column is stored, also unused ones. Rows come in the order of their ids. O(block) memory; read-only.
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
    """Return the columns of `base_rows`."""
    fields = [pa.field(c.name, arrow_type(c.type), c.nullable) for c in relation.columns]
    return pa.schema([*fields, pa.field("_count", pa.int64(), False)])


def table_schema(relation: Relation) -> pa.Schema:
    """Return the columns of `table_rows`."""
    schema = base_schema(relation)
    return schema.remove(len(schema) - 1) if relation.key else schema


def table_rows(views: Views, relation: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Yield every row of a relation once, with `_count` if it has no key. UsageError if there is no such relation."""
    schema = table_schema(views.base(relation).relation)
    return (batch.select(schema.names) for batch in base_rows(views, relation, block))


def base_rows(views: Views, relation: str, block: int = BLOCK) -> Iterator[pa.RecordBatch]:
    """Yield every row of a relation once with its multiplicity (1 if keyed), in batches of at most `block` rows.

    Changes applied before all batches are read may or may not be included.
    """
    base = views.base(relation)
    schema = base_schema(base.relation)
    places = [(c, base.order.index(c.name)) for c in base.relation.columns]
    start = 0
    while start < (used := int(views.engine.arena.tables["used"][base.table])):
        arena, stop = views.engine.arena, min(start + block, used)
        table = arena.tables[base.table]
        first, stride = int(table["rows"]), int(table["stride"])
        records = arena.words[first + start * stride : first + stop * stride].reshape(-1, stride)
        copies = records[:, table["mult"]]
        # A row that was freed has no copies, and a link where its first code was.
        here = np.flatnonzero(copies)
        if len(here):
            columns = [decode(records[here, at], c.type, views.dictionaries, nullable=c.nullable) for c, at in places]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(copies[here])], schema=schema)
        start = stop
