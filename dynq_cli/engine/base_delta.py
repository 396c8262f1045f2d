"""The base delta of one relation: the net effect of a commit on each base row that it touches."""

from __future__ import annotations

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.kernels.commit import PROGRESS, RESOLVE
from dynq_cli.engine.kernels.fields import DeltaEntries, rows_of

_FIELDS = list(PROGRESS.names or ())
_ROOM, _DONE, _STAGE, _ENTRIES, _CHANGE, _SKIPPED = map(
    _FIELDS.index, ("room", "done", "stage", "entries", "change", "skipped")
)


class DeltaBuffers:
    """Reusable arrays for resolving the changes of one relation into a base delta.

    They are kept between commits: the system would have to find and zero the pages of new ones.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        touched, first, last = (np.empty(room, np.int32) for _ in range(3))
        net, old, new = (np.empty(room, np.int64) for _ in range(3))
        self.entries = DeltaEntries(touched, net, first, last, old, new)
        self.words = np.zeros(len(_FIELDS), np.int64)
        self.progress = rows_of(PROGRESS, self.words)


class BaseDelta:
    """The base delta of the commit that is on its way, and how far it has come (`kernels.commit`).

    The changes may be several commits, one after the other, that end at `ends`. The first `n` entries are in use.
    `room` is how many changes of a large commit are taken at a time.
    """

    __slots__ = ("_words", "base", "batch", "changes", "ends", "entries", "may_miss", "progress", "relation")

    def __init__(self, base: BaseLayout, changes: Changes, ends: Codes, work: DeltaBuffers, room: int) -> None:
        self.relation = base.relation.name
        self.base = base
        self.changes = changes
        self.batch = changes.batch
        self.may_miss = changes.may_miss
        self.ends = ends
        self.entries = work.entries
        self.progress = work.progress
        self._words = work.words
        self._words.fill(0)
        self._words[_ROOM] = room

    def settle(self, rows: Codes) -> None:
        """Take the changes for inserts of rows that are in the base table, with their copies, under these ids."""
        many, entries = len(rows), self.entries
        entries.touched[:many], entries.net[:many], entries.new[:many] = rows, self.changes.counts, self.changes.counts
        entries.first[:many] = entries.last[:many] = np.arange(many)
        entries.old[:many] = 0
        self._words[_ENTRIES], self._words[_STAGE] = many, RESOLVE + 1

    @property
    def n(self) -> int:
        return self._words.item(_ENTRIES)

    @property
    def stage(self) -> int:
        """The stage of the route that comes next."""
        return self._words.item(_STAGE)

    def skip_to(self, stage: int) -> None:
        """Go on from a later stage of the route, for another relation takes care of those before."""
        self._words[_STAGE] = stage

    @property
    def done(self) -> int:
        """The number of commits that are through."""
        return self._words.item(_DONE)

    @property
    def change(self) -> int:
        """The change at fault."""
        return self._words.item(_CHANGE)

    def take_skipped(self) -> int:
        """Return the number of deletes that found no row, since the last call."""
        many = self._words.item(_SKIPPED)
        if many:
            self._words[_SKIPPED] = 0
        return many
