"""Rows of current-state tables that keep what was deleted, with a mark.

A row that is not deleted replaces the row with its key, or is inserted. A deleted row deletes by its key; if the key is
not there, the row is skipped and counted: such tables repeat their deleted rows in every full copy. Without a key, rows
are inserts and a deleted row is refused; in a file that is the whole relation it is absent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.lossless import CodeError, lossless
from dynq_cli.io.logs.columns import texts, typed
from dynq_cli.io.logs.forms.form import SKIP, Rows
from dynq_cli.io.logs.model import ERASE, INSERT, UPSERT
from dynq_cli.spec.model import Relation
from dynq_cli.spec.types import INT64, TIMESTAMP


def soft_kinds(rows: Rows, relation: Relation, column: str, deleted: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The kinds of rows of which some are deleted, as `column` says. RejectedError if a delete has no key to go by."""
    if not relation.key and rows.is_whole:
        return np.where(deleted, SKIP, INSERT).astype(np.int8)
    if not relation.key and deleted.any():
        message = f"a deleted row of {relation.name}, which has no key to delete by"
        raise rows.rejected(int(deleted.argmax()), column, message, f"give {relation.name} a `key:` in the spec")
    return np.where(deleted, ERASE, UPSERT if relation.key else INSERT).astype(np.int8)


def moments(rows: Rows, name: str) -> NDArray[np.int64] | None:
    """The timestamps of a column as microseconds, to order rows by; NULL comes first. None if the file has none."""
    if name not in rows.columns:
        return None
    try:
        values = lossless(typed(rows.columns[name], TIMESTAMP, is_text=rows.is_text), TIMESTAMP)
    except CodeError as error:
        raise rows.rejected(error.row, name, error.reason) from None
    found: NDArray[np.int64] = values.view("int64").fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    return found


def whole_numbers(rows: Rows, name: str) -> NDArray[np.int64] | None:
    """The whole numbers of a column, or texts of digits, to order rows by; None if a value is none of these."""
    if name not in rows.columns:
        return None
    column = rows.columns[name]
    try:
        values = lossless(typed(column, INT64, is_text=rows.is_text), INT64)
    except CodeError:
        try:
            values = typed(texts(column), INT64, is_text=True)
        except CodeError:
            return None
    found: NDArray[np.int64] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return found
