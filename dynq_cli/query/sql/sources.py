"""FROM → atoms and a scope.

A derived table or CTE that is a plain select-project-join is inlined: its tables become atoms
here, its columns expressions over them. Any other one becomes a view and one atom over it.
"""

from __future__ import annotations

from difflib import get_close_matches

from sqlglot import exp

from dynq_cli.query.normal_form import Query, View
from dynq_cli.query.sql.build import Body, take_condition
from dynq_cli.query.sql.context import Cte, Ctes, Table, column_node, many
from dynq_cli.query.sql.items import check_unique, select_items
from dynq_cli.query.sql.scope import Scope, Source
from dynq_cli.query.sql.shape import is_aggregating, is_distinct, unwrapped
from dynq_cli.spec.model import Column, Relation


def with_ctes(node: exp.Expr, around: Ctes) -> Ctes:
    """The common tables in sight inside a query that may have a WITH."""
    clause = node.args.get("with_")
    found = dict(around)
    for cte in clause.expressions if clause is not None else ():
        alias = cte.args["alias"]
        names = tuple(column.name for column in alias.args.get("columns") or ())
        found[alias.name.lower()] = Cte(cte.this, names, dict(found))
    return found


def add_from(body: Body, select: exp.Select, ctes: Ctes, around: Scope | None = None) -> Scope:
    """Make atoms of everything in FROM, take its ON and USING, and return the names in sight."""
    context = body.context
    scope = Scope(context, around)
    start = select.args.get("from_")
    if start is None:
        at = context.places.keyword(select.expressions[0] if select.expressions else select, "SELECT")
        raise context.refuse_at(at, "the SELECT has no FROM", "name the relations it reads")
    for node, join in [(start.this, None), *((j.this, j) for j in select.args.get("joins") or ())]:
        with context.gather():
            source = _source(body, node, ctes)
            scope.add(source, node)
            if join is not None:
                _join_conditions(body, scope, source, join, ctes)
    context.stop_on_problems()
    return scope


def _join_conditions(body: Body, scope: Scope, source: Source, join: exp.Join, ctes: Ctes) -> None:
    context = body.context
    names = [identifier.name for identifier in join.args.get("using") or ()]
    if (join.args.get("method") or "").upper() == "NATURAL":
        earlier = {n.lower() for s, n, _ in scope.visible if s is not source}
        names = [n for n, _ in source.columns if n.lower() in earlier]
        if not names:
            message = f"NATURAL JOIN: {source.alias} has no column in common with the tables before it"
            raise context.refuse(join.this, message, "write CROSS JOIN, or JOIN … ON")
    for name in names:
        left, right = scope.matches(name, before=source), source.find(name)
        if not left or right is None:
            side = f"{source.alias} has" if right is None else "the tables before it have"
            message = f"USING ({name}): {side} no such column"
            raise context.refuse(_identifier(join, name), message, "name a column that both sides have, or write ON")
        if len(left) > 1:
            message = f"USING ({name}): the name is ambiguous on the left"
            raise context.refuse(_identifier(join, name), message, "write ON with qualified names")
        equality = exp.EQ(this=left[0].copy(), expression=right.copy())
        equality.meta["start"] = context.at(_identifier(join, name))
        scope.merge(source, name)
        for piece in body.pieces(equality):
            body.take(piece)
    condition = join.args.get("on")
    if condition is not None:
        take_condition(body, scope, condition, ctes)


def _identifier(join: exp.Join, name: str) -> exp.Expr:
    found: list[exp.Expr] = [i for i in join.args.get("using") or () if i.name == name]
    return found[0] if found else join


def _source(body: Body, node: exp.Expr, ctes: Ctes) -> Source:
    context = body.context
    if node.args.get("joins") or (isinstance(node, exp.Subquery) and not isinstance(unwrapped(node), exp.Query)):
        hint = "inner joins can be written one after the other, without brackets"
        raise context.refuse(node, "brackets around joins are not supported", hint)
    alias = node.args.get("alias")
    names = tuple(column.name for column in (alias.args.get("columns") or () if alias is not None else ()))
    if isinstance(node, exp.Subquery):
        name = node.alias or f"t{len(context.tables) + 1}"
        return _derived(body, node, unwrapped(node), name, names, with_ctes(node, ctes))
    if not isinstance(node, exp.Table):
        raise context.refuse(
            node, "FROM names relations and derived tables", "put a SELECT in brackets: (SELECT …) AS q"
        )
    name = node.alias or node.name
    cte = ctes.get(node.name.lower())
    if cte is not None:
        return _derived(body, node, unwrapped(cte.query), name, names or cte.column_names, cte.around)
    relation = _relation(body, node)
    table = context.table(name if node.alias else relation.name, relation.name, relation.columns)
    body.add(table)
    return _named(body, node, table, names)


def _relation(body: Body, node: exp.Table) -> Relation:
    relations = body.context.spec.relations
    exact = body.context.spec.relation(node.name)
    found = exact or next((r for r in relations if r.name.lower() == node.name.lower()), None)
    if found is None:
        close = get_close_matches(node.name.lower(), [r.name.lower() for r in relations], 1)
        known = ", ".join(r.name for r in relations[:12])
        near = next((r.name for r in relations if close and r.name.lower() == close[0]), "")
        hint = f"did you mean {near}?" if near else f"the relations are {known}" if known else "declare it in the spec"
        raise body.context.refuse(node, f"there is no relation {node.name}", hint)
    return found


def _named(body: Body, node: exp.Expr, table: Table, names: tuple[str, ...]) -> Source:
    columns = [(c.name, column_node(table, c)) for c in table.columns]
    return Source(table.alias, _renamed(body, node, [*columns], names))


def _renamed(
    body: Body, node: exp.Expr, columns: list[tuple[str, exp.Expr]], names: tuple[str, ...]
) -> list[tuple[str, exp.Expr]]:
    if len(names) > len(columns):
        message = f"{many(len(names), 'column name')} for {many(len(columns), 'column')}"
        raise body.context.refuse(node, message, "give at most one name per column")
    return [(names[i] if i < len(names) else name, e) for i, (name, e) in enumerate(columns)]


def _derived(body: Body, node: exp.Expr, query: exp.Expr, alias: str, names: tuple[str, ...], ctes: Ctes) -> Source:
    if isinstance(query, exp.Select) and is_inlined(body, query):
        inside = with_ctes(query, ctes)
        scope = add_from(body, query, inside)
        items = select_items(scope, query)
        check_unique(scope, items)
        condition = query.args.get("where")
        if condition is not None:
            take_condition(body, scope, condition.this, inside)
        return Source(alias, _renamed(body, node, [(i.name, i.node) for i in items], names))
    table = add_view(body, query, alias, ctes)
    body.add(table)
    return _named(body, node, table, names)


def is_inlined(body: Body, select: exp.Select) -> bool:
    """Whether a SELECT can be opened into the query around without changing multiplicities."""
    return not is_aggregating(select) and (body.flat or not is_distinct(select))


def add_view(body: Body, query: exp.Expr, alias: str, ctes: Ctes, around: Scope | None = None) -> Table:
    """Keep a query as a view of the draft; the table that reads it is not yet an atom. A common
    table that is named twice is one view."""
    known = body.views.get(id(query))
    if known is not None:
        return body.context.table(alias, known.source, known.columns)
    name = body.context.view_name(body.draft.name, alias)
    made = view_table(body, body.context.compile_query(query, name, ctes, around), name, alias)
    body.views[id(query)] = made
    return made


def view_table(body: Body, query: Query, name: str, alias: str) -> Table:
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    body.draft.views.append(View(name, columns, query))
    return body.context.table(alias, name, columns)
