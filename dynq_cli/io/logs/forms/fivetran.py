"""Fivetran's tables: `_fivetran_deleted` marks rows that were deleted, `_fivetran_synced` says when a row was written.

Tables in history mode (`_fivetran_active`) hold every version of a row; they are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.forms.form import NO, SURE, Form, Marked, Rows
from dynq_cli.io.logs.forms.marks import flags
from dynq_cli.io.logs.forms.soft_deletes import moments, soft_kinds
from dynq_cli.spec.model import Relation

_DELETED, _SYNCED, _ACTIVE = "_fivetran_deleted", "_fivetran_synced", "_fivetran_active"


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name.startswith("_fivetran_") for name in free) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[Marked]:
    if _ACTIVE in rows.columns:
        message = f"a table in history mode: {_ACTIVE} marks the last of several versions of a row"
        raise rows.refused(message, f"extract the rows where {_ACTIVE} is true, without this column")
    deleted = flags(rows, _DELETED) if _DELETED in rows.columns else np.zeros(len(rows), np.bool_)
    kinds = soft_kinds(rows, relation, _DELETED, deleted)
    yield Marked(rows, kinds, order=moments(rows, _SYNCED))


FORM = Form(
    "fivetran",
    detect,
    translate,
    meta=(_DELETED, _SYNCED, _ACTIVE),
    order=(),
    says_deletes=lambda names: _DELETED in names,
    can_be_whole=lambda free: True,
)
