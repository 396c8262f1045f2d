"""Rows of current-state tables that keep what was deleted, with a mark.

A row that is not deleted replaces the row with its key, or is inserted. A deleted row deletes by its key; if the key is
not there, the row is skipped and counted: such tables repeat their deleted rows in every full copy. Without a key, rows
are inserts and a deleted row is refused; in a file that is the whole relation it is absent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynq_cli.io.logs.formats.log_format import SKIP, Rows
from dynq_cli.io.logs.model import ERASE, INSERT, UPSERT
from dynq_cli.spec.model import Relation


def soft_kinds(rows: Rows, relation: Relation, column: str, deleted: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The kinds of rows of which some are deleted, as `column` says. RejectedError if a delete has no key to go by."""
    if not relation.key and rows.is_whole:
        return np.where(deleted, SKIP, INSERT).astype(np.int8)
    if not relation.key and deleted.any():
        message = f"a deleted row of {relation.name}, which has no key to delete by"
        raise rows.rejected(int(deleted.argmax()), column, message, f"give {relation.name} a `key:` in the spec")
    return np.where(deleted, ERASE, UPSERT if relation.key else INSERT).astype(np.int8)
