"""Conditions and expressions over several tables → a view of the joined rows, of which they read one.

    SELECT a.x + b.y FROM a, b WHERE a.k = b.k AND (a.x = 1 OR b.y = 2)

    rows(x, y) :- a(k, x), b(k, y)                        with copies
    SELECT x + y FROM rows WHERE x = 1 OR y = 2

A relation of rows that only feeds others is not stored (`program.relayed`), so the condition filters the delta of the
join on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from dynq_cli.query.draft import Draft
from dynq_cli.query.normal_form import View
from dynq_cli.query.normalise import normalise
from dynq_cli.query.problems import QueryProblems
from dynq_cli.query.sql.aggregates import Groups
from dynq_cli.query.sql.build import Body
from dynq_cli.query.sql.calls import is_aggregate
from dynq_cli.query.sql.context import bare, column_node, key_of, tables_of
from dynq_cli.query.sql.join_comparisons import Link
from dynq_cli.query.sql.predicates import Filter, Piece
from dynq_cli.query.sql.scalars import condition
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import window_parts
from dynq_cli.spec.model import Column

ROWS = "its joined rows, as they come and go"
Moved = Callable[[exp.Expr], exp.Expr]


def join_rows(body: Body, scopes: Iterable[Scope], nodes: Iterable[exp.Expr], names: Iterable[str]) -> Moved:
    """Make the joined rows of a body a view, and its one atom.

    Return what takes an expression over the tables of before to one over the view: of the columns in `nodes`, and of
    those that are called as one of `names` in the scopes, which are moved.
    """
    context, mixed = body.context, list(body.mixed)
    mentioned, scopes = {n.lower() for n in names}, list(scopes)
    shown = [*nodes, *mixed, *(e for s in scopes for _, n, e in s.visible if n.lower() in mentioned)]
    shown += [side for p in body.foreign for side in _sides(p)]
    shown += [e for s in scopes for source in s.sources for n, e in source.columns if n.lower() in mentioned]
    inner = Draft(context.view_name(body.draft.name, "rows"), "set" if body.flat else "bag")
    outer = Draft(body.draft.name, body.draft.semantics)
    known: dict[tuple[str, str], str] = {}
    for column in (c for node in shown for c in node.find_all(exp.Column)):
        key = (column.table, column.name)
        if key not in known and int(column.table) in body.atoms:
            known[key] = _unique(column.name, known.values())
            body.draft.output(known[key], body.term(column))
    if not known:
        (number, *_) = body.atoms
        first = context.tables[number].columns[0]
        body.draft.output(first.name, body.term(column_node(context.tables[number], first)))
    body.draft.name, body.draft.semantics = inner.name, inner.semantics
    outer.views = body.draft.views
    query = replace(normalise(body.draft), views=())
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    outer.views.append(View(inner.name, columns, query, ROWS))
    table = context.table("rows", inner.name, columns)
    body.draft, body.mixed = outer, []
    body.atoms.clear()
    body.add(table)
    made = {key: table.column(name) for key, name in known.items()}

    def moved(node: exp.Expr) -> exp.Expr:
        holder = exp.Paren(this=node.copy())
        for column in list(holder.find_all(exp.Column)):
            kept = made.get((column.table, column.name))
            if kept is not None:
                column.replace(column_node(table, kept, context.at(column)))
        found: exp.Expr = holder.this
        return found.pop()

    for scope in scopes:
        _move(scope, moved)
    body.foreign = [move_piece(piece, moved) for piece in body.foreign]
    for node in mixed:
        over = moved(node)
        condition(context, over)
        body.take(Filter(table.number, over))
    return moved


def _sides(piece: Piece) -> list[exp.Expr]:
    return [piece.left, piece.right] if isinstance(piece, Link) else [piece.node]


def move_piece(piece: Piece, moved: Moved) -> Piece:
    if isinstance(piece, Link):
        return replace(piece, left=moved(piece.left), right=moved(piece.right))
    return replace(piece, node=moved(piece.node))


def _move(scope: Scope, moved: Moved) -> None:
    for source in scope.sources:
        source.columns = [(n, moved(e)) for n, e in source.columns]
    scope.visible = [(s, n, moved(e)) for s, n, e in scope.visible]
    scope.aliases = {n: moved(e) for n, e in scope.aliases.items()}


def is_mixed(body: Body, node: exp.Expr, groups: set[str] | None) -> bool:
    """Whether an output column, or a key of an order, needs values of several tables in one row.

    `groups`: the texts of the group expressions, of which the node is made, with aggregates; None where rows are no
    groups.
    """
    inner = bare(node)
    if groups is not None and key_of(inner) in groups:
        return False
    if isinstance(inner, exp.Window):
        return any(is_mixed(body, part, groups) for part in window_parts(inner))
    if is_aggregate(inner) or isinstance(inner, exp.Filter):
        return len(tables_of(inner)) > 1 and not _is_sum_of_products(body, inner)
    if groups is not None or any(is_aggregate(n) or isinstance(n, exp.Window) for n in inner.walk()):
        return any(is_mixed(body, child, groups) for child in inner.iter_expressions())
    return len(tables_of(inner)) > 1


def _is_sum_of_products(body: Body, call: exp.Expr) -> bool:
    """Whether an aggregate can be computed from the tables one by one."""
    trial = replace(body, draft=body.draft.copy(body.draft.name, body.draft.semantics), atoms=dict(body.atoms))
    try:
        Groups(trial, {}).prepare(call)
    except QueryProblems:
        return False
    return True


def mentioned(node: exp.Expr) -> set[str]:
    """The names of all columns that a text mentions."""
    return {column.name.lower() for column in node.find_all(exp.Column)}


def _unique(wish: str, taken: Iterable[str]) -> str:
    known = {t.lower() for t in taken}
    name, count = wish, 1
    while name.lower() in known:
        count += 1
        name = f"{wish}_{count}"
    return name
