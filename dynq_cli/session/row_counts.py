"""Count the rows that change logs insert, replace and delete, by file.

    watch = Watch(views, relation, changes, ends); the engine applies the changes; watch.add_to(counts, piece)

`engine/effects` defines inserted, replaced and deleted.
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
    """Numbers of inserted rows, of rows that replaced one with the same key, and of deleted rows."""

    inserted: int = 0
    replaced: int = 0
    deleted: int = 0

    @staticmethod
    def total(several: Iterable[RowCounts]) -> RowCounts:
        """Return the sum."""
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
    """Computes the effects of changes. Construct it before the engine applies them."""

    def __init__(self, views: Views, relation: str, changes: Changes, ends: Codes | None) -> None:
        base = views.base(relation)
        self.relation = relation
        self._changes = changes
        self._has_key = bool(base.relation.key)
        self._effects = e.effects_of(views.engine, base, changes, ends)
        # Without a key, the deletes that found no row follow from the copies that remain.
        misses = not self._has_key and changes.may_miss
        self._around = TouchedRows(views.engine, base, changes) if misses else None

    def add_to(self, counted: dict[str, RowCounts], piece: SourcedChanges) -> None:
        """Add to the counts of the files of the changes. Call it after the engine has applied them."""
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
        """Return the counts of all changes, if every delete must find its row. Can be called before applying them."""
        made = RowCounts()
        for effect in (e.INSERTED, e.REPLACED, e.DELETED):
            has = self._effects == effect
            made.add(effect, int(np.count_nonzero(has) if self._has_key else self._changes.counts[has].sum()))
        return made

    def _without_missed(self, by_file: list[int]) -> list[int]:
        """Subtract the deletes that found no row: from the first files on, as their file is not known."""
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
