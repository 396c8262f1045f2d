"""Aggregate each part of a join by itself where groups span several parts, and join the groups.

    groups (x, y, z) of A(x, y), B(x, z, v)      the sum of v per (x, z), joined with A(x, y)

Atoms that share a variable outside the group key form a part; atoms without such a variable are joined as they are. If
every aggregate looks at one part, its value in a group is that of the part's group: a group of the result is one row of
the join, which a tree reads, so neither groups nor result are stored. That holds for

    MIN, MAX, AVG, COUNT(DISTINCT)    always: if every row is there several times, none of them changes
    SUM, COUNT                        if nothing multiplies them: no other part, and no copies of the other atoms

Parts that have the whole key stay as they are (`group_by`). Where a part has less of it, a change of the other atoms,
as of the name of a person whose payments are summed up, touches no group.

    query    SELECT R.b, R.a, S.c, MAX(P.price) AS top FROM R, S, P WHERE R.b = S.b AND S.b = P.b GROUP BY R.b, R.a, S.c
    before   q(b, a, c, top = max(price)) :- R(b, a), S(b, c), P(b, price)
    after    q.1(b, top = max(price)) :- P(b, price)
             q(b, a, c, top) :- R(b, a), S(b, c), q.1(b, top)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import names_of, unique
from dynq_cli.query.aggregates import basic
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Binding,
    ConjunctiveQuery,
    OutputColumn,
    Query,
    Scalar,
    UnionQuery,
    Variable,
    View,
)
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Spec

# Readings that stay what they are if every row of a group is there several times.
_PER_ROW = ("least", "greatest", "average", "all", "any")


def split_groups(query: Query, program: PartialProgram) -> tuple[Query, PartialProgram]:
    if isinstance(query, UnionQuery):
        return query, program
    made = split(query, program.spec)
    return (query if made is None else made), program


def split(query: ConjunctiveQuery, spec: Spec) -> ConjunctiveQuery | None:
    """The join of the groups of a query's parts; None if it has none, or is as well off as it is."""
    if not query.aggregates or not query.head or query.order:
        return None
    return _Split(query, spec).query()


def is_once(atom: Atom, spec: Spec) -> bool:
    """Whether an atom has each row once: it binds a key of its relation, or is only tested."""
    relation = spec.relation(atom.source)
    bound = {b.scalar.sql for b in atom.bindings}
    is_keyed = relation is not None and bool(relation.key) and {quote(c) for c in relation.key} <= bound
    return atom.mode != "join" or is_keyed


@dataclass
class _Part:
    """Atoms by their numbers, and what is computed from their groups."""

    atoms: tuple[int, ...]
    aggregates: list[Aggregate]
    columns: list[OutputColumn]


class _Split:
    def __init__(self, query: ConjunctiveQuery, spec: Spec) -> None:
        self.whole = query
        self.spec = spec
        self.head = frozenset(query.head)
        self.has = [a.variables for a in query.atoms]

    def query(self) -> ConjunctiveQuery | None:
        """The join of the parts' groups; None if that is not the same, or has no tree."""
        parts = [_Part(atoms, [], []) for atoms in self._components()]
        alone = [i for i, v in enumerate(self.has) if v <= self.head]
        q = self.whole
        if not parts or len(parts) + len(alone) < 2:
            return None
        if any(q.atoms[i].mode != "join" for part in parts for i in part.atoms):
            return None
        if self._is_bounded(parts):
            return None
        if any(not self._interface(part) for part in parts) or not self._places_comparisons(parts):
            return None
        is_multiplied = len(parts) > 1 or (
            q.semantics == "bag" and not all(is_once(q.atoms[i], self.spec) for i in alone)
        )
        for a in q.aggregates:
            part = self._part_of(a, parts)
            if part is None or (is_multiplied and not _is_per_row(a)):
                return None
            part.aggregates.append(a)
        columns = self._columns(parts)
        having = self._having(parts)
        if columns is None or having is None:
            return None
        joined = self._joined(parts, alone, columns, having)
        return joined if is_acyclic(hypergraph_of(joined)) else None

    def _is_bounded(self, parts: Sequence[_Part]) -> bool:
        """Whether the parts have the whole key: then their groups are those of the result."""
        return all(frozenset(self._interface(part)) == self.head for part in parts)

    def _components(self) -> Iterator[tuple[int, ...]]:
        """The atoms that share variables outside the group key, in the order of the first."""
        left = [i for i, v in enumerate(self.has) if not v <= self.head]
        while left:
            found, reached = [left[0]], self.has[left[0]] - self.head
            grown = True
            while grown:
                more = [i for i in left if i not in found and self.has[i] & reached]
                grown = bool(more)
                found += more
                reached |= frozenset().union(*(self.has[i] - self.head for i in more))
            yield tuple(sorted(found))
            left = [i for i in left if i not in found]

    def _variables(self, part: _Part) -> frozenset[str]:
        return frozenset().union(*(self.has[i] for i in part.atoms))

    def _interface(self, part: _Part) -> tuple[str, ...]:
        held = self._variables(part)
        return tuple(v for v in self.whole.head if v in held)

    def _places_comparisons(self, parts: Sequence[_Part]) -> bool:
        """Whether every comparison is within a part, or of the group key."""
        return all(
            c.variables <= self.head or any(c.variables <= self._variables(part) for part in parts)
            for c in self.whole.comparisons
        )

    def _part_of(self, a: Aggregate, parts: Sequence[_Part]) -> _Part | None:
        """The part that has all that an aggregate looks at; rows are counted in the only one."""
        if a.variables:
            return next((p for p in parts if set(a.variables) <= self._variables(p)), None)
        used = {f.atom for m in a.monomials for f in m.factors}
        if not used:
            return parts[0] if len(parts) == 1 else None
        return next((p for p in parts if used <= set(p.atoms)), None)

    def _names(self, part: _Part) -> set[str]:
        return {*self._interface(part), *(a.name for a in part.aggregates)}

    def _of_names(self, names: Collection[str], parts: Sequence[_Part]) -> _Part | None:
        return next((p for p in parts if set(names) <= self._names(p)), None)

    def _columns(self, parts: Sequence[_Part]) -> list[OutputColumn] | None:
        """The output columns over the parts' groups; expressions become columns of a part. None if one has no part."""
        q = self.whole
        known = [*q.head, *(a.name for a in q.aggregates)]
        taken = names_of(q) | {c.name for c in q.columns}
        made: list[OutputColumn] = []
        for c in q.columns:
            names = [n for n in known if quote(n) in c.source] if c.kind == "expression" else []
            if names:
                part = self._of_names(names, parts)
                if part is None:
                    return None
                name = unique(c.name, taken)
                taken.add(name)
                part.columns.append(replace(c, name=name))
                c = replace(c, kind="variable", source=name)
            made.append(replace(c, kind="variable") if c.kind == "aggregate" else c)
        return made

    def _having(self, parts: Sequence[_Part]) -> dict[int, Scalar] | None:
        """HAVING by the number of its part; None if it has none."""
        if self.whole.having is None:
            return {}
        part = self._of_names(self.whole.having.columns, parts)
        return None if part is None else {part.atoms[0]: self.whole.having}

    def _joined(
        self, parts: Sequence[_Part], alone: Sequence[int], columns: list[OutputColumn], having: dict[int, Scalar]
    ) -> ConjunctiveQuery:
        q = self.whole
        views = tuple(self._view(number, part, having.get(part.atoms[0])) for number, part in enumerate(parts, 1))
        shown = [c.source for c in columns if c.kind == "variable"]
        atoms = [q.atoms[i] for i in alone]
        variables = {v.name: v for v in q.variables if v.name in self.head}
        for view in views:
            used = [c for c in view.columns if c.name in self.head or c.name in shown]
            bindings = [Binding(c.name, Scalar(quote(c.name), c.type, c.nullable, (c.name,))) for c in used]
            atoms.append(Atom(view.name, view.name, tuple(bindings)))
            for c in used:
                variables.setdefault(c.name, Variable(c.name, c.type, c.nullable))
        return replace(
            q,
            atoms=tuple(atoms),
            comparisons=tuple(c for c in q.comparisons if c.variables <= self.head),
            variables=tuple(variables.values()),
            head=tuple(dict.fromkeys((*q.head, *shown))),
            columns=tuple(columns),
            semantics="set",
            grouped=False,
            aggregates=(),
            having=None,
            views=(*(v for v in q.views if any(a.source == v.name for a in atoms)), *views),
        )

    def _view(self, number: int, part: _Part, having: Scalar | None) -> View:
        """The groups of a part by the part of the key that it has."""
        q, keys = self.whole, self._interface(part)
        places = {old: new for new, old in enumerate(part.atoms)}
        held = self._variables(part)
        shown = [OutputColumn(v, q.variable(v).type, q.variable(v).nullable, "variable", v) for v in keys]
        shown += [OutputColumn(a.name, a.type, a.nullable, "aggregate", a.name) for a in part.aggregates]
        shown += part.columns
        inner = replace(
            q,
            name=f"{q.name}.{number}",
            atoms=tuple(q.atoms[i] for i in part.atoms),
            comparisons=tuple(c for c in q.comparisons if not c.variables <= self.head and c.variables <= held),
            variables=tuple(v for v in q.variables if v.name in held),
            head=keys,
            columns=tuple(shown),
            aggregates=tuple(_moved(a, places) for a in part.aggregates),
            having=having,
            views=tuple(v for v in q.views if any(q.atoms[i].source == v.name for i in part.atoms)),
        )
        return View(inner.name, tuple(Column(c.name, c.type, c.nullable) for c in shown), inner)


def _is_per_row(a: Aggregate) -> bool:
    made = basic(a.function)
    return made.reading in _PER_ROW or made.state == "values"


def _moved(a: Aggregate, places: dict[int, int]) -> Aggregate:
    """An aggregate with the numbers that its atoms have in a part."""
    monomials = tuple(
        replace(m, factors=tuple(replace(f, atom=places[f.atom]) for f in m.factors)) for m in a.monomials
    )
    return replace(a, monomials=monomials)
