"""BigQuery's change history and CDC rows: `_CHANGE_TYPE` with INSERT, UPDATE, UPSERT or DELETE.

Rows are ordered by `_CHANGE_TIMESTAMP`. A delete of a relation with a key goes by the key. Updates come without the row
as it was, so they need a key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.columns import null_mask
from dynq_cli.io.logs.forms.form import NO, SURE, Form, Marked, Rows
from dynq_cli.io.logs.forms.marks import words
from dynq_cli.io.logs.forms.soft_deletes import moments
from dynq_cli.io.logs.model import DELETE, ERASE, INSERT, UPSERT
from dynq_cli.spec.model import Relation

_TYPE, _TIME, _SEQUENCE = "_CHANGE_TYPE", "_CHANGE_TIMESTAMP", "_CHANGE_SEQUENCE_NUMBER"
_TYPES = {"INSERT": INSERT, "UPDATE": UPSERT, "UPSERT": UPSERT, "DELETE": DELETE}


def detect(free: Collection[str], names: Collection[str]) -> int:
    return SURE if _TYPE in free else NO


def translate(rows: Rows, relation: Relation) -> Iterator[Marked]:
    if _TYPE not in rows.columns:
        raise rows.lacks(_TYPE, "the functions CHANGES and APPENDS have it")
    if _SEQUENCE in rows.columns and not null_mask(rows.columns[_SEQUENCE]).all():
        row = int((~null_mask(rows.columns[_SEQUENCE])).argmax())
        hint = f"write one row per key, or the rows in their order, without {_SEQUENCE}"
        raise rows.rejected(row, _SEQUENCE, "an order that is not read", hint)
    kinds = words(rows, _TYPE, _TYPES)
    if (kinds == UPSERT).any() and not relation.key:
        message = f"an update of {relation.name}, which has no key, without the row as it was"
        raise rows.rejected(
            int((kinds == UPSERT).argmax()), _TYPE, message, f"give {relation.name} a `key:` in the spec"
        )
    if relation.key:
        kinds = np.where(kinds == DELETE, ERASE, kinds).astype(np.int8)
    yield Marked(rows, kinds, order=moments(rows, _TIME))


FORM = Form("bigquery", detect, translate, meta=(_TYPE, _TIME, _SEQUENCE), order=())
