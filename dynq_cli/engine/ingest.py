"""Arrow rows → changes in codes: what the engine takes in.

Per relation: the declared columns as codes, key first, the operation of each row, and what the leaves
of the relation compute and filter by, evaluated once per batch, vectorised, by DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dynq_cli.engine.codes import NULL, Codes, encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.engine import Changes
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Bytes
from dynq_cli.engine.layout import BaseLayout
from dynq_cli.engine.lossless import CodeError, arrow_type
from dynq_cli.errors import RejectedError
from dynq_cli.query.normal_form import Scalar
from dynq_cli.query.scalar import evaluate
from dynq_cli.spec.model import Column

OPERATIONS = {
    "insert": f.INSERT,
    "delete": f.DELETE,
    "update_preimage": f.DELETE,
    "update_postimage": f.INSERT,
}
# Arrow turns a Python value into a scalar at every call, which takes longer than a small batch.
_INSERT, _DELETE, _FALSE = pa.scalar("insert"), pa.scalar("delete"), pa.scalar(False)


def changes_of(table: pa.Table, base: BaseLayout, dictionaries: Dictionaries) -> Changes:
    """The changes that a table of rows says. Raises RejectedError naming row and column."""
    name = base.relation.name
    columns = {c.name: c for c in base.relation.columns}
    missing = [c for c in base.order if c not in table.column_names]
    if missing:
        raise RejectedError(f"{name}: column {missing[0]} is missing")
    coded = [_codes(table, columns[c], name, dictionaries) for c in base.order]
    codes = np.empty((len(table), len(coded)), np.int64)
    for i, column in enumerate(coded):
        codes[:, i] = column
    made = Changes(codes, _operations(table, name), _counts(table, name))
    if not base.computed and not base.filters:
        return made
    return _with_computed(made, table, base, dictionaries)


def _codes(table: pa.Table, column: Column, relation: str, dictionaries: Dictionaries) -> Codes:
    try:
        codes = encode(table[column.name], column.type, dictionaries)
    except CodeError as error:
        raise RejectedError(f"{relation}: row {error.row + 1}, column {column.name}: {error.reason}") from None
    if not column.nullable and table[column.name].null_count:
        absent = codes == NULL
        if absent.any():
            row = int(absent.argmax()) + 1
            message = (
                f"{relation}: row {row}, column {column.name}: NULL, but the column is not declared {column.type}?"
            )
            raise RejectedError(message)
    return codes


def _operations(table: pa.Table, relation: str) -> Bytes:
    if "_change_type" not in table.column_names or not len(table):
        return np.zeros(len(table), np.int8)
    kinds = table["_change_type"].cast(pa.string())
    # The two that most logs have nothing else of, without looking at the text of each row.
    deleted = pc.equal(kinds, _DELETE).fill_null(_FALSE)
    if (pc.sum(deleted).as_py() or 0) == len(kinds) - (pc.sum(pc.equal(kinds, _INSERT)).as_py() or 0):
        return np.asarray(deleted.to_numpy(), np.int8)
    return _named_operations(kinds, relation)


def _named_operations(kinds: pa.ChunkedArray, relation: str) -> Bytes:
    coded = pa.concat_arrays(kinds.chunks).dictionary_encode()
    operations = []
    for kind in coded.dictionary.to_pylist():
        operation = OPERATIONS.get(str(kind).lower())
        if operation is None:
            raise RejectedError(f"{relation}: _change_type {kind!r} is none of {', '.join(OPERATIONS)}")
        operations.append(operation)
    if coded.null_count:
        raise RejectedError(f"{relation}: _change_type is NULL in some row")
    return np.array(operations, np.int8)[coded.indices.to_numpy()] if operations else np.zeros(0, np.int8)


def _counts(table: pa.Table, relation: str) -> Codes:
    if "_count" not in table.column_names:
        return np.ones(len(table), np.int64)
    counts = table["_count"].cast(pa.int64()).fill_null(0).to_numpy()
    wrong = counts < 1
    if wrong.any():
        row = int(wrong.argmax()) + 1
        raise RejectedError(f"{relation}: row {row}, column _count: {counts[row - 1]} copies; write 1 or more")
    return np.ascontiguousarray(counts)


def _with_computed(made: Changes, table: pa.Table, base: BaseLayout, dictionaries: Dictionaries) -> Changes:
    typed = pa.table({c.name: table[c.name].cast(arrow_type(c.type)) for c in base.relation.columns})
    conditions = [" AND ".join(f"({s.sql})" for s in several) for several in base.filters]
    values = evaluate(typed, [*(s.sql for s in base.computed), *conditions])
    computed = _stacked(
        [_computed(v, s, dictionaries) for v, s in zip(values, base.computed, strict=False)], len(table)
    )
    held = [v.combine_chunks().fill_null(False) for v in values[len(base.computed) :]]
    passes = np.empty((len(table), max(1, len(held))), np.bool_)
    for i, column in enumerate(held):
        passes[:, i] = column.to_numpy(zero_copy_only=False)
    return Changes(made.codes, made.ops, made.counts, computed, passes)


def _computed(values: pa.ChunkedArray, scalar: Scalar, dictionaries: Dictionaries) -> Codes:
    return encode(values.cast(arrow_type(scalar.type)), scalar.type, dictionaries)


def _stacked(columns: Sequence[Codes], rows: int) -> Codes:
    stacked = np.zeros((rows, max(1, len(columns))), np.int64)
    for i, column in enumerate(columns):
        stacked[:, i] = column
    return stacked
