"""Compute the difference between a base table and the rows that replace it.

    replacement = Replacement(views, "orders")
    new = replacement.add(changes)           which of these rows the table lacks
    replacement.difference([new rows, …])    deletes and inserts that make the table equal to the added rows

A table with key k holds (1, a), (2, b). Given (2, c), (3, d), the difference is: delete (1, a), delete (2, b), insert
(2, c), insert (3, d). Given (1, a), (2, b), it is empty. Without a key, copies are compared.

O(rows given + rows of the table) time; 9 bytes per row of the table, and the rows that differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynq_cli.engine.changes import BatchError, Changes
from dynq_cli.engine.codes import Codes
from dynq_cli.engine.consolidate import NetDelta
from dynq_cli.engine.frames import table_of
from dynq_cli.engine.kernels import base as kernels
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.net_delta import as_changes
from dynq_cli.engine.views import Views
from dynq_cli.errors import RejectedError

_LARGEST = 2**63 - 1
# While the total number of copies is below this, sums fit 64 bits.
_SAFE = 2.0**62


def is_empty(views: Views, relation: str) -> bool:
    """Whether a base table holds no row. O(1)."""
    return not views.engine.arena.tables["live"][views.base(relation).table]


class Replacement:
    """See the module. The table must not change between the first `add` and `difference`."""

    def __init__(self, views: Views, relation: str) -> None:
        self._views, self._relation = views, relation
        self._base = views.base(relation)
        self._given = np.zeros(int(views.engine.arena.tables["used"][self._base.table]), np.int64)
        self._seen = np.zeros(len(self._given), np.bool_)
        self._total = 0.0

    def add(self, changes: Changes) -> NDArray[np.bool_]:
        """Add rows of the new relation; return which of them the table lacks. O(rows).

        BatchError for a key that is added twice or has several copies, if the table has the key. Applying the
        difference detects the other cases.
        """
        arena, base = self._views.engine.arena, self._base
        rows = np.empty(len(changes), np.int64)
        kernels.look_up(arena.store, base.table, np.ascontiguousarray(changes.codes), rows)
        there = np.flatnonzero(rows >= 0)
        if base.relation.key:
            self._check_keys(changes, there, rows[there])
            same = (self._records()[rows[there], : len(base.order)] == changes.codes[there]).all(axis=1)
            there = there[same]
            self._given[rows[there]] = 1
        else:
            self._count(changes, there, rows[there])
        new = np.ones(len(changes), np.bool_)
        new[there] = False
        return new

    def difference(self, new: Sequence[Changes]) -> Changes:
        """Deletes, and inserts of copies of rows that are there, then the rows that `add` found to be new."""
        table = self._views.engine.arena.tables[self._base.table]
        records = self._records()
        delta = self._given - records[:, table["mult"]]
        rows = np.flatnonzero(delta)
        net = NetDelta(records[rows, : len(self._base.order)], delta[rows])
        known = as_changes(self._views, self._relation, net)
        # These are whole rows: no delete goes by key.
        known = replace(known, ops=np.where(net.delta > 0, f.INSERT, f.DELETE).astype(np.int8))
        parts = [part for part in (known, *(replace(part, ops=_inserts(part)) for part in new)) if len(part)]
        return Changes.joined(parts) if parts else known

    def _records(self) -> Codes:
        """Return the records of the table by row id, without a copy."""
        arena = self._views.engine.arena
        table = arena.tables[self._base.table]
        first, stride = int(table["rows"]), int(table["stride"])
        records: Codes = arena.words[first : first + len(self._given) * stride].reshape(-1, stride)
        return records

    def _check_keys(self, changes: Changes, there: Codes, ids: Codes) -> None:
        again = np.ones(len(ids), np.bool_)
        again[np.unique(ids, return_index=True)[1]] = False
        again |= self._seen[ids]
        again |= changes.counts[there] > 1
        if again.any():
            raise BatchError(self._relation, f.DUPLICATE_KEY, int(there[again.argmax()]))
        self._seen[ids] = True

    def _count(self, changes: Changes, there: Codes, ids: Codes) -> None:
        counts = changes.counts[there]
        self._total += float(counts.sum(dtype=np.float64))
        if self._total < _SAFE:
            np.add.at(self._given, ids, counts)
            return
        for row, at, copies in zip(there.tolist(), ids.tolist(), counts.tolist(), strict=True):
            many = int(self._given[at]) + copies
            if many > _LARGEST:
                raise BatchError(self._relation, f.TOO_MANY, row)
            self._given[at] = many


class Replaced(NamedTuple):
    """The given tables in codes, the difference of each to the stored relation, and the source rows of its changes."""

    given: dict[str, Changes]
    changes: dict[str, Changes]
    rows: dict[str, Codes]  # of each change the row of its table, or -1


def replaced(views: Views, tables: Mapping[str, Any]) -> Replaced:
    """Compute the difference of tables to the stored relations; omit relations without one.

    RejectedError if a table is not valid for its relation.
    """
    found = Replaced({}, {}, {})
    for name, data in tables.items():
        table = table_of(data)
        if "_change_type" in table.column_names and views.base(name).relation.column("_change_type") is None:
            raise RejectedError(
                f"{name}: a table with _change_type is a change log, but replace needs all rows of a relation\n"
                "  hint: use apply for change logs"
            )
        found.given.update(views.changes({name: table}))
        given, replacement = found.given[name], Replacement(views, name)
        try:
            new = np.flatnonzero(replacement.add(given))
        except BatchError as error:
            raise views.rejected(error, found.given) from None
        changes = replacement.difference([given.only(new)])
        if len(changes):
            found.changes[name] = changes
            found.rows[name] = np.concatenate([np.full(len(changes) - len(new), -1), new])
    return found


def rejected(views: Views, error: BatchError, found: Replaced) -> RejectedError:
    """Turn a BatchError of a difference into a RejectedError that names the row of the given table."""
    row = int(found.rows[error.relation][error.change])
    return views.rejected(BatchError(error.relation, error.reason, row, degree=error.degree), found.given)


def _inserts(changes: Changes) -> NDArray[np.int8]:
    return np.full(len(changes), f.INSERT, np.int8)
