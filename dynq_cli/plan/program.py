"""What the engine keeps for a query: plain view trees, and relations that their results fill.

A free-connex equi-join is one tree over the spec's relations. Any other query becomes several steps, each of which
uses what the ones before it keep:

    Tree      a plain view tree (free-connex, no comparison between atoms, no aggregate) over relations
    Cycle     a cyclic join of which only the delta is computed, from the rows of its atoms
    Derived   a relation that nobody writes to: it holds what the results of trees and cycles amount to

    Together  a result that is read from several trees at once, and stored nowhere
    Lookups   a result of which rows are looked up in several trees, and nothing else is read

The last step has the query's own name, and its result is read from it: it is a tree, or several trees together. Within
a commit, what came and went in the result of a tree (see `engine.difference`) is the change of the relations it feeds,
so a step costs what has changed in the one before it, and a derived relation takes the space of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from dynq_cli.plan.plan import Plan
from dynq_cli.query.normal_form import (
    Aggregate,
    ColumnOrder,
    Comparison,
    ConjunctiveQuery,
    OutputColumn,
    Scalar,
    VariableOrder,
    WindowFunction,
    without_repetition,
)
from dynq_cli.records import record
from dynq_cli.spec.model import Column, Relation


@record(frozen=True)
class Feed:
    """Rows of the result of a tree, or of a cycle, on their way into a relation.

    `columns` are variables of the tree: one per column that the relation takes in. Rows that do not satisfy every
    comparison of `where` stay out; each of the others counts `sign` times its multiplicity. `where` may use
    variables of the tree that are no column.
    """

    tree: str
    columns: tuple[str, ...]
    sign: Literal[1, -1] = 1
    where: tuple[Comparison, ...] = ()


@record(frozen=True)
class Measure:
    """An aggregate of the rows of a group.

    `factors` are, for each monomial of the aggregate, the columns taken in that hold its factors; `values` are those
    that MIN, MAX and COUNT(DISTINCT) look at. A decimal of more than 18 digits comes as two columns, `high` and `low`
    of the name given here. With `counted`, a row counts for COUNT and AVG as often as the product of these columns
    says; sums have such columns among their factors. Values that are summed have `scale` digits behind the point.
    """

    aggregate: Aggregate
    factors: tuple[tuple[str, ...], ...] = ()
    values: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    scale: int = 0


@record(frozen=True)
class Groups:
    """The relation has one row per group instead of what is taken in: `keys`, then a column or two per measure.

    `inputs` are the columns taken in, by name, as the feeds give them: the keys first. With `one_row` there is a row
    also while nothing is taken in.
    """

    inputs: tuple[Column, ...]
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    one_row: bool = False


@record(frozen=True)
class Partitions:
    """The relation has rows by their places: those that agree on `keys` are a partition, in an order of all columns.

    `inputs` are the columns taken in, by name, and `columns` the same with each pair `high`, `low` as one. Without
    `functions`, `limit` rows behind the first `offset` of a partition are in the relation, counting copies; with them,
    every copy is a row, with a column or two per function behind its own.
    """

    inputs: tuple[Column, ...]
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    order: tuple[ColumnOrder, ...]
    limit: int | None = None
    offset: int = 0
    functions: tuple[WindowFunction, ...] = ()

    @property
    def reach(self) -> int | None:
        """How many rows on either side of a row its functions look at; None where any number, or without functions."""
        known = [f.reach for f in self.functions if f.reach is not None]
        return max(known) if known and len(known) == len(self.functions) else None


@record(frozen=True)
class Derived:
    """A relation made from the results of trees that stand before it.

    Without `groups` and `partitions` it is the multiset of the rows that its feeds give. `columns` is what expressions
    over it can name: those of the relation, with each pair `high`, `low` as one decimal. `budget` is the number of rows
    that it may have, if the query says one.
    """

    relation: Relation
    columns: tuple[Column, ...]
    feeds: tuple[Feed, ...]
    groups: Groups | None = None
    budget: int | None = None
    partitions: Partitions | None = None

    @property
    def name(self) -> str:
        return self.relation.name

    def kept_variables(self, feed: Feed) -> frozenset[str]:
        """The variables of a feed's tree that tell the relation's rows apart: of groups, those of their keys."""
        return frozenset(feed.columns if self.groups is None else feed.columns[: len(self.groups.keys)])


@record(frozen=True)
class Tree:
    name: str
    plan: Plan


@record(frozen=True)
class Operand:
    """The rows of an atom that meet what is bound: one row if all its variables are, else those of a list (`scans`).

    `is_new`: with the changed row as it will be, else as it was.
    """

    atom: int
    scans: bool = False
    is_new: bool = False


@record(frozen=True)
class Level:
    """Variables to bind next, by the shortest list of the atoms that have one; the other atoms are looked up."""

    variables: tuple[str, ...]
    operands: tuple[Operand, ...]


@record(frozen=True)
class Route:
    """What a changed row of the relation of `changed` meets in the other atoms of a cycle, level by level.

    The row stands in all atoms of `changed` at once. What is met counts `times` times.
    """

    changed: tuple[int, ...]
    levels: tuple[Level, ...]
    times: int = 1


@record(frozen=True)
class Weight:
    """What a row of an atom counts in a sum: its copies times all `factors`; nothing if one of these or of `present` is
    NULL."""

    factors: tuple[Scalar, ...] = ()
    present: tuple[Scalar, ...] = ()


@record(frozen=True)
class Total:
    """A column of sums, as a pair `high`, `low`: `sum` by its number, or NULL where the sum `present` is 0."""

    name: str
    sum: int
    present: int


@record(frozen=True)
class HeavyPairs:
    """Sums over a triangle that are kept up to date by IVM-ε (`heavy_pairs`).

    Σ over the bindings of the product of a weight per atom, for each of `sums`. The first counts the bindings. A value
    is heavy if N^`epsilon` rows or more have it. Without `totals`, the first sum is all that is asked for.
    """

    epsilon: Decimal
    sums: tuple[tuple[Weight, ...], ...]
    totals: tuple[Total, ...] = ()


@record(frozen=True)
class Cycle:
    """A join of which only the delta is computed (`delta_join`). Kept are the rows of its atoms, by their ends.

    `query` has joins only; its head are the variables that are asked for, none if rows are counted. One that no atom
    binds is always 1. With `pairs`, sums over the pairs of heavy values are kept besides; if there are `totals`, the
    result is one row of them, while there is a binding, and the head are their codes.
    """

    name: str
    query: ConjunctiveQuery
    routes: tuple[Route, ...]
    pairs: HeavyPairs | None = None


@record(frozen=True)
class Member:
    """A tree that has rows of a result; `variables` are those of the tree, one per head variable of the result."""

    tree: str
    variables: tuple[str, ...]


@record(frozen=True)
class Term:
    """How the count of a tree goes into that of a result: its rows `rows` times, its distinct rows `distinct` times."""

    tree: str
    rows: int
    distinct: int


@record(frozen=True)
class Together:
    """A result that is read from several trees at once.

        rows = those of the members, without those that do not satisfy every comparison of `where`, and without those
               that a tree of `lacking` has, which has the same head
        count = Σ terms

    A row that several members have is one row: of a set once, of a bag with the copies of all. `form` says head,
    columns and semantics; its body says nothing.
    """

    name: str
    form: ConjunctiveQuery
    members: tuple[Member, ...]
    terms: tuple[Term, ...]
    where: tuple[Comparison, ...] = ()
    lacking: tuple[Member, ...] = ()

    @property
    def read(self) -> tuple[Member, ...]:
        """The trees that decide which rows the result has."""
        return (*self.members, *self.lacking)

    @property
    def is_filtered(self) -> bool:
        """Whether some rows of the members are left out as they are read."""
        return bool(self.where or self.lacking)


@record(frozen=True)
class TreeLookup:
    """How often a tree has a row: its `copies`; or 1 if it is there (`present`), or if it is not (`absent`)."""

    tree: str
    counts: Literal["copies", "present", "absent"]


@record(frozen=True)
class Alternative:
    """Rows that satisfy `where`, each as often as the product of its `lookups` says.

    `variables` stand for the head of the result, one for one; the trees and `where` use them.
    """

    variables: tuple[str, ...]
    lookups: tuple[TreeLookup, ...]
    where: tuple[Comparison, ...] = ()


@record(frozen=True)
class Lookups:
    """A result whose rows are only looked up.

        multiplicity of a row = Σ alternatives, of a set at most 1

    `form` says head, columns and semantics; it is the query itself, or a union without a body.
    """

    name: str
    form: ConjunctiveQuery
    alternatives: tuple[Alternative, ...]

    @property
    def trees(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.tree for a in self.alternatives for each in a.lookups))


# Programs in states say the kind of a step by its number here.
Step = Tree | Derived | Together | Lookups | Cycle


@record(frozen=True)
class Program:
    """The steps in which a query is kept; the result is read from the last."""

    steps: tuple[Step, ...]

    @property
    def result(self) -> Tree | Together | Lookups:
        last = self.steps[-1]
        assert isinstance(last, Tree | Together | Lookups)
        return last

    @property
    def form(self) -> ConjunctiveQuery:
        """Head, columns and semantics of the result."""
        return self.result.plan.query if isinstance(self.result, Tree) else self.result.form

    @property
    def order(self) -> tuple[VariableOrder, ...]:
        """The whole order in which rows are read, by output columns; a variable that is in none of them stands for
        itself. Empty if the query asks for none."""
        if isinstance(self.result, Lookups):
            return ()
        order = self.result.plan.order if isinstance(self.result, Tree) else self.result.form.order
        shown = {v: c.name for c in reversed(self.form.columns) for v in variables_of(c)}
        return without_repetition(
            replace(o, variable=shown[o.variable], of="column") if o.variable in shown else o for o in order
        )


def query_of(step: Tree | Cycle) -> ConjunctiveQuery:
    """The query whose rows a step passes on."""
    return step.plan.query if isinstance(step, Tree) else step.query


def passages(steps: Iterable[Step]) -> frozenset[str]:
    """The trees of which nothing is kept: what they pass on are the rows of one relation as they come and go."""
    several = list(steps)
    feeding = {feed.tree for step in several if isinstance(step, Derived) for feed in step.feeds}
    trees = (step for step in several if isinstance(step, Tree) and step.name in feeding)
    return frozenset(t.name for t in trees if len(t.plan.query.atoms) == 1 and t.plan.query.semantics == "bag")


def relayed(steps: Iterable[Step]) -> frozenset[str]:
    """The relations that only passages read: their rows are passed on as they come and go, and not kept.

    The state of groups is kept, of which such rows are computed; of rows that trees feed, nothing is.
    """
    several = list(steps)
    passing = passages(several)
    read: dict[str, bool] = {}
    for step in several:
        if isinstance(step, Tree | Cycle):
            for atom in query_of(step).atoms:
                read[atom.source] = read.get(atom.source, True) and step.name in passing
    derived = (s for s in several if isinstance(s, Derived) and s.partitions is None)
    return frozenset(s.name for s in derived if read.get(s.name, False))


def passed_rows(steps: Iterable[Step]) -> frozenset[str]:
    """The relations of which nothing is kept."""
    several = list(steps)
    without = {s.name for s in several if isinstance(s, Derived) and s.groups is None}
    return relayed(several) & without


def high(name: str) -> str:
    """The column of the upper part of a wide decimal: its digits without the point, divided by 3·2^62, rounded down."""
    return f"{name}.high"


def low(name: str) -> str:
    """The column of the rest, less 3·2^61. Both are NULL where the decimal is; (high, low) orders like it."""
    return f"{name}.low"


def variables_of(column: OutputColumn) -> tuple[str, ...]:
    """The variables that a column of a result is made of; the upper part of a pair decides before the lower."""
    if column.kind == "pair":
        return (high(column.source), low(column.source))
    return (column.source,) if column.kind == "variable" else ()
