"""Open a derived table of groups that is a join of its parts' groups, where aggregates are taken over it.

    groups (x, y; s) of A(x, y), B(x, z, v), s the sum of v per (x, z)    are A joined with B's groups

The atom over the derived table becomes the atoms of that join (`split_groups`), each with the columns that are computed
from its own. Then the aggregates over it can be split in turn: what is kept are groups of groups of one part. Each row
of the join has to be one row of the derived table: all its keys are variables, or nothing multiplies it.

    query    q(a, b, most = max(c * sum(d))) :- R(a, b), S(b, c), T(c, d)
    before   q.inner(a, b, c, sum_d = sum(…)) :- R(a, b), S(b, c), T(c, d)
             q(a, b, most = max(c_sum_d)) :- q.inner inner(a, b, c, sum_d, c_sum_d)
    after    q.inner.1(c, sum_d = sum(…)) :- T(c, d)
             q(a, b, most = max(c_sum_d)) :- R(a, b), S(b, c), q.inner.1(c, sum_d, c_sum_d)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import names_of, unique
from dynq_cli.plan.lower.split_groups import is_once, split
from dynq_cli.query.hypergraph import hypergraph_of
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Binding,
    Comparison,
    ConjunctiveQuery,
    Factor,
    Query,
    Scalar,
    UnionQuery,
    View,
)
from dynq_cli.query.reduction import is_acyclic
from dynq_cli.query.scalar import quote, renamed


def open_groups(query: Query, program: PartialProgram) -> tuple[Query, PartialProgram]:
    if isinstance(query, UnionQuery) or not query.aggregates or query.order:
        return query, program
    for view in query.views:
        made = _opened(query, view, program)
        if made is not None:
            query = made
    return query, program


def _opened(query: ConjunctiveQuery, view: View, program: PartialProgram) -> ConjunctiveQuery | None:
    """The query with the join of parts in place of the one atom over a view; None if that is not the same."""
    readers = [i for i, a in enumerate(query.atoms) if a.source == view.name]
    inner = view.query
    is_read_elsewhere = any(view.name in _sources(v.query) for v in query.views if v is not view)
    if len(readers) != 1 or is_read_elsewhere or view.window is not None or isinstance(inner, UnionQuery):
        return None
    if query.atoms[readers[0]].mode != "join" or not inner.aggregates:
        return None
    joined = split(inner, program.spec)
    if joined is None or any(c.kind != "variable" for c in joined.columns):
        return None
    made = _Opening(query, readers[0], view, joined, inner.head).query()
    if made is None or not is_acyclic(hypergraph_of(made)):
        return None
    is_counted = query.semantics == "bag" and not all(
        is_once(a, program.spec) or any(a.source == v.name for v in joined.views) for a in joined.atoms
    )
    return None if is_counted else made


def _sources(query: Query) -> set[str]:
    if isinstance(query, UnionQuery):
        return set().union(*map(_sources, query.members))
    return {a.source for a in query.atoms}.union(*(_sources(v.query) for v in query.views))


@dataclass(frozen=True)
class _Opening:
    """`joined` in place of atom `number` over `view`, whose groups have `keys`."""

    whole: ConjunctiveQuery
    number: int
    view: View
    joined: ConjunctiveQuery
    keys: tuple[str, ...]

    def query(self) -> ConjunctiveQuery | None:
        q, (names, computed) = self.whole, self._names()
        if q.semantics == "set" and not set(self.keys) <= names.keys():
            return None
        fresh = [v for v in self.joined.variables if v.name not in names]
        taken = names_of(q)
        for v in fresh:
            names[v.name] = unique(v.name, taken)
            taken.add(names[v.name])
        atoms = self._atoms(names, computed)
        aggregates = [self._aggregate(a) for a in q.aggregates]
        if atoms is None or None in aggregates:
            return None
        return replace(
            q,
            atoms=(*q.atoms[: self.number], *atoms, *q.atoms[self.number + 1 :]),
            comparisons=(*q.comparisons, *(_named(c, names) for c in self.joined.comparisons)),
            variables=(*q.variables, *(replace(v, name=names[v.name]) for v in fresh)),
            aggregates=tuple(a for a in aggregates if a is not None),
            views=(*self.joined.views, *(v for v in q.views if v is not self.view)),
        )

    def _names(self) -> tuple[dict[str, str], list[Binding]]:
        """What variables of the join are called outside, and what is computed of them."""
        by_sql = {quote(c.name): c.source for c in self.joined.columns}
        names: dict[str, str] = {}
        computed: list[Binding] = []
        for b in self.whole.atoms[self.number].bindings:
            inside = by_sql.get(b.scalar.sql)
            if inside is not None and inside not in names and b.scalar.type == self.joined.variable(inside).type:
                names[inside] = b.variable
            else:
                computed.append(b)
        return names, computed

    def _atoms(self, names: Mapping[str, str], computed: Sequence[Binding]) -> list[Atom] | None:
        """The atoms of the join, with what is computed and filtered of the columns of one; None if of several."""
        made = [_renamed(a, names) for a in self.joined.atoms]
        for b in computed:
            place = self._place(b.scalar)
            if place is None:
                return None
            number, scalar = place
            made[number] = replace(made[number], bindings=(*made[number].bindings, replace(b, scalar=scalar)))
        for f in self.whole.atoms[self.number].filters:
            place = self._place(f)
            if place is None:
                return None
            number, scalar = place
            made[number] = replace(made[number], filters=(*made[number].filters, scalar))
        return made

    def _aggregate(self, aggregate: Aggregate) -> Aggregate | None:
        """An aggregate whose factors are of the atoms that there are then; None if one is of several."""
        monomials = []
        for m in aggregate.monomials:
            factors = [self._factor(f) for f in m.factors]
            if None in factors:
                return None
            monomials.append(replace(m, factors=tuple(f for f in factors if f is not None)))
        return replace(aggregate, monomials=tuple(monomials))

    def _factor(self, factor: Factor) -> Factor | None:
        if factor.atom != self.number:
            more = len(self.joined.atoms) - 1 if factor.atom > self.number else 0
            return replace(factor, atom=factor.atom + more)
        place = self._place(factor.scalar)
        return None if place is None else Factor(self.number + place[0], place[1])

    def _place(self, scalar: Scalar) -> tuple[int, Scalar] | None:
        """The atom of the join that has all columns of a scalar, and the scalar over its own columns."""
        held = {c.name: c.source for c in self.joined.columns}
        for number, atom in enumerate(self.joined.atoms):
            found = {c: atom.binding(held[c]) for c in scalar.columns}
            plain = {
                c: b.scalar.columns[0]
                for c, b in found.items()
                if b is not None and atom.mode == "join" and b.scalar.sql in map(quote, b.scalar.columns)
            }
            if len(plain) == len(found):
                columns = tuple(plain[c] for c in scalar.columns)
                return number, replace(scalar, sql=renamed(scalar.sql, plain), columns=columns)
        return None


def _renamed(atom: Atom, names: Mapping[str, str]) -> Atom:
    bindings = tuple(replace(b, variable=names.get(b.variable, b.variable)) for b in atom.bindings)
    return replace(atom, bindings=bindings)


def _named(comparison: Comparison, names: Mapping[str, str]) -> Comparison:
    left, right = (names.get(v, v) for v in (comparison.left, comparison.right))
    return replace(comparison, left=left, right=right)
