"""Hudi's tables: `_hoodie_commit_time` and the other `_hoodie_*` columns beside those of the row.

`_hoodie_operation` says I, -U, U or D where the table keeps it; `_hoodie_is_deleted` marks deleted rows. Rows with
neither are the latest state. All replace or insert by their key, in the order of `_hoodie_commit_time`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.formats.change_type_columns import flags, words
from dynq_cli.io.logs.formats.log_format import NO, SKIP, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.order import whole_numbers
from dynq_cli.io.logs.formats.soft_deletes import soft_kinds
from dynq_cli.io.logs.model import DELETE, INSERT, POSTIMAGE, PREIMAGE
from dynq_cli.spec.model import Relation

_OPERATION, _DELETED, _TIME = "_hoodie_operation", "_hoodie_is_deleted", "_hoodie_commit_time"
_OPERATIONS = {"I": INSERT, "-U": PREIMAGE, "U": POSTIMAGE, "+U": POSTIMAGE, "D": DELETE}


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if any(name.startswith("_hoodie_") for name in free) else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    order = whole_numbers(rows, _TIME) if _TIME in rows.columns else None
    if _OPERATION in rows.columns:
        said = words(rows, _OPERATION, _OPERATIONS, absent=INSERT)
        if not relation.key:
            yield ChangeRows(rows, said, order=order)
            return
        kinds = soft_kinds(rows, relation, _OPERATION, said == DELETE)
        kinds[said == PREIMAGE] = SKIP
    else:
        deleted = flags(rows, _DELETED) if _DELETED in rows.columns else np.zeros(len(rows), np.bool_)
        kinds = soft_kinds(rows, relation, _DELETED, deleted)
    yield ChangeRows(rows, kinds, order=order)


FORM = LogFormat(
    "hudi",
    detect,
    translate,
    meta=(_OPERATION, _DELETED, _TIME),
    sorts=(_TIME,),
    order=(),
    says_deletes=lambda names: _OPERATION in names or _DELETED in names,
    can_be_whole=lambda free: True,
)
