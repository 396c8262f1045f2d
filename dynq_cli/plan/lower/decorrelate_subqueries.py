"""Decorrelate EXISTS, IN and their negations: join with a relation of the values that pass, in place of the atom.

    semi    the distinct values that the subquery has, or, where it compares, those of the query that find a row
    anti    the distinct values of the query, minus those that find a row

The values are those that the subquery looks at: the variables it shares with the query around, and those it compares
with. Each stands in its relation once, so joining with it multiplies by 1 or by 0. NULL is a value like others here:
a row with a NULL that NOT EXISTS lets pass finds that NULL in the relation.

NOT IN with a side that may be NULL matches in three cases: the two are equal, the value outside is NULL, the one
inside is. A value is matched if it is in one of them.

    query    SELECT a, b FROM R WHERE NOT EXISTS (SELECT 1 FROM S WHERE S.b = R.b)
    before   q(a, b) :- R(b, a), not exists S(b)
    after    q(a, b) :- R(b, a), q/3(b)
    steps    tree q/1(b) :- R(b), S(b)
             tree q/2(b) :- R(b)
             relation q/3(b): rows of +q/2, -q/1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import atom_over, columns_of, part_of, where_bound, with_one
from dynq_cli.plan.program import Feed
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import Atom, ConjunctiveQuery, Scalar
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import BOOL


def decorrelate_subqueries(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    for atom in query.atoms:
        if atom.mode != "join":
            query, program = _Subquery(query, atom).replaced(program)
    return query, program


class _Subquery:
    def __init__(self, query: ConjunctiveQuery, atom: Atom) -> None:
        self.query = query
        self.atom = atom
        outside = frozenset().union(*(a.variables for a in query.atoms if a.mode == "join"))
        own = atom.variables - outside
        self.compared = tuple(c for c in query.comparisons if c.variables & own)
        self.values = (atom.variables | frozenset().union(*(c.variables for c in self.compared))) & outside

    def replaced(self, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
        """The query with a join in place of the atom."""
        if self.atom.mode == "semi" and self._is_keyed(program.spec):
            atoms = tuple(replace(a, mode="join") if a == self.atom else a for a in self.query.atoms)
            return replace(self.query, atoms=atoms), program
        if self.atom.mode == "semi" and not self.compared:
            return self._of_subquery(program)
        if not self.values:
            self.query, one = with_one(self.query)
            self.values = frozenset({one})
        matched, program = self._matched(program)
        columns = columns_of(self._around())
        feeds = [Feed(matched, tuple(c.name for c in columns))]
        if self.atom.mode == "anti":
            there, program = program.distinct(self._around())
            feeds = [replace(feeds[0], tree=there), replace(feeds[0], sign=-1)]
        return self._joined(columns, feeds, program)

    def _is_keyed(self, spec: Spec) -> bool:
        """Whether at most one row of the subquery's relation can match, so that joining with it is the same."""
        key = weights_of(self.query, spec).key(self.query.atoms.index(self.atom))
        return key is not None and key <= self.values

    def _joined(
        self, columns: tuple[Column, ...], feeds: list[Feed], program: PartialProgram
    ) -> tuple[ConjunctiveQuery, PartialProgram]:
        relation, program = program.add_relation(columns, feeds, key=[c.name for c in columns])
        query = self.query
        if program.run.goal != "result" and self.atom.mode == "anti" and self._is_all(query):
            # Of a set of values nothing is left to join with. A result stays one that is read from a tree.
            return self._alone(relation), program
        atoms = tuple(atom_over(relation) if a == self.atom else a for a in query.atoms)
        comparisons = tuple(c for c in query.comparisons if c not in self.compared)
        bound = frozenset().union(*(a.variables for a in atoms))
        variables = tuple(v for v in query.variables if v.name in bound)
        return replace(query, atoms=atoms, comparisons=comparisons, variables=variables), program

    def _is_all(self, query: ConjunctiveQuery) -> bool:
        """Whether the query asks for the values that pass, once each, and constants beside them."""
        others = [a for a in query.atoms if a != self.atom]
        bindings = [b for a in others for b in a.bindings]
        rest = [b for b in bindings if b.variable not in self.values]
        constant = {b.variable for b in rest if not b.scalar.columns}
        return (
            query.semantics == "set"
            and not query.grouped
            and set(query.comparisons) <= set(self.compared)
            and {a.alias for a in others} == {a.alias for a in self._holders()}
            and set(query.head) <= self.values | constant
        )

    def _alone(self, relation: Relation) -> ConjunctiveQuery:
        """The values that pass, without the atoms that have them."""
        query, atom = self.query, atom_over(relation)
        constant = [b for a in query.atoms for b in a.bindings if not b.scalar.columns and b.variable in query.head]
        atom = replace(atom, bindings=(*atom.bindings, *(b for b in constant if b.variable not in self.values)))
        variables = tuple(v for v in query.variables if v.name in atom.variables)
        return replace(query, atoms=(atom,), comparisons=(), variables=variables)

    def _of_subquery(self, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
        """Joined with the values that the subquery has, whatever the query around has."""
        inner = part_of(self.query, [self.atom], self.values, semantics="set")
        if not inner.head:
            inner, one = with_one(inner, around=self.query)
            inner = replace(inner, head=(one,))
            self.query = replace(self.query, variables=(*self.query.variables, inner.variable(one)))
        tree, program = program.distinct(inner)
        return self._joined(columns_of(inner), [Feed(tree, inner.head)], program)

    def _around(self) -> ConjunctiveQuery:
        """The values that the query around has."""
        return part_of(self.query, self._needed(self._holders()), self.values, semantics="set")

    def _needed(self, atoms: list[Atom]) -> list[Atom]:
        """The atoms with what joins them, what is compared and the values alone: the rest tells no values apart."""
        seen = Counter(v for a in atoms for v in a.variables)
        compared = frozenset().union(*(c.variables for c in self.compared))
        kept = self.values | compared | {v for v, count in seen.items() if count > 1}
        return [replace(a, bindings=tuple(b for b in a.bindings if b.variable in kept)) for a in atoms]

    def _matched(self, program: PartialProgram) -> tuple[str, PartialProgram]:
        """A tree with the values of the query around that find a row in the subquery."""
        cases = [self._case(outer, inner) for outer, inner in self._cases()]
        if len(cases) == 1:
            return program.distinct(cases[0])
        feeds: list[Feed] = []
        for case in cases:
            feed, program = program.stream(case)
            feeds.append(feed)
        union, program = program.add_relation(columns_of(cases[0]), feeds)
        around = part_of(self.query, [atom_over(union)], self.values, semantics="set")
        return program.distinct(around)

    def _case(self, outer: list[Atom], inner: Atom) -> ConjunctiveQuery:
        """Rows outside that find one inside; a value that is compared finds none where it is NULL."""
        compared = frozenset().union(*(c.variables for c in self.compared))
        for variable in sorted(compared & self.values):
            outer = [_without_null(a, variable) for a in outer]
        return part_of(self.query, self._needed([*outer, inner]), self.values, self.compared, semantics="set")

    def _cases(self) -> Iterator[tuple[list[Atom], Atom]]:
        holders, aware = self._holders(), self.atom.null_aware
        if aware is None or aware not in self.values:
            yield holders, self.atom
            return
        inside = self.atom.binding(aware)
        _, outside = where_bound(self.query, aware)
        assert inside is not None
        open_ = replace(self.atom, bindings=tuple(b for b in self.atom.bindings if b is not inside))
        yield holders, _filtered(self.atom, sql.not_null(inside.scalar))
        if outside.scalar.nullable:
            yield [_with_null(a, aware) for a in holders], open_
        if inside.scalar.nullable:
            yield holders, _filtered(open_, _is_null(inside.scalar))

    def _holders(self) -> list[Atom]:
        """The fewest atoms of the query around that have the values."""
        joins = [a for a in self.query.atoms if a.mode == "join"]
        for size in range(1, len(joins) + 1):
            for some in combinations(joins, size):
                if self.values <= frozenset().union(*(a.variables for a in some)):
                    return _connected(joins, list(some))
        raise AssertionError(f"{self.atom} looks at what the query does not have")


def _connected(atoms: list[Atom], some: list[Atom]) -> list[Atom]:
    """Some atoms and, if they are not joined with each other, all of the query's: no product takes their place."""
    reached = set(some[0].variables)
    for _ in some:
        for a in some:
            if a.variables & reached:
                reached |= a.variables
    return some if all(not a.variables or a.variables & reached for a in some) else atoms


def _filtered(atom: Atom, condition: Scalar) -> Atom:
    return replace(atom, filters=tuple(dict.fromkeys((*atom.filters, condition))))


def _with_null(atom: Atom, variable: str) -> Atom:
    """Only the rows of the atom where a variable is NULL, if it has that variable."""
    binding = atom.binding(variable)
    return atom if binding is None else _filtered(atom, _is_null(binding.scalar))


def _without_null(atom: Atom, variable: str) -> Atom:
    binding = atom.binding(variable)
    return _filtered(atom, sql.not_null(binding.scalar)) if binding and binding.scalar.nullable else atom


def _is_null(scalar: Scalar) -> Scalar:
    return Scalar(f"{scalar.sql} IS NULL", BOOL, False, scalar.columns)
