"""Logs described by the spec's `source:`: a column or condition for deleted rows, and words for operations.

- `deleted_when`, a column: deleted where it is true, 1, `y`, `yes` or `t`, or holds a date or timestamp; NULL is not
- `deleted_when`, SQL: deleted where DuckDB finds it true; columns of the spec have its types, others those of the file
- `op`: the words, in any case; an update replaces or inserts, and needs a key
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import null_mask, texts, typed
from dynq_cli.io.logs.formats.change_type_columns import copies
from dynq_cli.io.logs.formats.log_format import NO, SKIP, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.soft_deletes import soft_kinds
from dynq_cli.io.logs.model import DELETE, INSERT, UPSERT, RawColumn
from dynq_cli.query.duck import DuckError, shared
from dynq_cli.spec.model import LogSource, Relation
from dynq_cli.spec.shown import shown
from dynq_cli.spec.types import TIMESTAMP
from dynq_cli.values.convert import CodeError, convert, nan_as_null

_TRUE = frozenset({"true", "t", "1", "y", "yes"})
_FALSE = frozenset({"false", "f", "0", "n", "no", ""})


def form_of(source: LogSource, names: frozenset[str]) -> LogFormat:
    """Return the format of a relation's logs by its `source:`; `names` are the columns of the file."""
    meta = [name for name in (source.op, source.deleted_when) if name is not None and name in names]

    def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
        yield ChangeRows(rows, _kinds(rows, relation, source), copies(rows))

    return LogFormat(
        "source",
        lambda free, all_names: NO,
        translate,
        (*meta, "_commit_version", "_count"),
        can_be_whole=lambda free: source.op is None and "_commit_version" not in free,
    )


def needs_all_columns(source: LogSource, names: frozenset[str]) -> bool:
    """Whether a condition is SQL, which may use any column of the log."""
    return source.deleted_when is not None and source.deleted_when not in names


def _kinds(rows: Rows, relation: Relation, source: LogSource) -> NDArray[np.int8]:
    deleted = np.zeros(len(rows), np.bool_)
    if source.deleted_when is not None:
        deleted = _deleted(rows, relation, source.deleted_when)
    kinds = soft_kinds(rows, relation, source.deleted_when or "", deleted)
    if source.op is None:
        return kinds
    said = _operation_kinds(rows, relation, source, ~deleted)
    return np.where(deleted, kinds, said).astype(np.int8)


def _operation_kinds(rows: Rows, relation: Relation, source: LogSource, asked: NDArray[np.bool_]) -> NDArray[np.int8]:
    column = source.op or ""
    if column not in rows.columns:
        raise rows.lacks(column, f"`source:` of {relation.name} in the spec goes by it")
    meanings = dict.fromkeys(source.inserts, INSERT) | dict.fromkeys(source.updates, UPSERT)
    meanings |= dict.fromkeys(source.deletes, DELETE)
    kinds = np.full(len(rows), SKIP, np.int8)
    known: dict[str | None, int] = {}
    for row, word in enumerate(_words(rows.columns[column])):
        if not asked[row]:
            continue
        kind = known.setdefault(word, meanings.get(word.lower(), -2) if word is not None else -2)
        if kind == -2:
            message = f"{'NULL' if word is None else shown(word)} is not one of {', '.join(meanings)}"
            raise rows.rejected(
                row, column, message, f"list it under `source: {{op: …}}` of {relation.name} in the spec"
            )
        if kind == UPSERT and not relation.key:
            message = f"an update of {relation.name}, which has no key, without the row as it was"
            raise rows.rejected(row, column, message, f"give {relation.name} a `key:` in the spec")
        kinds[row] = kind
    return kinds


def _words(column: RawColumn) -> list[str | None]:
    try:
        return list(texts(column).to_pylist())
    except CodeError:
        values = column if isinstance(column, list) else column.to_pylist()
        return [None if value is None else _spelled(value) for value in values]


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _deleted(rows: Rows, relation: Relation, condition: str) -> NDArray[np.bool_]:
    if condition in rows.columns:
        return _marked(rows, condition)
    if condition.isidentifier():
        raise rows.lacks(
            condition, f"`source: {{deleted_when: {condition}}}` of {relation.name} in the spec goes by it"
        )
    table = pa.table({name: _array(rows, relation, name) for name in rows.columns})
    sql = f"SELECT COALESCE(CAST(({condition}\n) AS BOOLEAN), FALSE) AS d FROM dynq_log"
    duck = shared()
    try:
        with duck.seeing("dynq_log", table):
            found = duck.table(sql).column("d")
    except DuckError as error:
        message = f"`deleted_when: {condition}` of {relation.name} cannot be computed: {error}"
        raise rows.refused(message, "write a column of the log, or SQL over its columns") from None
    flags: NDArray[np.bool_] = found.combine_chunks().to_numpy(zero_copy_only=False)
    return flags


def _array(rows: Rows, relation: Relation, name: str) -> pa.Array:
    column, declared = rows.columns[name], relation.column(name)
    try:
        if declared is not None:
            if not isinstance(column, list):
                column = nan_as_null(column, declared.type, nullable=declared.nullable)
            return convert(typed(column, declared.type, is_text=rows.is_text), declared.type)
        return column if not isinstance(column, list) else pa.array(column)
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(_words(column), pa.string())


def _marked(rows: Rows, name: str) -> NDArray[np.bool_]:
    column = rows.columns[name]
    if not isinstance(column, list) and pt.is_temporal(column.type):
        return ~null_mask(column)
    known: dict[str | None, bool | None] = {None: False}
    deleted = np.zeros(len(rows), np.bool_)
    for row, word in enumerate(_words(column)):
        if word not in known:
            known[word] = _is_true(word or "")
        found = known[word]
        if found is None:
            message = f"{shown(word or '')} is neither true nor false nor a timestamp"
            hint = f"write a condition in the spec, as in `deleted_when: {name} IS NOT NULL`"
            raise rows.rejected(row, name, message, hint)
        deleted[row] = found
    return deleted


def _is_true(word: str) -> bool | None:
    low = word.lower()
    if low in _TRUE or low in _FALSE:
        return low in _TRUE
    try:
        typed(pa.array([word]), TIMESTAMP, is_text=True)
    except CodeError:
        return None
    return True
