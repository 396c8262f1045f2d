"""Derived relations over a sequence of commits: the deltas that feed one become its changes, commit by commit.

    DerivedSequence(…).changes(derived, deltas)    the changes of a relation, from the deltas of the trees that feed it

Expressions are evaluated once for all commits. A relation that is not stored has no changes: what reads it is added to
the deltas. DerivedError as in `derived_relations`; budgets are looked at when all commits are through.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.delta_routing import changes_in_order
from dynq_cli.engine.derived_relations import DerivedRelations, kept
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.group_sequence import GroupSequence
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.sequence_of_deltas import Delta, joined, netted, singly
from dynq_cli.plan.program import Derived


class DerivedSequence:
    """`deriving` has the data of derived relations; the deltas of a commit and of many run through the same."""

    def __init__(self, layout: Layout, deriving: DerivedRelations, meaning: Evaluator) -> None:
        self._layout = layout
        self._deriving = deriving
        self._meaning = meaning
        self._groups = {name: GroupSequence(groups) for name, groups in deriving.groups.items()}

    def changes(self, derived: Derived, deltas: dict[str, Delta]) -> tuple[Changes, Codes] | None:
        """Return the changes of a relation and where each commit ends; None if there are none, or it is not stored."""
        with kept(derived.name):
            delta = self._delta(derived, deltas)
            if delta is None or not len(delta.copies):
                return None
            if derived.name in self._deriving.relays:
                self._relay(derived, delta, deltas)
                return None
            base = self._layout.bases[derived.name]
            order = np.lexsort((delta.copies < 0, delta.commits))
            names = [c.name for c in derived.relation.columns]
            rows = delta.codes[[names.index(name) for name in base.order]].T[order]
            return changes_in_order(derived, base, rows, delta.copies[order], self._meaning), delta.ends

    def _delta(self, derived: Derived, deltas: Mapping[str, Delta]) -> Delta | None:
        """Return the delta of a relation, of which some rows may cancel."""
        fed: list[Delta] = []
        for feed in derived.feeds:
            if feed.tree in deltas:
                codes, copies, rows = self._deriving.fed(feed, deltas[feed.tree].codes, deltas[feed.tree].copies)
                ends = deltas[feed.tree].ends
                fed.append(Delta(codes, copies, ends if rows is None else np.searchsorted(rows, ends)))
        if not fed:
            return None
        delta, name = joined(fed), derived.name
        if name in self._groups:
            return self._groups[name].run(*delta)
        if name in self._deriving.partitions:
            return singly(self._deriving.partitions[name], *delta)
        base = self._layout.bases[name]
        return netted(delta) if base.computed or base.filters else delta

    def _relay(self, derived: Derived, delta: Delta, deltas: dict[str, Delta]) -> None:
        """Pass the delta of a relation that is not stored on to what reads it."""
        relay = self._deriving.relays[derived.name]
        relay.take(delta.codes.T, delta.copies)
        for tree, passage in self._layout.passages.items():
            if passage.relation == derived.name:
                codes, copies, rows = relay.passed(passage, self._deriving.variables(tree))
                deltas[tree] = Delta(codes, copies, np.searchsorted(rows, delta.ends))
