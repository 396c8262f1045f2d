"""The steps of a program in the making.

    settled(q)   a free-connex equi-join with the result of q, over relations that the steps so far make
    stream(q)    a tree whose rows, those that pass `where`, are the bindings of q's head with their copies
    feeds(q)     the same, or as a sum over several trees
    exactly(q)   as settled(q), for any q, with a variable per column

What is not an equi-join goes first: views become relations, subqueries become relations of the values that pass, atoms
that are compared or that form a cycle are joined. What remains is one tree, or, if its head has to be larger than the
query's, a tree that feeds a table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.choose import plan_query
from dynq_cli.plan.lower.align_types import aligned
from dynq_cli.plan.lower.break_cycles import joined, next_groups, ring_group
from dynq_cli.plan.lower.conjunction import filtered_within
from dynq_cli.plan.lower.groups import groups_of
from dynq_cli.plan.lower.inclusion_exclusion import together
from dynq_cli.plan.lower.inequality_by_subtraction import subtracted
from dynq_cli.plan.lower.outputs import exact
from dynq_cli.plan.lower.query_builders import atom_over, columns_of, part_of, with_one
from dynq_cli.plan.lower.ranges import has_ranges, in_one_tree, partly
from dynq_cli.plan.lower.subqueries import without_subqueries
from dynq_cli.plan.lower.unions import union_of
from dynq_cli.plan.lower.views import without_views
from dynq_cli.plan.plan import Plan
from dynq_cli.plan.program import Derived, Feed, Groups, Program, Step, Together, Tree, high, low, variables_of
from dynq_cli.query.core import core
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, Query, UnionQuery
from dynq_cli.query.reduction import is_acyclic, is_free_connex
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64, Type


@dataclass(frozen=True)
class Stream:
    """Rows of a tree on their way into a relation."""

    tree: str
    where: tuple[Comparison, ...] = ()

    def feed(self, columns: Sequence[str]) -> Feed:
        return Feed(self.tree, tuple(columns), 1, self.where)


class Lowering:
    """The steps so far, and the spec with the relations that they make."""

    def __init__(self, name: str, spec: Spec, budget: int | None) -> None:
        self.name = name
        self.spec = spec
        self.budget = budget
        self.steps: list[Step] = []

    def program(self, query: Query) -> Program:
        """The steps that keep a query; the last has its name."""
        read = self._together(query)
        if read is not None:
            return Program((*self.steps, read))
        made = self.outcome(query)
        if made.order and self.steps and plan_query(made, self.spec).refusal:
            # The tree of the last step has no such order; a table has any.
            made = self._stored(made)
        self.tree(made, self.name)
        return Program(tuple(self.steps))

    def _together(self, query: Query) -> Together | None:
        """The result as one that is read from several trees, if it is one."""
        steps, spec = len(self.steps), self.spec
        made = together(self, query)
        if made is None:
            del self.steps[steps:]
            self.spec = spec
        return made

    def tree(self, query: ConjunctiveQuery, name: str = "", *, is_read: bool = False) -> str:
        """A step that keeps a free-connex equi-join: the last one, one that is read, or one that feeds relations."""
        made = name or self._fresh()
        is_read = is_read or bool(name)
        if not is_read and self._tells_apart(query):
            # Then every row is there once, and needs no table to be counted in.
            query = replace(query, semantics="bag")
        plan = plan_query(replace(query, name=made), self.spec)
        assert isinstance(plan, Plan) and plan.strategy == "view-tree", plan
        assert has_ranges(plan.query, plan.tree), plan
        assert not any(c.variables <= a.variables for c in plan.query.comparisons for a in plan.query.atoms), plan
        # Nobody looks at the rows of an inner tree but as they come and go.
        self.steps.append(Tree(made, plan if is_read else replace(plan, tree=plan.tree.condensed())))
        return made

    def is_wide(self, tree: str) -> bool:
        """Whether a change may touch more than one row per level of a tree that is a step."""
        plans = (s.plan for s in self.steps if isinstance(s, Tree) and s.name == tree)
        return any(cost.is_wide for plan in plans for cost in plan.updates)

    def _tells_apart(self, query: ConjunctiveQuery) -> bool:
        """Whether a query over one relation has the relation's key in its head."""
        if len(query.atoms) != 1:
            return False
        (atom,) = query.atoms
        relation = self.spec.relation(atom.source)
        bound = {b.scalar.sql for b in atom.bindings if b.variable in query.head and not b.part}
        return relation is not None and bool(relation.key) and bound >= {quote(c) for c in relation.key}

    def relation(
        self,
        columns: Sequence[Column],
        feeds: Sequence[Feed],
        *,
        pairs: Collection[str] = (),
        groups: Groups | None = None,
        key: Sequence[str] = (),
        is_linear: bool = False,
    ) -> Relation:
        """A step that holds what feeds give, or its groups; each column of `pairs` is two.

        The relation is a multiset; `key` is what only the planner knows to tell its rows apart. One that has no more
        rows than one it is made from is no matter of the budget.
        """
        made = Relation(self._fresh(), _physical(columns, pairs))
        budget = None if is_linear else self.budget
        self.steps.append(Derived(made, tuple(columns), tuple(feeds), groups, budget))
        self.spec = replace(self.spec, relations=(*self.spec.relations, replace(made, key=tuple(key))))
        return made

    def derived(self, relation: str) -> Derived | None:
        """The step that makes a relation; None if it is one of the spec's."""
        made = (s for s in self.steps if isinstance(s, Derived))
        return next((s for s in made if s.relation.name == relation), None)

    def outcome(self, query: Query) -> ConjunctiveQuery:
        """A free-connex equi-join with the rows and columns of any query."""
        if isinstance(query, UnionQuery):
            return union_of(self, query)
        if query.grouped:
            return groups_of(self, query, [c.type for c in query.columns], exactly=False)
        return self._settled(self._plain(query, same_head=False))

    def exactly(self, query: Query, types: Sequence[Type]) -> ConjunctiveQuery:
        """As `outcome`, each column a variable of the type given, or a pair if that is wide."""
        if isinstance(query, UnionQuery):
            return union_of(self, query, types)
        if query.grouped:
            return groups_of(self, query, types, exactly=True)
        return self.settled(exact(query, types))

    def rows(self, made: ConjunctiveQuery) -> Feed:
        """A tree with the rows of what `exactly` made, on their way into a relation with its columns."""
        return Feed(self.tree(made), tuple(v for c in made.columns for v in variables_of(c)))

    def settled(self, query: ConjunctiveQuery, *, same_head: bool = False) -> ConjunctiveQuery:
        """A free-connex equi-join with the result of a query that has no aggregates."""
        return self._settled(self._plain(query, same_head))

    def plain(self, query: ConjunctiveQuery, *, same_head: bool = False) -> ConjunctiveQuery:
        """The query as joins and comparisons: relations in place of views and subqueries."""
        return self._plain(query, same_head)

    def fitting(self, query: ConjunctiveQuery) -> ConjunctiveQuery | None:
        """The query as joins and comparisons, if one tree keeps them."""
        return in_one_tree(self.plain(query), self.spec)

    def _settled(self, plain: ConjunctiveQuery) -> ConjunctiveQuery:
        made = self._in_ranges(plain)
        if made is not None:
            return made
        if self._is_streamed(plain) or self._is_sum(plain):
            return self._stored(plain)
        plain = self._apart(plain)
        if not plain.comparisons and is_free_connex(hypergraph_of(plain)):
            return plain
        return self._stored(plain)

    def _in_ranges(self, plain: ConjunctiveQuery, *, may_grow: bool = False) -> ConjunctiveQuery | None:
        """The query for one tree with its comparisons on edges, atoms joined where they form a ring; or None."""
        if not plain.comparisons:
            return None
        made, steps, spec = plain, len(self.steps), self.spec
        while not is_acyclic(hypergraph_of(made)):
            group = ring_group(made, self.spec)
            if len(group) == len(made.atoms):
                break
            made = joined(self, made, group)
        fitting = in_one_tree(made, self.spec, may_grow=may_grow)
        if fitting is not None:
            return fitting
        del self.steps[steps:]
        self.spec = spec
        return None

    def _is_streamed(self, plain: ConjunctiveQuery) -> bool:
        """Whether one tree has all comparisons on its edges if its head may be larger; its rows are stored then."""
        steps, spec = len(self.steps), self.spec
        found = self._in_ranges(_to_stream(plain), may_grow=True) is not None
        del self.steps[steps:]
        self.spec = spec
        return found

    def _is_sum(self, plain: ConjunctiveQuery) -> bool:
        """Whether its rows are what one tree has, less what others have; the sum is stored then."""
        steps = len(self.steps)
        found = subtracted(self, plain, plain.head) is not None
        del self.steps[steps:]
        return found

    def _stored(self, plain: ConjunctiveQuery) -> ConjunctiveQuery:
        """The query as one atom over a table of its head."""
        held, head = plain, plain.head
        if not head:
            held, one = with_one(plain)
            head = (one,)
        inner = replace(held, head=head)
        table = self.relation(columns_of(inner), self.feeds(inner))
        variables = tuple(v for v in held.variables if v.name in head)
        return replace(plain, atoms=(atom_over(table),), comparisons=(), variables=variables)

    def feeds(self, query: ConjunctiveQuery) -> list[Feed]:
        """The bindings of the head of a query that has no aggregates, from one tree, or as a sum over several."""
        return self.feeds_of(self._plain(query, same_head=True))

    def feeds_of(self, plain: ConjunctiveQuery) -> list[Feed]:
        """The same for a query that has joins and comparisons only."""
        return subtracted(self, plain, plain.head) or [self.streamed(plain).feed(plain.head)]

    def stream(self, query: ConjunctiveQuery) -> Stream:
        """A tree with the bindings of the head of a query that has no aggregates, and what is left to filter by."""
        return self.streamed(self._plain(query, same_head=True))

    def streamed(self, plain: ConjunctiveQuery) -> Stream:
        """The same for a query that has joins and comparisons only."""
        made = self._in_ranges(_to_stream(plain), may_grow=True)
        if made is not None:
            return Stream(self.tree(made))
        inner, left = partly(aligned(self._apart(plain)), self.spec)
        return Stream(self.tree(inner), left)

    def distinct(self, query: ConjunctiveQuery) -> str:
        """A tree with every binding of the head once."""
        return self.tree(self.settled(replace(query, semantics="set"), same_head=True))

    def _plain(self, query: ConjunctiveQuery, same_head: bool) -> ConjunctiveQuery:
        # What replaces a subquery has all that it looks at, and with that both sides of comparisons around it.
        return filtered_within(without_subqueries(self, without_views(self, core(query), same_head=same_head)))

    def _apart(self, query: ConjunctiveQuery) -> ConjunctiveQuery:
        """Atoms joined until one equi-join is left, acyclic, and comparisons that its rows can be filtered by."""
        while groups := next_groups(query, self.spec):
            for aliases in [{query.atoms[i].alias for i in group} for group in groups]:
                group = tuple(i for i, atom in enumerate(query.atoms) if atom.alias in aliases)
                query = joined(self, query, group)
        return query

    def _fresh(self) -> str:
        return f"{self.name}/{len(self.steps) + 1}"


def _to_stream(plain: ConjunctiveQuery) -> ConjunctiveQuery:
    """A query whose rows go into a relation: without an order, and with comparisons between codes."""
    return aligned(part_of(plain, plain.atoms, plain.head, plain.comparisons))


def _physical(columns: Sequence[Column], pairs: Collection[str]) -> tuple[Column, ...]:
    """The columns as they are kept: two of each pair."""
    kept: list[Column] = []
    for c in columns:
        if c.name in pairs:
            kept += [Column(high(c.name), INT64, c.nullable), Column(low(c.name), INT64, c.nullable)]
        else:
            kept.append(c)
    return tuple(kept)
