"""How many rows change logs inserted, replaced and deleted, file by file.

    watch = Watch(live, relation, changes, ends); the engine takes the changes; watch.add_to(counts, piece)

What the three words mean is in `engine/effects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dynq_cli.engine import effects as e
from dynq_cli.engine.changes import Changes
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.net_delta import TouchedRows
from dynq_cli.engine.views import Views
from dynq_cli.session.sourced_changes import SourcedChanges


@dataclass
class RowCounts:
    """Rows that came, rows that came in place of one with their key, and rows that went."""

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0

    @staticmethod
    def total(several: Iterable[RowCounts]) -> RowCounts:
        """Their sum."""
        made = RowCounts()
        for one in several:
            made.inserted += one.inserted
            made.replaced += one.replaced
            made.deleted += one.deleted
        return made

    def add(self, effect: int, rows: int) -> None:
        if effect == e.INSERTED:
            self.inserted += rows
        elif effect == e.REPLACED:
            self.replaced += rows
        else:
            self.deleted += rows


class Watch:
    """Changes that the engine is about to take."""

    def __init__(self, live: Views, relation: str, changes: Changes, ends: Codes | None) -> None:
        base = live.base(relation)
        self.relation = relation
        self._changes = changes
        self._has_key = bool(base.relation.key)
        self._effects = e.effects_of(live.engine, base, changes, ends)
        # Which deletes of a relation without a key miss is seen by the copies that are left.
        misses = not self._has_key and changes.may_miss
        self._around = TouchedRows(live.engine, base, changes) if misses else None

    def add_to(self, counted: dict[str, RowCounts], piece: SourcedChanges) -> None:
        """Add to the counts of the files that the changes stand in; the engine has taken them."""
        paths = [file.path for file in piece.files]
        is_one = len(set(paths)) == 1
        for effect in (e.INSERTED, e.REPLACED, e.DELETED):
            has = self._effects == effect
            if is_one and self._has_key:
                by_file = [int(np.count_nonzero(has))]
            elif is_one:
                by_file = [int(self._changes.counts[has].sum())]
            else:
                sums = np.zeros(len(paths), np.int64)
                np.add.at(sums, piece.of_file[has], 1 if self._has_key else self._changes.counts[has])
                by_file = sums.tolist()
            if effect == e.DELETED:
                by_file = self._without_missed(by_file)
            for path, number in zip(paths, by_file, strict=False):
                counted.setdefault(path, RowCounts()).add(effect, number)

    def total(self) -> RowCounts:
        """The counts of all changes, none of which may miss; known before the engine takes them."""
        made = RowCounts()
        for effect in (e.INSERTED, e.REPLACED, e.DELETED):
            has = self._effects == effect
            made.add(effect, int(np.count_nonzero(has) if self._has_key else self._changes.counts[has].sum()))
        return made

    def _without_missed(self, by_file: list[int]) -> list[int]:
        """Deletes that hit; of several files the missing ones are taken off in their order, whosever they were."""
        if self._around is None:
            return by_file
        changes = self._changes
        came = int(changes.counts[changes.ops == f.INSERT].sum())
        missed = sum(by_file) - (came - int(self._around.net().delta.sum()))
        hit = []
        for number in by_file:
            less = min(missed, number)
            missed -= less
            hit.append(number - less)
        return hit
