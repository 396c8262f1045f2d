"""Push sums below joins: what atoms add to an aggregate is summed up before they are joined.

    SUM(r.a * s.b), r.y = s.y       Σ over y of V.sum_a · W.sum_b, where V(y; sum_a) and W(y; sum_b)
    COUNT(*), AVG(r.a)              the same with n, the number of bindings that a row stands for, in place of 1

A part of the body (`aggregate_partition`) becomes a relation of groups by its interface. For each monomial it has the
sum of the factors that lie in it, or, if none does, the number of its bindings. So a change of one of n · m bindings
that share y costs one row of V or W, and one of their join.

NULL: a sum leaves out bindings where any of its factors is NULL, so all columns that a part has for one aggregate leave
out the same bindings. If none is left, sums are NULL and the row is left out above; counts are 0. Sums have 38 digits,
since only the last one has to fit a type. Those of doubles stay in one accumulator, where they are exact.

    query    SELECT SUM(a) AS total FROM R, S WHERE R.b = S.b
    before   q(a) :- R(b, a), S(b)
    after    q(sum_a.high, sum_a.low) :- S(b), q/2(b, sum_a.high, sum_a.low)
    steps    tree q/1(b, a) :- R(b, a)
             relation q/2: sum_a = sum per b, from rows of +q/1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from dynq_cli.plan.choose import weights_of
from dynq_cli.plan.lower.aggregate_partition import Key, Part, is_bounded, next_part
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import (
    ONE,
    atom_over,
    bind,
    columns_of,
    is_wide,
    names_of,
    part_of,
    shown,
    unique,
)
from dynq_cli.plan.program import Groups, Measure, high, low
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import Aggregate, ConjunctiveQuery, Factor, Monomial, Scalar, Variable
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation
from dynq_cli.spec.types import FLOAT64, INT64, MAX_PRECISION, Type, decimal

Names = tuple[str, ...]


@dataclass(frozen=True)
class Aggregated:
    """The bindings of some variables, and what is measured of them."""

    body: ConjunctiveQuery
    measures: tuple[Measure, ...]


def push_down_aggregates(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    made, program = _pushed(Aggregated(query, program.run.measures), program)
    run = replace(program.run, measures=made.measures, inputs=columns_of(made.body))
    return made.body, replace(program, run=run)


def _pushed(given: Aggregated, program: PartialProgram) -> tuple[Aggregated, PartialProgram]:
    """The same measures per group over as few bindings as parts can be summed up to; as it is given if none can."""
    keys = weights_of(given.body, program.spec).keys
    if not any(map(_adds_up, given.measures)) or not all(map(_is_exact, given.measures)):
        return given, program
    if is_bounded(given.body, keys) or any(basic(m.aggregate.function).of_copies for m in given.measures):
        return given, program
    pushing = _Pushing(given, program)
    return pushing.done(), pushing.program


def _adds_up(measure: Measure) -> bool:
    return not measure.values


def _is_exact(measure: Measure) -> bool:
    """Whether sums of parts are sums of numbers that 38 digits hold, or of doubles of one table.

    A part's sum of doubles is exact and rounded once, and so is its product with the number of rows that it joins: what
    comes out depends on the rows that are there alone. Products with other factors are not taken apart: infinity times
    a sum is not the sum of infinity times its terms.
    """
    if measure.values or basic(measure.aggregate.function).reading == "count":
        return True
    several = [[f.scalar.type for f in m.factors] for m in measure.aggregate.monomials]
    names = {kind.name for kinds in several for kind in kinds}
    if names & {"float32", "float64"}:
        return [len(kinds) for kinds in several] == [1]
    return all(sum(kind.scale for kind in kinds) <= MAX_PRECISION for kinds in several)


def _physical(name: str, kind: Type) -> Names:
    return (high(name), low(name)) if is_wide(kind) else (name,)


class _Pushing:
    def __init__(self, given: Aggregated, program: PartialProgram) -> None:
        self.program = program
        self.body = given.body
        self.measures = given.measures
        self.groups = program.run.keys
        # What factors and counts are, by the names that measures have for them.
        self.scalars = {
            name: factor.scalar
            for measure in given.measures
            for monomial, names in zip(measure.aggregate.monomials, measure.factors, strict=True)
            for factor, name in zip(monomial.factors, names, strict=True)
        }
        # Those that count bindings.
        self.counts: set[str] = set()
        self.keys: dict[str, Key] = {}
        # A variable that is always 1: the interface of parts that have none.
        self.one = unique("one", names_of(given.body))

    def done(self) -> Aggregated:
        before = self.body
        while (part := self._next()) is not None:
            self._push(part)
        if self.body is before:
            return Aggregated(self.body, self.measures)
        everything = [v.name for v in self.body.variables] if self.body.semantics == "set" else []
        taken = [v for m in self.measures for v in self._variables(m)]
        return Aggregated(shown(self.body, (*self.groups, *everything, *taken)), self.measures)

    def _next(self) -> Part | None:
        known = weights_of(self.body, self.program.spec).keys
        keys = [self.keys.get(a.source, key) for a, key in zip(self.body.atoms, known, strict=True)]
        compared = frozenset().union(*(c.variables for c in self.body.comparisons))
        values = frozenset(v for m in self.measures if m.values for v in self._variables(m))
        summed = frozenset(v for m in self.measures if not m.values for v in self._variables(m))
        return next_part(self.body, keys, frozenset((*self.groups, self.one)) | compared | values, summed)

    def _variables(self, measure: Measure) -> Iterable[str]:
        """The variables that a measure looks at."""
        there = {v.name for v in self.body.variables}
        for value in measure.values:
            yield from (v for v in (value, high(value), low(value)) if v in there)
        for name in dict.fromkeys((*(n for names in measure.factors for n in names), *measure.counted)):
            yield from _physical(name, self.scalars[name].type)

    def _push(self, part: Part) -> None:
        atoms = [self.body.atoms[i] for i in part.atoms]
        lost = frozenset().union(*(a.variables for a in atoms)) - frozenset(part.interface)
        left = replace(self.body, variables=tuple(v for v in self.body.variables if v.name not in lost))
        sums = _Sums(self.scalars, self.counts, lost, names_of(self.body) | {self.one})
        self.measures = tuple(map(sums.above, self.measures))
        relation = self._relation(part, sums)
        made = atom_over(relation)
        bound = {v.name for v in left.variables}
        columns = [c for c in relation.columns if c.name not in bound]
        rest = [a for i, a in enumerate(self.body.atoms) if i not in part.atoms]
        self.body = replace(
            left,
            atoms=(*rest, made),
            variables=(*left.variables, *(Variable(c.name, c.type, c.nullable) for c in columns)),
        )
        self.keys[relation.name] = frozenset(part.interface or (self.one,))

    def _relation(self, part: Part, sums: _Sums) -> Relation:
        """The groups of a part by its interface."""
        inner = part_of(self.body, [self.body.atoms[i] for i in part.atoms], ())
        keys = part.interface
        if not keys:
            inner, keys = bind(inner, 0, Variable(self.one, INT64), ONE), (self.one,)
        everything = [v.name for v in inner.variables] if inner.semantics == "set" else []
        inner = shown(inner, (*keys, *everything, *sums.taken))
        columns = columns_of(inner)
        groups = Groups(columns, keys, sums.measures)
        kept = [c for c in columns if c.name in keys]
        kept += [Column(a.name, a.type, a.nullable) for a in (m.aggregate for m in sums.measures)]
        pairs = [c.name for c in kept if c.name not in keys and is_wide(c.type)]
        feed, program = self.program.stream(inner)
        relation, self.program = program.add_relation(
            kept, [feed], pairs=pairs, groups=groups, key=keys, is_linear=True
        )
        return relation


class _Sums:
    """The columns of a part's groups, as the measures above it need them; `scalars` and `counts` get to know them."""

    def __init__(
        self, scalars: dict[str, Scalar], counts: set[str], lost: frozenset[str], names: Iterable[str]
    ) -> None:
        self.scalars = scalars
        self.counts = counts
        self.lost = lost
        # DuckDB does not tell names apart by case.
        self.names = {name.lower() for name in (*names, *scalars)}
        self.made: dict[object, Measure] = {}

    @property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(self.made.values())

    @property
    def taken(self) -> Names:
        """The variables of the part that are added up."""
        names = [n for m in self.measures for n in (*_factors(m), *m.counted)]
        return tuple(v for n in dict.fromkeys(names) for v in _physical(n, self.scalars[n].type))

    def above(self, measure: Measure) -> Measure:
        """The measure over the groups of the part in place of its bindings."""
        a = measure.aggregate
        if measure.values:
            return measure
        present = tuple(dict.fromkeys(n for n in self._inside(_factors(measure)) if self.scalars[n].nullable))
        counted, reading = measure.counted, basic(a.function).reading
        if reading in ("count", "average"):
            counted = (*self._outside(counted), self._count(self._inside(counted), present))
        if reading == "count":
            factors = tuple(map(self._outside, measure.factors))
        else:
            factors = tuple((*self._outside(names), self._part(names, present)) for names in measure.factors)
        monomials = tuple(self._monomial(m.coefficient, names) for m, names in zip(a.monomials, factors, strict=True))
        return replace(measure, aggregate=replace(a, monomials=monomials), factors=factors, counted=counted)

    def _inside(self, names: Sequence[str]) -> Names:
        return tuple(n for n in names if self.lost.issuperset(_physical(n, self.scalars[n].type)))

    def _outside(self, names: Sequence[str]) -> Names:
        inside = self._inside(names)
        return tuple(n for n in names if n not in inside)

    def _monomial(self, coefficient: Decimal, names: Names) -> Monomial:
        return Monomial(coefficient, tuple(Factor(0, self.scalars[n]) for n in names))

    def _part(self, names: Names, present: Names) -> str:
        """The column for one monomial of a sum, over the bindings where all of `present` are there."""
        inside = tuple(sorted(self._inside(names)))
        if all(n in self.counts for n in inside):
            return self._count(inside, present)
        return self._sum(inside, tuple(n for n in present if n not in inside))

    def _sum(self, inside: Names, present: Names) -> str:
        if ("sum", inside, present) not in self.made:
            kinds = [self.scalars[n].type for n in inside]
            is_float = any(k.is_float for k in kinds)
            kind = FLOAT64 if is_float else decimal(MAX_PRECISION, sum(k.scale for k in kinds))
            nullable = bool(present) or any(self.scalars[n].nullable for n in inside)
            of = [n.removeprefix("sum_") for n in inside if n not in self.counts]
            name = self._named(f"sum_{'_'.join(of)}", kind, nullable)
            # What is multiplied by 0 may not be NULL either.
            monomials = [self._monomial(Decimal(1), inside), *(self._monomial(Decimal(0), (n,)) for n in present)]
            made = Aggregate(name, "sum", kind, nullable, tuple(monomials))
            self.made["sum", inside, present] = Measure(made, (inside, *((n,) for n in present)))
        return self.made["sum", inside, present].aggregate.name

    def _count(self, inside: Names, present: Names) -> str:
        if ("count", inside, present) not in self.made:
            # Rows of one relation are counted in 63 bits; products need more.
            kind = decimal(MAX_PRECISION, 0) if inside else INT64
            name = self._named("_".join(["n", *present]), kind, False)
            self.counts.add(name)
            made = Aggregate(name, "count", kind, False, (self._monomial(Decimal(1), present),))
            self.made["count", inside, present] = Measure(made, (present,), counted=inside)
        return self.made["count", inside, present].aggregate.name

    def _named(self, wish: str, kind: Type, nullable: bool) -> str:
        name = unique(wish.lower(), self.names)
        self.names.add(name)
        self.scalars[name] = Scalar(quote(name), kind, nullable, (name,))
        return name


def _factors(measure: Measure) -> Names:
    return tuple(n for names in measure.factors for n in names)
