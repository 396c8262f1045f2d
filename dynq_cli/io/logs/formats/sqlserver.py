"""SQL Server's change tables: `__$operation` with 1 delete, 2 insert, 3 and 4 a row before and after its update.

5 is a row that was inserted or updated, of net changes with merge. Rows are ordered by `__$start_lsn`, then by
`__$command_id` where it is there, `__$seqval` and `__$operation`. Net changes have the last values of a row that was
deleted, not those before the interval: without `__$seqval` a delete goes by the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.columns import null_mask
from dynq_cli.io.logs.formats.change_type_columns import numbers
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.order import Keys, log_positions, together
from dynq_cli.io.logs.model import DELETE, ERASE, INSERT, POSTIMAGE, PREIMAGE, UPSERT
from dynq_cli.spec.model import Relation

_OPERATION, _LSN, _SEQUENCE, _COMMAND = "__$operation", "__$start_lsn", "__$seqval", "__$command_id"
_KINDS = np.array([-2, DELETE, INSERT, PREIMAGE, POSTIMAGE, UPSERT], np.int8)


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if _OPERATION in free else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if _OPERATION not in rows.columns:
        raise rows.lacks(_OPERATION, "the functions cdc.fn_cdc_get_all_changes_… have it")
    said = numbers(rows, _OPERATION)
    wrong = (said < 1) | (said > 5)
    if wrong.any():
        row = int(wrong.argmax())
        raise rows.rejected(row, _OPERATION, f"{said[row]} is not one of 1, 2, 3, 4, 5")
    kinds = _KINDS[said]
    if (kinds == UPSERT).any() and not relation.key:
        row = int((kinds == UPSERT).argmax())
        message = f"this may be an update of {relation.name}, which has no key, without the row as it was"
        raise rows.rejected(row, _OPERATION, message, f"give {relation.name} a `key:` in the spec")
    if _SEQUENCE not in rows.columns and relation.key:
        kinds = np.where(kinds == DELETE, ERASE, kinds).astype(np.int8)
    yield ChangeRows(rows, kinds, order=_order(rows, said))


def _order(rows: Rows, said: NDArray[np.int64]) -> Keys | None:
    keys: list[Keys] = []
    for name in (_LSN, _COMMAND, _SEQUENCE):
        if name in rows.columns:
            absent = null_mask(rows.columns[name])
            if absent.any():
                raise rows.rejected(int(absent.argmax()), name, "NULL where the place of the row in the log has to be")
            keys.append(numbers(rows, name) if name == _COMMAND else log_positions(rows, name))
    return together(*keys, said) if _LSN in rows.columns else None


_META = (_OPERATION, _LSN, _SEQUENCE, _COMMAND)
FORM = LogFormat("sqlserver", detect, translate, meta=_META, sorts=_META[1:], order=())
