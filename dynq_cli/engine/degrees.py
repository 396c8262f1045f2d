"""Hold relations to their `max_degree`: no value is in more rows of one column, counting copies. NULL is no value.

    surely_fit(relation, changes)    whether even the inserts alone, in any order, pass no bound
    before(batch)                    the degrees of the values that a commit inserts
    check(deltas, before)            BatchError at the first value that the net commit takes past its bound

Degrees are the multiplicities of hidden queries (`query/degrees`), read before the commit, plus its base delta. So a
commit that would pass a bound is refused before a view has changed. O(changes) per commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.changes import PAST_DEGREE, BatchError, Changes, Codes, Degree
from dynq_cli.engine.codes import NULL
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.lookup import Lookup
from dynq_cli.engine.result_reader import ResultReader

# Clip larger changes of multiplicities: they pass every bound, and sums must not overflow.
_MOST = 1 << 40

# By relation, for each column: ascending values, and their degrees.
Before = Mapping[str, Sequence[tuple[Codes, Codes]]]


class _Column(NamedTuple):
    name: str
    at: int  # its place in the base table
    degrees: Lookup


class Degrees:
    """The bounds of a layout's relations; `passed` are values past a bound whose relation says `warn`."""

    def __init__(self, layout: Layout, reading: ResultReader) -> None:
        self._layout = layout
        self._reading = reading
        self._columns: dict[str, tuple[_Column, ...]] = {}
        # By relation, column and code.
        self.passed: dict[tuple[str, str, int], int] = {}

    def surely_fit(self, relation: str, changes: Changes) -> bool:
        """Whether commits with these changes need no check: no value would pass a bound if none of them deleted."""
        if not self._bounded(relation):
            return True
        most, (codes, copies) = self._most(relation), _brought(changes)
        for column, (values, degrees) in zip(self._bounded(relation), self._degrees(relation, codes), strict=True):
            if (degrees + _sums(values, codes[:, column.at], copies) > most).any():
                return False
        return True

    def before(self, batch: Mapping[str, Changes]) -> Before:
        """Return the degrees of the values that a commit can add rows of, before it has changed anything."""
        return {name: self._degrees(name, _brought(changes)[0]) for name, changes in batch.items()}

    def check(self, deltas: Iterable[BaseDelta], before: Before, store: Codes, tables: np.ndarray) -> None:
        """Raise BatchError at the first value that a commit takes past its bound. `store` are the arena's words."""
        passed: dict[tuple[str, str, int], int] = {}
        for delta in deltas:
            columns = self._bounded(delta.relation)
            if not columns or not delta.n:
                continue
            most = self._most(delta.relation)
            table, rows = tables[delta.base.table], delta.entries.touched[: delta.n].astype(np.int64)
            places = int(table["rows"]) + rows * int(table["stride"])
            # Differences of multiplicities are less than 2^63.
            net = np.clip(delta.entries.new[: delta.n] - delta.entries.old[: delta.n], -_MOST, _MOST)
            for column, (values, degrees) in zip(columns, before[delta.relation], strict=True):
                came = _sums(values, store[places + column.at], net)
                is_past = (came > 0) & (degrees + came > most)
                if not is_past.any():
                    continue
                several = dict(zip(values[is_past].tolist(), (degrees + came)[is_past].tolist(), strict=True))
                if self._layout.bases[delta.relation].relation.on_degree == "refuse":
                    raise _refused(delta, column, several, most)
                passed |= {(delta.relation, column.name, value): degree for value, degree in several.items()}
        self.passed |= passed

    def _degrees(self, relation: str, codes: Codes) -> list[tuple[Codes, Codes]]:
        """Return for each bounded column its distinct values, ascending and without NULL, and their degrees."""
        found = []
        for column in self._bounded(relation):
            values = np.unique(codes[:, column.at])
            values = values[values != NULL]
            found.append((values, np.minimum(column.degrees.copies(values[None, :]), _MOST)))
        return found

    def _bounded(self, relation: str) -> tuple[_Column, ...]:
        found = self._columns.get(relation)
        if found is None:
            found = self._columns[relation] = tuple(self._found(relation))
        return found

    def _found(self, relation: str) -> Iterator[_Column]:
        base = self._layout.bases[relation]
        for at, name in enumerate(base.order):
            tree = base.relation.degree_query(name)
            if base.relation.max_degree is not None and tree in self._layout.trees:
                head = self._layout.trees[tree].plan.query.head
                yield _Column(name, at, Lookup(self._reading, tree, head))

    def _most(self, relation: str) -> int:
        most = self._layout.bases[relation].relation.max_degree
        assert most is not None
        return most


def _brought(changes: Changes) -> tuple[Codes, Codes]:
    """Return the rows that changes insert, and their copies."""
    brings = (changes.ops == f.INSERT) | (changes.ops == f.UPSERT)
    return changes.codes[brings], np.minimum(changes.counts[brings], _MOST)


def _sums(values: Codes, given: Codes, copies: Codes) -> Codes:
    """Return the sum of copies for each of some ascending values; other given values do not count."""
    sums = np.zeros(len(values), np.int64)
    if len(values):
        at = np.minimum(np.searchsorted(values, given), len(values) - 1)
        counts = values[at] == given
        np.add.at(sums, at[counts], copies[counts])
    return sums


def _refused(delta: BaseDelta, column: _Column, past: Mapping[int, int], most: int) -> BatchError:
    """Return the error at the first change that makes one row too many of a value; `past` has degrees by value."""
    found: list[tuple[int, int, int]] = []
    changes = delta.changes
    brings = (changes.ops == f.INSERT) | (changes.ops == f.UPSERT)
    for value, degree in past.items():
        at = np.flatnonzero(brings & (changes.codes[:, column.at] == value))
        came = np.cumsum(np.minimum(changes.counts[at], _MOST))
        first = int(np.searchsorted(came, most - (degree - int(came[-1])), side="right"))
        found.append((int(at[min(first, len(at) - 1)]), value, degree))
    change, value, degree = min(found)
    return BatchError(delta.relation, PAST_DEGREE, change, degree=Degree(column.name, value, degree))
