"""A relation that only feeds other relations, so that its rows need no table: of groups, or of joined rows.

    rows.take(rows, copies)        the delta of the relation in this commit
    rows.blocks(passage, names)    the rows of the delta that pass the filter, in some of the variables

Expressions are evaluated again for a deleted row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout, PassageLayout
from dynq_cli.engine.changes import Codes
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.plan.program import Derived


class TransientRows:
    """The delta of one relation in a commit."""

    def __init__(self, derived: Derived, base: BaseLayout, meaning: Evaluator) -> None:
        self._derived = derived
        self._base = base
        self._meaning = meaning
        names = [c.name for c in derived.relation.columns]
        self._order = [names.index(name) for name in base.order]
        self._numbers = {word: number for number, word in base.stored.items()}
        self.take(np.empty((0, len(names)), np.int64), np.empty(0, np.int64))

    def take(self, rows: Codes, copies: Codes) -> None:
        """Replace the delta by that of the next commit. NoValueError if an expression has no value for a row."""
        self._codes, self._copies = np.ascontiguousarray(rows[:, self._order]), copies
        if len(copies) and (self._base.computed or self._base.filters):
            self._computed, self._passes = self._meaning.computed(self._derived, self._base, self._codes)

    def blocks(self, passage: PassageLayout, variables: Sequence[str]) -> Iterator[tuple[Codes, Codes]]:
        """Yield codes, one row per variable, and signed multiplicities."""
        if not len(self._copies):
            return
        codes, copies, _ = self.passed(passage, variables)
        if len(copies):
            yield codes, copies

    def passed(self, passage: PassageLayout, variables: Sequence[str]) -> tuple[Codes, Codes, Codes]:
        """Return codes, one row per variable, and signed multiplicities of the rows that pass, and which these are."""
        passes = np.ones(len(self._copies), np.bool_) if passage.filter < 0 else self._passes[:, passage.filter]
        kept = np.flatnonzero(passes)
        copies = self._copies[kept]
        codes = np.empty((len(variables), len(copies)), np.int64)
        for i, variable in enumerate(variables):
            codes[i] = self._column(passage.places[variable])[kept]
        return codes, copies, kept

    def _column(self, word: int) -> Codes:
        """Return the values that base rows would store in a word of their record."""
        return self._codes[:, word] if word < len(self._order) else self._computed[:, self._numbers[word]]
