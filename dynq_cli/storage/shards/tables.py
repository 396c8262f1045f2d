"""Apply Arrow tables to a state of shards, as one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dynq_cli.engine.arrow_changes import kinds_of
from dynq_cli.engine.engine import BatchError
from dynq_cli.engine.frames import exact_numbers, table_of
from dynq_cli.engine.ingest import RowError
from dynq_cli.errors import RejectedError, UsageError
from dynq_cli.storage.shards.images import UnpairedError, has_images, plain_kinds, whole
from dynq_cli.storage.shards.routing import Member, Rows
from dynq_cli.storage.shards.writer import ShardedWriter
from dynq_cli.storage.writer import Origin, Writer
from dynq_cli.values import change_kinds as k

_CHANGE = "_change_type"
_WORDS = {k.INSERT: "insert", k.DELETE: "delete", k.UPSERT: "update_postimage"}


def apply_tables(writer: ShardedWriter, tables: Mapping[str, Any]) -> int:
    """Route the rows to the shards and commit them. RejectedError names the row of the table."""
    parts: dict[Member, dict[str, tuple[pa.Table, Rows | None]]] = {member: {} for member in writer.members}
    for relation, given in tables.items():
        if writer.spec.relation(relation) is None:
            known = ", ".join(r.name for r in writer.spec.own_relations)
            raise UsageError(f"no relation {relation} in the spec; there is {known}")
        table = _without_images(writer, relation, table_of(given))
        for member, rows in writer.router.parts(relation, _columns(writer, relation, table), len(table)):
            parts[member][relation] = (table if rows is None else table.take(pa.array(rows)), rows)
    errors = [error for error in writer.each(lambda m, one: _take(one, parts[m])) if error is not None]
    if errors:
        raise min(errors, key=lambda error: (error.place, error.row))
    return writer.commit(Origin())


def _without_images(writer: ShardedWriter, relation: str, table: pa.Table) -> pa.Table:
    """Return the table with images of updates as deletes and inserts; a new image that is left is an upsert."""
    found = writer.spec.relation(relation)
    assert found is not None
    if table.column_names.count(_CHANGE) != 1:
        return table
    try:
        kinds = kinds_of(table[_CHANGE])
        if not has_images(kinds):
            return table
        columns = {name: whole(column) for name, column in _columns(writer, relation, table).items()}
        plain = plain_kinds(found, kinds, np.zeros(len(table), np.int64), columns)
    except (RowError, UnpairedError) as error:
        column = error.column if isinstance(error, RowError) else ""
        raise RejectedError.in_row(relation, error.row + 1, column, error.reason) from None
    said = table[_CHANGE].to_pylist()
    words = [_WORDS.get(int(kind), word) for kind, word in zip(plain, said, strict=True)]
    return table.set_column(table.column_names.index(_CHANGE), _CHANGE, pa.array(words, pa.string()))


def _columns(writer: ShardedWriter, relation: str, table: pa.Table) -> dict[str, pa.ChunkedArray]:
    found = writer.spec.relation(relation)
    assert found is not None
    return {c.name: exact_numbers(table[c.name], c) for c in found.columns if table.column_names.count(c.name) == 1}


def _take(writer: Writer, parts: Mapping[str, tuple[pa.Table, Rows | None]]) -> RejectedError | None:
    """Give a shard its rows; return why it refuses them, in numbers of the whole table's rows."""
    if not parts:
        return None
    try:
        batch = writer.views.changes({relation: table for relation, (table, _) in parts.items()})
        try:
            writer.take(batch)
        except BatchError as error:
            raise writer.views.rejected(error, batch) from None
    except RejectedError as error:
        rows = parts[error.place][1] if error.place in parts else None
        return error if rows is None or not error.row else error.moved(int(np.asarray(rows)[error.row - 1]) + 1)
    return None
