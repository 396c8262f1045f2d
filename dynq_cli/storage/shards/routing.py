"""Which shards a row goes to: those that agree with the hashes of the columns that place it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dynq_cli.plan.shards import Group, ShardPlan
from dynq_cli.spec.model import Spec
from dynq_cli.values.convert import CodeError, convert
from dynq_cli.values.hashes import Hashes, coordinates, hashes_of

Member = tuple[str, int]
Rows = NDArray[np.int64]


class Part(NamedTuple):
    """The rows of one shard, by their numbers; None: all rows."""

    member: Member
    rows: Rows | None


class Router:
    """Sends rows to shards; see the module."""

    def __init__(self, spec: Spec, plan: ShardPlan) -> None:
        self.spec = spec
        self._plan = plan
        self._relations = {relation.name: relation for relation in spec.own_relations}

    def parts(self, relation: str, columns: Mapping[str, pa.Array], rows: int) -> list[Part]:
        """Return the rows of each shard that gets any. O(rows · (groups + replication)).

        A row whose value does not fit its column goes to some shard, which refuses it. Without rows, one shard is told.
        """
        hashes: dict[str, Hashes | None] = {}
        found = []
        for group in self._plan.groups:
            if relation in group.relations:
                found += self._parts(group, relation, columns, rows, hashes)
        return found

    def _parts(
        self,
        group: Group,
        relation: str,
        columns: Mapping[str, pa.Array],
        rows: int,
        hashes: dict[str, Hashes | None],
    ) -> list[Part]:
        placed = group.relations[relation].columns
        at = np.zeros(rows, np.int64)
        for dimension, (column, share) in enumerate(zip(placed, group.shares, strict=True)):
            at *= share
            if column is not None and share > 1:
                if column not in hashes:
                    hashes[column] = self._hashes(relation, column, columns)
                known = hashes[column]
                if known is not None:
                    at += coordinates(known, dimension, share)
        # Every number of a shard along the dimensions that do not place the row.
        spread = [
            range(share) if column is None else range(1) for column, share in zip(placed, group.shares, strict=True)
        ]
        offsets = []
        for several in product(*spread):
            offset = 0
            for share, coordinate in zip(group.shares, several, strict=True):
                offset = offset * share + coordinate
            offsets.append(offset)
        if group.size == len(offsets) or not rows:
            return [Part((group.name, offset), None) for offset in (offsets if rows else offsets[:1])]
        order = np.argsort(at, kind="stable")
        ends = np.searchsorted(at[order], np.arange(group.size + 1))
        return [
            Part((group.name, start + offset), order[ends[start] : ends[start + 1]])
            for start in range(group.size)
            if ends[start] < ends[start + 1]
            for offset in offsets
        ]

    def _hashes(self, relation: str, column: str, columns: Mapping[str, pa.Array]) -> Hashes | None:
        found = self._relations[relation].column(column)
        if found is None or column not in columns:
            return None
        values = columns[column]
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        try:
            return hashes_of(convert(values, found.type))
        except CodeError:
            return None

    def counting(self, member: Member) -> Callable[[str], bool]:
        """What tells whether a shard counts the rows of a relation."""
        return lambda relation: self.counts(relation, member)

    def counts(self, relation: str, member: Member) -> bool:
        """Whether a shard counts the rows of a relation that it has: of the copies of each row, one shard does."""
        group = next(g for g in self._plan.groups if g.name == member[0])
        if relation not in self._plan.homes:
            return False
        if self._plan.homes[relation] != group.name:
            return False
        number = member[1]
        for column, share in zip(group.relations[relation].columns[::-1], group.shares[::-1], strict=True):
            if column is None and number % share:
                return False
            number //= share
        return True
