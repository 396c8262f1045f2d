"""Old and new images of updates as deletes and inserts, before their rows go to different shards.

Images come in pairs within a commit, whose parts may belong to different shards: so pairs are told apart here, by the
rules of `engine/ingest`, for all rows of a commit at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.spec.model import Relation
from dynq_cli.values import change_kinds as k
from dynq_cli.values.convert import CodeError, convert

Kinds = NDArray[np.int8]


class UnpairedError(Exception):
    """A relation without a key has images that are no pairs; `row` counts from 0."""

    def __init__(self, relation: str, row: int) -> None:
        self.row = row
        self.reason = f"an update of {relation}, which has no key, needs its old and its new image in one commit"
        super().__init__(self.reason)


def has_images(kinds: Kinds) -> bool:
    """Whether some rows are old or new images."""
    return bool(((kinds == k.PREIMAGE) | (kinds == k.POSTIMAGE)).any())


def plain_kinds(relation: Relation, kinds: Kinds, commits: NDArray[np.int64], columns: Mapping[str, pa.Array]) -> Kinds:
    """Return the kinds of whole commits with images as deletes, inserts and upserts. O(rows). UnpairedError."""
    if relation.append_only:
        return kinds  # which every shard refuses
    old, new = kinds == k.PREIMAGE, kinds == k.POSTIMAGE
    numbers, commit = np.unique(commits, return_inverse=True)
    surplus = np.zeros(len(numbers), np.int64)
    np.add.at(surplus, commit, new.astype(np.int64) - old)
    uneven = np.flatnonzero((old | new) & (surplus[commit] != 0))
    made = np.where(old, np.int8(k.DELETE), np.where(new, np.int8(k.INSERT), kinds)).astype(np.int8)
    if not len(uneven):
        return made
    if not relation.key:
        raise UnpairedError(relation.name, int(uneven[0]))
    keys = _keys(relation, columns, uneven)
    had = {(int(commit[i]), key) for i, key in zip(uneven, keys, strict=True) if old[i]}
    for i, key in zip(uneven, keys, strict=True):
        if new[i] and (int(commit[i]), key) not in had:
            made[i] = k.UPSERT
    return made


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _keys(relation: Relation, columns: Mapping[str, pa.Array], rows: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    """The keys of some rows; None where a value is not of its column's type, which the shards refuse."""
    several = []
    for name in relation.key:
        column = relation.column(name)
        assert column is not None
        try:
            several.append(convert(columns[name].take(pa.array(rows)), column.type).to_pylist())
        except (CodeError, KeyError):
            several.append([None] * len(rows))
    return list(zip(*several, strict=True))
