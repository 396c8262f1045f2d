"""Airbyte's tables: `_ab_cdc_deleted_at` is the time when a row was deleted, NULL for rows that are there.

Rows are ordered by the first of these that the file has: `_ab_cdc_cursor`; the place in the database's log, which is
`_ab_cdc_lsn` (PostgreSQL, SQL Server) or `_ab_cdc_log_file` and `_ab_cdc_log_pos` (MySQL); `_ab_cdc_updated_at`;
`_airbyte_extracted_at`. Tables without CDC columns have no deleted rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import null_mask, texts
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.order import Keys, file_numbers, log_numbers, moments, together, whole_numbers
from dynq_cli.io.logs.formats.soft_deletes import soft_kinds
from dynq_cli.io.logs.model import RawColumn
from dynq_cli.spec.model import Relation

_DELETED, _LSN, _FILE, _POSITION = "_ab_cdc_deleted_at", "_ab_cdc_lsn", "_ab_cdc_log_file", "_ab_cdc_log_pos"
_CURSOR, _UPDATED, _EXTRACTED = "_ab_cdc_cursor", "_ab_cdc_updated_at", "_airbyte_extracted_at"
_SORTS = (_CURSOR, _LSN, _FILE, _POSITION, _UPDATED, _EXTRACTED)


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name.startswith(("_ab_cdc_", "_airbyte_")) for name in free) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    deleted = np.zeros(len(rows), np.bool_)
    if _DELETED in rows.columns:
        deleted = ~_is_absent(rows, rows.columns[_DELETED])
    yield ChangeRows(rows, soft_kinds(rows, relation, _DELETED, deleted), order=_order(rows))


def _is_absent(rows: Rows, column: RawColumn) -> NDArray[np.bool_]:
    """NULL, or the empty text that some destinations write for it."""
    absent = null_mask(column)
    if rows.is_text or isinstance(column, list):
        values = texts(column).to_pylist() if rows.is_text else column
        absent |= np.fromiter((value == "" for value in values), bool, len(values))
    return absent


def _order(rows: Rows) -> Keys | None:
    if _CURSOR in rows.columns:
        return whole_numbers(rows, _CURSOR)
    if _LSN in rows.columns:
        return log_numbers(rows, _LSN)
    if _FILE in rows.columns and _POSITION in rows.columns:
        return together(file_numbers(rows, _FILE), whole_numbers(rows, _POSITION))
    time = next((name for name in (_UPDATED, _EXTRACTED) if name in rows.columns), None)
    return None if time is None else moments(rows, time)


FORM = LogFormat(
    "airbyte",
    detect,
    translate,
    meta=(_DELETED, *_SORTS),
    sorts=_SORTS,
    order=(),
    says_deletes=lambda names: _DELETED in names,
    can_be_whole=lambda free: True,
)
