"""`!=` by subtraction: what a query has without it, less what it has with `=` in its place.

    Σ over sets S of the comparisons, (-1)^|S| × the query with S as equalities    = the query

Rows are counted so, and added up: whatever is a sum over bindings with their copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from dynq_cli.plan.lower.conjunction import equated
from dynq_cli.plan.lower.query_builders import as_type, bind, names_of, part_of, same_codes, unique, where_bound
from dynq_cli.plan.lower.ranges import in_one_tree
from dynq_cli.plan.program import Feed
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, OutputColumn, Scalar, Variable
from dynq_cli.spec.types import widen

if TYPE_CHECKING:
    from dynq_cli.plan.lower.lowering import Lowering

# Trees double with each.
MOST_UNEQUAL = 3

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Equated:
    """A query with equalities in place of comparisons; `said` has the name of each variable that lost its own."""

    query: ConjunctiveQuery
    said: Mapping[str, str]

    def name(self, variable: str) -> str:
        return self.said.get(variable, variable)


def subtracted(lowering: Lowering, plain: ConjunctiveQuery, columns: Sequence[str]) -> list[Feed] | None:
    """Trees that together feed what a bag with != has, with signs; None if that is no better than filtering.

    It is better where a side of a comparison is not asked for: no row of a tree stands for a pair of values then. What
    has both sides at hand is filtered.
    """
    hidden = tuple(c for c in differing(plain) if not c.variables <= frozenset(plain.head))
    shown = tuple(c for c in differing(plain) if c not in hidden)
    if plain.semantics != "bag" or not 1 <= len(hidden) <= MOST_UNEQUAL:
        return None
    open_ = without(part_of(plain, plain.atoms, plain.head, plain.comparisons), (*hidden, *shown))
    made: list[tuple[Equated, ConjunctiveQuery, int]] = []
    for some in ((), *sets(hidden)):
        equal = with_equalities(open_, some)
        fitting = None if equal is None else in_one_tree(equal.query, lowering.spec, may_grow=True)
        if equal is None or fitting is None:
            return None
        made.append((equal, fitting, -1 if len(some) % 2 else 1))
    return [
        Feed(
            lowering.tree(fitting),
            tuple(map(equal.name, columns)),
            1 if sign > 0 else -1,
            tuple(replace(c, left=equal.name(c.left), right=equal.name(c.right)) for c in shown),
        )
        for equal, fitting, sign in made
    ]


def differing(query: ConjunctiveQuery) -> tuple[Comparison, ...]:
    return tuple(c for c in query.comparisons if c.op == "!=")


def without(query: ConjunctiveQuery, comparisons: Sequence[Comparison]) -> ConjunctiveQuery:
    return replace(query, comparisons=tuple(c for c in query.comparisons if c not in comparisons))


def with_head(query: ConjunctiveQuery, head: Iterable[str]) -> ConjunctiveQuery:
    """The query with other variables in its head, each shown as a column."""
    names = tuple(dict.fromkeys(head))
    known = [query.variable(v) for v in names]
    columns = tuple(OutputColumn(v.name, v.type, v.nullable, "variable", v.name) for v in known)
    return replace(query, head=names, columns=columns)


def with_equalities(query: ConjunctiveQuery, several: Sequence[Comparison]) -> Equated | None:
    """The query with `left = right + offset` for some comparisons; None if two sides have no common type."""
    said: dict[str, str] = {}
    for c in several:
        left, right = said.get(c.left, c.left), said.get(c.right, c.right)
        if c.offset or not same_codes(query.variable(left).type, query.variable(right).type):
            there = sql.shifted_value(where_bound(query, right)[1].scalar, c.offset)
            kind = widen(query.variable(left).type, there.type)
            if kind is None:
                return None
            query, left = _computed(query, left, as_type(where_bound(query, left)[1].scalar, kind))
            query, right = _computed(query, right, as_type(there, kind))
        if left != right:
            query = equated(query, left, right)
            said = {v: left if name == right else name for v, name in said.items()} | {right: left}
    return Equated(query, said)


def _computed(query: ConjunctiveQuery, variable: str, scalar: Scalar) -> tuple[ConjunctiveQuery, str]:
    """A variable that a value of an atom is bound to, where it is not NULL."""
    at, binding = where_bound(query, variable)
    if scalar.sql == binding.scalar.sql:
        return query, variable
    name = unique(f"{variable}_compared", names_of(query))
    query = bind(query, at, Variable(name, scalar.type), replace(scalar, nullable=False))
    if scalar.nullable:
        atoms = list(query.atoms)
        atoms[at] = replace(atoms[at], filters=(*atoms[at].filters, sql.not_null(scalar)))
        query = replace(query, atoms=tuple(atoms))
    return query, name


def sets(things: Sequence[Thing]) -> Iterator[tuple[Thing, ...]]:
    """All sets of some things but the empty one, small ones first."""
    for size in range(1, len(things) + 1):
        yield from combinations(things, size)
