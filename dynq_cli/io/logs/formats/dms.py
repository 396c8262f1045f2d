"""AWS Database Migration Service: a column `Op` with I, U or D; rows of a full load have none.

DMS writes the new row of an update and not the old one, so updates need a key to go by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from dynq_cli.io.logs.formats.change_type_columns import copies, words
from dynq_cli.io.logs.formats.log_format import LIKELY, NO, ChangeRows, LogFormat, Rows
from dynq_cli.io.logs.model import DELETE, INSERT, UPSERT
from dynq_cli.spec.model import Relation

_OPERATIONS = {"I": INSERT, "U": UPSERT, "D": DELETE}
_HINT = "name the file's format by `dynq apply --format NAME`: if the column is only data, it is `snapshot`"


def detect(free: Collection[str], names: Collection[str]) -> int:
    return LIKELY if "Op" in free else NO


def translate(rows: Rows, relation: Relation) -> Iterator[ChangeRows]:
    if "Op" in rows.columns:
        kinds = words(rows, "Op", _OPERATIONS, absent=INSERT, hint=_HINT)
    else:
        kinds = np.full(len(rows), INSERT, np.int8)
    updates = kinds == UPSERT
    if updates.any() and not relation.key:
        message = f"an update of {relation.name}, which has no key, without the row as it was"
        raise rows.rejected(int(updates.argmax()), "Op", message, f"give {relation.name} a `key:` in the spec")
    yield ChangeRows(rows, kinds, copies(rows))


FORM = LogFormat("dms", detect, translate, meta=("Op", "_commit_version", "_count"))
