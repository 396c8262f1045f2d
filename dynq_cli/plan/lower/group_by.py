"""Keep groups and aggregates in a relation: a tree of the bindings, groups over them, and a tree over the groups.

The first tree's head has the group variables, a variable per factor of the sums, and what MIN, MAX and COUNT(DISTINCT)
look at; copies of a binding are one row of it. Under set semantics it has all variables of the body besides, each
binding once. Where joins are many-to-many, sums are pushed below them first (`push_down_aggregates`). HAVING is a
filter of the last tree, and output expressions are computed there, once per changed group.

    query    SELECT a, COUNT(*) AS n FROM R GROUP BY a HAVING COUNT(*) > 1
    before   q(a, n = count(…)) :- R(a) having "n" > 1
    after    q(a, n) :- q/2(a, n) where "n" > 1
    steps    tree q/1(a) :- R(a)
             relation q/2: n = count per a, from rows of +q/1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.lower.distribute_products import multiplied_out
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import (
    as_column,
    as_type,
    atom_over,
    bind_value,
    columns_of,
    is_wide,
    same_codes,
    shown,
    unique,
    where_bound,
    with_one,
)
from dynq_cli.plan.program import Feed, Groups, Measure, high, low, variables_of
from dynq_cli.query.aggregates import basic
from dynq_cli.query.normal_form import (
    Aggregate,
    Binding,
    ConjunctiveQuery,
    Factor,
    OutputColumn,
    Scalar,
    Variable,
    VariableOrder,
    without_repetition,
)
from dynq_cli.query.scalar import quote
from dynq_cli.spec.model import Column, Relation, Spec
from dynq_cli.spec.types import INT64, Type

# What adds up or multiplies the values of one column.
_SCALED = ("values", "product")


def group_by(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if not query.grouped:
        return query, program
    kept, program = _aggregated(query, program) if query.aggregates else _alone(query, program)
    exactly = program.run.goal == "typed"
    types = program.run.types if exactly else [c.type for c in query.columns]
    return _Shown(query, kept, exactly).query(types), program


@dataclass(frozen=True)
class _Kept:
    """The relation of groups, and its columns with pairs as one."""

    relation: Relation
    columns: tuple[Column, ...]


def _alone(query: ConjunctiveQuery, program: PartialProgram) -> tuple[_Kept, PartialProgram]:
    """Groups without aggregates."""
    body = _body(query, query.head, ())
    if not body.head:
        body, one = with_one(body)
        body = replace(body, head=(one,))
    columns = columns_of(body)
    tree, program = program.distinct(body)
    relation, program = program.add_relation(columns, [Feed(tree, body.head)], key=body.head)
    return _Kept(relation, columns), program


def _aggregated(query: ConjunctiveQuery, program: PartialProgram) -> tuple[_Kept, PartialProgram]:
    """The relation of groups with their aggregates."""
    inputs = _Inputs(query, program.spec)
    measures = tuple(map(inputs.measure, query.aggregates))
    made, program = program.grouped(inputs.body(), query.head, measures)
    groups = Groups(made.inputs, query.head, made.measures, query.one_row)
    kept = [c for c in made.inputs if c.name in query.head]
    kept += [Column(a.name, a.type, a.nullable) for a in query.aggregates]
    pairs = [a.name for a in query.aggregates if is_wide(a.type)]
    relation, program = program.add_relation(kept, made.feeds, pairs=pairs, groups=groups, key=query.head)
    return _Kept(relation, tuple(kept)), program


def _body(query: ConjunctiveQuery, head: Sequence[str], more: Sequence[str]) -> ConjunctiveQuery:
    """The query without aggregates: the bindings of some variables."""
    bare = replace(query, grouped=False, one_row=False, aggregates=(), having=None, order=())
    return shown(bare, (*head, *more))


class _Inputs:
    """The query with a variable for everything that an aggregate looks at."""

    def __init__(self, query: ConjunctiveQuery, spec: Spec) -> None:
        self.query = query
        self.spec = spec
        self.joined = [
            v.name for v in query.variables if any(v.name in a.variables for a in query.atoms if a.mode == "join")
        ]
        self.taken: dict[str, None] = {}

    def body(self) -> ConjunctiveQuery:
        """The bindings that are aggregated: under set semantics those of all variables of the body."""
        distinct = self.joined if self.query.semantics == "set" else []
        return _body(self.query, self.query.head, [*distinct, *self.taken])

    def measure(self, a: Aggregate) -> Measure:
        if a.variables:
            scale = self.query.variable(a.variables[0]).type.scale if basic(a.function).state in _SCALED else 0
            return Measure(a, values=tuple(self._value(a, v) for v in a.variables), scale=scale)
        if basic(a.function).reading == "count":
            return self._counted(a)
        monomials = tuple(each for m in a.monomials for each in multiplied_out(m, self.query, self.spec))
        names = tuple(tuple(self._bound(f.atom, f.scalar) for f in m.factors) for m in monomials)
        return Measure(replace(a, monomials=monomials), names)

    def _value(self, a: Aggregate, variable: str) -> str:
        known = self.query.variable(variable)
        kind = _looked_at(a, known.type, is_first=variable == a.variables[0])
        if not is_wide(kind) and same_codes(known.type, kind):
            self.taken[variable] = None
            return variable
        atom, binding = where_bound(self.query, variable)
        return self._bound(atom, as_column(binding.scalar, kind))

    def _counted(self, a: Aggregate) -> Measure:
        """Factors that may be NULL decide which rows count: a column by itself, of others whether they are NULL."""
        monomials, names = [], []
        for m in a.monomials:
            factors = tuple(_present(f) for f in m.factors if f.scalar.nullable)
            monomials.append(replace(m, factors=factors))
            names.append(tuple(self._bound(f.atom, f.scalar) for f in factors))
        return Measure(replace(a, monomials=tuple(monomials)), tuple(names))

    def _bound(self, atom: int, scalar: Scalar) -> str:
        wish = scalar.columns[0] if len(scalar.columns) == 1 else "value"
        self.query, name = bind_value(self.query, atom, wish, scalar)
        self.taken |= dict.fromkeys((high(name), low(name)) if is_wide(scalar.type) else (name,))
        return name


def _looked_at(a: Aggregate, known: Type, *, is_first: bool) -> Type:
    """The type in which an aggregate looks at a variable; what the variable equals may have made it wider."""
    definition = basic(a.function)
    if definition.state == "values" or not is_first:
        return known
    if definition.state == "product":
        # An integer may have been joined with a decimal.
        return known if a.type.is_float or known.is_integer else a.type
    if definition.reading == "between" and a.type.name != "decimal":
        # An integer may have been joined with a decimal.
        return INT64 if a.type.is_float and not known.is_float else known
    return a.type


def _present(factor: Factor) -> Factor:
    """A factor that is NULL where another is: a column, or 1."""
    scalar = factor.scalar
    if scalar.sql in map(quote, scalar.columns):
        return factor
    text = f"CASE WHEN ({scalar.sql}) IS NOT NULL THEN 1 END"
    return replace(factor, scalar=Scalar(text, INT64, True, scalar.columns))


class _Shown:
    """The output columns of a grouped query, read off the relation of its groups."""

    def __init__(self, asked: ConjunctiveQuery, kept: _Kept, exactly: bool) -> None:
        self.asked = asked
        self.columns = {c.name: c for c in kept.columns}
        self.exactly = exactly
        self.whole = atom_over(kept.relation)
        self.bindings = {b.variable: b for b in self.whole.bindings if b.variable in asked.head}

    def query(self, types: Sequence[Type]) -> ConjunctiveQuery:
        columns = tuple(self._column(c, kind) for c, kind in zip(self.asked.columns, types, strict=True))
        # Rows have to hold something; the first column is as good as any.
        bindings = tuple(self.bindings.values()) or self.whole.bindings[:1]
        filters = () if self.asked.having is None else (self.asked.having,)
        variables = tuple(Variable(b.variable, INT64 if b.part else b.scalar.type, b.scalar.nullable) for b in bindings)
        return ConjunctiveQuery(
            name=self.asked.name,
            atoms=(replace(self.whole, bindings=bindings, filters=filters),),
            comparisons=(),
            variables=variables,
            head=tuple(v.name for v in variables),
            columns=columns,
            semantics="set",
            order=() if self.exactly else self._order(columns),
        )

    def _order(self, columns: Sequence[OutputColumn]) -> tuple[VariableOrder, ...]:
        """The order asked for, then by output columns, so that a row says its place; groups may have more columns."""
        if not self.asked.order:
            return ()
        by_name = {c.name: c for c in columns}
        found: list[VariableOrder] = []
        for o in self.asked.order:
            sources = variables_of(by_name[o.variable]) if o.of == "column" else (o.variable,)
            found += [replace(o, variable=v, of="variable") for v in sources]
        found += [VariableOrder(v) for c in columns for v in variables_of(c)]
        return without_repetition(found)

    def _column(self, column: OutputColumn, kind: Type) -> OutputColumn:
        if column.kind != "expression":
            if column.kind == "variable" and not self.exactly:
                return column
            known = self.columns[column.source]
            return self._bound(column, Scalar(quote(known.name), known.type, known.nullable, (known.name,)), kind)
        names = tuple(n for n in self.columns if quote(n) in column.source)
        if not names and not self.exactly:
            return column
        return self._bound(column, Scalar(column.source, column.type, column.nullable, names), kind)

    def _bound(self, column: OutputColumn, scalar: Scalar, kind: Type) -> OutputColumn:
        """The column as a variable for a scalar over the groups, or as a pair of them."""
        source = self._pair(column, scalar, kind) if is_wide(kind) else self._variable(column, scalar, kind)
        return OutputColumn(column.name, kind, column.nullable, "pair" if is_wide(kind) else "variable", source)

    def _variable(self, column: OutputColumn, scalar: Scalar, kind: Type) -> str:
        kept = next((b for b in self.whole.bindings if b.scalar.sql == scalar.sql), None)
        if kept is not None and same_codes(kept.scalar.type, kind):
            self.bindings[kept.variable] = kept
            return kept.variable
        name = self._fresh(column.name)
        self.bindings[name] = Binding(name, as_type(scalar, kind))
        return name

    def _pair(self, column: OutputColumn, scalar: Scalar, kind: Type) -> str:
        held = {b.variable: b for b in self.whole.bindings}
        known = scalar.columns[0] if scalar.columns else ""
        if scalar.sql == quote(known) and scalar.type == kind and high(known) in held:
            self.bindings |= {part: held[part] for part in (high(known), low(known))}
            return known
        name = self._fresh(column.name)
        whole = as_type(scalar, kind)
        self.bindings[high(name)] = Binding(high(name), whole, "high")
        self.bindings[low(name)] = Binding(low(name), whole, "low")
        return name

    def _fresh(self, wish: str) -> str:
        taken = {*self.columns, *self.bindings}
        return unique(wish, taken | {v.rpartition(".")[0] for v in taken})
