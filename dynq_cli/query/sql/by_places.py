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
from dynq_cli.query.normal_form import ColumnOrder, ConjunctiveQuery, Query, View, Window
from dynq_cli.query.normalise import normalise
from dynq_cli.query.sql.aggregates import expression
from dynq_cli.query.sql.build import Body, QueryContext
from dynq_cli.query.sql.context import bare, column_node, tables_of
from dynq_cli.query.sql.items import Item
from dynq_cli.query.sql.order import SortKey, order_keys, sort_key
from dynq_cli.query.sql.predicates import conjuncts
from dynq_cli.query.sql.scope import Scope
from dynq_cli.query.sql.shape import (
    has_limit,
    has_query,
    has_window,
    is_by_places,
    is_distinct,
)
from dynq_cli.query.sql.windows import windowed
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
        body, values = windowed(context, name, inner, whole, clauses.qualify, rows)
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


__all__ = ["compile_by_places", "is_by_places", "limit_of", "prefix_of"]
