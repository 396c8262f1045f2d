"""Look up rows in a result that is kept for tests alone.

    copies()    the multiplicity of one row
    total()     the multiplicities of many rows

O(lookups · levels of their trees) per row, whatever the size of the result. Nothing else can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynq_cli.engine.comparisons import holds
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.kernels.fields import Words
from dynq_cli.engine.lookup import Lookup
from dynq_cli.engine.result_reader import OverflowedError, ResultReader
from dynq_cli.plan.program import Alternative, Lookups


class LookupResult:
    """Tests rows of one result in several trees of an engine."""

    def __init__(self, step: Lookups, reading: ResultReader, meaning: Evaluator) -> None:
        self.head = list(step.form.head)
        self.is_set = step.form.semantics == "set"
        self._step = step
        self._alternatives = [_Alternative(a, step, reading, meaning) for a in step.alternatives]

    def copies(self, row: Mapping[str, int]) -> int:
        """Return the multiplicity of the row given by a code per head variable."""
        return int(self.total(np.array([[row[v]] for v in self.head], np.int64).reshape(len(self.head), 1))[0])

    def total(self, codes: Words) -> Words:
        """Return the multiplicity of each row, at most 1 if the result is a set; one row of codes per head variable.

        OverflowedError if a row has more than 2^63 - 1 copies.
        """
        many = np.zeros(codes.shape[1], np.int64)
        for each in self._alternatives:
            many = many + each.copies(codes)
            if (many < 0).any():
                raise OverflowedError
        return np.minimum(many, 1) if self.is_set else many


class _Alternative:
    def __init__(self, made: Alternative, step: Lookups, reading: ResultReader, meaning: Evaluator) -> None:
        self._made = made
        self._form = step.form
        self._reading = reading
        self._meaning = meaning
        self._lookups = [_Lookup(reading, each.tree, made.variables) for each in made.lookups]

    def copies(self, codes: Words) -> Words:
        many: Words = np.ones(codes.shape[1], np.int64)
        left = np.arange(codes.shape[1])
        for each, lookup in zip(self._made.lookups, self._lookups, strict=True):
            found = lookup.copies(codes if len(left) == codes.shape[1] else codes[:, left])
            if each.counts == "copies":
                many[left] = _product(many[left], found)
            else:
                many[left] *= (found > 0) == (each.counts == "present")
            left = left[many[left] > 0]
        for c in self._made.where:
            # Rows that are in no tree may have values that no dictionary has, so they are not compared.
            places = [self._made.variables.index(v) for v in (c.left, c.right)]
            mine, theirs = (self._form.variable(self._form.head[p]) for p in places)
            left_codes, right_codes = (np.ascontiguousarray(codes[p, left]) for p in places)
            true = holds(c, mine, theirs, left_codes, right_codes, self._meaning)
            many[left[~true]] = 0
            left = left[true]
        return many


class _Lookup:
    """Looks up rows of some variables in a tree that has some of these, or none."""

    def __init__(self, reading: ResultReader, tree: str, variables: Sequence[str]) -> None:
        self._reading, self._tree = reading, tree
        self._has_rows = bool(reading.layout.trees[tree].levels)
        self._lookup = Lookup(reading, tree, variables) if self._has_rows else None

    def copies(self, codes: Words) -> Words:
        if self._lookup is not None:
            return self._lookup.copies(codes)
        (rows, _) = self._reading.count(self._tree)
        if rows >= 1 << 63:
            raise OverflowedError
        return np.full(codes.shape[1], rows, np.int64)


def _product(some: Words, others: Words) -> Words:
    """Multiply multiplicities. OverflowedError if a product exceeds 63 bits."""
    if int(some.max(initial=0)) * int(others.max(initial=0)) < 1 << 63:
        return some * others
    made: Words = some * others
    wrong = (some != 0) & (made // np.maximum(some, 1) != others)
    if (made < 0).any() or wrong.any():
        raise OverflowedError
    return made
