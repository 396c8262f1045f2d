"""Fivetran's tables: `_fivetran_deleted` marks rows that were deleted, `_fivetran_synced` says when a row was written.

Tables in history mode (`_fivetran_active`) hold every version of a row; they are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.columns import null_mask
from dynq_cli.io.logs.formats.change_type_columns import flags
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.order import moments
from dynq_cli.io.logs.formats.soft_deletes import soft_kinds
from dynq_cli.spec.model import Relation

_DELETED, _SYNCED, _ACTIVE = "_fivetran_deleted", "_fivetran_synced", "_fivetran_active"
_END = "_fivetran_end"
# Versions in force end on 9999-12-31, whatever the destination makes of the rest of that day.
_FOREVER = 253_402_000_000_000_000


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name.startswith("_fivetran_") for name in free) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if _ACTIVE in rows.columns:
        message = f"a table in history mode: {_ACTIVE} marks the last of several versions of a row"
        raise rows.refused(message, f"extract the rows where {_ACTIVE} is true, without this column")
    _refuse_ended(rows)
    deleted = flags(rows, _DELETED) if _DELETED in rows.columns else np.zeros(len(rows), np.bool_)
    kinds = soft_kinds(rows, relation, _DELETED, deleted)
    yield ChangeRows(rows, kinds, order=moments(rows, _SYNCED) if _SYNCED in rows.columns else None)


def _refuse_ended(rows: Rows) -> None:
    """Rows of history mode that are versions of the past, although the column that says so was left out."""
    if _END not in rows.columns:
        return
    ended = (moments(rows, _END)[:, 0] < _FOREVER) & ~null_mask(rows.columns[_END])
    if ended.any():
        message = "a table in history mode: this version of the row ended"
        raise rows.rejected(int(ended.argmax()), _END, message, "extract the rows where _fivetran_active is true")


FORM = LogFormat(
    "fivetran",
    detect,
    translate,
    meta=(_DELETED, _SYNCED, _ACTIVE, _END),
    sorts=(_SYNCED,),
    order=(),
    says_deletes=lambda names: _DELETED in names,
    can_be_whole=lambda free: True,
)
