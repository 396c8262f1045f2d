"""Materialise derived tables: each is a relation with the columns of its query, which atoms name as their source.

A wide decimal of a view is a pair. Where the query only carries it into its result, the pair goes along; where it
is joined, compared or computed with, the atom makes one decimal of the two.

    query    SELECT R.b, d.n FROM R, (SELECT b, COUNT(*) AS n FROM S GROUP BY b) AS d WHERE R.b = d.b
    before   q.d(b, n = count(…)) :- S(b)
             q(b, n) :- R(b), q.d d(b, n)
    after    q(b, n) :- R(b), q/2 d(b, n)
    steps    tree q/1(b) :- S(b)
             relation q/2: n = count per b, from rows of +q/1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dynq_cli.plan.lower.partial_program import PartialProgram, physical
from dynq_cli.plan.lower.query_builders import ONE, is_wide
from dynq_cli.plan.program import Derived, Partitions, high, low
from dynq_cli.query.normal_form import (
    Aggregate,
    Atom,
    Binding,
    ColumnOrder,
    ConjunctiveQuery,
    Factor,
    OutputColumn,
    Query,
    Scalar,
    UnionQuery,
    Variable,
    View,
    Window,
)
from dynq_cli.query.scalar import quote, renamed
from dynq_cli.spec.model import Column
from dynq_cli.spec.types import INT64


@dataclass(frozen=True)
class _Kept:
    """The relation that holds a view, what its columns are called there, and which of these are pairs."""

    relation: str
    names: Mapping[str, str]
    pairs: frozenset[str] = frozenset()


def materialise_views(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    kept: dict[str, _Kept] = {}
    for view in query.views:
        kept[view.name], program = _kept(replace(view, query=_over_kept(view.query, kept)), program)
    query = replace(query, atoms=_atoms_over(query.atoms, kept), views=())
    pairs = {a.source: _pairs(program.derived(a.source)) for a in query.atoms}
    whole = frozenset(query.head if program.run.keeps_head else ())
    return _with_pairs(query, pairs, whole), program


def _over_kept(query: Query, kept: Mapping[str, _Kept]) -> Query:
    """A view over the relations of the views before it."""
    if isinstance(query, UnionQuery):
        return replace(query, members=tuple(_over_kept(m, kept) for m in query.members))
    views = tuple(replace(v, query=_over_kept(v.query, kept)) for v in query.views)
    aggregates = tuple(_aggregate_over(a, query.atoms, kept) for a in query.aggregates)
    return replace(query, atoms=_atoms_over(query.atoms, kept), views=views, aggregates=aggregates)


def _atoms_over(atoms: tuple[Atom, ...], kept: Mapping[str, _Kept]) -> tuple[Atom, ...]:
    return tuple(_over(a, kept[a.source]) if a.source in kept else a for a in atoms)


def _pairs(step: Derived | None) -> frozenset[str]:
    """The columns of a relation that it keeps in two."""
    if step is None:
        return frozenset()
    return frozenset(c.name for c in step.columns) - {c.name for c in step.relation.columns}


def _kept(view: View, program: PartialProgram) -> tuple[_Kept, PartialProgram]:
    if not view.columns:
        # Whether it has rows is all there is to know.
        one = OutputColumn("one", INT64, False, "expression", ONE.sql)
        made, program = program.typed(replace(view.query, columns=(one,)), [INT64])
        feed, program = program.rows(made)
        relation, program = program.add_relation((Column("one", INT64),), [feed])
        return _Kept(relation.name, {}), program
    if view.window is not None:
        return _by_places(view, view.window, program)
    query, program = program.including(view.query) if view.named else (view.query, program)
    made, program = program.typed(query, [c.type for c in view.columns])
    there = _already(made, program)
    if there is not None:
        return there, program
    pairs = frozenset(c.name for c in view.columns if is_wide(c.type))
    feed, program = program.rows(made)
    relation, program = program.add_relation(view.columns, [feed], pairs=pairs, key=view.key or _key(view.query))
    return _Kept(relation.name, {c.name: c.name for c in view.columns}, pairs), program


def _by_places(view: View, window: Window, program: PartialProgram) -> tuple[_Kept, PartialProgram]:
    """The relation of a view that has rows by their places in partitions."""
    taken = view.columns[: len(view.columns) - len(window.functions)]
    pairs = frozenset(c.name for c in view.columns if is_wide(c.type))
    made, program = program.typed(view.query, [c.type for c in taken])
    feed, program = program.rows(made)
    inputs = physical(taken, pairs)
    partitions = Partitions(
        inputs,
        taken,
        tuple(c.name for name in window.partition for c in inputs if c.name in (name, high(name), low(name))),
        _whole_order(window.order, taken, pairs),
        window.limit,
        window.offset,
        window.functions,
    )
    key = window.partition if window.limit == 1 and not pairs.intersection(window.partition) else _key(view.query)
    relation, program = program.add_relation(view.columns, [feed], pairs=pairs, key=key, partitions=partitions)
    return _Kept(relation.name, {c.name: c.name for c in view.columns}, pairs), program


def _whole_order(
    order: Sequence[ColumnOrder], columns: Sequence[Column], pairs: frozenset[str]
) -> tuple[ColumnOrder, ...]:
    """The order asked for, then that of all other columns; a pair is ordered part by part."""
    asked = {o.column: o for o in reversed(order)}
    others = (ColumnOrder(c.name) for c in columns if c.name not in asked)
    whole = [*{o.column: asked[o.column] for o in order}.values(), *others]
    return tuple(
        replace(o, column=name)
        for o in whole
        for name in ((high(o.column), low(o.column)) if o.column in pairs else (o.column,))
    )


def _already(made: ConjunctiveQuery, program: PartialProgram) -> _Kept | None:
    """The relation that holds the rows of a query as they are, if there is one."""
    atom = made.atoms[0]
    step = program.derived(atom.source)
    plain = all(not b.part and b.scalar.sql in map(quote, b.scalar.columns) for b in atom.bindings)
    if len(made.atoms) > 1 or step is None or atom.filters or not plain:
        return None
    columns = {b.variable: b.scalar.columns[0] for b in atom.bindings}
    if made.semantics == "set" and not _is_distinct(step, program, frozenset(columns[v] for v in made.head)):
        return None
    names = {
        c.name: columns[high(c.source)].removesuffix(".high") if c.kind == "pair" else columns[c.source]
        for c in made.columns
    }
    pairs = frozenset(names[c.name] for c in made.columns if c.kind == "pair")
    return _Kept(atom.source, names, pairs) if pairs <= _pairs(step) else None


def _is_distinct(step: Derived, program: PartialProgram, columns: frozenset[str]) -> bool:
    """Whether no two rows of a relation agree on some columns."""
    known = program.spec.relation(step.relation.name)
    key = frozenset(known.key) if known is not None else frozenset()
    return (bool(key) or step.groups is not None) and key <= columns


def _over(atom: Atom, kept: _Kept) -> Atom:
    """An atom over the relation that holds its view."""
    bindings = tuple(replace(b, scalar=_said(b.scalar, kept)) for b in atom.bindings)
    filters = tuple(_said(f, kept) for f in atom.filters)
    return replace(atom, source=kept.relation, bindings=bindings, filters=filters)


def _aggregate_over(aggregate: Aggregate, atoms: tuple[Atom, ...], kept: Mapping[str, _Kept]) -> Aggregate:
    """An aggregate whose factors are of atoms over views."""
    monomials = tuple(
        replace(m, factors=tuple(_factor_over(f, kept.get(atoms[f.atom].source)) for f in m.factors))
        for m in aggregate.monomials
    )
    return replace(aggregate, monomials=monomials)


def _factor_over(factor: Factor, kept: _Kept | None) -> Factor:
    return factor if kept is None else replace(factor, scalar=_said(factor.scalar, kept))


def _said(scalar: Scalar, kept: _Kept) -> Scalar:
    columns = tuple(kept.names[c] for c in scalar.columns)
    return replace(scalar, sql=renamed(scalar.sql, kept.names), columns=columns)


def _key(query: Query) -> tuple[str, ...]:
    """The columns that tell the rows of a view apart, or () if nothing is known."""
    if isinstance(query, UnionQuery) or not query.grouped:
        return tuple(c.name for c in query.columns) if query.semantics == "set" else ()
    shown = {c.source: c.name for c in query.columns if c.kind == "variable"}
    return tuple(shown[v] for v in query.head) if set(query.head) <= set(shown) else ()


def _with_pairs(
    query: ConjunctiveQuery, pairs: Mapping[str, frozenset[str]], whole: frozenset[str]
) -> ConjunctiveQuery:
    atoms = tuple(_part_by_part(a, pairs.get(a.source, frozenset())) for a in query.atoms)
    query = replace(query, atoms=atoms)
    for i, atom in enumerate(query.atoms):
        for b in atom.bindings:
            held = b.scalar.sql in {quote(name) for name in pairs.get(atom.source, ())}
            if held and not b.part and b.variable not in whole and _is_carried(query, b.variable):
                query = _carried(query, i, b)
    return query


def _part_by_part(atom: Atom, pairs: frozenset[str]) -> Atom:
    """Parts of a column that is a pair are columns themselves."""
    by_sql = {quote(name): name for name in pairs}
    bindings = []
    for b in atom.bindings:
        if b.part and b.scalar.sql in by_sql:
            name = by_sql[b.scalar.sql]
            b = Binding(b.variable, _column(high(name) if b.part == "high" else low(name), b.scalar.nullable))
        bindings.append(b)
    return replace(atom, bindings=tuple(bindings))


def _column(name: str, nullable: bool) -> Scalar:
    return Scalar(quote(name), INT64, nullable, (name,))


def _is_carried(query: ConjunctiveQuery, variable: str) -> bool:
    """Whether a variable only goes into the result, as it is."""
    holders = [a for a in query.atoms if variable in a.variables]
    compared = any(variable in c.variables for c in query.comparisons)
    ordered = any(o.variable == variable for o in query.order)
    shown = [c.type == query.variable(variable).type for c in query.columns if c.source == variable]
    return len(holders) == 1 and holders[0].mode == "join" and not compared and not ordered and all(shown)


def _carried(query: ConjunctiveQuery, index: int, binding: Binding) -> ConjunctiveQuery:
    """Two variables in place of a wide one."""
    name, known = binding.variable, query.variable(binding.variable)
    column = binding.scalar.columns[0]
    parts = (high(name), low(name))
    atom = query.atoms[index]
    bindings = [b for b in atom.bindings if b is not binding]
    bindings += [
        Binding(v, _column(c, known.nullable)) for v, c in zip(parts, (high(column), low(column)), strict=True)
    ]
    atoms = (*query.atoms[:index], replace(atom, bindings=tuple(bindings)), *query.atoms[index + 1 :])
    head = [v for h in query.head for v in (parts if h == name else (h,))]
    return replace(
        query,
        atoms=atoms,
        variables=(
            *(v for v in query.variables if v is not known),
            *(Variable(p, INT64, known.nullable) for p in parts),
        ),
        head=tuple(head),
        columns=tuple(
            replace(c, kind="pair") if c.source == name and c.kind == "variable" else c for c in query.columns
        ),
    )
