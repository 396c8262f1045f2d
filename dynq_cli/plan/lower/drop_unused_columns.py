"""Drop the columns of derived tables that nothing looks at, before they are kept.

A column of a set tells its rows apart and stays, unless it is a constant; so does a group's.

    query    SELECT d.a FROM (SELECT R.a, S.c FROM R, S WHERE R.b = S.b UNION ALL SELECT a, b FROM R) AS d
    before   q.d = q.d.1 ⊎ q.d.2
             q.d.1(a, c) :- R(b, a), S(b, c)
             q.d.2(a, b) :- R(a, b)
             q(a) :- q.d d(a)
    after    q.d = q.d.1 ⊎ q.d.2
             q.d.1(a) :- R(b, a), S(b, c)
             q.d.2(a) :- R(a, b)
             q(a) :- q.d d(a)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dynq_cli.plan.lower.partial_program import PartialProgram
from dynq_cli.query.normal_form import ConjunctiveQuery, OutputColumn, Query, UnionQuery, View
from dynq_cli.query.scalar import quote


def drop_unused_columns(query: ConjunctiveQuery, program: PartialProgram) -> tuple[ConjunctiveQuery, PartialProgram]:
    if not query.views:
        return query, program
    used = dict.fromkeys(_read(replace(query, views=())))
    left: list[View] = []
    for view in reversed(query.views):
        left.append(_pruned(view, {column for source, column in used if source == view.name}))
        used |= dict.fromkeys(_read(left[-1].query))
    return replace(query, views=tuple(reversed(left))), program


def _read(query: Query) -> Iterator[tuple[str, str]]:
    """The columns that a query reads, each with its source."""
    if isinstance(query, UnionQuery):
        for member in query.members:
            yield from _read(member)
        return
    for view in query.views:
        yield from _read(view.query)
    for atom in query.atoms:
        for scalar in (*(b.scalar for b in atom.bindings), *atom.filters):
            yield from ((atom.source, column) for column in scalar.columns)
    for aggregate in query.aggregates:
        for factor in (f for m in aggregate.monomials for f in m.factors):
            yield from ((query.atoms[factor.atom].source, column) for column in factor.scalar.columns)


def _pruned(view: View, used: set[str]) -> View:
    """A view without columns that nothing uses; one of them stays if nothing uses any."""
    if view.window is not None or view.named:
        # Every column decides which of two rows comes first. A query of the spec has all of its columns.
        return view
    unused = {i for i, c in enumerate(view.columns) if c.name not in used} & _droppable(view.query)
    if len(unused) == len(view.columns):
        unused -= {0}
    if not unused:
        return view
    columns = tuple(c for i, c in enumerate(view.columns) if i not in unused)
    return replace(view, columns=columns, query=_without(view.query, unused))


def _droppable(query: Query) -> set[int]:
    """The columns, by place, without which a query has the same rows as often."""
    places = set(range(len(query.columns)))
    if isinstance(query, UnionQuery):
        members = [_droppable(m) for m in query.members]
        return set.intersection(*members) if query.semantics == "bag" else set()
    if query.order:
        return set()
    if query.grouped:
        return {
            i for i in places if query.columns[i].kind == "aggregate" and not _is_mentioned(query, query.columns[i])
        }
    return {i for i in places if query.semantics == "bag" or query.columns[i].kind == "expression"}


def _is_mentioned(query: ConjunctiveQuery, column: OutputColumn) -> bool:
    """Whether HAVING or a computed column is over the aggregate of a column, or another column is the same."""
    texts = [c.source for c in query.columns if c.kind == "expression"]
    texts += [query.having.sql] if query.having is not None else []
    same = sum(1 for c in query.columns if c.source == column.source)
    return same > 1 or any(quote(column.source) in text for text in texts)


def _without(query: Query, unused: set[int]) -> Query:
    columns = tuple(c for i, c in enumerate(query.columns) if i not in unused)
    if isinstance(query, UnionQuery):
        return replace(query, columns=columns, members=tuple(_without(m, unused) for m in query.members))
    if query.grouped:
        gone = {query.columns[i].source for i in unused}
        left = tuple(a for a in query.aggregates if a.name not in gone)
        # Without an aggregate, a query without keys would have no row over nothing.
        return replace(query, columns=columns, aggregates=left or query.aggregates[: query.one_row])
    shown = {c.source for c in columns if c.kind == "variable"}
    return replace(query, columns=columns, head=tuple(v for v in query.head if v in shown))
