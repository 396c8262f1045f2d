"""Sum up triangles without their rows: counts, exact sums and averages over all of them are kept by IVM-ε.

Each monomial of a sum becomes one number: Σ over the triangles of a product, to which every atom gives the factors that
it has. An average is a sum and a count. So what is fed is one row of numbers, and the aggregates are read from it.
Where NULL leaves bindings out, an atom gives 0 for its rows with NULL; a sum is NULL if none is left.

    query    SELECT SUM(a) AS total FROM R, S, T WHERE R.b = S.b AND S.c = T.c AND T.d = R.a
    before   q(d) :- R(b, d), S(b, c), T(c, d)
    steps    cycle q/1(total_1.high, total_1.low) :- R(b, d), S(b, c), T(c, d)
             fed by +q/1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dynq_cli.plan.heavy_pairs import is_triangle
from dynq_cli.plan.lower.break_cycles import breaking_of
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import is_wide, names_of, same_codes, unique
from dynq_cli.plan.program import Feed, HeavyPairs, Measure, Total, Weight, high, low
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import ConjunctiveQuery, Factor, Monomial, Scalar, Variable
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64, MAX_PRECISION, Type, decimal

Weights = tuple[Weight, ...]


def sum_triangles(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery | None, PartialProgram]:
    run = program.run
    joined = _joined(query)
    if run.keys or program.epsilon == 1 or query.comparisons or not is_triangle(joined):
        return query, program
    if query.semantics == "set" and joined.atoms != query.atoms:
        return query, program
    # Rows that are only counted are counted by the cycle.
    if not any(m.factors and any(m.factors) for m in run.measures) or not breaking_of(joined, program.spec).by_delta:
        return query, program
    sums = _Sums(query)
    measures = [sums.measure(m) for m in run.measures]
    made = [m for m in measures if m is not None]
    if len(made) < len(measures):
        return query, program
    columns = sums.columns
    names = tuple(c.name for c in columns)
    variables = (*joined.variables, *(Variable(c.name, c.type, c.nullable) for c in columns))
    body = replace(joined, variables=variables, head=names, columns=())
    cycle, program = program.add_cycle(body, HeavyPairs(program.epsilon, tuple(sums.sums), tuple(sums.totals)))
    program = replace(program, run=replace(run, measures=tuple(made), inputs=columns))
    return None, program.with_feeds([Feed(cycle, names)])


def _joined(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """The query with the variables alone that atoms share."""
    shared = {v.name for v in query.variables if sum(v.name in a.variables for a in query.atoms) > 1}
    atoms = tuple(replace(a, bindings=tuple(b for b in a.bindings if b.variable in shared)) for a in query.atoms)
    return replace(query, atoms=atoms, variables=tuple(v for v in query.variables if v.name in shared))


class _Sums:
    """The sums that measures need, and the columns that they are read from."""

    def __init__(self, query: ConjunctiveQuery) -> None:
        self.query = query
        self.sums: dict[Weights, int] = {(Weight(),) * len(query.atoms): 0}
        self.totals: dict[Total, None] = {}
        self.names: dict[tuple[int, int], str] = {}
        self.taken = names_of(query)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(part(total.name), INT64, total.present > 0) for total in self.totals for part in (high, low)
        )

    def measure(self, m: Measure) -> Measure | None:
        """A measure over one row of sums; None if it is none of numbers that fit a code, or not additive."""
        a = m.aggregate
        reading = basic(a.function).reading
        if m.values or m.counted or basic(a.function).state != "sums" or (a.type.is_float and reading == "sum"):
            return None
        wanted = [
            (name, f.scalar.type) for each, names in zip(a.monomials, m.factors, strict=True)
            for name, f in zip(names, each.factors, strict=True)
        ]  # fmt: skip
        places = {}
        for name, kind in wanted:
            place = self._place(name, kind, is_counted=reading == "count")
            if place is None:
                return None
            places[name] = place
        present = self._weights([], places.values())
        if reading == "count":
            return replace(m, aggregate=replace(a, monomials=()), factors=(), counted=(self._total(present, None),))
        monomials, factors = [], []
        for each, names in zip(a.monomials, m.factors, strict=True):
            name = self._total(self._weights([places[n] for n in names], places.values()), present)
            kind = decimal(MAX_PRECISION, sum(f.scalar.type.scale for f in each.factors))
            nullable = self._number(present) > 0
            monomials.append(Monomial(each.coefficient, (Factor(0, Scalar(quote(name), kind, nullable, (name,))),)))
            factors.append((name,))
        counted = (self._total(present, None),) if reading == "average" else ()
        return replace(m, aggregate=replace(a, monomials=tuple(monomials)), factors=tuple(factors), counted=counted)

    def _place(self, name: str, kind: Type, *, is_counted: bool) -> tuple[int, Scalar] | None:
        """An atom that has a variable, and what it is bound to; None if that is no number in one code."""
        for i, atom in enumerate(self.query.atoms):
            binding = atom.binding(name)
            if binding is None or binding.part:
                continue
            is_number = kind.is_integer or (kind.name == "decimal" and not is_wide(kind))
            if is_counted or (is_number and same_codes(binding.scalar.type, kind)):
                return i, binding.scalar
        return None

    def _weights(self, factors: Iterable[tuple[int, Scalar]], needed: Iterable[tuple[int, Scalar]]) -> Weights:
        """What each atom gives to a sum, where nothing that is needed is NULL."""
        given, asked = list(factors), [(i, s) for i, s in dict.fromkeys(needed) if s.nullable]
        return tuple(
            Weight(tuple(s for at, s in given if at == i), tuple(s for at, s in asked if at == i))
            for i in range(len(self.query.atoms))
        )

    def _number(self, weights: Weights) -> int:
        return self.sums.setdefault(weights, len(self.sums))

    def _total(self, weights: Weights, present: Weights | None) -> str:
        """The name of a sum; it is NULL where the sum `present` is 0."""
        key = self._number(weights), 0 if present is None else self._number(present)
        if key not in self.names:
            self.names[key] = unique(f"total_{len(self.names) + 1}", self.taken)
            self.totals[Total(self.names[key], *key)] = None
        return self.names[key]
