"""Soft deletes: rows of current-state tables that keep deleted rows, with a mark.

A row that is not deleted is an upsert. A deleted row deletes by its key; if the key does not exist, the row is skipped
and counted, since such tables repeat their deleted rows in every full copy. Without a key, rows are inserts, and a
deleted row is refused. In a file with a whole relation, a deleted row counts as missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.formats.log_format import SKIP, Rows
from dynq_cli.io.logs.model import ERASE, INSERT, UPSERT
from dynq_cli.spec.model import Relation


def soft_kinds(rows: Rows, relation: Relation, column: str, deleted: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return the change kinds of rows, some of them deleted. RejectedError at `column` for deletes without a key."""
    if not relation.key and rows.is_whole:
        return np.where(deleted, SKIP, INSERT).astype(np.int8)
    if not relation.key and deleted.any():
        message = f"a deleted row of {relation.name}, which has no key to delete by"
        raise rows.rejected(int(deleted.argmax()), column, message, f"give {relation.name} a `key:` in the spec")
    return np.where(deleted, ERASE, UPSERT if relation.key else INSERT).astype(np.int8)
