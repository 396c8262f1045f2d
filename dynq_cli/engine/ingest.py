"""Encode Arrow columns as changes for the engine.

`encode_rows` encodes the declared columns, key first, and evaluates the expressions and filters of the relation's
leaves, once per batch, with DuckDB. `operations` turns change kinds into operations on the base table. They depend on
the whole commit, since an update may have both images or only the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes
from dynq_cli.engine.codes import NULL, Codes, decode, encode
from dynq_cli.engine.dictionary import Dictionaries
from dynq_cli.engine.expressions import NoValueError, computed_of
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.kernels.fields import Bytes
from dynq_cli.spec.model import Column
from dynq_cli.values import change_kinds as k
from dynq_cli.values.convert import CodeError, arrow_type

Columns = Mapping[str, pa.Array | pa.ChunkedArray]

# By kind: INSERT, DELETE, PREIMAGE, POSTIMAGE, UPSERT, ERASE.
_PLAIN = np.array([f.INSERT, f.DELETE, f.DELETE, f.INSERT, f.UPSERT, f.MAY_DELETE_KEY], np.int8)
_GONE = np.array([False, True, True, False, False, True])
# By operation: INSERT, DELETE, UPSERT, DELETE_KEY, MAY_DELETE, MAY_DELETE_KEY.
_MAY_MISS = np.array([f.INSERT, f.MAY_DELETE, f.UPSERT, f.MAY_DELETE_KEY, f.MAY_DELETE, f.MAY_DELETE_KEY], np.int8)


class RowError(Exception):
    """A row is not valid for its relation. `row` counts from 0; `column` is empty if it concerns the whole row."""

    def __init__(self, row: int, column: str, reason: str) -> None:
        super().__init__(f"row {row + 1}, column {column}: {reason}" if column else f"row {row + 1}: {reason}")
        self.row = row
        self.column = column
        self.reason = reason


def encode_rows(columns: Columns, kinds: Bytes, counts: Codes, base: BaseLayout, values: Dictionaries) -> Changes:
    """Encode rows as changes; `ops` are still change kinds. RowError; ScalarError if DuckDB fails. O(bytes)."""
    many = len(kinds)
    declared = {c.name: c for c in base.relation.columns}
    gone = _GONE[kinds]
    codes = np.empty((many, len(base.order)), np.int64)
    for i, name in enumerate(base.order):
        codes[:, i] = _codes(columns, declared[name], gone, base, values)
    made = Changes(codes, kinds, counts)
    if not base.computed and not base.filters:
        return made
    return _with_computed(made, columns, base, values)


def _codes(columns: Columns, column: Column, gone: np.ndarray, base: BaseLayout, values: Dictionaries) -> Codes:
    """Encode a column. In a delete by key, columns other than the key may be NULL or missing."""
    name, by_key = column.name, bool(base.relation.key) and column.name not in base.relation.key
    if name not in columns:
        needed = np.zeros(len(gone), np.bool_) if by_key and gone.all() else np.ones(1, np.bool_)
        if needed.any():
            raise RowError(0, name, "the column is missing")
        return np.full(len(gone), NULL, np.int64)
    try:
        codes = encode(columns[name], column.type, values)
    except CodeError as error:
        raise RowError(error.row, name, error.reason) from None
    if not column.nullable and columns[name].null_count:
        absent = codes == NULL
        if by_key:
            absent &= ~gone
        if absent.any():
            raise RowError(int(absent.argmax()), name, f"NULL, but the column is not declared {column.type}?")
    return codes


def operations(changes: Changes, base: BaseLayout, *, may_miss: bool = False, ends: Codes | None = None) -> Changes:
    """Replace change kinds by operations: for one commit, or several with the exclusive `ends`. Raises RowError.

    In a relation with a key, a delete with only the key deletes by key, and a new image without the old one is an
    upsert. With `may_miss`, deletes of missing rows are skipped.
    """
    kinds = changes.ops
    ops = _PLAIN[kinds]
    keys, most = len(base.relation.key), kinds.max(initial=k.INSERT)
    if keys and most > k.INSERT:
        gone = ops == f.DELETE
        if keys < changes.codes.shape[1] and gone.any():
            bare = np.flatnonzero(gone & (changes.codes[:, keys] == NULL))
            ops[bare[(changes.codes[bare, keys:] == NULL).all(axis=1)]] = f.DELETE_KEY
        ops[_without_preimage(kinds, changes.codes[:, :keys], ends)] = f.UPSERT
    elif most > k.DELETE:
        _check_keyless(kinds, base, ends)
    return Changes(changes.codes, _MAY_MISS[ops] if may_miss else ops, changes.counts, changes.computed, changes.passes)


def refuse_losses(changes: Changes, base: BaseLayout) -> Changes:
    """Return change kinds of a relation whose rows only ever come: a row by its key is a new one. Raises RowError."""
    if not base.relation.append_only:
        return changes
    kinds = np.where(changes.ops == k.UPSERT, np.int8(k.INSERT), changes.ops)
    lost = kinds != k.INSERT
    if lost.any():
        at = int(lost.argmax())
        does = "deletes" if kinds[at] in (k.DELETE, k.ERASE) else "changes"
        raise RowError(at, "", f"{does} a row of {base.relation.name}, which the spec declares `append_only`")
    return replace(changes, ops=kinds)


def _uneven(kinds: Bytes, ends: Codes | None) -> list[tuple[int, int]]:
    """Return the commits with different numbers of old and new images, as (start, stop)."""
    images = np.where(kinds == k.POSTIMAGE, 1, 0) - np.where(kinds == k.PREIMAGE, 1, 0)
    stops = np.array([len(kinds)], np.int64) if ends is None else ends
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(images)])
    return [(int(starts[i]), int(stops[i])) for i in np.flatnonzero(sums[stops] != sums[starts])]


def _without_preimage(kinds: Bytes, keys: Codes, ends: Codes | None) -> np.ndarray:
    """Return the new images whose key no old image of the same commit has; none if images come in pairs."""
    found = np.zeros(len(kinds), np.bool_)
    if not (kinds == k.POSTIMAGE).any():
        return found
    for start, stop in _uneven(kinds, ends):
        part, rows = kinds[start:stop], keys[start:stop]
        old = {row.tobytes() for row in rows[part == k.PREIMAGE]}
        for i in np.flatnonzero(part == k.POSTIMAGE):
            found[start + i] = rows[i].tobytes() not in old
    return found


def _check_keyless(kinds: Bytes, base: BaseLayout, ends: Codes | None) -> None:
    by_key = (kinds == k.UPSERT) | (kinds == k.ERASE)
    if by_key.any():
        does = "replaces" if kinds[by_key.argmax()] == k.UPSERT else "deletes"
        raise RowError(int(by_key.argmax()), "", f"{does} a row by its key, and {base.relation.name} has no key")
    if not ((kinds == k.PREIMAGE) | (kinds == k.POSTIMAGE)).any():
        return
    for start, stop in _uneven(kinds, ends):
        image = (kinds[start:stop] == k.PREIMAGE) | (kinds[start:stop] == k.POSTIMAGE)
        reason = f"an update of {base.relation.name}, which has no key, needs its old and its new image in one commit"
        raise RowError(start + int(image.argmax()), "", reason)


def _with_computed(made: Changes, columns: Columns, base: BaseLayout, dictionaries: Dictionaries) -> Changes:
    def rows() -> pa.Table:
        return _looked_at(made, columns, base, dictionaries)

    try:
        return Changes(made.codes, made.ops, made.counts, *computed_of(rows, made.codes, base, dictionaries))
    except NoValueError as error:
        raise RowError(error.row, ", ".join(error.scalar.columns), str(error)) from None


def _looked_at(made: Changes, columns: Columns, base: BaseLayout, dictionaries: Dictionaries) -> pa.Table:
    """Return the columns that expressions may need, in their declared types."""
    many = len(made)
    typed: dict[str, pa.Array | pa.ChunkedArray] = {}
    for c in base.relation.columns:
        if not base.looks_at(c.name) and (typed or c != base.relation.columns[-1]):
            continue
        if c.name not in columns:
            typed[c.name] = pa.nulls(many, arrow_type(c.type))
        elif c.type.is_float:
            # Decode the codes: they have one zero and one NaN, and an expression could tell -0.0 from 0.0.
            typed[c.name] = decode(made.codes[:, base.order.index(c.name)], c.type, dictionaries)
        else:
            kind = arrow_type(c.type)
            typed[c.name] = columns[c.name] if columns[c.name].type == kind else columns[c.name].cast(kind)
    return pa.table(typed)
