"""Debezium's envelope: `before`, `after` and `op`, with or without its schema around.

| op | keyed relation | keyless relation |
|---|---|---|
| c | insert `after` | insert `after` |
| r | upsert `after` | insert `after` |
| u | upsert `after`; where the key changed, delete `before` first | preimage `before`, postimage `after` |
| d | delete `before` | delete `before` |

Tombstones are ignored. A truncation (t) is refused: the log does not have the deleted rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.columns import null_mask, take, typed
from dynq_cli.io.logs.formats.change_type_columns import words
from dynq_cli.io.logs.formats.connect import logicals, objects, prepared, runs, without_tombstones
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Prepare, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE, UPSERT, RawColumn
from dynq_cli.spec.model import Relation
from dynq_cli.values.convert import CodeError, convert

CREATE, READ, UPDATE, REMOVE, TRUNCATE = range(5)
OPERATIONS = {"c": CREATE, "r": READ, "u": UPDATE, "d": REMOVE, "t": TRUNCATE}
TRUNCATION_HINT = "delete its rows one by one, or make a new state from a snapshot"
_IMAGE_HINT = "the database logs rows as they were with REPLICA IDENTITY FULL (PostgreSQL) or full row images (MySQL)"


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if "op" in names and ("before" in free or "after" in free) else NO


def tables(rows: Rows) -> tuple[str, RawColumn] | None:
    named = objects(rows, "source").get("table")
    return None if named is None else ("source.table", named)


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if "op" not in rows.columns:
        raise rows.lacks("op", "an event has before, after and op")
    for part, schema in runs(without_tombstones(rows, ("op", "before", "after"))):
        yield _marked(part, relation, schema)


def _marked(rows: Rows, relation: Relation, schema: Any) -> ChangeRows:
    operations = words(rows, "op", OPERATIONS)
    before, after = objects(rows, "before"), objects(rows, "after")
    _refuse(rows, "op", operations == TRUNCATE, f"{relation.name} was truncated", TRUNCATION_HINT)
    updated = operations == UPDATE
    needs_after = updated | (operations == CREATE) | (operations == READ)
    needs_before = operations == REMOVE
    if not relation.key:
        needs_before = needs_before | updated
    _refuse(rows, "after", needs_after & _is_null(rows, "after"), "the row as it is now is not in the event")
    _refuse(
        rows, "before", needs_before & _is_null(rows, "before"), "the row as it was is not in the event", _IMAGE_HINT
    )
    prepare = prepared(logicals(schema, "after", "before"))
    if relation.key and before:
        moved = _moved(rows, relation, before, after, np.nonzero(updated)[0], prepare)
        needs_before[moved] = True
    places = np.sort(np.concatenate([2 * np.nonzero(needs_before)[0], 2 * np.nonzero(needs_after)[0] + 1]))
    events, is_after = places >> 1, places & 1
    old = np.array([INSERT, INSERT, DELETE if relation.key else PREIMAGE, DELETE], np.int8)
    new = np.array([INSERT, *([UPSERT, UPSERT] if relation.key else [INSERT, POSTIMAGE]), DELETE], np.int8)
    kinds = np.where(is_after == 1, new[operations[events]], old[operations[events]]).astype(np.int8)
    images = replace(
        rows,
        names=frozenset(before) | frozenset(after),
        columns=_gathered(rows, relation, before, after, events + len(rows) * is_after),
        numbers=rows.numbers[events],
        schemas=None,
    )
    return ChangeRows(images, kinds, prepare=prepare, fillers=True)


def _is_null(rows: Rows, name: str) -> NDArray[np.bool_]:
    return null_mask(rows.columns[name]) if name in rows.columns else np.ones(len(rows), np.bool_)


def _refuse(rows: Rows, column: str, wrong: NDArray[np.bool_], message: str, hint: str = "") -> None:
    if wrong.any():
        raise rows.rejected(int(wrong.argmax()), column, message, hint)


def _moved(
    rows: Rows,
    relation: Relation,
    before: Mapping[str, RawColumn],
    after: Mapping[str, RawColumn],
    updates: NDArray[np.int64],
    prepare: Prepare,
) -> NDArray[np.int64]:
    """Return the updates that have the key before and after, and change it."""
    moved = np.zeros(len(updates), np.bool_)
    for column in relation.columns if len(updates) else ():
        if column.name in relation.key and column.name in before and column.name in after:
            sides = []
            for side in (before, after):
                raw = take(side[column.name], updates)
                try:
                    values = typed(prepare(column.name, raw, column.type), column.type, is_text=False)
                    sides.append(convert(values, column.type))
                except CodeError as error:
                    raise rows.rejected(int(updates[error.row]), column.name, error.reason) from None
            moved |= pc.not_equal(*sides).fill_null(False).to_numpy(zero_copy_only=False)
    return updates[moved]


def _gathered(
    rows: Rows,
    relation: Relation,
    before: Mapping[str, RawColumn],
    after: Mapping[str, RawColumn],
    places: NDArray[np.int64],
) -> dict[str, RawColumn]:
    """Return the relation's columns from both images, concatenated, in the order of `places`."""
    gathered: dict[str, RawColumn] = {}
    for column in relation.columns:
        sides = [before.get(column.name), after.get(column.name)]
        if any(side is not None for side in sides):
            gathered[column.name] = take(_joined(rows, column.name, sides), places)
    return gathered


def _joined(rows: Rows, name: str, sides: Sequence[Any]) -> RawColumn:
    if any(isinstance(side, list) for side in sides):
        return [value for side in sides for value in (side or [None] * len(rows))]
    kind = next(side.type for side in sides if side is not None)
    try:
        return pa.concat_arrays([pa.nulls(len(rows), kind) if side is None else side.cast(kind) for side in sides])
    except pa.ArrowException as error:
        raise RejectedError(f"{rows.path}: column {name} has two types, in `before` and in `after`") from error


FORM = LogFormat(
    "debezium", detect, translate, meta=("op", "before", "after", "source"), order=(), tables=tables, nested=True
)
