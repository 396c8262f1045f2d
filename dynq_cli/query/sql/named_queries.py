"""Another query of the spec by its name in FROM.

A query that is one join is opened, as a derived table is: its atoms join those around. Any other is a view of its rows,
whose steps are its own: what it keeps is kept once, for both.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dynq_cli.query.draft import Term
from dynq_cli.query.normal_form import Binding, ConjunctiveQuery, Query, View
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.context import Table
from dynq_cli.query.sql.scalars import closed, scalar
from dynq_cli.spec.model import Column

Columns = list[tuple[str, exp.Expr]]


def open_query(body: Body, query: Query, at: int) -> Columns | None:
    """The columns of a query whose atoms have become atoms of a body; None if it is not one join of relations."""
    if not isinstance(query, ConjunctiveQuery) or query.grouped or query.views or not query.columns:
        return None
    if (query.semantics == "set" and not body.flat) or any(a.mode != "join" for a in query.atoms):
        return None
    try:
        texts = {b.scalar.sql: parse_one(b.scalar.sql, dialect="duckdb") for a in query.atoms for b in a.bindings}
        computed = {c.name: parse_one(c.source, dialect="duckdb") for c in query.columns if c.kind == "expression"}
    except SqlglotError:
        return None
    bound: dict[str, tuple[Binding, exp.Expr, Term]] = {}
    for atom in query.atoms:
        relation = body.context.spec.relation(atom.source)
        assert relation is not None, atom
        table = body.context.table(atom.alias, atom.source, relation.columns)
        index = body.add(table)
        body.draft.atoms[index].filters += atom.filters
        for b in atom.bindings:
            term = body.draft.term(index, b.scalar, b.variable)
            if b.variable not in bound:
                bound[b.variable] = b, _over(texts[b.scalar.sql], table), term
                continue
            first, _, there = bound[b.variable]
            body.draft.equal(there, term, at, null_safe=first.scalar.nullable and b.scalar.nullable)
    for c in query.comparisons:
        body.draft.compare(bound[c.left][2], c.op, bound[c.right][2], at, c.offset)
    columns: Columns = []
    for column in query.columns:
        if column.kind == "expression":
            node = _computed(computed[column.name], {name: value for name, (_, value, _) in bound.items()})
        else:
            node = bound[column.source][1].copy()
            if scalar(body.context, node).type != column.type:
                node = exp.cast(node, column.type.sql)
        columns.append((column.name, node))
    return columns


def _over(node: exp.Expr, table: Table) -> exp.Expr:
    holder = exp.Paren(this=node.copy())
    for column in holder.find_all(exp.Column):
        column.set("table", exp.to_identifier(str(table.number), quoted=True))
    return _inside(holder)


def _computed(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        column.replace(closed(values[column.name].copy()))
    return _inside(holder)


def _inside(holder: exp.Paren) -> exp.Expr:
    inner: exp.Expr = holder.this
    return inner.pop()


def view_of(body: Body, query: Query, alias: str) -> Table:
    """A query as a view of the draft; one that is named twice is one view."""
    known = body.views.get(id(query))
    if known is not None:
        return body.context.table(alias, known.source, known.columns)
    name = body.context.view_name(body.draft.name, query.name)
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    body.draft.views.append(View(name, columns, replace(query, order=()), named=query.name))
    made = body.context.table(alias, name, columns)
    body.views[id(query)] = made
    return made
