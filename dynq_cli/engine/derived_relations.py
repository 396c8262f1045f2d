"""Derived relations of an engine: collect the deltas of trees during a commit, and turn them into changes.

    pass_on(tree, before, after)    send the delta of a tree's result to the relations that it feeds
    pass_through(tree, resolved)    the same for a tree that is not stored, from the base delta of its relation
    changes(derived)                the changes of a relation, once all trees that feed it have passed on
    pass_delta(cycle, resolved)     the same for a cycle, from the base deltas of its relations
    relay(derived)                  the same for a relation that is not stored: hold its rows for `pass_through`

DerivedError if a result cannot be kept; the engine is unusable afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dynq_cli.engine.arena import Arena
from dynq_cli.engine.base_delta import BaseDelta
from dynq_cli.engine.base_delta_scan import BaseDeltaScan
from dynq_cli.engine.changes import Changes, Codes
from dynq_cli.engine.cycle_layout import CycleLayout
from dynq_cli.engine.cycle_sums import CycleSums
from dynq_cli.engine.cycles import CycleDelta
from dynq_cli.engine.delta import Delta
from dynq_cli.engine.delta_routing import DerivedError, Rows, Sink, changes_of, outflows
from dynq_cli.engine.evaluator import Evaluator
from dynq_cli.engine.grouped import AggregateOverflowedError, Grouped
from dynq_cli.engine.layout import Layout
from dynq_cli.engine.order_statistic_trees import CountedTrees
from dynq_cli.engine.partitioned import Partitioned, TooManyCopiesError
from dynq_cli.engine.result_reader import OverflowedError
from dynq_cli.engine.transient_rows import TransientRows
from dynq_cli.plan.program import Derived, Feed, relayed
from dynq_cli.query.scalar import ScalarError
from dynq_cli.values.convert import CodeError

# Default budget: at least this many rows, or this many times the rows of the base relations.
LEAST_BUDGET, BUDGET_PER_ROW = 1_000_000, 20


class DerivedRelations:
    """`delta_routing` are the trees that are kept and feed relations."""

    def __init__(self, layout: Layout, arena: Arena, ordered: CountedTrees, meaning: Evaluator) -> None:
        self._layout = layout
        self._arena = arena
        self._meaning = meaning
        self._written = [b.table for name, b in layout.bases.items() if name not in layout.derived]
        self.groups = {name: Grouped(arena, g, meaning.labels) for name, g in layout.groups.items()}
        self.partitions = {
            name: Partitioned(arena, each, meaning.order_labels, meaning.window_functions)
            for name, each in layout.partitions.items()
        }
        plain = {n: d for n, d in layout.derived.items() if not (d.groups or d.partitions)}
        self._sinks: dict[str, Sink] = {n: self._rows(d) for n, d in plain.items()}
        self._sinks |= self.groups
        self._sinks |= self.partitions
        self._outflows = outflows(layout, self._sinks, meaning)
        self.relays = {n: TransientRows(layout.derived[n], layout.bases[n], meaning) for n in relayed(layout.steps)}
        self._passages = {n: BaseDeltaScan(arena, p, self._outflows[n].variables) for n, p in layout.passages.items()}
        self.cycles = {n: self._cycle(c, self._outflows[n].variables) for n, c in layout.cycles.items()}
        self.feeding = frozenset(self._outflows) - frozenset(self._passages) - frozenset(self.cycles)
        self._deltas = {n: Delta(arena, ordered, layout.trees[n], self._outflows[n].variables) for n in self.feeding}

    def _cycle(self, layout: CycleLayout, variables: Sequence[str]) -> CycleDelta | CycleSums:
        if layout.pairs is None:
            return CycleDelta(self._arena, layout, variables)
        fed = next(d for d in self._layout.derived.values() if layout.step.name in [feed.tree for feed in d.feeds])
        return CycleSums(self._arena, layout, variables, lambda: self._budget(fed))

    def start(self) -> None:
        """Initialise an empty arena."""
        for groups in self.groups.values():
            groups.start()
        for cycle in self.cycles.values():
            if isinstance(cycle, CycleSums):
                cycle.start()

    def _rows(self, derived: Derived) -> Rows:
        base = self._layout.bases[derived.name]
        is_evaluated = bool(base.computed or base.filters)
        return Rows(derived.name, len(base.order), lambda: self._budget(derived), is_evaluated)

    def pass_on(self, tree: str, before: int, after: int) -> None:
        """Send the delta of a tree's result to the relations it feeds; `before`, `after`: row counts of the result."""
        self._pass_on(tree, self._deltas[tree].blocks(before, after))

    def pass_through(self, tree: str, resolved: Mapping[str, BaseDelta]) -> None:
        """Send the delta of a tree that is not stored, from its one relation, to the relations it feeds."""
        passage = self._layout.passages[tree]
        if passage.relation in self.relays:
            self._pass_on(tree, self.relays[passage.relation].blocks(passage, self._outflows[tree].variables))
        elif passage.relation in resolved:
            self._pass_on(tree, self._passages[tree].blocks(resolved[passage.relation]))

    def pass_delta(self, cycle: str, resolved: Mapping[str, BaseDelta]) -> None:
        """Send the delta of a cycle to the relations it feeds."""
        self._pass_on(cycle, self.cycles[cycle].blocks(resolved))

    def variables(self, tree: str) -> list[str]:
        """Return the variables in which the delta of a step is read."""
        return self._outflows[tree].variables

    def fed(self, feed: Feed, codes: Codes, copies: Codes) -> tuple[Codes, Codes, Codes | None]:
        """Return what a feed takes of a delta in `variables`: codes, multiplicities, and which rows (None for all)."""
        return self._outflows[feed.tree].fed(feed, codes, copies)

    def pass_block(self, tree: str, codes: Codes, copies: Codes) -> None:
        """Send some rows of the delta of a step to the relations that it feeds."""
        self._pass_on(tree, iter([(codes, copies)]))

    def _pass_on(self, tree: str, blocks: Iterator[tuple[Codes, Codes]]) -> None:
        try:
            with kept(tree):
                for codes, copies in blocks:
                    self._outflows[tree].pass_on(codes, copies)
        except OverflowedError:
            cycle = self._layout.cycles.get(tree)
            if cycle is not None and cycle.step.pairs is not None and cycle.step.pairs.totals:
                raise DerivedError.too_large_sums(tree) from None
            raise DerivedError.too_many_copies(tree) from None

    def changes(self, derived: Derived) -> Changes | None:
        """Return the changes of a derived relation in this commit; None if there are none."""
        with kept(derived.name):
            rows, copies = self._sinks[derived.name].finish()
            if not len(copies):
                return None
            return changes_of(derived, self._layout.bases[derived.name], rows, copies, self._meaning)

    def relay(self, derived: Derived) -> None:
        """Hold the delta of a relation that is not stored, for `pass_through`."""
        with kept(derived.name):
            rows, copies = self._sinks[derived.name].finish()
            self.relays[derived.name].take(rows, copies)
        if derived.name in self._layout.groups:
            table = self._layout.groups[derived.name].table
            self.check_rows(derived, int(self._arena.tables["live"][table]), grew=bool(copies.sum() > 0))

    def check_budget(self, derived: Derived, came: int, went: int) -> None:
        """DerivedError if the relation exceeds its budget and has grown. Deleted rows are still in the table."""
        table = self._layout.bases[derived.name].table
        self.check_rows(derived, int(self._arena.tables["live"][table]) - went, grew=came > went)

    def table_of(self, derived: Derived) -> int | None:
        """Return the table whose rows count against the budget of a relation; None if it keeps none."""
        if derived.name not in self.relays:
            return self._layout.bases[derived.name].table
        groups = self._layout.groups.get(derived.name)
        return None if groups is None else groups.table

    def delta_of(self, tree: str) -> Delta:
        """Return how the delta of a stored tree that feeds relations is read."""
        return self._deltas[tree]

    def check_rows(self, derived: Derived, rows: int, *, grew: bool) -> None:
        """DerivedError if so many rows exceed the relation's budget, and it has grown."""
        limit = self._budget(derived)
        if grew and rows > limit:
            raise DerivedError.too_large(derived.name, rows, limit)

    def _budget(self, derived: Derived) -> int:
        """Return the maximum number of rows of a derived relation."""
        if derived.budget is not None:
            return derived.budget
        return max(LEAST_BUDGET, BUDGET_PER_ROW * int(self._arena.tables["live"][self._written].sum()))


@contextmanager
def kept(step: str) -> Iterator[None]:
    """Turn errors of expressions and sums into a DerivedError of the step."""
    try:
        yield
    except TooManyCopiesError:
        raise DerivedError.too_many_copies(step) from None
    except (AggregateOverflowedError, ScalarError, CodeError) as error:
        raise DerivedError(step, f"cannot be kept: {error}") from None
