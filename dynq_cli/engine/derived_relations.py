"""The derived relations of an engine: what trees pass on to them in a commit, and the changes that makes.

    deriving.pass_on(tree, before, after)    what came and went in the result of a tree goes to the relations it feeds
    deriving.pass_through(tree, resolved)    the same of a tree that is not kept: what came and went in its relation
    deriving.changes(derived)                what that amounts to, once all trees that feed the relation have passed on
    deriving.relay(derived)                  the same of a relation that is not kept: its rows wait to be passed through

Whatever cannot be is a DerivedError: the engine's memory is no longer usable then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.delta import Delta
from dynq_cli.engine.delta_routing import DerivedError, Rows, Sink, changes_of, outflows
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.grouped import AggregateOverflowedError, Grouped
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.transient_groups import TransientGroups
from dynq_cli.plan.program import Derived, relayed
from dynq_cli.query.scalar import ScalarError
from dynq_cli.values.convert import CodeError

# Rows that a derived relation may have if the query does not say: as many, or so many times the rows of the base.
LEAST_BUDGET, BUDGET_PER_ROW = 1_000_000, 20


class DerivedRelations:
    """`delta_routing` are the trees that are kept and feed relations."""

    def __init__(self, layout: Layout, arena: Arena, ordered: CountedTrees, meaning: Evaluator) -> None:
        self._layout = layout
        self._arena = arena
        self._meaning = meaning
        self._written = [b.table for name, b in layout.bases.items() if name not in layout.derived]
        self.groups = {name: Grouped(arena, g, meaning.labels) for name, g in layout.groups.items()}
        self._sinks: dict[str, Sink] = {n: self._rows(d) for n, d in layout.derived.items() if not d.groups}
        self._sinks |= self.groups
        self._outflows = outflows(layout, self._sinks, meaning)
        self.relays = {n: TransientGroups(layout.derived[n], layout.bases[n], meaning) for n in relayed(layout.steps)}
        self._passages = {n: BaseDeltaScan(arena, p, self._outflows[n].variables) for n, p in layout.passages.items()}
        self.feeding = frozenset(self._outflows) - frozenset(self._passages)
        self._deltas = {n: Delta(arena, ordered, layout.trees[n], self._outflows[n].variables) for n in self.feeding}

    def _rows(self, derived: Derived) -> Rows:
        base = self._layout.bases[derived.name]
        is_evaluated = bool(base.computed or base.filters)
        return Rows(derived.name, len(base.order), lambda: self._budget(derived), is_evaluated)

    def pass_on(self, tree: str, before: int, after: int) -> None:
        """What came and went in a tree's result, which had and has so many rows, goes to the relations it feeds."""
        self._pass_on(tree, self._deltas[tree].blocks(before, after))

    def pass_through(self, tree: str, resolved: Mapping[str, BaseDelta]) -> None:
        """What came and went in the one relation of a tree that is not kept goes to the relations it feeds."""
        passage = self._layout.passages[tree]
        if passage.relation in self.relays:
            self._pass_on(tree, self.relays[passage.relation].blocks(passage, self._outflows[tree].variables))
        elif passage.relation in resolved:
            self._pass_on(tree, self._passages[tree].blocks(resolved[passage.relation]))

    def _pass_on(self, tree: str, blocks: Iterator[tuple[Codes, Codes]]) -> None:
        try:
            with _kept(tree):
                for codes, copies in blocks:
                    self._outflows[tree].pass_on(codes, copies)
        except OverflowedError:
            raise DerivedError.too_many_copies(tree) from None

    def changes(self, derived: Derived) -> Changes | None:
        """What a derived relation does in this commit; None if nothing."""
        with _kept(derived.name):
            rows, copies = self._sinks[derived.name].finish()
            if not len(copies):
                return None
            return changes_of(derived, self._layout.bases[derived.name], rows, copies, self._meaning)

    def relay(self, derived: Derived) -> None:
        """Have the rows that came and went in a relation that is not kept ready to be passed through."""
        with _kept(derived.name):
            rows, copies = self._sinks[derived.name].finish()
            self.relays[derived.name].take(rows, copies)
        table = self._layout.groups[derived.name].table
        self._check_rows(derived, int(self._arena.tables["live"][table]), grew=bool(copies.sum() > 0))

    def check_budget(self, derived: Derived, came: int, went: int) -> None:
        """Rows came and went, which are still in the table: nothing is refused that became no larger."""
        table = self._layout.bases[derived.name].table
        self._check_rows(derived, int(self._arena.tables["live"][table]) - went, grew=came > went)

    def _check_rows(self, derived: Derived, rows: int, *, grew: bool) -> None:
        limit = self._budget(derived)
        if grew and rows > limit:
            raise DerivedError.too_large(derived.name, rows, limit)

    def _budget(self, derived: Derived) -> int:
        """How many rows a derived relation may have."""
        if derived.budget is not None:
            return derived.budget
        return max(LEAST_BUDGET, BUDGET_PER_ROW * int(self._arena.tables["live"][self._written].sum()))


@contextmanager
def _kept(step: str) -> Iterator[None]:
    """What cannot be computed cannot be kept."""
    try:
        yield
    except (AggregateOverflowedError, ScalarError, CodeError) as error:
        raise DerivedError(step, f"cannot be kept: {error}") from None
