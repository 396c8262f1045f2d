"""Rows by their places: LIMIT, DISTINCT ON, QUALIFY and window functions become views with a `Window`.

    SELECT a, row_number() OVER (PARTITION BY b ORDER BY c) AS n FROM … QUALIFY … ORDER BY d LIMIT 5

is a view of the rows (a, b, c, d), one with n for each order of its window functions, one of the rows that QUALIFY
keeps, and of these a view of the first five. A prefix `QUALIFY row_number() OVER (…) <= 3` is one view without n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dynq_cli.query.draft import Draft, Expression, Term
from dynq_cli.query.normal_form import ColumnOrder, ConjunctiveQuery, Query, View, Window, WindowFunction
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.aggregates import expression
from dynq_cli.query.sql.build import Body, QueryContext
from dynq_cli.query.sql.context import Table, bare, column_node, key_of, tables_of
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.order import SortKey, order_keys, sort_key
from dynq_cli.query.sql.predicates import conjuncts
from dynq_cli.query.sql.scalars import typed
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import (
    has_aggregate,
    has_limit,
    has_query,
    has_window,
    is_by_places,
    is_distinct,
    window_parts,
)
from dynq_cli.query.sql.window_functions import check_window, never_null, window_sql
from dynq_cli.spec.model import Column, Semantics
from dynq_cli.spec.types import INT64

# The rows of a SELECT before its places matter: their query, given its columns and its name.
RowsOf = Callable[[list[Item], str], ConjunctiveQuery]
_HIDDEN = (Column("_partition", INT64), Column("_place", INT64))


@dataclass(frozen=True)
class _Clauses:
    """What stands behind the rows of a SELECT; keys and `on` are indices among the items, then the hidden ones."""

    keys: tuple[SortKey, ...]
    hidden: tuple[Item, ...]
    on: tuple[int, ...] | None
    qualify: tuple[exp.Expr, ...]
    limit: int | None
    offset: int


def compile_by_places(
    context: QueryContext,
    select: exp.Select,
    name: str,
    scope: Scope,
    items: list[Item],
    rows: RowsOf,
    asked: Semantics | None,
) -> ConjunctiveQuery:
    """The query of a SELECT whose places matter; `asked` is the semantics of its result, if not its own."""
    clauses = _clauses(context, select, scope, items)
    whole = [*items, *clauses.hidden]
    own: Semantics = "set" if is_distinct(select) else "bag"
    is_last = clauses.limit is None and not clauses.offset and clauses.on is None
    if has_window(select) or clauses.qualify:
        inner = name if is_last else context.view_name(name, "rows")
        body, values = _windowed(context, name, inner, whole, clauses.qualify, rows)
        body.draft.semantics = (asked or own) if is_last else own
        for item, node in zip(whole, values, strict=True):
            body.draft.output(item.name, _value(body, node, item.name))
        if is_last:
            _order(body, clauses.keys)
        context.stop_on_problems()
        query = normalise(body.draft)
        if is_last:
            return query
    else:
        query = rows(whole, context.view_name(name, "rows"))
    names = [column.name for column in query.columns]
    if clauses.on is not None:
        window = Window(tuple(names[i] for i in clauses.on), column_orders(clauses.keys, names), 1)
        if clauses.limit is None and not clauses.offset:
            return prefix_of(context, name, query, window, len(items), clauses.keys, asked)
        query = prefix_of(context, context.view_name(name, "rows"), query, window, len(names), (), "bag")
    window = Window((), column_orders(clauses.keys, names), clauses.limit, clauses.offset)
    return prefix_of(context, name, query, window, len(items), clauses.keys, asked)


def prefix_of(
    context: QueryContext,
    name: str,
    query: Query,
    window: Window,
    shown: int,
    keys: Sequence[SortKey],
    asked: Semantics | None,
) -> ConjunctiveQuery:
    """The first `shown` columns of a view with a window over a query, in an order."""
    view = context.view_name(name, "first")
    columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
    body = Body(context, Draft(name, asked or ("set" if _is_distinct(query, shown) else "bag")), flat=False)
    table = context.table(view, view, columns)
    body.draft.views.append(View(view, columns, query, window=window))
    body.add(table)
    for column in columns[:shown]:
        body.draft.output(column.name, body.term(column_node(table, column), column.name))
    _order(body, keys)
    return normalise(body.draft)


def limit_of(context: QueryContext, node: exp.Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a query. Raises QueryProblems where they are no numbers, or without ORDER BY."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        return None, 0
    if node.args.get("order") is None:
        word = "LIMIT" if limit is not None else "OFFSET"
        message = f"{word} without ORDER BY: which rows these are is not said"
        raise context.refuse(limit or offset, message, "say which rows come first: ORDER BY …")
    many = None
    if limit is not None:
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            message = "LIMIT takes a number of rows, without PERCENT and WITH TIES"
            raise context.refuse(limit, message, "write LIMIT and a number")
        many = _number(context, limit.args.get("count") or limit.expression, "LIMIT")
    return many, 0 if offset is None else _number(context, offset.expression, "OFFSET")


def _number(context: QueryContext, node: exp.Expr | None, word: str) -> int:
    inner = bare(node) if node is not None else None
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.this.isdigit() and int(inner.this) < 2**62:
        return int(inner.this)
    raise context.refuse(node, f"{word} takes a number", f"write {word} and a whole number that is not negative")


def _clauses(context: QueryContext, select: exp.Select, scope: Scope, items: list[Item]) -> _Clauses:
    hidden: list[Item] | None = [] if has_limit(select) or _on(select) is not None else None
    if hidden is not None and is_distinct(select):
        hidden = None
    names = [item.name for item in items]
    keys = order_keys(context, select.args.get("order"), names, scope, items, hidden)
    on: list[int] | None = None
    if _on(select) is not None:
        on = []
        for node in _on(select) or ():
            with context.gather():
                on.append(sort_key(context, exp.Ordered(this=node), names, scope, items, hidden).index)
    limit: int | None = None
    offset = 0
    with context.gather():
        limit, offset = limit_of(context, select)
    qualify: list[exp.Expr] = []
    clause = select.args.get("qualify")
    if clause is not None:
        with context.gather():
            if has_query(clause.this):
                message = "a subquery in QUALIFY is not supported"
                raise context.refuse(clause.this, message, "put the window functions into a derived table")
            qualify = list(conjuncts(scope.resolve(clause.this)))
    context.stop_on_problems()
    return _Clauses(tuple(keys), tuple(hidden or ()), None if on is None else tuple(on), tuple(qualify), limit, offset)


def _on(select: exp.Select) -> list[exp.Expr] | None:
    distinct = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None:
        return None
    return list(on.expressions) if isinstance(on, exp.Tuple) else [bare(on)]


def _is_distinct(query: Query, shown: int) -> bool:
    """Whether no two rows agree on the first columns."""
    if isinstance(query, ConjunctiveQuery) and query.grouped:
        return set(query.head) <= {c.source for c in query.columns[:shown] if c.kind == "variable"}
    return query.semantics == "set" and shown == len(query.columns)


def column_orders(keys: Sequence[SortKey], names: Sequence[str]) -> tuple[ColumnOrder, ...]:
    made = {names[k.index]: ColumnOrder(names[k.index], k.descending, k.nulls_first or False) for k in reversed(keys)}
    return tuple(made[name] for name in dict.fromkeys(names[k.index] for k in keys))


def _order(body: Body, keys: Sequence[SortKey]) -> None:
    """The order of the result: as in DuckDB, NULL is last. A key that is not selected ends it."""
    for key in keys:
        if key.index >= len(body.draft.outputs):
            return
        value = body.draft.outputs[key.index].value
        if isinstance(value, Term):
            body.draft.order.append((value, key.descending, bool(key.nulls_first)))


def _value(body: Body, node: exp.Expr, name: str) -> Term | Expression:
    return body.term(node, name) if tables_of(node) else expression(body, bare(node), [], node)


# Window functions


@dataclass(frozen=True)
class _Leaves:
    """What the rows of windows are made of: expressions without window functions, by text."""

    items: dict[str, Item]

    def collect(self, node: exp.Expr, at: int) -> None:
        if isinstance(node, exp.Window):
            for part in window_parts(node):
                self.collect(part, at)
        elif has_window(node):
            for child in node.iter_expressions():
                self.collect(child, at)
        elif has_aggregate(node) or tables_of(node):
            key = key_of(node)
            self.items.setdefault(key, Item(f"c{len(self.items) + 1}", node, at))

    def over(self, node: exp.Expr, table: Table, made: dict[str, str]) -> exp.Expr:
        """The expression over a view of the rows; `made` names its columns of window functions, by text."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder.this, table, made)
        inner: exp.Expr = holder.this
        return inner.pop()

    def _replace(self, node: exp.Expr, table: Table, made: dict[str, str]) -> None:
        if isinstance(node, exp.Window):
            name = made.get(key_of(node))
            if name is not None:
                node.replace(column_node(table, table.column(name)))
                return
            for part in list(window_parts(node)):
                self._replace(part, table, made)
        elif has_window(node):
            for child in list(node.iter_expressions()):
                self._replace(child, table, made)
        elif has_aggregate(node) or tables_of(node):
            node.replace(column_node(table, table.column(self.items[key_of(node)].name)))


def _windowed(
    context: QueryContext,
    name: str,
    inner: str,
    items: Sequence[Item],
    qualify: Sequence[exp.Expr],
    rows: RowsOf,
) -> tuple[Body, list[exp.Expr]]:
    """A body over the rows with their window functions, as far as QUALIFY keeps them, and the items over it."""
    for item in items:
        if has_query(item.node):
            message = "a subquery in the SELECT list beside GROUP BY and window functions is not supported"
            raise context.refuse(item.node, message, "put the groups into a derived table")
    for node in (*(item.node for item in items), *qualify):
        for window in node.find_all(exp.Window):
            with context.gather():
                check_window(context, window)
    context.stop_on_problems()
    leaves = _Leaves({})
    for item in items:
        leaves.collect(item.node, item.at)
    for condition in qualify:
        leaves.collect(condition, context.at(condition))
    if not leaves.items:
        first = items[0]
        raise context.refuse_at(first.at, "no column is read", "number the rows of columns: ORDER BY inside OVER (…)")
    query: Query = rows(list(leaves.items.values()), context.view_name(name, "rows"))
    prefix = _prefix(context, items, qualify)
    found: dict[str, exp.Window] = {}
    for node in (*(item.node for item in items), *(() if prefix else qualify)):
        for window in node.find_all(exp.Window):
            found.setdefault(key_of(window), window)
    several: dict[tuple[object, ...], list[str]] = {}
    for key, window in found.items():
        order = window.args.get("order")
        asked = (tuple(map(key_of, window.args.get("partition_by") or ())), order and key_of(order))
        several.setdefault(asked, []).append(key)
    made: dict[str, str] = {}
    windows: list[tuple[list[str], exp.Window, int | None]] = [
        (keys, found[keys[0]], None) for keys in several.values()
    ]
    if prefix:
        windows.append(([], *prefix))
    body = None
    for keys, window, limit in windows:
        if body is not None:
            query = normalise(body.draft)
        columns = tuple(Column(c.name, c.type, c.nullable) for c in query.columns)
        before = context.table("rows", "rows", columns)
        functions = []
        for key in keys:
            made_name = f"w{len(made) + 1}"
            functions.append(_function(context, leaves, before, found[key], made_name))
            made[key] = made_name
        partition, order = _partition(context, leaves, before, window), _window_order(leaves, before, window)
        columns = (*columns, *(Column(f.name, f.type, f.nullable) for f in functions))
        view = context.view_name(name, "places")
        body = Body(context, Draft(context.view_name(name, "rows"), "bag"), flat=False)
        table = context.table(view, view, columns)
        body.draft.views.append(View(view, columns, query, window=Window(partition, order, limit, 0, tuple(functions))))
        body.add(table)
        if (keys, window, limit) != windows[-1]:
            for column in columns:
                body.draft.output(column.name, body.term(column_node(table, column), column.name))
    assert body is not None
    body.draft.name = inner
    for condition in () if prefix else qualify:
        over = leaves.over(condition, table, made)
        over.meta["start"] = context.at(condition)
        for piece in body.pieces(over):
            body.take(piece)
    return body, [leaves.over(item.node, table, made) for item in items]


def _prefix(context: QueryContext, items: Sequence[Item], qualify: Sequence[exp.Expr]) -> tuple[exp.Window, int] | None:
    """The window and the number of rows of `QUALIFY row_number() OVER (…) <= k`, which no column shows."""
    if len(qualify) != 1 or not isinstance(bare(qualify[0]), exp.LTE | exp.LT | exp.EQ):
        return None
    condition = bare(qualify[0])
    window, bound = bare(condition.this), bare(condition.expression)
    if not isinstance(window, exp.Window) or not isinstance(window.this, exp.RowNumber):
        return None
    if not isinstance(bound, exp.Literal) or bound.is_string or not bound.this.isdigit():
        return None
    if any(key_of(w) == key_of(window) for item in items for w in item.node.find_all(exp.Window)):
        return None
    most = int(bound.this) - isinstance(condition, exp.LT)
    if isinstance(condition, exp.EQ) and most != 1:
        return None
    return window, max(0, most)


def _partition(context: QueryContext, leaves: _Leaves, table: Table, window: exp.Window) -> tuple[str, ...]:
    columns = [leaves.over(node, table, {}) for node in window.args.get("partition_by") or ()]
    return tuple(dict.fromkeys(bare(c).name for c in columns if isinstance(bare(c), exp.Column)))


def _window_order(leaves: _Leaves, table: Table, window: exp.Window) -> tuple[ColumnOrder, ...]:
    order = window.args.get("order")
    found: dict[str, ColumnOrder] = {}
    for key in order.expressions if order is not None else ():
        column = bare(leaves.over(key.this, table, {}))
        if isinstance(column, exp.Column):
            made = ColumnOrder(column.name, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            found.setdefault(column.name, made)
    return tuple(found.values())


def _function(context: QueryContext, leaves: _Leaves, table: Table, window: exp.Window, name: str) -> WindowFunction:
    over = leaves.over(window, table, {})
    assert isinstance(over, exp.Window)
    sql = window_sql(over)
    kind = typed(context, sql, (*table.columns, *_HIDDEN), window)
    return WindowFunction(name, sql, kind, not never_null(window))


__all__ = ["compile_by_places", "is_by_places", "limit_of", "prefix_of"]
