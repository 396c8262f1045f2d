"""SQL Server's change tables: `__$operation` with 1 delete, 2 insert, 3 and 4 a row before and after its update.

5 is a row that was inserted or updated, of net changes with merge. Rows have to come in the order of `__$start_lsn`,
`__$seqval`. Net changes have the last values of a row that was deleted, not those before the interval: without
`__$seqval` a delete goes by the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.lossless import CodeError
from dynq_cli.io.logs.columns import texts
from dynq_cli.io.logs.forms.form import NO, SURE, Form, Marked, Rows
from dynq_cli.io.logs.forms.marks import numbers
from dynq_cli.io.logs.model import DELETE, ERASE, INSERT, POSTIMAGE, PREIMAGE, UPSERT
from dynq_cli.spec.model import Relation

_OPERATION, _LSN, _SEQUENCE = "__$operation", "__$start_lsn", "__$seqval"
_KINDS = np.array([-2, DELETE, INSERT, PREIMAGE, POSTIMAGE, UPSERT], np.int8)


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if _OPERATION in free else NO


def translate(rows: Rows, relation: Relation) -> Iterator[Marked]:
    if _OPERATION not in rows.columns:
        raise rows.lacks(_OPERATION, "the functions cdc.fn_cdc_get_all_changes_… have it")
    said = numbers(rows, _OPERATION)
    wrong = (said < 1) | (said > 5)
    if wrong.any():
        row = int(wrong.argmax())
        raise rows.rejected(row, _OPERATION, f"{said[row]} is none of 1, 2, 3, 4, 5")
    kinds = _KINDS[said]
    if (kinds == UPSERT).any() and not relation.key:
        row = int((kinds == UPSERT).argmax())
        message = f"this may be an update of {relation.name}, which has no key, without the row as it was"
        raise rows.rejected(row, _OPERATION, message, f"give {relation.name} a `key:` in the spec")
    if _SEQUENCE not in rows.columns and relation.key:
        kinds = np.where(kinds == DELETE, ERASE, kinds).astype(np.int8)
    yield Marked(rows, kinds, order=_order(rows, said))


def _order(rows: Rows, said: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Refuse rows that go back in the log: the numbers of its places are longer than any whole number."""
    places = [_places(rows, name) for name in (_LSN, _SEQUENCE) if name in rows.columns]
    keys = list(zip(*places, strict=True))
    row = next((i for i in range(1, len(keys)) if keys[i] < keys[i - 1]), None)
    if row is not None:
        message = "the row comes before those above it in the log of the database"
        raise rows.rejected(row, _LSN, message, f"write the rows in the order of {_LSN}, {_SEQUENCE}, {_OPERATION}")
    return None


def _places(rows: Rows, name: str) -> list[bytes]:
    column = rows.columns[name]
    try:
        values = column if isinstance(column, list) else texts(column).to_pylist()
    except CodeError:
        values = [] if isinstance(column, list) else column.to_pylist()
    return [v if isinstance(v, bytes) else str(v).lower().encode() for v in values]


FORM = Form("sqlserver", detect, translate, meta=(_OPERATION, _LSN, _SEQUENCE), order=())
