"""Airbyte's tables: `_ab_cdc_deleted_at` is the time when a row was deleted, NULL for rows that are there.

Rows are ordered by their place in the database's log (`_ab_cdc_lsn`, or `_ab_cdc_log_pos` within one file), else by
`_ab_cdc_updated_at`, else by `_airbyte_extracted_at`. Tables without CDC columns have no deleted rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import null_mask, texts
from dynq_cli.io.logs.forms.form import NO, SURE, Form, Marked, Rows
from dynq_cli.io.logs.forms.soft_deletes import moments, soft_kinds, whole_numbers
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.model import Relation

_DELETED, _LSN, _FILE, _POSITION = "_ab_cdc_deleted_at", "_ab_cdc_lsn", "_ab_cdc_log_file", "_ab_cdc_log_pos"
_UPDATED, _EXTRACTED = "_ab_cdc_updated_at", "_airbyte_extracted_at"
_META = (_DELETED, _LSN, _FILE, _POSITION, _UPDATED, _EXTRACTED)


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name.startswith(("_ab_cdc_", "_airbyte_")) for name in free) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[Marked]:
    deleted = np.zeros(len(rows), np.bool_)
    if _DELETED in rows.columns:
        deleted = ~_is_absent(rows, rows.columns[_DELETED])
    yield Marked(rows, soft_kinds(rows, relation, _DELETED, deleted), order=_order(rows))


def _is_absent(rows: Rows, column: RawColumn) -> NDArray[np.bool_]:
    """NULL, or the empty text that some destinations write for it."""
    absent = null_mask(column)
    if rows.is_text or isinstance(column, list):
        values = texts(column).to_pylist() if rows.is_text else column
        absent |= np.fromiter((value == "" for value in values), bool, len(values))
    return absent


def _order(rows: Rows) -> NDArray[np.int64] | None:
    place = None if _FILE in rows.columns else whole_numbers(rows, _LSN)
    if place is not None:
        return place
    updated = moments(rows, _UPDATED)
    return moments(rows, _EXTRACTED) if updated is None else updated


FORM = Form(
    "airbyte",
    detect,
    translate,
    meta=_META,
    order=(),
    says_deletes=lambda names: _DELETED in names,
    can_be_whole=lambda free: True,
)
