"""Changes of one relation in codes, and the error with which the engine refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.kernels import fields as f
from dynq_cli.records import record

Codes = NDArray[np.int64]
_NO_VALUES = np.zeros((1, 1), np.int64)
_NO_FILTERS = np.ones((1, 1), np.bool_)


@record(frozen=True)
class Changes:
    """Changes of one relation: each has a row of codes, an operation and a number of copies.

    Codes are in the base table's column order. `computed` has a column per computed value, `passes` one per filter of
    the relation's leaves; the engine reads them only for changes that insert a row.
    """

    codes: Codes
    ops: NDArray[np.int8]
    counts: Codes
    computed: Codes = field(default_factory=lambda: _NO_VALUES)
    passes: NDArray[np.bool_] = field(default_factory=lambda: _NO_FILTERS)

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def may_miss(self) -> bool:
        """Whether deletes of whole rows are skipped if there is no such row."""
        return bool((self.ops == f.MAY_DELETE).any())

    @property
    def batch(self) -> f.Batch:
        """The changes as kernels have them."""
        return f.Batch(self.codes, self.ops, self.counts, self.computed, self.passes)

    def part(self, start: int, stop: int) -> Changes:
        """Return the changes from `start` to `stop`, exclusive."""
        return self.only(slice(start, stop))

    def only(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Changes:
        """Select changes, in the order given."""
        computed = self.computed if self.computed is _NO_VALUES else self.computed[rows]
        passes = self.passes if self.passes is _NO_FILTERS else self.passes[rows]
        return Changes(self.codes[rows], self.ops[rows], self.counts[rows], computed, passes)

    @staticmethod
    def joined(several: Sequence[Changes]) -> Changes:
        """Concatenate changes of one relation."""
        if len(several) == 1:
            return several[0]
        computed = _NO_VALUES
        if several[0].computed is not _NO_VALUES:
            computed = np.concatenate([c.computed for c in several])
        passes = _NO_FILTERS
        if several[0].passes is not _NO_FILTERS:
            passes = np.concatenate([c.passes for c in several])
        codes, ops = np.concatenate([c.codes for c in several]), np.concatenate([c.ops for c in several])
        return Changes(codes, ops, np.concatenate([c.counts for c in several]), computed, passes)


# The reason to refuse a batch that no kernel finds: a value is in more rows than `max_degree` allows.
PAST_DEGREE = 1 << 10


class Degree(NamedTuple):
    """The number of rows that have a value, in code, in a column."""

    column: str
    value: int
    rows: int


class BatchError(Exception):
    """A refused batch: `reason` is a code of `kernels/fields`, or PAST_DEGREE; `change` the index of the bad change.

    `applied` is the number of commits before it that were applied, if the batch had several. `degree` is given with
    PAST_DEGREE.
    """

    def __init__(
        self, relation: str, reason: int, change: int, applied: int | None = None, degree: Degree | None = None
    ) -> None:
        super().__init__(f"{relation}: change {change}: reason {reason}")
        self.relation = relation
        self.reason = reason
        self.change = change
        self.applied = applied
        self.degree = degree
