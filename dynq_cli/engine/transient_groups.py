"""The rows of groups on their way into other relations, where nobody else reads them: they need no table.

    relay.take(rows, copies)        rows of the relation that went (copies < 0) and came in this commit
    relay.blocks(passage, names)    those that the passage's filter lets pass, in some of its variables

A group says both the row it had and the one it has, so what expressions give for a row is asked again when it goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout, PassageLayout
from dynq_cli.engine.changes import Codes
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.plan.program import Derived


class TransientGroups:
    """What one relation does in a commit."""

    def __init__(self, derived: Derived, base: BaseLayout, meaning: Evaluator) -> None:
        self._derived = derived
        self._base = base
        self._meaning = meaning
        names = [c.name for c in derived.relation.columns]
        self._order = [names.index(name) for name in base.order]
        self._numbers = {word: number for number, word in base.stored.items()}
        self.take(np.empty((0, len(names)), np.int64), np.empty(0, np.int64))

    def take(self, rows: Codes, copies: Codes) -> None:
        """The rows of a commit, in place of those of the last. NoValueError if an expression has none."""
        self._codes, self._copies = np.ascontiguousarray(rows[:, self._order]), copies
        if len(copies) and (self._base.computed or self._base.filters):
            self._computed, self._passes = self._meaning.computed(self._derived, self._base, self._codes)

    def blocks(self, passage: PassageLayout, variables: Sequence[str]) -> Iterator[tuple[Codes, Codes]]:
        """Codes, a row of them per variable, and how many copies of each came (> 0) or went."""
        if not len(self._copies):
            return
        kept = slice(None) if passage.filter < 0 else np.flatnonzero(self._passes[:, passage.filter])
        copies = self._copies[kept]
        codes = np.empty((len(variables), len(copies)), np.int64)
        for i, variable in enumerate(variables):
            codes[i] = self._column(passage.places[variable])[kept]
        if len(copies):
            yield codes, copies

    def _column(self, word: int) -> Codes:
        """What base rows would have in a word."""
        return self._codes[:, word] if word < len(self._order) else self._computed[:, self._numbers[word]]
