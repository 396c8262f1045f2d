"""Route the deltas of trees to the derived relations that they feed.

Outflow    the feeds of one tree: send each block of its delta to the relations
Rows       collect the delta of one derived relation during a commit
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from dynq_cli.engine.base_layout import BaseLayout
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.comparisons import holds
from dynq_cli.engine.consolidate import consolidated
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.kernels import fields as f
from dynq_cli.engine.layout import Layout
from dynq_cli.plan.program import Derived, Feed
from dynq_cli.query.normal_form import ConjunctiveQuery

# Rows to collect before consolidating them.
FEW = 1 << 20
MOST_ON_THE_WAY = 4


class DerivedError(Exception):
    """A step of a program cannot be kept; `reason` completes the sentence after the step's name, `hint` may help."""

    def __init__(self, step: str, reason: str, hint: str = "") -> None:
        super().__init__(f"{step} {reason}")
        self.step = step
        self.reason = reason
        self.hint = hint

    @staticmethod
    def too_many_copies(step: str) -> DerivedError:
        return DerivedError(step, "would have a row with more than 2^63 - 1 copies", "use `semantics: set`")

    @staticmethod
    def too_large_sums(step: str) -> DerivedError:
        reason = "would have too large sums: those over rows with equal ends have 63 bits, those over triangles 127"
        return DerivedError(step, reason, "with `epsilon: 1` in the query, sums have 38 digits everywhere")

    @staticmethod
    def too_large(step: str, rows: int, limit: int) -> DerivedError:
        return DerivedError(step, f"would take {rows} rows and may have {limit}", "raise the query's `max_view_rows`")


class Sink(Protocol):
    """Collects rows from feeds as the delta of a derived relation."""

    def take(self, codes: Codes, copies: Codes) -> None:
        """Add rows: codes, one row per column, and signed multiplicities."""

    def finish(self) -> tuple[Codes, Codes]:
        """Return the delta of the commit: rows in the columns of the relation, and signed multiplicities. Reset."""


class Rows:
    """The sink of a relation that is the multiset of its fed rows.

    A commit may take several times the budget of rows, since feeds may cancel each other. The delta is consolidated
    only if it is large, or if expressions will be evaluated for its rows.
    """

    def __init__(self, name: str, columns: int, budget: Callable[[], int], adds_up: bool = True) -> None:
        self._name = name
        self._columns = columns
        self._budget = budget
        self._adds_up = adds_up
        self._begin()

    def _begin(self) -> None:
        self._codes: list[Codes] = []
        self._copies: list[Codes] = []
        self._many, self._few = 0, FEW

    def take(self, codes: Codes, copies: Codes) -> None:
        self._codes.append(codes.T)
        self._copies.append(copies)
        self._many += len(copies)
        if self._many > 2 * self._few:
            rows, delta = consolidated(*self._all())
            self._codes, self._copies, self._many = [rows], [delta], len(delta)
            self._few = max(FEW, len(delta))
            if len(delta) > MOST_ON_THE_WAY * self._budget():
                raise DerivedError.too_large(self._name, len(delta), self._budget())

    def finish(self) -> tuple[Codes, Codes]:
        rows, copies = self._all()
        self._begin()
        return consolidated(rows, copies) if self._adds_up and len(copies) > 1 else (rows, copies)

    def _all(self) -> tuple[Codes, Codes]:
        if len(self._codes) == 1:
            return self._codes[0], self._copies[0]
        if not self._codes:
            return np.empty((0, self._columns), np.int64), np.empty(0, np.int64)
        return np.concatenate(self._codes), np.concatenate(self._copies)


class Outflow:
    """All feeds of one tree or cycle; `variables` are the ones that they use."""

    def __init__(self, query: ConjunctiveQuery, feeds: Sequence[tuple[Feed, Sink]], meaning: Evaluator) -> None:
        self._query = query
        self._feeds = feeds
        self._meaning = meaning
        used = [v for feed, _ in feeds for v in (*feed.columns, *(w for c in feed.where for w in (c.left, c.right)))]
        self.variables = list(dict.fromkeys(used))

    def pass_on(self, codes: Codes, copies: Codes) -> None:
        """Send a block to all feeds: codes, one row per variable, and signed multiplicities."""
        for feed, sink in self._feeds:
            taken, signed, _ = self.fed(feed, codes, copies)
            if len(signed):
                sink.take(taken, signed)

    def fed(self, feed: Feed, codes: Codes, copies: Codes) -> tuple[Codes, Codes, Codes | None]:
        """Return what a feed takes of a block: codes, signed multiplicities, and which rows, or None for all."""
        row = dict(zip(self.variables, codes, strict=True))
        taken = codes if list(feed.columns) == self.variables else _taken(row, feed.columns, codes)
        signed = copies if feed.sign > 0 else -copies
        holding = None
        for c in feed.where:
            left, right = self._query.variable(c.left), self._query.variable(c.right)
            true = holds(c, left, right, row[c.left], row[c.right], self._meaning)
            holding = true if holding is None else holding & true
        if holding is None:
            return taken, signed, None
        rows = np.flatnonzero(holding)
        return taken[:, rows], signed[rows], rows


def _taken(row: Mapping[str, Codes], columns: Sequence[str], codes: Codes) -> Codes:
    return np.stack([row[v] for v in columns]) if columns else codes[:0]


def outflows(layout: Layout, sinks: Mapping[str, Sink], meaning: Evaluator) -> dict[str, Outflow]:
    """Return the outflow of each tree that feeds relations."""
    feeds: dict[str, list[tuple[Feed, Sink]]] = {}
    for name, derived in layout.derived.items():
        for feed in derived.feeds:
            feeds.setdefault(feed.tree, []).append((feed, sinks[name]))
    return {tree: Outflow(layout.query_of(tree), several, meaning) for tree, several in feeds.items()}


def changes_of(derived: Derived, base: BaseLayout, rows: Codes, copies: Codes, meaning: Evaluator) -> Changes:
    """Convert a delta to changes of the relation, inserts first, with the values that its leaves compute."""
    columns = [c.name for c in derived.relation.columns]
    order = np.concatenate([np.flatnonzero(copies > 0), np.flatnonzero(copies < 0)])
    codes = rows[order][:, [columns.index(name) for name in base.order]]
    return changes_in_order(derived, base, codes, copies[order], meaning)


def changes_in_order(derived: Derived, base: BaseLayout, rows: Codes, copies: Codes, meaning: Evaluator) -> Changes:
    """Convert rows in the columns of the base table to changes, in their order: those with copies < 0 are deletes."""
    codes = np.ascontiguousarray(rows)
    ops = np.where(copies > 0, np.int8(f.INSERT), np.int8(f.DELETE))
    made = Changes(codes, ops, np.abs(copies))
    came = np.flatnonzero(copies > 0)
    if not len(came) or not (base.computed or base.filters):
        return made
    computed, passes = meaning.computed(derived, base, codes[came])
    if came[-1] == len(came) - 1:
        return Changes(codes, ops, made.counts, computed, passes)
    # Of what goes nothing is computed.
    computed_of_all = np.zeros((len(codes), computed.shape[1]), computed.dtype)
    passes_of_all = np.zeros((len(codes), passes.shape[1]), np.bool_)
    computed_of_all[came], passes_of_all[came] = computed, passes
    return Changes(codes, ops, made.counts, computed_of_all, passes_of_all)
