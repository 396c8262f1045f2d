"""Store the rows of a union: every member feeds one relation; UNION reads it as a set, UNION ALL with its copies.

This is left to unions that are not read from the trees of their members.

    query    SELECT a FROM R UNION SELECT c FROM T ORDER BY a NULLS LAST
    before   q = q.1 ∪ q.2
             q.1(a) :- R(a)
             q.2(c) :- T(c)
    after    q(a) :- q/3(a) order by a nulls last
    steps    tree q/1(a) :- R(a)
             tree q/2(c) :- T(c)
             relation q/3(a): rows of +q/1, +q/2
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import ONE, atom_over, is_wide
from dynq_cli.plan.program import Feed, high, low
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Query, UnionQuery, Variable, VariableOrder
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64, Type


def store_union(query: Query, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if not isinstance(query, UnionQuery):
        return query, program
    own = tuple(c.type for c in query.columns)
    return _stored(query, program, program.run.types if program.run.goal == "typed" else own)


def _stored(
    query: UnionQuery, program: PartialProgram, kinds: Sequence[Type]
) -> tuple[ConjunctiveQuery, PartialProgram]:
    """The union as one atom over the relation that its members feed, with columns of some types."""
    columns = [Column(c.name, kind, c.nullable) for c, kind in zip(query.columns, kinds, strict=True)]
    members: Sequence[Query] = query.members
    if not columns:
        columns, kinds, members = [Column("one", INT64)], [INT64], [_with_one(m) for m in members]
    feeds: list[Feed] = []
    for member in members:
        made, program = program.typed(member, kinds)
        feed, program = program.rows(made)
        feeds.append(feed)
    pairs = [c.name for c in columns if is_wide(c.type)]
    relation, program = program.add_relation(columns, feeds, pairs=pairs)
    made = rows_of(replace(query, columns=_as_columns(query, kinds)), pairs)
    variables = made.variables if query.columns else tuple(Variable(c.name, c.type) for c in columns)
    return replace(made, atoms=(atom_over(relation),), variables=variables), program


def rows_of(query: UnionQuery, pairs: Collection[str]) -> ConjunctiveQuery:
    """The rows of a union without a body: a variable per column, two for each of `pairs`."""
    names = [(n, c) for c in query.columns for n in ((high(c.name), low(c.name)) if c.name in pairs else (c.name,))]
    return ConjunctiveQuery(
        name=query.name,
        atoms=(),
        comparisons=(),
        variables=tuple(Variable(n, INT64 if c.name in pairs else c.type, c.nullable) for n, c in names),
        head=tuple(n for n, _ in names),
        columns=tuple(replace(c, kind="pair" if c.name in pairs else "variable", source=c.name) for c in query.columns),
        semantics=query.semantics,
        order=tuple(part for o in query.order for part in _parts(o, pairs)),
        keep=query.keep,
    )


def _as_columns(query: UnionQuery, kinds: Sequence[Type]) -> tuple[OutputColumn, ...]:
    return tuple(replace(c, type=kind) for c, kind in zip(query.columns, kinds, strict=False))


def _parts(order: VariableOrder, pairs: Collection[str]) -> tuple[VariableOrder, ...]:
    """An entry of the order; of a pair the upper part decides, then the lower."""
    if order.variable not in pairs:
        return (order,)
    return tuple(replace(order, variable=part(order.variable)) for part in (high, low))


def _with_one(query: Query) -> Query:
    """A Boolean query with one column that is 1."""
    one = OutputColumn("one", INT64, False, "expression", ONE.sql)
    if isinstance(query, UnionQuery):
        return replace(query, members=tuple(map(_with_one, query.members)), columns=(one,))
    return replace(query, columns=(one,))
