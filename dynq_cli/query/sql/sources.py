"""FROM → atoms and a scope.

A derived table or CTE that is a plain select-project-join is inlined: its tables become atoms
here, its columns expressions over them. Any other one becomes a view and one atom over it. So does
the nullable side of an outer join (`outer_joins`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from sqlglot import exp

from dynq_cli.query.normal_form import Query, View
from dynq_cli.query.problems import UnreadableQueryError
from dynq_cli.query.sql.build import Body, take_condition
from dynq_cli.query.sql.constant_rows import one_row
from dynq_cli.query.sql.context import Cte, Ctes, Table, column_node, many
from dynq_cli.query.sql.items import check_unique, select_items
from dynq_cli.query.sql.named_queries import open_query, view_of
from dynq_cli.query.sql.outer_joins import On, full_join, left_join
from dynq_cli.query.sql.scope import Scope, Source
from dynq_cli.query.sql.shape import has_query, is_aggregating, is_by_places, is_distinct, unwrapped
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
        name = context.view_name(body.draft.name, "one")
        row = one_row(context.spec, name)
        if row is None:
            at = context.places.keyword(select.expressions[0] if select.expressions else select, "SELECT")
            raise context.refuse_at(at, "the spec has no relation", "declare one that the query reads")
        body.add(view_table(body, row, name, "one"))
        return scope
    group: list[_Entry] = [(start.this, None)]
    for join in select.args.get("joins") or ():
        if _is_comma(join):
            _group(body, scope, group, ctes)
            group = []
        group.append((join.this, join))
    _group(body, scope, group, ctes)
    context.stop_on_problems()
    return scope


_Entry = tuple[exp.Expr, exp.Join | None]


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("side", "kind", "method", "on", "using"))


def _side(join: exp.Join | None) -> str:
    return "" if join is None else str(join.args.get("side") or "").upper()


def _group(body: Body, scope: Scope, entries: list[_Entry], ctes: Ctes) -> None:
    """Make atoms of tables that are joined, up to a comma; each join has all before it on its left."""
    turned = max((i for i, (_, join) in enumerate(entries) if _side(join) in ("RIGHT", "FULL")), default=0)
    with body.context.gather():
        if turned:
            _turned(body, scope, entries[:turned], entries[turned], ctes)
        else:
            _add(body, scope, entries[0], ctes)
    for entry in entries[turned + 1 :]:
        with body.context.gather():
            _add(body, scope, entry, ctes)


def _add(body: Body, scope: Scope, entry: _Entry, ctes: Ctes) -> None:
    """Make atoms of one more entry of FROM."""
    node, join = entry
    if _side(join) == "LEFT":
        assert join is not None
        before = len(scope.sources)
        inside = left_join(body, scope, partial(_enter, [entry], ctes), On(join, join.args.get("on"), _using(join)))
        _add_names(scope, inside, node)
        for name in _using_names(join, scope, scope.sources[before:]):
            for source in scope.sources[before:]:
                scope.merge(source, name)
        return
    entered = len(scope.sources)
    _enter([(node, None)], ctes, body, scope)
    if join is not None:
        _join_conditions(body, scope, scope.sources[entered:], join, ctes)


def _enter(entries: list[_Entry], ctes: Ctes, body: Body, scope: Scope) -> None:
    """Make atoms of joined tables; the condition of the first entry stands with what is before it."""
    (node, _), *rest = entries
    if _is_bracketed(node):
        _bracketed(body, scope, node, ctes)
    elif node.args.get("joins"):
        alone = node.copy()
        alone.set("joins", None)
        _group(body, scope, [(alone, None), *((j.this, j) for j in node.args["joins"])], ctes)
    else:
        scope.add(_source(body, node, ctes), node)
    for entry in rest:
        _add(body, scope, entry, ctes)


def _is_bracketed(node: exp.Expr) -> bool:
    """Whether brackets are around joins, and not around a query."""
    if not isinstance(node, exp.Subquery):
        return False
    inner = node.this
    while isinstance(inner, exp.Subquery) and not inner.alias and not inner.args.get("joins"):
        inner = inner.this
    return not isinstance(inner, exp.Query) or isinstance(inner, exp.Subquery)


def _bracketed(body: Body, scope: Scope, node: exp.Expr, ctes: Ctes) -> None:
    """Joins in brackets: their tables keep their names, unless the brackets have one."""
    inner = Scope(body.context, scope.around)
    joins: list[_Entry] = [(j.this, j) for j in node.args.get("joins") or ()]
    _group(body, inner, [(node.this, None), *joins], ctes)
    body.context.stop_on_problems()
    if node.alias:
        scope.add(Source(node.alias, [(name, e) for _, name, e in inner.visible]), node)
        return
    _add_names(scope, inner, node)


def _add_names(scope: Scope, inner: Scope, node: exp.Expr) -> None:
    """Add the sources of a side, and of their names those that are seen."""
    before = list(scope.visible)
    for source in inner.sources:
        scope.add(source, node)
    scope.visible = before + inner.visible


def _turned(body: Body, scope: Scope, before: list[_Entry], entry: _Entry, ctes: Ctes) -> None:
    """RIGHT and FULL: all before the join is a side of its own."""
    node, join = entry
    assert join is not None
    left, right = partial(_enter_group, before, ctes), partial(_enter, [(node, None)], ctes)
    on = On(join, join.args.get("on"), _using(join))
    if _side(join) == "RIGHT":
        kept = Scope(body.context, scope.around)
        right(body, kept)
        lefts, rights = left_join(body, kept, left, on, turned=True), kept
    else:
        lefts, rights = full_join(body, scope, (left, right), on)
    _add_names(scope, lefts, node)
    _add_names(scope, rights, node)
    for name in _using_names(join, scope, rights.sources):
        _merge_turned(scope, lefts, rights, name, both=_side(join) == "FULL")


def _enter_group(entries: list[_Entry], ctes: Ctes, body: Body, scope: Scope) -> None:
    _group(body, scope, entries, ctes)
    body.context.stop_on_problems()


def _merge_turned(scope: Scope, lefts: Scope, rights: Scope, name: str, both: bool) -> None:
    """USING makes one column of two: the right one, or of FULL the first that is not NULL."""
    (left,), (right,) = lefts.matches(name), rights.matches(name)
    value = exp.Coalesce(this=left.copy(), expressions=[right.copy()]) if both else right
    kept = []
    for source, own, e in scope.visible:
        if own.lower() != name.lower() or all(source is not s for s in (*lefts.sources, *rights.sources)):
            kept.append((source, own, e))
        elif any(source is s for s in lefts.sources):
            kept.append((source, own, value))
    scope.visible = kept


def _using_names(join: exp.Join, scope: Scope, sources: list[Source]) -> list[str]:
    """The columns that USING or NATURAL makes one, of sources that are in the scope."""
    if (join.args.get("method") or "").upper() != "NATURAL":
        return [identifier.name for identifier in join.args.get("using") or ()]
    earlier = {n.lower() for s, n, _ in scope.visible if all(s is not own for own in sources)}
    names = [n for source in sources for n, _ in source.columns if n.lower() in earlier]
    if not names:
        alias = sources[0].alias
        message = f"NATURAL JOIN: {alias} has no column in common with the tables before it"
        raise scope.context.refuse(join.this, message, "write CROSS JOIN, or JOIN … ON")
    return names


def _using(join: exp.Join) -> Callable[[Scope, Scope], list[exp.Expr]]:
    """The equalities that USING or NATURAL says between the scopes of two sides."""

    def equalities(left: Scope, right: Scope) -> list[exp.Expr]:
        both = Scope(left.context, left.around, [*left.sources, *right.sources], [*left.visible, *right.visible])
        names = _using_names(join, both, right.sources)
        return [_equality(both, right.sources, join, name) for name in names]

    return equalities


def _equality(scope: Scope, sources: list[Source], join: exp.Join, name: str) -> exp.Expr:
    context, alias = scope.context, sources[0].alias
    left = [e for s, n, e in scope.visible if n.lower() == name.lower() and all(s is not own for own in sources)]
    right = [e for s, n, e in scope.visible if n.lower() == name.lower() and any(s is own for own in sources)]
    if not left or not right:
        side = "the tables before it have" if right else f"{alias} has"
        message = f"USING ({name}): {side} no such column"
        raise context.refuse(_identifier(join, name), message, "name a column that both sides have, or write ON")
    if len(left) > 1 or len(right) > 1:
        message = f"USING ({name}): the name is ambiguous on the {'left' if len(left) > 1 else 'right'}"
        raise context.refuse(_identifier(join, name), message, "write ON with qualified names")
    equality = exp.EQ(this=left[0].copy(), expression=right[0].copy())
    equality.meta["start"] = context.at(_identifier(join, name))
    return equality


def _join_conditions(body: Body, scope: Scope, sources: list[Source], join: exp.Join, ctes: Ctes) -> None:
    for name in _using_names(join, scope, sources):
        equality = _equality(scope, sources, join, name)
        for source in sources:
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
    query = _named_query(body, node)
    if query is not None:
        opened = open_query(body, query, context.at(node))
        if opened is not None:
            return Source(name, _renamed(body, node, opened, names))
        made = view_of(body, query, name)
        body.add(made)
        return _named(body, node, made, names)
    relation = _relation(body, node)
    table = context.table(name if node.alias else relation.name, relation.name, relation.columns)
    body.add(table)
    return _named(body, node, table, names)


def _named_query(body: Body, node: exp.Table) -> Query | None:
    """The query of the spec that a FROM names, if it names no relation."""
    context = body.context
    if any(r.name.lower() == node.name.lower() for r in context.spec.relations):
        return None
    try:
        found = context.named(node.name)
    except UnreadableQueryError as error:
        raise context.refuse(node, str(error), error.hint) from None
    if found is not None and not found.columns:
        message = f"query {found.name} has no columns"
        raise context.refuse(node, message, "give its head a variable, or select a column")
    return found


def _relation(body: Body, node: exp.Table) -> Relation:
    relations = body.context.spec.relations
    exact = body.context.spec.relation(node.name)
    found = exact or next((r for r in relations if r.name.lower() == node.name.lower()), None)
    if found is None:
        known_names = [r.name for r in relations] + [q.name for q in body.context.spec.queries]
        close = get_close_matches(node.name.lower(), [n.lower() for n in known_names], 1)
        known = ", ".join(r.name for r in relations[:12])
        near = next((n for n in known_names if close and n.lower() == close[0]), "")
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
        for i, item in enumerate(items):
            if has_query(item.node):
                with body.context.gather():
                    items[i] = replace(item, node=body.context.with_values(body, scope, item.node, inside))
        if any(has_query(item.node) for item in items):
            # A column without its value cannot be read.
            body.context.stop_on_problems()
        return Source(alias, _renamed(body, node, [(i.name, i.node) for i in items], names))
    table = add_view(body, query, alias, ctes)
    body.add(table)
    return _named(body, node, table, names)


def is_inlined(body: Body, select: exp.Select) -> bool:
    """Whether a SELECT can be opened into the query around without changing multiplicities."""
    return not is_aggregating(select) and not is_by_places(select) and (body.flat or not is_distinct(select))


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
