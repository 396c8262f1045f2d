"""`!=` by subtraction: what a query has without it, less what it has with `=` in its place.

    Σ over sets S of the comparisons, (-1)^|S| × the query with S as equalities    = the query

Rows are counted so, and added up: whatever is a sum over bindings with their copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from dynq_cli.plan.lower.conjunction import equated
from dynq_cli.plan.lower.query_builders import as_type, bind, names_of, same_codes, unique, where_bound
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import Comparison, ConjunctiveQuery, OutputColumn, Scalar, Variable
from dynq_cli.spec.types import common_type

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
            kind = common_type(query.variable(left).type, there.type)
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
