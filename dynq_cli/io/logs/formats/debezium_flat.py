"""Debezium's events after ExtractNewRecordState: the columns of the row, with `__op` or `__deleted` beside them.

`__op` says c, r, u or d; `__deleted` alone tells deletes from rows as they are now, which replace or insert.
There is no image of a row before its update, so updates need a key to go by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.formats.change_type_columns import flags, words
from dynq_cli.io.logs.formats.connect import logicals, prepared, runs, without_tombstones
from dynq_cli.io.logs.formats.debezium import (
    CREATE,
    OPERATIONS,
    READ,
    REMOVE,
    TRUNCATE,
    TRUNCATION_HINT,
    UPDATE,
)
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, UPSERT, RawColumn
from dynq_cli.spec.model import Relation

_HINT = "set add.fields=op, so that each row says in `__op` what it is"


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if "__op" in free or "__deleted" in free else NO


def tables(rows: Rows) -> tuple[str, RawColumn] | None:
    named = rows.columns.get("__table")
    return None if named is None else ("__table", named)


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    for part, schema in runs(without_tombstones(rows, rows.columns)):
        yield ChangeRows(part, _kinds(part, relation), prepare=prepared(logicals(schema)), fillers=True)


def _kinds(rows: Rows, relation: Relation) -> NDArray[np.int8]:
    if "__op" in rows.columns:
        column, operations = "__op", words(rows, "__op", OPERATIONS)
    elif "__deleted" in rows.columns:
        column, operations = "__deleted", np.full(len(rows), UPDATE, np.int8)
    else:
        raise rows.lacks("__op", _HINT)
    if "__deleted" in rows.columns:
        operations = np.where(flags(rows, "__deleted"), REMOVE, operations)
    if (operations == TRUNCATE).any():
        row = int((operations == TRUNCATE).argmax())
        raise rows.rejected(row, column, f"{relation.name} was truncated", TRUNCATION_HINT)
    updated = operations == UPDATE
    if updated.any() and not relation.key:
        message = f"this may be an update of {relation.name}, which has no key, without the row as it was"
        hint = _HINT if column == "__deleted" else f"give {relation.name} a `key:` in the spec"
        raise rows.rejected(int(updated.argmax()), column, message, hint)
    kinds = np.empty(len(rows), np.int8)
    kinds[operations == CREATE] = INSERT
    kinds[operations == READ] = UPSERT if relation.key else INSERT
    kinds[updated] = UPSERT
    kinds[operations == REMOVE] = DELETE
    return kinds


FORM = LogFormat("debezium-flat", detect, translate, meta=("__op", "__deleted", "__table"), order=(), tables=tables)
