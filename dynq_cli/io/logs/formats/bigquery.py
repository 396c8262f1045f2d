"""BigQuery's change history and CDC rows: `_CHANGE_TYPE` with INSERT, UPDATE, UPSERT or DELETE.

Rows are ordered by `_CHANGE_SEQUENCE_NUMBER` where they have one, then by `_CHANGE_TIMESTAMP`. A delete of a relation
with a key goes by the key. Updates come without the row as it was, so they need a key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.columns import null_mask
from dynq_cli.io.logs.formats.change_type_columns import words
from dynq_cli.io.logs.formats.log_format import NO, SURE, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.formats.order import Keys, moments, sequences, together
from dynq_cli.io.logs.model import DELETE, ERASE, INSERT, UPSERT
from dynq_cli.spec.model import Relation

_TYPE, _TIME, _SEQUENCE = "_CHANGE_TYPE", "_CHANGE_TIMESTAMP", "_CHANGE_SEQUENCE_NUMBER"
_TYPES = {"INSERT": INSERT, "UPDATE": UPSERT, "UPSERT": UPSERT, "DELETE": DELETE}


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if _TYPE in free else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if _TYPE not in rows.columns:
        raise rows.lacks(_TYPE, "the functions CHANGES and APPENDS have it")
    kinds = words(rows, _TYPE, _TYPES)
    if (kinds == UPSERT).any() and not relation.key:
        message = f"an update of {relation.name}, which has no key, without the row as it was"
        raise rows.rejected(
            int((kinds == UPSERT).argmax()), _TYPE, message, f"give {relation.name} a `key:` in the spec"
        )
    if relation.key:
        kinds = np.where(kinds == DELETE, ERASE, kinds).astype(np.int8)
    yield ChangeRows(rows, kinds, order=_order(rows))


def _order(rows: Rows) -> Keys | None:
    absent = null_mask(rows.columns[_SEQUENCE]) if _SEQUENCE in rows.columns else np.empty(0, np.bool_)
    if absent.any() and not absent.all():
        hint = f"give every row its {_SEQUENCE}, or write the rows in their order without it"
        raise rows.rejected(int(absent.argmax()), _SEQUENCE, "NULL, and other rows have a sequence number", hint)
    keys = [sequences(rows, _SEQUENCE)] if _SEQUENCE in rows.columns else []
    if _TIME in rows.columns:
        keys.append(moments(rows, _TIME))
    return together(*keys) if keys else None


FORM = LogFormat("bigquery", detect, translate, meta=(_TYPE, _TIME, _SEQUENCE), sorts=(_SEQUENCE, _TIME), order=())
