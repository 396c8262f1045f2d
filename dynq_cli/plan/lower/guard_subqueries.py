"""Guard EXISTS and NOT EXISTS over several tables: join the subquery with an atom around it that has all its values.

The values that a subquery shares with the query around may stand in different atoms of the subquery. It would then have
a row for each pair that its joins connect, whoever asks. With the guard it has at most one for each row of an atom
around, and where that closes a cycle, `break_cycles` joins it by delta. Along keys, or between tables that rarely
change, the pairs are no more than rows, and the subquery stays as it is.

    query    SELECT R.a, R.b FROM R WHERE NOT EXISTS (SELECT 1 FROM S, T WHERE S.b = R.b AND S.c = T.c AND T.d = R.a)
    before   q.exists1(b, d) :- S(c, b), T(c, d)
             q(a, b) :- R(b, a), not exists q.exists1 exists1(b, a)
    after    q.exists1(b, d) :- S(c, b), T(c, d), R(b, d)
             q(a, b) :- R(b, a), not exists q.exists1 exists1(b, a)
"""

from __future__ import annotations

from dataclasses import replace

from dynq_cli.plan.lower.break_cycles import breaking_of
from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.plan.lower.query_builders import same_codes, unique
from dynq_cli.query import scalar as sql
from dynq_cli.query.normal_form import Atom, Binding, ConjunctiveQuery, UnionQuery, View
from dynq_cli.query.scalar import quote


def guard_subqueries(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    named = {v.name: v for v in query.views}
    sources = [a.source for a in query.atoms] + [a.source for v in query.views for a in _atoms(v)]
    for atom in query.atoms:
        view = named.get(atom.source)
        if view is None or atom.mode == "join" or sources.count(view.name) > 1:
            continue
        holder = next((a for a in query.atoms if a.mode == "join" and atom.variables <= a.variables), None)
        if holder is None or holder.source in named:
            continue
        inner = _guarded(query, atom, view, holder)
        breaking = breaking_of(inner, program.spec) if inner is not None else None
        if inner is not None and breaking is not None and (breaking.by_delta or not breaking.groups):
            named[view.name] = replace(view, query=inner)
    return replace(query, views=tuple(named.values())), program


def _atoms(view: View) -> tuple[Atom, ...]:
    members = view.query.members if isinstance(view.query, UnionQuery) else (view.query,)
    return tuple(a for m in members if isinstance(m, ConjunctiveQuery) for a in m.atoms)


def _guarded(query: ConjunctiveQuery, atom: Atom, view: View, holder: Atom) -> ConjunctiveQuery | None:
    """The subquery joined with the atom around that has its values; None if that is no gain, or not possible."""
    inner = view.query
    if isinstance(inner, UnionQuery) or inner.grouped or inner.comparisons or inner.order:
        return None
    if view.window is not None or view.named or view.outer_join or atom.filters or atom.null_aware is not None:
        return None
    shown = {quote(c.name): c.source for c in inner.columns if c.kind == "variable"}
    filters = list(holder.filters)
    bindings: list[Binding] = []
    for asked in atom.bindings:
        there, name = holder.binding(asked.variable), shown.get(asked.scalar.sql)
        if there is None or name is None or there.part or asked.part:
            return None
        if not same_codes(there.scalar.type, inner.variable(name).type):
            return None
        if there.scalar.nullable:
            filters.append(sql.not_null(there.scalar))
        bindings.append(Binding(name, replace(there.scalar, nullable=False)))
    names = [b.variable for b in bindings]
    joins = [a for a in inner.atoms if a.mode == "join"]
    if len(set(names)) < len(names) or any(set(names) <= a.variables for a in joins):
        return None
    alias = unique(holder.alias, {a.alias for a in inner.atoms})
    guard = Atom(alias, holder.source, tuple(bindings), tuple(dict.fromkeys(filters)))
    return replace(inner, atoms=(*inner.atoms, guard), semantics="set")
