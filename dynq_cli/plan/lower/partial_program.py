"""A program in the making: an immutable value that passes return with more steps.

    program.add_tree(q)        the name of a new tree with the rows of q, and the program with it
    program.add_relation(…)    a new relation that trees feed, and the program with it
    program.lower(q, run)      the query that the passes leave of q, and the program with the steps for it

Nothing is undone: a pass that tries something and gives up drops the program it got.

Passes recurse through the program, which carries them: a query inside a query is lowered by the same tuple of passes,
for a goal of its own.

    result     the query itself: the last step has its name
    typed      a derived table, a member of a union: one tree, each column a variable of the type asked for
    distinct   values of a subquery: one tree with every binding of the head once
    joins      joins and comparisons, in place of derived tables and subqueries
    groups     the rows that aggregates are computed from, on their way into a relation of groups
    feeds      rows on their way into a relation, as a sum over several trees
    stream     rows on their way into a relation, of one tree
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, Protocol

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.delta_join import routes_of
from dynq_cli.plan.heavy_pairs import EPSILON, counting, counts_triangles
from dynq_cli.plan.lower.query_builders import columns_of
from dynq_cli.plan.lower.ranges import has_ranges
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import (
    Cycle,
    Derived,
    Feed,
    Groups,
    HeavyPairs,
    Lookups,
    Measure,
    Partitions,
    Program,
    Step,
    Together,
    Tree,
    high,
    low,
    variables_of,
)
from dynq_cli.plan.waiting_sums import with_groups
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import ConjunctiveQuery, Query
from dynq_cli.query.reduction import is_free_connex
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64, Type

Goal = Literal["result", "typed", "distinct", "joins", "groups", "feeds", "stream"]


class Rewrite(Protocol):
    """`(query, program) → (query, program)`, both unchanged where a pass does not apply.

    The query is None where nothing is left to lower. Passes after `group_by` get conjunctive queries only.
    """

    __name__: str

    def __call__(self, query: Any, program: PartialProgram, /) -> tuple[Query | None, PartialProgram]: ...


@dataclass(frozen=True)
class Pass:
    """A rewriting step of the lowering, and the goals it is run for."""

    rewrite: Rewrite
    goals: tuple[Goal, ...]

    @property
    def name(self) -> str:
        return self.rewrite.__name__


@dataclass(frozen=True)
class Run:
    """One run through the passes: its goal, what is asked for, and what has been found.

    `types` are those of the columns asked for (typed). `keys` and `measures` are groups and their aggregates (groups).
    `inputs` are the columns that a relation takes in, and `feeds` is what fills it (groups, feeds, stream). `fitting`
    is a query with comparisons that one tree is known to keep.
    """

    goal: Goal
    types: tuple[Type, ...] = ()
    keys: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    inputs: tuple[Column, ...] = ()
    feeds: tuple[Feed, ...] = ()
    fitting: ConjunctiveQuery | None = None

    @property
    def keeps_head(self) -> bool:
        """Whether the head is what somebody takes in: no variable of it may become two."""
        return self.goal in ("distinct", "groups", "feeds", "stream")

    @property
    def feeds_relation(self) -> bool:
        """Whether rows only pass: the head may be larger, and rows may be filtered on their way."""
        return self.goal in ("groups", "feeds", "stream")


@dataclass(frozen=True)
class PartialProgram:
    """The steps so far, and the spec with the relations that they make.

    New steps are named after the program and their number. `budget` is the number of rows that a relation may have,
    `epsilon` that of IVM-ε.
    """

    name: str
    spec: Spec
    budget: int | None
    passes: tuple[Pass, ...]
    steps: tuple[Step, ...] = ()
    run: Run = Run("result")
    epsilon: Decimal = EPSILON

    @property
    def finished(self) -> Program:
        return Program(self.steps)

    # Steps

    def add_tree(self, query: ConjunctiveQuery, name: str = "", *, is_read: bool = False) -> tuple[str, PartialProgram]:
        """A tree that keeps a free-connex join: the last step (`name`), one that is read, or one that feeds."""
        made = name or self._fresh()
        is_read = is_read or bool(name)
        if not is_read and self._has_key(query):
            # Then every row is there once, and needs no table to be counted in.
            query = replace(query, semantics="bag")
        plan = plan_query(replace(query, name=made), self.spec)
        assert isinstance(plan, Plan) and plan.strategy == "view-tree", plan
        assert has_ranges(plan.query, plan.tree), plan
        assert not any(c.variables <= a.variables for c in plan.query.comparisons for a in plan.query.atoms), plan
        # Nobody looks at the rows of an inner tree but as they come and go.
        kept = plan if is_read else replace(plan, tree=plan.tree.condensed())
        return made, self._with(Tree(made, with_groups(kept, feeds=not is_read)))

    def add_cycle(self, query: ConjunctiveQuery, pairs: HeavyPairs | None = None) -> tuple[str, PartialProgram]:
        """A cyclic join of which only the delta is computed; a triangle that is counted has pairs of heavy values."""
        made = self._fresh()
        named = replace(query, name=made, order=())
        if pairs is None and counts_triangles(named):
            pairs = counting(self.epsilon)
        counts = pairs is None or len(pairs.sums) == 1
        return made, self._with(Cycle(made, named, routes_of(named, counts=counts), pairs))

    def add_relation(
        self,
        columns: Sequence[Column],
        feeds: Sequence[Feed],
        *,
        pairs: Collection[str] = (),
        groups: Groups | None = None,
        partitions: Partitions | None = None,
        key: Sequence[str] = (),
        is_linear: bool = False,
    ) -> tuple[Relation, PartialProgram]:
        """A relation of what feeds give, its groups, or its rows by their places; each column of `pairs` is two.

        The relation is a multiset; `key` is what only the planner knows to tell its rows apart. The budget does not
        bound a relation that has no more rows than one it is made from (`is_linear`).
        """
        made = Relation(self._fresh(), physical(columns, pairs))
        budget = None if is_linear else self.budget
        program = self._with(Derived(made, tuple(columns), tuple(feeds), groups, budget, partitions))
        spec = replace(self.spec, relations=(*self.spec.relations, replace(made, key=tuple(key))))
        return made, replace(program, spec=spec)

    def add_result(self, result: Together | Lookups) -> PartialProgram:
        """The last step, read from trees that stand before it."""
        return self._with(result)

    def _with(self, step: Step) -> PartialProgram:
        return replace(self, steps=(*self.steps, step))

    def _fresh(self) -> str:
        return f"{self.name}/{len(self.steps) + 1}"

    # Facts

    def derived(self, relation: str) -> Derived | None:
        """The step that makes a relation; None if it is one of the spec's."""
        made = (s for s in self.steps if isinstance(s, Derived))
        return next((s for s in made if s.relation.name == relation), None)

    def is_wide(self, tree: str) -> bool:
        """Whether a change may touch more than one row per level of a tree that is a step."""
        plans = (s.plan for s in self.steps if isinstance(s, Tree) and s.name == tree)
        return any(cost.is_wide for plan in plans for cost in plan.updates)

    def fits(self, query: ConjunctiveQuery) -> bool:
        """Whether one tree is known to keep a query that has joins and comparisons only."""
        if query.comparisons:
            return query is self.run.fitting
        return is_free_connex(hypergraph_of(query))

    def _has_key(self, query: ConjunctiveQuery) -> bool:
        """Whether a query over one relation has the relation's key in its head."""
        if len(query.atoms) != 1:
            return False
        (atom,) = query.atoms
        relation = self.spec.relation(atom.source)
        bound = {b.scalar.sql for b in atom.bindings if b.variable in query.head and not b.part}
        return relation is not None and bool(relation.key) and bound >= {quote(c) for c in relation.key}

    def including(self, query: Query) -> tuple[Query, PartialProgram]:
        """A query of the spec over the relations that its own steps keep, and the program with these steps.

        The query as it is where nothing but trees is kept for it.
        """
        made_here = {step.name for step in self.steps}
        relations = tuple(r for r in self.spec.relations if r.name not in made_here)
        alone = PartialProgram(query.name, replace(self.spec, relations=relations), query.max_view_rows, self.passes)
        left, own = alone.lower(plan_query(query, alone.spec).query, Run("result"))
        result = own.steps[-1]
        if left is not None or not isinstance(result, Tree):
            return query, self
        form = result.plan.query
        if not any(own.derived(a.source) for a in form.atoms):
            return query, self
        steps = tuple(step for step in own.steps[:-1] if step.name not in made_here)
        known = {r.name for r in self.spec.relations}
        more = tuple(r for r in own.spec.relations if r.name not in known)
        spec = replace(self.spec, relations=(*self.spec.relations, *more))
        return replace(form, order=()), replace(self, steps=(*self.steps, *steps), spec=spec)

    # Results of passes

    def with_fitting(self, query: ConjunctiveQuery) -> PartialProgram:
        return replace(self, run=replace(self.run, fitting=query))

    def with_feeds(self, feeds: Sequence[Feed]) -> PartialProgram:
        return replace(self, run=replace(self.run, feeds=tuple(feeds)))

    # Queries inside a query

    def lower(self, query: Query, run: Run) -> tuple[Query | None, PartialProgram]:
        """The query that the passes for a goal leave, and this program with their steps."""
        left, made = self._lower(query, run)
        return left, replace(made, run=self.run)

    def joins(self, query: ConjunctiveQuery) -> tuple[ConjunctiveQuery, PartialProgram]:
        """The query as joins and comparisons: relations in place of derived tables and subqueries."""
        return _conjunctive(self.lower(query, Run("joins")))

    def typed(self, query: Query, types: Sequence[Type]) -> tuple[ConjunctiveQuery, PartialProgram]:
        """Any query for one tree, each column a variable of the type given, or a pair if that is wide."""
        return _conjunctive(self.lower(query, Run("typed", types=tuple(types))))

    def rows(self, typed: ConjunctiveQuery) -> tuple[Feed, PartialProgram]:
        """A tree with the rows of a query from `typed`, on their way into a relation with its columns."""
        tree, program = self.add_tree(typed)
        return Feed(tree, tuple(v for c in typed.columns for v in variables_of(c))), program

    def distinct(self, query: ConjunctiveQuery) -> tuple[str, PartialProgram]:
        """A tree with every binding of the head once."""
        made, program = _conjunctive(self.lower(replace(query, semantics="set"), Run("distinct")))
        return program.add_tree(made)

    def feeds(self, query: ConjunctiveQuery) -> tuple[tuple[Feed, ...], PartialProgram]:
        """The bindings of the head of a query that has no aggregates, from one tree, or as a sum over several."""
        _, made = self._lower(query, Run("feeds", inputs=columns_of(query)))
        return made.run.feeds, replace(made, run=self.run)

    def stream(self, query: ConjunctiveQuery) -> tuple[Feed, PartialProgram]:
        """The same from one tree."""
        _, made = self._lower(query, Run("stream", inputs=columns_of(query)))
        (feed,) = made.run.feeds
        return feed, replace(made, run=self.run)

    def grouped(
        self, body: ConjunctiveQuery, keys: tuple[str, ...], measures: tuple[Measure, ...]
    ) -> tuple[Run, PartialProgram]:
        """The rows that aggregates are computed from: a run with the inputs, measures and feeds of their groups."""
        _, made = self._lower(body, Run("groups", keys=keys, measures=measures))
        return made.run, replace(made, run=self.run)

    def _lower(self, query: Query, run: Run) -> tuple[Query | None, PartialProgram]:
        left: Query | None = query
        program = replace(self, run=run)
        for each in self.passes:
            if left is not None and run.goal in each.goals:
                left, program = each.rewrite(left, program)
        return left, program


def _conjunctive(made: tuple[Query | None, PartialProgram]) -> tuple[ConjunctiveQuery, PartialProgram]:
    query, program = made
    assert isinstance(query, ConjunctiveQuery), query
    return query, program


def physical(columns: Sequence[Column], pairs: Collection[str]) -> tuple[Column, ...]:
    """The columns as they are kept: two of each pair."""
    kept: list[Column] = []
    for c in columns:
        if c.name in pairs:
            kept += [Column(high(c.name), INT64, c.nullable), Column(low(c.name), INT64, c.nullable)]
        else:
            kept.append(c)
    return tuple(kept)
