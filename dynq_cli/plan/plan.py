"""The immutable plan of a query: everything known before the data.

A plan says in which tree a query stands, what that takes beside a tree (`strategy`, one of `strategies`), and what a
changed row of an atom costs there. What the whole program costs is in `program_cost`. Plans compare by value and print
as trees; nothing in them depends on data.
"""

from __future__ import annotations

from dynq_cli.plan.bounds import larger
from dynq_cli.plan.view_tree import Node
from dynq_cli.query.classify import Classification
from dynq_cli.query.normal_form import ConjunctiveQuery, UnionQuery, VariableOrder
from dynq_cli.records import record


@record(frozen=True)
class UpdateCost:
    """What a changed row of one atom touches."""

    atom: str
    bound: str
    meaning: str

    @property
    def is_wide(self) -> bool:
        """Whether it can touch more than one row per level."""
        return larger(self.bound, "O(log n)")


@record(frozen=True)
class DistinctTree:
    """The second tree that counts the distinct values of a variable per group."""

    aggregate: str
    variable: str
    tree: Node


@record(frozen=True)
class Plan:
    """`head` is what the tree's output set holds: the query's head, or an extension of it that is
    projected. `order` is the complete order the tree keeps, if the query has one. `refusal` says why
    the query cannot be kept as asked, `unordered` why no tree has its order: then the result is stored in it."""

    query: ConjunctiveQuery
    classification: Classification
    strategy: str
    tree: Node
    head: tuple[str, ...]
    order: tuple[VariableOrder, ...]
    updates: tuple[UpdateCost, ...]
    distinct: tuple[DistinctTree, ...] = ()
    views: tuple[tuple[str, AnyPlan], ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str = ""
    unordered: str = ""

    @property
    def name(self) -> str:
        return self.query.name

    def __repr__(self) -> str:
        return f"{self.query}\n{self.classification.name}, {self.strategy}\n{self.tree!r}"


@record(frozen=True)
class UnionPlan:
    """Members each have a plan of their own."""

    query: UnionQuery
    members: tuple[AnyPlan, ...]
    classification: Classification
    notes: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def strategy(self) -> str:
        return "union"

    @property
    def unordered(self) -> str:
        """Nothing: a union with an order is stored anyway."""
        return ""

    def __repr__(self) -> str:
        return "\n".join([str(self.query), *(repr(m) for m in self.members)])


AnyPlan = Plan | UnionPlan
