"""Tell the pairs of old and new images of change logs apart, before their rows go to different shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dynq_cli.errors import RejectedError
from dynq_cli.io.logs.model import LogFile, LogRows
from dynq_cli.spec.model import Relation, Spec
from dynq_cli.storage.shards.images import Kinds, UnpairedError, plain_kinds, whole

Held = tuple[LogFile, LogRows]


def without_images(spec: Spec, held: Sequence[Held]) -> list[Held]:
    """Return rows of whole commits with images as deletes, inserts and upserts. O(rows).

    RejectedError if a relation without a key has images that are no pairs.
    """
    made = list(held)
    for name in dict.fromkeys(rows.relation for _, rows in held):
        places = [i for i, (_, rows) in enumerate(held) if rows.relation == name]
        relation = spec.relation(name)
        assert relation is not None
        kinds = _plain(relation, [held[i] for i in places])
        start = 0
        for i in places:
            file, rows = held[i]
            made[i] = file, replace(rows, kinds=kinds[start : start + len(rows)])
            start += len(rows)
    return made


def _plain(relation: Relation, held: Sequence[Held]) -> Kinds:
    kinds = np.concatenate([rows.kinds for _, rows in held])
    commits = np.concatenate([np.zeros(len(r), np.int64) if r.commits is None else r.commits for _, r in held])
    several = [rows.columns for _, rows in held]
    names = [name for name in relation.key if all(name in columns for columns in several)]
    keys = {name: pa.concat_arrays([whole(columns[name]) for columns in several]) for name in names}
    try:
        return plain_kinds(relation, kinds, commits, keys)
    except UnpairedError as error:
        row = error.row
        for file, rows in held:
            if row < len(rows):
                raise RejectedError.in_row(file.path, int(rows.numbers[row]), "", error.reason) from None
            row -= len(rows)
        raise
